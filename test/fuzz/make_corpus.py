#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes a fuzz target's corpus from the captures: make_corpus.py KIND VECTORS FOLDER

KIND packet: every frame of every capture, one file each, and of each capture's first frame also
what the captures lack: a tagged one, a RoCEv1 one, and one of every other opcode.
KIND queue: shared memory as fuzz_queue takes it: well-formed rings of every kind of entry.
"""
import hashlib
import pathlib
import struct
import sys


def frames(path):
    """The frames of a little-endian pcap file."""
    data = path.read_bytes()
    if data[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        sys.exit(f"{path}: not a pcap file")
    at = 24
    while at < len(data):
        caplen = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + caplen]
        at += 16 + caplen


def bth_offset(frame):
    return 14 + (40 if frame[12:14] == b"\x86\xdd" else 20) + 8


def tagged(frame):
    return frame[:12] + bytes([0x81, 0x00, 0x60, 0x64]) + frame[12:]


def roce_v1(frame):
    packet = frame[bth_offset(frame):]
    grh = b"\x60\0\0\0" + struct.pack(">HBB", len(packet), 0x1B, 64) + bytes(15) + b"\1"
    return frame[:12] + b"\x89\x15" + grh + bytes(15) + b"\2" + packet


def with_opcode(frame, opcode):
    at = bth_offset(frame)
    return frame[:at] + bytes([opcode]) + frame[at + 1:]


def packet_corpus(vectors):
    for path in sorted(vectors.glob("**/*.pcap")):
        first = None
        for frame in frames(path):
            first = first or frame
            yield frame
        yield tagged(first)
        yield roce_v1(first)
    for opcode in range(256):
        yield with_opcode(first, opcode)


def send_entry(opcode, flags, sges, inline=b""):
    header = struct.pack("<QBBBBIQIIQQ16x", 7, opcode, flags, len(sges), 0, 1, 0x1000, 9,
                         len(inline), 5, 6)
    body = inline or b"".join(struct.pack("<QII", *sge) for sge in sges)
    return (header + body).ljust(128, b"\0")


def ring(kind, entries):
    """Four SGEs, 64 bytes inline, four entries, the index two before its wrap."""
    return bytes([kind, 4, 32, 2]) + struct.pack("<Ib", 0xFFFFFFFE, len(entries)) + b"".join(entries)


def queue_corpus(_):
    two = [(0x1000, 64, 1), (0x2000, 4096, 2)]
    for opcode in range(17):
        yield ring(0, [send_entry(opcode, 2, two)] * 4)
        yield ring(0, [send_entry(opcode, 8, [], b"inline bytes")] * 3)
    yield ring(0, [send_entry(2, 0, [(0, 0xFFFFFFFF, 0)] * 2)])
    recv = struct.pack("<QII", 3, 2, 0) + b"".join(struct.pack("<QII", *sge) for sge in two)
    yield ring(1, [recv.ljust(96, b"\0")] * 4)
    yield bytes([2, 2, 0]) + bytes([0, 0x0C, 0x10, 0x84, 0x24, 1, 0, 0, 0]) * 8
    yield bytes([2, 1, 2]) + bytes([0, 1, 2, 0xC0, 0xFF, 0xFF, 0xFF, 0xFF]) * 4
    words = [(0, 1, 1), (8, 1 << 63, 3), (9, 7, 0), (16, 0xFF, 1), (80, 1 << 63, 2)]
    yield bytes([3, 3]) + b"".join(struct.pack("<IQ", at, bits << by) if bits << by < 1 << 64 else b""
                                   for at, bits, by in words)


KINDS = {"packet": packet_corpus, "queue": queue_corpus}


def main():
    kind, vectors, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for data in KINDS[kind](vectors):
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


main()
