#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Recomputes the ICRC of every RoCE frame of captures with zlib: icrc_check.py FILE...

Shares nothing with the C code: it reads the pcap format and the headers itself (IPv4, IPv6, RoCEv1,
802.1Q). Prints the counts; the exit status is 1 when an ICRC is wrong, or a frame not whole.
"""
import struct
import sys
import zlib

ROCE_PORT = 4791


class NotWhole(Exception):
    """A RoCE frame shorter than its headers say."""


def frames(path):
    """The frames of a pcap file in either byte order, with micro- or nanoseconds."""
    with open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        order = "<"
    elif magic in (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d"):
        order = ">"
    else:
        raise ValueError(f"{path}: not a pcap file")
    if struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF != 1:
        raise ValueError(f"{path}: not Ethernet")
    at = 24
    while at < len(data):
        caplen = struct.unpack_from(order + "I", data, at + 8)[0]
        if at + 16 + caplen > len(data):
            raise ValueError(f"{path}: cut off")
        yield data[at + 16:at + 16 + caplen]
        at += 16 + caplen


def be16(data, at):
    return int.from_bytes(data[at:at + 2], "big")


def ones(data, *offsets):
    for at in offsets:
        data[at] = 0xFF


def network_packet(frame):
    """(what, masked bytes from the network header, ICRC) of a RoCE frame, or None for others."""
    at = 12
    while be16(frame, at) == 0x8100:
        at += 4
    ethertype, l3 = be16(frame, at), bytearray(frame[at + 2:])
    if ethertype == 0x0800:
        if len(l3) < 28 or l3[0] != 0x45 or l3[9] != 17 or be16(l3, 22) != ROCE_PORT:
            return None
        what, length, bth = "ipv4", be16(l3, 2), 28
        ones(l3, 1, 8, 10, 11, 26, 27)
    elif ethertype == 0x86DD:
        if len(l3) < 48 or l3[6] != 17 or be16(l3, 42) != ROCE_PORT:
            return None
        what, length, bth = "ipv6", 40 + be16(l3, 4), 48
        l3[0] |= 0x0F
        ones(l3, 1, 2, 3, 7, 46, 47)
    elif ethertype == 0x8915:
        if len(l3) < 40:
            raise NotWhole
        what, length, bth = "roce_v1", 40 + be16(l3, 4), 40
        l3[0] |= 0x0F
        ones(l3, 1, 2, 3, 7)
    else:
        return None
    if length > len(l3) or length < bth + 16:
        raise NotWhole
    ones(l3, bth + 4)
    return what, bytes(l3[:length - 4]), bytes(l3[length - 4:length])


def check_file(path):
    """Counts of one file: frames, other, bad, not_whole, and the good ones by IP version."""
    counts = dict.fromkeys(("frames", "other", "ipv4", "ipv6", "roce_v1", "bad", "not_whole"), 0)
    for frame in frames(path):
        counts["frames"] += 1
        try:
            packet = network_packet(frame)
        except NotWhole:
            counts["not_whole"] += 1
            continue
        if packet is None:
            counts["other"] += 1
            continue
        what, masked, icrc = packet
        good = zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little") == icrc
        counts[what if good else "bad"] += 1
    return counts


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: icrc_check.py FILE...")
    failed = False
    for path in sys.argv[1:]:
        counts = check_file(path)
        print(path + ":", " ".join(f"{key}={value}" for key, value in counts.items()))
        failed = failed or counts["bad"] > 0 or counts["not_whole"] > 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
