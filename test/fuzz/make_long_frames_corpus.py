#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_long_frames's corpus: make_long_frames_corpus.py VECTORS FOLDER."""
import struct

import corpus_folder
from make_socket_corpus import ipv4, ipv6, packet

FRAME, SEND, RECEIVE = range(3)
NONE, TCP, UDP = 0, 1, 5
NEEDS_CHECKSUM = 1


def frame(data, kind=NONE, segment=0, flags=0, start=34, place=6):
    return struct.pack(">BBBHHHH", FRAME, kind, flags, segment, start, place, len(data)) + data


def send(data, copies=1, counted=True):
    return bytes([SEND, (copies - 1) * 2 + counted, len(data)]) + data


def receive(n=32):
    return bytes([RECEIVE, n])


def samples():
    whole = packet(64)
    for header in (ipv4, ipv6):
        start = 34 if header is ipv4 else 54
        yield frame(header(whole)) + receive()
        yield frame(header(whole * 20), UDP, len(whole), NEEDS_CHECKSUM, start) + receive(7) + receive()
        yield frame(header((whole * 5)[:-30]), UDP, len(whole), NEEDS_CHECKSUM, start) + receive()
        yield frame(header(packet(1024) * 40), UDP, len(packet(1024)), NEEDS_CHECKSUM, start) * 3 + receive(3) + receive()
        yield frame(header(whole), NONE, 0, NEEDS_CHECKSUM, start) + frame(header(whole), NONE, 0, NEEDS_CHECKSUM, 9000) + receive()
        yield send(header(whole), 32) + send(header(packet(4)), 3, False) + send(header(whole), 2)
    yield frame(ipv4(packet(8192)), UDP, 5000) + frame(b"") + frame(b"short") + frame(ipv4(whole)) + receive()
    yield frame(ipv4(packet(2048))) + frame(ipv4(whole * 60), UDP, 17) + frame(ipv4(whole * 9), UDP, 0) + receive()
    yield frame(ipv4(whole * 9), TCP, 500) + frame(ipv4(whole * 9, port=53), UDP, 500) + receive()
    yield send(bytes(60)) + send(b"\xff" * 60, 9) + send(b"", 4)


if __name__ == "__main__":
    corpus_folder.write(samples())
