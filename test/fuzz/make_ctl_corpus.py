#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_ctl's corpus: make_ctl_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import hashlib
import pathlib
import struct
import sys

MESSAGE, WRITE, POLL, CLOSE, POST = range(5)
(QUERY_DEVICE, QUERY_PORT, QUERY_GID, OPEN, ALLOC_PD, DEALLOC_PD, REG_MR, DEREG_MR, CREATE_CHANNEL, DESTROY_CHANNEL,
 CREATE_CQ, DESTROY_CQ, CREATE_QP, MODIFY_QP, QUERY_QP, DESTROY_QP, CREATE_AH, DESTROY_AH, SHOW) = range(1, 20)
LOOPBACK = bytes(10) + b"\xff\xff\x7f\0\0\1"
INIT, RTR, RTS, ERR = 1, 2, 3, 6
KIT_BASE = 0x10000


def message(kind, body=b"", client=0, fd=0):
    return bytes([MESSAGE, kind, client, fd, len(body)]) + body


def handle(kind, number, client=0):
    return message(kind, struct.pack("<I", number), client)


def ah_attr(dgid=LOOPBACK):
    return dgid + struct.pack("<I8B", 0, 0, 64, 0, 0, 1, 1, 0, 0)


def modify(qpn, mask, state, dest=0):
    attr = struct.pack("<7I", state, 0, 5, 0, 0, 0, dest) + struct.pack("<I", 15) + ah_attr()
    return message(MODIFY_QP, struct.pack("<II", qpn, mask) + attr + struct.pack("<H10B", 0, 0, 0, 4, 4, 1, 1, 8, 7, 7, 0))


def connect(qpn, dest):
    return (modify(qpn, 1 | 1 << 3 | 1 << 4 | 1 << 5, INIT) +
            modify(qpn, 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20, RTR, dest) +
            modify(qpn, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16, RTS))


def objects(client=0, first=1):
    """Context, PD, channel, CQ, MR, two queue pairs."""
    made = message(OPEN, struct.pack("<I", 0), client) + message(ALLOC_PD, b"", client)
    made += message(CREATE_CHANNEL, b"", client)
    made += message(CREATE_CQ, struct.pack("<6IQ", 16, first, 0, 0, 0, 0, 5), client)
    made += message(REG_MR, struct.pack("<IIQQQ", first, 15, KIT_BASE, 65536, 0), client)
    made += message(REG_MR, struct.pack("<IIQQQIIQ", first, 15, KIT_BASE, 65536, 0, 1, 0, 0), client, fd=1)
    return made + message(CREATE_QP, struct.pack("<6I5I", first, first, first, 2, 0, 9, 16, 16, 2, 2, 64), client) * 2


def poll(looks=7, time=1):
    return bytes([POLL, time, time, looks])


def post(qp=0, op=2, flags=2, region=0, length=20, offset=0, client=0):
    return bytes([POST, client, qp, op, flags, region, length, offset])


def corpus():
    pair = objects() + connect(16, 17) + connect(17, 16)
    receive = post(1, 128) * 2
    for kind in range(21):
        yield message(OPEN, b"\0\0\0\0") + message(kind, b"\1\0\0\0" * 8)
        yield objects() + message(kind, b"\1\0\0\0" * 8) + message(kind, b"\x10\0\0\0")
    for op in range(10):
        yield pair + receive + post(op=op) + poll() + post(op=op, region=1, flags=6) + poll()
        yield pair + post(op=op) + poll() + poll(7, 255) * 8 + receive + poll()
    yield objects() + objects(1, 2) + handle(DESTROY_QP, 16, 1) + bytes([CLOSE, 0]) + poll() + handle(DESTROY_QP, 16, 1)
    yield pair + receive + post() + bytes([CLOSE, 0]) + poll()
    yield pair + post() + modify(16, 1, ERR) + poll() + handle(QUERY_QP, 16) + handle(DESTROY_QP, 16) + poll()
    yield pair + receive + post() + handle(DEREG_MR, 1) + poll() + message(SHOW, bytes(8))
    yield pair + bytes([WRITE, 0, 0, 16, 0, 8]) + b"\xff" * 8 + bytes([WRITE, 0, 1, 0, 0, 4]) + b"\xff" * 4 + poll()
    yield objects() + message(CREATE_AH, struct.pack("<I", 1) + ah_attr()) + handle(DESTROY_AH, 1) + handle(DEALLOC_PD, 1)
    teardown = [(DESTROY_QP, 16), (DESTROY_QP, 17), (DESTROY_CQ, 1), (DESTROY_CHANNEL, 1), (DEREG_MR, 1), (DEREG_MR, 2),
                (DEALLOC_PD, 1)]
    yield pair + b"".join(handle(*step) for step in teardown)
    yield pair + b"".join(handle(*step) for step in reversed(teardown))


def main():
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for data in corpus():
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


main()
