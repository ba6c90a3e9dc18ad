#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_net's corpus: make_net_corpus.py VECTORS FOLDER. (The captures hold none of this.)"""
import socket
import struct

import corpus_folder

FRAME, TIME, RESOLVE, ADDRESS, GROUP, ROUTE, NEIGHBOUR, LINK = range(8)
# The fuzzer's names.
(A1, A2, A3, L1, L2, D1, D2, FAR4, FAR6, ANY4, ANY6, NODES, SYSTEMS, GROUP4, GROUP6, SOLICITED) = range(16)
TEXT = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "fe80::1", "fe80::2", "fd00::1", "fd00::2", "10.0.9.1", "fd09::1",
        "0.0.0.0", "::", "ff02::1", "224.0.0.1", "239.1.1.1", "ff0e::1", "ff02::1:ff00:1")
NO_VLAN, VLAN_7 = 0, 1
US, PEER, BROADCAST = b"\2\0\0\0\0\1", b"\2\0\0\0\0\x10", b"\xff" * 6
SECOND, MINUTE, HOURS = 10, 16, 25


def raw(text):
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def frame(data, mended=True):
    return struct.pack("<BBB", FRAME, len(data) & 255, len(data) >> 8 | (0x80 if mended else 0)) + data


def tagged(data, vlan=7):
    return data[:12] + struct.pack(">HH", 0x8100, vlan) + data[12:]


def time(exponent):
    return bytes([TIME, exponent])


def resolve(src, dst, vlan=NO_VLAN, last=0):
    return bytes([RESOLVE, vlan, src, dst, last])


def address(name, prefix, vlan=NO_VLAN, how=0):
    return bytes([ADDRESS, how, name, prefix, vlan])


def join(name, vlan=NO_VLAN):
    return bytes([GROUP, 0, name, vlan])


def leave(name, vlan=NO_VLAN):
    return bytes([GROUP, 1, name, vlan])


def arp(op, sender, target, mac=PEER, dst=BROADCAST):
    body = struct.pack(">HHBBH", 1, 0x800, 6, 4, op) + mac + raw(sender) + bytes(6) + raw(target)
    return (dst + mac + b"\x08\x06" + body).ljust(60, b"\0")


def ipv4(proto, src, dst, message, ttl=64, mac=US, options=b""):
    header = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options) + len(message), 0, 0x4000, ttl,
                         proto, 0)
    return mac + PEER + b"\x08\0" + header + raw(src) + raw(dst) + options + message


def ipv6(src, dst, message, hops=255, mac=US, alert=False):
    options = b"\x3a\0\5\2\0\0\1\0" if alert else b""
    header = struct.pack(">IHBB", 6 << 28, len(options) + len(message), 0 if alert else 58, hops)
    return mac + PEER + b"\x86\xdd" + header + raw(src) + raw(dst) + options + message


def nd(kind, target, flags=0, option=0):
    return struct.pack(">BBHI", kind, 0, 0, flags << 24) + raw(target) + (bytes([option, 1]) + PEER if option else b"")


def roce(src, dst):
    udp = struct.pack(">HHHH", 0xC123, 4791, 100, 0)
    if ":" in src:
        return struct.pack(">IHBB", 6 << 28, 100, 17, 64) + raw(src) + raw(dst) + udp
    return struct.pack(">BBHHHBBH", 0x45, 0, 1500, 0, 0x4000, 64, 17, 0) + raw(src) + raw(dst) + udp


