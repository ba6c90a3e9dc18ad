# SPDX-License-Identifier: BSD-3-Clause
"""A host on the wire that floods a port with frames: damaged ones, unknown queue pairs, forged packets of connections."""
import os
import random
import socket
import struct
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
import icrc_check
import run_control as control
from python_attacks import Forked, libc

WRITE_ONLY, SEND_ONLY, ACKNOWLEDGE, READ_RESPONSE_ONLY = 0x0A, 0x04, 0x11, 0x10
FRAMES = 256  # different ones, which are sent in turn
LOOK_SECONDS = 0.5  # between two looks at the daemon's queue pairs


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def frame(sender, receiver, source, opcode, qpn, psn, payload, good=True):
    """A RoCEv2 frame; source: the IPv4 address that it claims to come from."""
    reth = bytes(16) if opcode == WRITE_ONLY else bytes(4) if opcode in (ACKNOWLEDGE, READ_RESPONSE_ONLY) else b""
    body = struct.pack(">BBHII", opcode, 0, 0xFFFF, qpn, psn) + reth + payload
    udp = struct.pack(">HHHH", 0xC000 + psn % 1000, icrc_check.ROCE_PORT, 8 + len(body) + 4, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(body) + 4, 0, 0x4000, 64, 17, 0,
                     socket.inet_aton(source), socket.inet_aton(receiver.ipv4))
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    whole = mac(receiver.mac) + mac(sender.mac) + b"\x08\x00" + ip + udp + body + bytes(4)
    icrc = zlib.crc32(b"\xFF" * 8 + icrc_check.network_packet(whole)[1]) ^ (0 if good else 1)
    return whole[:-4] + struct.pack("<I", icrc)


def frames(daemon):
    """A mixture, with the numbers of the queue pairs that there are now."""
    known = [qp["qpn"] for qp in control.state(daemon)["qps"]] or [2]
    near, far = daemon.near, daemon.far
    found = []
    for number in range(FRAMES):
        opcode = random.choice((WRITE_ONLY, SEND_ONLY, ACKNOWLEDGE, READ_RESPONSE_ONLY))
        unknown = number % 4 == 1
        found.append(frame(far, near, random.choice((far.ipv4, near.ipv4)), opcode,
                           random.randrange(1 << 24) if unknown else random.choice(known), random.randrange(1 << 24),
                           bytes(random.choice((0, 64, 1024))), good=number % 4 != 0))
    return found


def send(daemon, say_ready):
    with open(f"/run/netns/{daemon.far.namespace}") as namespace:
        if libc.setns(namespace.fileno(), 0):
            raise OSError("setns")
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((daemon.far.interface, 0))
    wire.setsockopt(263, 20, 1)  # SOL_PACKET, PACKET_QDISC_BYPASS
    said = False
    while True:
        batch, end = frames(daemon), time.monotonic() + LOOK_SECONDS
        while time.monotonic() < end:
            for one in batch:
                try:
                    wire.send(one)
                except OSError:  # the interface's queue is full
                    pass
        if not said:
            say_ready()
        said = True


def flood(daemon, uid):
    return Forked(send, daemon, None)
