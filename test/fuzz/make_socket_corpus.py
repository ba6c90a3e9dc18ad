#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_socket's corpus: make_socket_corpus.py VECTORS FOLDER."""
import struct

import corpus_folder

DATAGRAM, FRAME, RECEIVE = range(3)


def bth(opcode=0x0A, qpn=0x11, psn=1):
    return struct.pack(">BBHII", opcode, 0, 0xFFFF, qpn, psn)


def packet(size):
    return bth() + bytes(16) + bytes(i & 255 for i in range(size)) + b"\1\2\3\4"


def datagram(data, segment=0):
    return struct.pack(">BHH", DATAGRAM, len(data), segment) + data


def ipv4(payload, tos=0, port=4791):
    header = struct.pack(">BBHHHBBH", 0x45, tos, 28 + len(payload), 0, 0x4000, 64, 17, 0) + bytes([127, 0, 0, 1] * 2)
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + header + struct.pack(">HHHH", 0xC000, port, 8 + len(payload), 0) + payload


def ipv6(payload):
    header = struct.pack(">IHBB", 6 << 28, 8 + len(payload), 17, 64) + bytes(32)
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x86\xdd" + header + struct.pack(">HHHH", 0xC001, 4791, 8 + len(payload), 0) + payload


def frame(data, omitted=True, copies=1):
    return bytes([FRAME, (copies - 1) * 2 + omitted, len(data)]) + data


def receive(n=32):
    return bytes([RECEIVE, n])


def samples():
    whole = packet(64)
    yield datagram(whole) + receive()
    yield datagram(whole * 20, len(whole)) + receive(7) + receive()
    yield datagram((whole * 5)[:-30], len(whole)) + receive()
    yield datagram(packet(1024) * 40, len(packet(1024))) * 3 + receive(3) + receive()
    yield datagram(packet(8192)) + datagram(b"") + datagram(b"short") + datagram(whole) + receive()
    yield datagram(bytes(60000)) + datagram(whole * 60, 17) + receive()
    for omitted in (False, True):
        yield frame(ipv4(whole), omitted) + receive()
        yield frame(ipv6(whole), omitted, 8) + receive()
        yield frame(ipv4(whole), omitted, 8) + frame(ipv4(packet(4)), omitted) + frame(ipv4(whole, 0x6A), omitted, 3) + receive()
    yield frame(ipv4(whole, port=53)) + frame(bytes(60)) + frame(b"\xff" * 60) + frame(b"") + receive()
    yield frame(b"\x01\0\x5e\1\1\1" + ipv4(whole)[6:]) + receive()


if __name__ == "__main__":
    corpus_folder.write(samples())
