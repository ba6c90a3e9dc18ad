#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Datagrams as a port over UDP sockets sends them, and nothing else: 64 KiB at a time, cut by the kernel (UDP_SEGMENT),
and received joined (UDP_GRO). What arrives bounds what such a port can do. Standard library only.

usage: udp_segments.py receive ADDRESS PORT            prints that it is ready, and bytes per second at the end
       udp_segments.py send ADDRESS PORT SIZE SECONDS  SIZE: of a datagram's payload"""
import socket
import struct
import sys
import time

UDP_SEGMENT, UDP_GRO = 103, 104
MOST, BUFFER, IDLE_SECONDS = 64, 1 << 22, 10


def receive(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        s.bind((address, port))
        s.settimeout(IDLE_SECONDS)
        print("ready", flush=True)
        room, total, began, ended = bytearray(65536), 0, None, None
        while True:
            n = s.recv_into(room)
            if n == 1:
                break
            ended = time.monotonic()
            began = began or ended
            total += n
    print(total / (ended - began))


def send(address, port, size, seconds):
    payload = bytes(size * min(65000 // size, MOST))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        s.connect((address, port))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            s.sendmsg([payload], [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", size))])
        for _ in range(20):  # some may be lost
            s.send(b"e")
            time.sleep(0.01)


def main():
    role, address, port, *more = sys.argv[1:]
    try:
        if role == "receive":
            receive(address, int(port))
        else:
            send(address, int(port), int(more[0]), float(more[1]))
    except ConnectionRefusedError:  # the receiver has what it waited for
        pass


if __name__ == "__main__":
    main()
