#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Passes frames between two interfaces, and loses of each sender the first connection management message with each of the
attribute IDs. Says how many on standard output. usage: relay.py INTERFACE INTERFACE [ATTRIBUTE,...]"""
import select
import socket
import sys

ALL_PROTOCOLS = 3
OUTGOING = 4
MAC, IPV4_END, IPV6_END = 14, 34, 54
ROCE_PORT = (4791).to_bytes(2, "big")
UDP, BTH, DETH = 8, 12, 8
CONNECTION_MANAGEMENT = 7


def attribute(frame):
    """The attribute ID of a message of connection management, or None."""
    udp = IPV4_END if frame[12:14] == b"\x08\x00" else IPV6_END
    mad = udp + UDP + BTH + DETH
    if frame[udp + 2:udp + 4] != ROCE_PORT or len(frame) < mad + 256 or frame[mad + 1] != CONNECTION_MANAGEMENT:
        return None
    return int.from_bytes(frame[mad + 16:mad + 18], "big")


def main():
    ends = []
    for name in sys.argv[1:3]:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        end.bind((name, ALL_PROTOCOLS))
        ends.append(end)
    wanted = [int(word, 0) for word in sys.argv[3].split(",")] if len(sys.argv) > 3 else []
    to_lose = {end: set(wanted) for end in ends}
    print("ready", flush=True)
    while True:
        for end in select.select(ends, [], [])[0]:
            frame, address = end.recvfrom(65536)
            if address[2] == OUTGOING:
                continue
            which = attribute(frame)
            if which in to_lose[end]:
                to_lose[end].remove(which)
                print(f"lost {which:#x}", flush=True)
            else:
                ends[end is ends[0]].send(frame)


if __name__ == "__main__":
    main()
