#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_ctl's corpus: make_ctl_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import hashlib
import pathlib
import struct
import sys

MESSAGE, WRITE, POLL, CLOSE, POST = range(5)
(QUERY_DEVICE, QUERY_PORT, QUERY_GID, OPEN, ALLOC_PD, DEALLOC_PD, REG_MR, DEREG_MR, CREATE_CHANNEL, DESTROY_CHANNEL,
 CREATE_CQ, DESTROY_CQ, CREATE_QP, MODIFY_QP, QUERY_QP, DESTROY_QP, CREATE_AH, DESTROY_AH, CREATE_SRQ, MODIFY_SRQ,
 QUERY_SRQ, DESTROY_SRQ, OPEN_XRCD, CLOSE_XRCD, ALLOC_MW, DEALLOC_MW, ATTACH_MCAST, DETACH_MCAST, CREATE_WQ,
 MODIFY_WQ, DESTROY_WQ, CREATE_RWQ_IND, MODIFY_RWQ_IND, DESTROY_RWQ_IND, CREATE_FLOW, DESTROY_FLOW, SET_ENTROPY,
 SHOW, FREEZE_MRS, THAW_MRS, REMAP_MR, GET_UFFD) = range(1, 43)
RC, UC, UD, XRC_SEND, XRC_RECV = 2, 3, 4, 9, 10
GROUP = bytes(10) + b"\xff\xff\xe0\0\0\7"
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
    attr += struct.pack("<H10B", 0, 0, 0, 4, 4, 1, 1, 8, 7, 7, 0)
    return message(MODIFY_QP, struct.pack("<II", qpn, mask) + attr)


# What each service must be given on its way from RESET to RTS: bits of the attribute mask.
STATE, ACCESS, PKEY, PORT, QKEY, AV, MTU = (1 << n for n in (0, 3, 4, 5, 6, 7, 8))
TIMEOUT, RETRY, RNR, RQ_PSN = (1 << n for n in (9, 10, 11, 12))
RD, MIN_RNR, SQ_PSN, DEST_RD, DEST = (1 << n for n in (13, 15, 16, 17, 20))
PATH, RESPONDS, REQUESTS = AV | MTU | DEST | RQ_PSN, DEST_RD | MIN_RNR, SQ_PSN | TIMEOUT | RETRY | RNR | RD
STEPS = {RC: (ACCESS, PATH | RESPONDS, REQUESTS), UC: (ACCESS, PATH, SQ_PSN), UD: (QKEY, 0, SQ_PSN),
         XRC_SEND: (ACCESS, PATH, REQUESTS), XRC_RECV: (ACCESS, PATH | RESPONDS, SQ_PSN | TIMEOUT)}


def connect(qpn, dest, service=RC):
    init, rtr, rts = STEPS[service]
    return (modify(qpn, STATE | PKEY | PORT | init, INIT) + modify(qpn, STATE | rtr, RTR, dest) +
            modify(qpn, STATE | rts, RTS))


def create_qp(service, first=1, srq=0, xrcd=0, client=0, entropy=(0, 0)):
    parts = (0, 0, 0) if service == XRC_RECV else (first, first, 0 if service == XRC_SEND else first)
    body = struct.pack("<8I56x2H5I", *parts, service, 0, 9, srq, xrcd, *entropy, 16, 16, 2, 2, 64)
    return message(CREATE_QP, body, client)


def set_entropy(qpn, rule, port=0):
    return message(SET_ENTROPY, struct.pack("<I2H", qpn, rule, port))


def create_srq(kind=0, xrcd=0, cq=0, client=0, first=1):
    return message(CREATE_SRQ, struct.pack("<8I", first, kind, xrcd, cq, 16, 1, 0, 9), client)


def objects(client=0, first=1):
    """Context, PD, channel, CQ, MR, two queue pairs."""
    made = message(OPEN, struct.pack("<I", 0), client) + message(ALLOC_PD, b"", client)
    made += message(CREATE_CHANNEL, b"", client)
    made += message(CREATE_CQ, struct.pack("<6IQ", 16, first, 0, 0, 0, 0, 5), client)
    made += message(REG_MR, struct.pack("<IIQQQ", first, 15, KIT_BASE, 65536, 0), client)
    made += message(REG_MR, struct.pack("<IIQQQIIQ", first, 15, KIT_BASE, 65536, 0, 1, 0, 0), client, fd=1)
    made += message(FREEZE_MRS, struct.pack("<I", 1), client)
    made += message(REMAP_MR, struct.pack("<IIIIQQ", 2, 2, 1, 0, 0, 65536), client, fd=1)
    made += message(THAW_MRS, b"", client) + message(GET_UFFD, b"", client)
    return made + create_qp(RC, first, client=client) * 2


