# SPDX-License-Identifier: BSD-3-Clause
"""Sends RoCEv2 packets of many flows on an interface, of each one over IPv4, one over IPv4 in a VLAN, and one over IPv6:
addresses and source ports differ. Shares no code with uroce. Standard library only.

usage: send_flows.py INTERFACE MAC FLOWS"""
import socket
import struct
import sys

ROCE_PORT = 4791


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(sport):
    """The header, a BTH (UC SEND only, to queue pair 0x123456), and four bytes where the ICRC goes."""
    payload = struct.pack("!BBHII", 0x24, 0, 0xFFFF, 0x123456, sport) + bytes(4)
    return struct.pack("!HHHH", sport, ROCE_PORT, 8 + len(payload), 0) + payload


def ipv4(flow, payload):
    source = bytes((10, 78, flow >> 8 & 0xFF, flow & 0xFF))
    fields = (0x45, 0, 20 + len(payload), flow & 0xFFFF, 0x4000, 64, 17)
    header = struct.pack("!BBHHHBBH", *fields, 0) + source + bytes((10, 78, 0, 2))
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def ipv6(flow, payload):
    source = socket.inet_pton(socket.AF_INET6, f"fd78::{flow & 0xFFFF:x}")
    return (struct.pack("!IHBB", 6 << 28 | flow, len(payload), 17, 64) + source +
            socket.inet_pton(socket.AF_INET6, "fd78::2") + payload)


def main():
    interface, mac, flows = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", "")), int(sys.argv[3])
    ethernet = mac + bytes.fromhex("020000007801")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        for flow in range(flows):
            payload = udp(0xC000 | flow * 7919 & 0x3FFF)
            out.send(ethernet + b"\x08\x00" + ipv4(3 + flow % 40, payload))
            out.send(ethernet + b"\x81\x00\x00\x4f\x08\x00" + ipv4(103 + flow % 40, payload))
            out.send(ethernet + b"\x86\xdd" + ipv6(3 + flow % 40, payload))


if __name__ == "__main__":
    main()