def messages():
    """One of each kind."""
    for op in 1, 2:
        for sender, target in ((TEXT[A2], TEXT[A1]), (TEXT[ANY4], TEXT[A1]), (TEXT[A1], TEXT[A1]), (TEXT[A2], TEXT[A2])):
            yield arp(op, sender, target)
            yield arp(op, sender, target, dst=US)
    yield ipv4(1, TEXT[A2], TEXT[A1], struct.pack(">BBHHH", 8, 0, 0, 1, 2) + b"ping")
    yield ipv6(TEXT[L2], TEXT[L1], struct.pack(">BBHHH", 128, 0, 0, 1, 2) + b"ping", 64)
    for mtu in 0, 68, 1400, 9000:
        yield ipv4(1, TEXT[A3], TEXT[A1], struct.pack(">BBHHH", 3, 4, 0, 0, mtu) + roce(TEXT[A1], TEXT[FAR4]))
        yield ipv6(TEXT[D2], TEXT[D1], struct.pack(">BBHI", 2, 0, 0, mtu) + roce(TEXT[D1], TEXT[FAR6]), 64)
    yield ipv4(1, TEXT[A3], TEXT[A1], struct.pack(">BBHHH", 3, 3, 0, 0, 0) + roce(TEXT[A1], TEXT[FAR4]))
    for option in 0, 1:
        yield ipv6(TEXT[L2], TEXT[L1], nd(135, TEXT[L1], 0, option))
        yield ipv6("::", TEXT[SOLICITED], nd(135, TEXT[L1], 0, option), mac=b"\x33\x33\xff\0\0\1")
    for flags in 0, 0x20, 0x40, 0x60:
        for option in 0, 2:
            yield ipv6(TEXT[L2], TEXT[L1], nd(136, TEXT[L2], flags, option))
            yield ipv6(TEXT[L1], TEXT[NODES], nd(136, TEXT[L1], flags, option), mac=b"\x33\x33\0\0\0\1")
    for group in TEXT[ANY4], TEXT[GROUP4]:
        for code in 0, 10, 200:
            old = struct.pack(">BBH", 0x11, code, 0) + raw(group)
            for query in old, old + b"\2\x7d\0\0", old + b"\7\xff\0\1\1\2\3\4":
                yield ipv4(2, TEXT[A3], "224.0.0.1", query, 1, b"\1\0\x5e\0\0\1", b"\x94\4\0\0")
    for group in TEXT[ANY6], TEXT[GROUP6]:
        for code in 0, 1000, 40000:
            old = struct.pack(">BBHHH", 130, 0, 0, code, 0) + raw(group)
            for query in old, old + b"\2\x7d\0\0", old + b"\7\xff\0\1" + raw(TEXT[FAR6]):
                yield ipv6(TEXT[L2], TEXT[NODES], query, 1, b"\x33\x33\0\0\0\1", True)


def corpus():
    prologue = (join(GROUP4) + join(GROUP6) + resolve(A1, A2) + resolve(L1, L2) +
                bytes([ROUTE, 0, ANY4, A3, 0, NO_VLAN, ROUTE, 0, ANY6, L2, 0, NO_VLAN]) + time(5))
    for how in range(8):
        for message in messages():
            yield bytes([how]) + prologue + frame(message) + time(SECOND) + resolve(A1, A2) + resolve(L1, L2)
    for message in messages():
        yield (b"\2" + address(A1, 24, VLAN_7) + address(L1, 64, VLAN_7) + frame(tagged(message)) + time(12) +
               frame(tagged(message)) + time(MINUTE))
        yield b"\0" + prologue + time(15) + resolve(A1, A2) + bytes([LINK, 0, LINK, 1]) + frame(message) * 3 + time(14)
    yield b"\0" + b"".join(resolve(A1, A2, 0, n) for n in range(1, 200)) + time(HOURS)
    yield b"\0" + b"".join(bytes([GROUP, 2, GROUP6, NO_VLAN, n]) for n in range(200)) + time(12) + leave(GROUP6)
    yield b"\0" + bytes([NEIGHBOUR, A2, NO_VLAN, 9]) + resolve(A1, A2) + bytes([NEIGHBOUR, A2, VLAN_7, 8])
    for how in 0, 2, 6:
        yield (bytes([how]) + address(L1, 64) + address(L1, 0, 0, 5) + time(12) + address(L1, 0, 0, 4) + time(12) +
               bytes([LINK, 0, LINK, 1]) + time(13) + address(L1, 0, 0, 5) + address(L1, 0, 0, 1) + time(12))
    yield b"\0" + address(A1, 0, 0, 1) + address(L1, 0, 0, 1) + address(A3, 24) * 2 + time(13) + address(A3, 24, 0, 1)


if __name__ == "__main__":
    corpus_folder.write(corpus())