def services():
    """One application with a pair of queue pairs of each service."""
    base = objects()
    receive = post(2, 128) * 2
    uc = base + create_qp(UC) * 2 + connect(18, 19, UC) + connect(19, 18, UC)
    yield uc + post(3, 128) * 2 + post(2, 2) * 2 + post(2, 0) + poll()
    ud = base + create_qp(UD) * 2 + connect(18, 0, UD) + connect(19, 0, UD)
    ud += message(CREATE_AH, struct.pack("<I", 1) + ah_attr())
    ud += message(CREATE_AH, struct.pack("<I", 1) + ah_attr(GROUP))
    yield ud + receive + post(2, 2) + poll()
    member = ud + receive + message(ATTACH_MCAST, struct.pack("<I", 18) + GROUP) * 2
    yield (member + post(3, 2, which=129) + poll() + message(DETACH_MCAST, struct.pack("<I", 18) + GROUP) +
           handle(DESTROY_QP, 18))
    srq = base + create_srq() + create_qp(RC, srq=1) + create_qp(UD, srq=1) + connect(18, 18) + connect(19, 0, UD)
    srq += message(CREATE_AH, struct.pack("<I", 1) + ah_attr())
    srq += message(MODIFY_SRQ, struct.pack("<4I", 1, 2, 0, 2)) + receive
    yield (srq + post(2, 2) + post(3, 2) + poll() + message(MODIFY_SRQ, struct.pack("<4I", 1, 3, 32, 8)) + receive +
           post(2, 2) + poll())
    yield (srq + handle(QUERY_SRQ, 1) + handle(DESTROY_SRQ, 1) + handle(DESTROY_QP, 18) + handle(DESTROY_QP, 19) +
           handle(DESTROY_SRQ, 1))
    xrc = base + message(OPEN_XRCD, struct.pack("<I", 64), fd=1) + create_srq(1, 1, 1) + create_qp(XRC_SEND)
    xrc += create_qp(XRC_RECV, xrcd=1) + connect(18, 19, XRC_SEND) + connect(19, 18, XRC_RECV) + post(0, 255) * 2
    for op in range(10):
        yield xrc + post(2, op) + poll() + handle(DESTROY_SRQ, 1) + post(2, op) + poll()
    yield xrc + post(2, 2, length=255) * 4 + poll(0, 0) + handle(DESTROY_SRQ, 1) + handle(DESTROY_CQ, 1) + poll(7, 255)
    yield (xrc + message(OPEN, bytes(4), 1) + message(OPEN_XRCD, bytes(4), 1, fd=1) +
           create_qp(XRC_RECV, xrcd=2, client=1) + bytes([CLOSE, 0]) + poll())
    windows = base + connect(16, 17) + connect(17, 16)
    windows += message(ALLOC_MW, struct.pack("<II", 1, 1)) + message(ALLOC_MW, struct.pack("<II", 1, 2))
    for which in (0, 1):
        bound = windows + post(1, 8, which=which | 2, length=100) + poll()
        yield (bound + post(0, 0, which=which | 64, length=1) + poll() + handle(DEREG_MR, 1) +
               handle(DEALLOC_MW, which + 1) + poll())
        yield bound + post(1, 7, which=which) + post(0, 0, which=which | 64, length=1) + poll() + bytes([CLOSE, 0])
        yield bound + post(1, 128) + post(0, 9, which=which, length=1) + poll() + post(0, 15, which=which | 64) + poll()


def poll(looks=7, time=1):
    return bytes([POLL, time, time, looks])


def post(qp=0, op=2, flags=2, region=0, length=20, offset=0, client=0, which=0):
    return bytes([POST, client, qp, op, flags, region, length, offset, which])


def corpus():
    pair = objects() + connect(16, 17) + connect(17, 16)
    receive = post(1, 128) * 2
    yield from services()
    for kind in range(SHOW + 2):
        yield message(OPEN, b"\0\0\0\0") + message(kind, b"\1\0\0\0" * 8)
        yield objects() + message(kind, b"\1\0\0\0" * 8) + message(kind, b"\x10\0\0\0")
    for rule, port in ((1, 0), (2, 0), (3, 0xC123), (4, 0), (0, 0)):
        yield (pair + create_qp(UD, entropy=(rule, port)) + connect(18, 0, UD) + post() + set_entropy(16, rule, port) +
               set_entropy(18, rule, port) + receive + post() + post(2, 2) + poll())
    for op in range(16):
        yield pair + post(op=op, length=8) + poll() + post(op=op, region=1, length=8) + poll()
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
