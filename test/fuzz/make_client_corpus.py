#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_client's corpus: make_client_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import struct

import corpus_folder

(OPEN, CLOSE, QUERY, PD, MR, CHANNEL, CQ, QP, SRQ, CONNECT, MODIFY, POST, POLL, EVENTS, WRITE, EVENT, WORK, END, AH_MW,
 RESIZE_SRQ, EX_CQ, EX_READ, EX_RESIZE_CQ, EX_QP, EX_SEND, EX_WQ, EX_MODIFY_WQ, EX_TABLE, EX_RSS_QP, EX_FLOW, EX_DM,
 EX_PARENT, EX_XRCD, EX_REREG, EX_BIND, EX_AH, EX_BUF, EX_NAMES, EX_MCAST, EX_COUNTER) = range(40)
RC, UC, UD = range(3)
RESET, ERR = 0, 6
RECV, INLINE, SHARED = 32, 64, 128


def changed(*places):
    """An answer with these bytes: (position, value)."""
    return bytes([len(places)]) + b"".join(struct.pack("<HB", at, value) for at, value in places)


def act(action, which=0, *operands, answer=b""):
    """The first answer is `answer`, the others are not changed."""
    body = bytes(operands) + answer
    return bytes([action, which, len(body)]) + body


def opened(answer=b""):
    """The answers to 2 questions about devices are not changed, that to OPEN is `answer`."""
    return act(OPEN, 0, 0, 0, answer=answer)


def objects():
    return opened() + act(PD) + act(MR) + act(CHANNEL) + act(CQ, 0) + act(CQ, 13) + act(SRQ, 0, 15) + act(SRQ, 1, 7)


def connected(kind=RC):
    # By its remainder of 3 that is the kind; no shared receive queue.
    return (objects() + act(QP, 0, kind + 33) + act(QP, 1, kind + 33) + act(CONNECT, 0, 1) +
            act(CONNECT, 1, 0))


def post(kind, which=0, n=2):
    return act(POST, 0, kind, which, n)


# Kinds of ibv_qp_ex, by their number; what each can send, by the bit of enum ibv_qp_create_send_ops_flags.
EX_KINDS = {0: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12), 1: (0, 1, 2, 3, 7, 8), 2: (2, 3), 3: (2,), 4: (0, 2, 4)}
PAYLOADS = (0, 35, 70, 133)
# One specification of each kind in front of what it needs, and those that contradict each other.
FLOWS = ((0,), (0, 1), (2, 5), (3, 4), (0, 6), (1, 7), (6, 7), (1, 3))


def younger():
    """Inputs of the younger half of the API."""
    base = objects() + act(QP, 0, 33) + act(QP, 1, 33)
    for kind, operations in EX_KINDS.items():
        made = (opened() + act(PD) + act(MR) + act(EX_CQ, 0, 15) + act(EX_BIND, 0, 1) + act(EX_QP, 0, kind, 16) +
                act(AH_MW, 1))
        ready = made + act(CONNECT, 0, 0)
        for payload in PAYLOADS:
            batch = [byte for operation in operations for byte in (operation, payload)]
            yield ready + act(EX_SEND, 0, len(operations), *batch) + act(WORK, 15) + act(EX_READ) * 2
            yield ready + act(EX_SEND, 128, 1, *batch[:2]) + act(EX_SEND, 0, 31, *batch * 3) + act(EX_READ)
        for at in range(8, 160, 4):
            answer = changed(*((at + n, 255) for n in range(4)))
            yield (opened() + act(PD) + act(CQ, 0) + act(EX_QP, 0, kind, 16, answer=answer) + act(CONNECT, 0, 0) +
                   act(EX_SEND, 0, 2, 2, 0, 2, 0) + turn())
    for flags in range(0, 256, 5):
        yield (opened() + act(PD) + act(MR) + act(EX_CQ, 0, 15, flags) + act(QP, 0, 33) + post(2, 0, 4) + act(EX_READ) +
               act(END) + act(EX_READ))
    raw = opened() + act(PD) + act(MR) + act(EX_CQ, 0, 15)
    queues = raw + b"".join(act(EX_WQ, i, 9) for i in range(4)) + b"".join(act(EX_MODIFY_WQ, i, 1) for i in range(4))
    for fields in (0, 3, 15, 63, 255):
        yield (queues + act(EX_TABLE) + act(EX_RSS_QP, 0, fields) + act(EX_FLOW, 0, 0, 0) + act(EX_FLOW) + act(EX_TABLE) +
               act(EX_WQ))
    for specs in FLOWS:
        for fill in (0, 255):
            operands = [byte for spec in specs for byte in (spec, fill)]
            for kind in range(5):
                yield (raw + act(EX_QP, 0, 3, 16) + act(MODIFY, 16) + act(EX_FLOW, 0, kind, len(specs), *operands) +
                       act(EX_FLOW))
    yield (base + act(EX_DM) + act(EX_DM, 1, 0, 0) + act(EX_DM, 128, 0, 0, 0, 16) + act(EX_DM, 64) + act(MR, 1) +
           act(EX_DM, 64))
    counter = opened() + act(PD) + act(CQ, 0) + act(EX_COUNTER) + act(EX_QP, 0, 0, 16) + act(EX_COUNTER, 64, 63)
    yield counter + act(EX_COUNTER, 64, 1) + act(EX_COUNTER, 128, 9) + act(EX_COUNTER, 192)
    for at in range(8, 48, 4):
        answer = changed(*((at + n, 255) for n in range(4)))
        yield opened() + act(PD) + act(EX_COUNTER, answer=answer) + act(EX_COUNTER, 128, 1) + act(EX_COUNTER, 192)
    yield (base + act(EX_PARENT) + act(EX_PARENT, 64) + act(EX_CQ, 2, 7) + act(EX_QP, 2, 0, 15) + act(EX_XRCD, 0, 7) +
           act(QP, 3, 33))
    yield base + act(EX_BUF, 0, 0, 16) + act(EX_BUF, 0, 0, 16, answer=LEAST) + act(EX_BUF)
    for flags in range(8):
        yield base + act(EX_REREG, 0, flags, 15) + post(2, 0) + turn()
        yield base + act(EX_REREG, 0, flags, 15, answer=LEAST) + post(2, 0) + turn()
    for resized in (1, 4, 16, 255):
        yield base + post(2, 0, 8) + act(EX_RESIZE_CQ, 0, resized, 0) + turn() + post(2, 0, 8) + turn()
        for at in range(8, 64, 4):
            answer = changed(*((at + n, 255) for n in range(4)))
            yield base + post(2, 0, 8) + act(EX_RESIZE_CQ, 0, resized, 0, answer=answer) + turn()
    yield base + act(EX_AH, 0, 3) + act(EX_AH, 0, 0, *bytes(40)) + act(EX_AH, 0, 0, *bytes(20), 0x45, *bytes(19))
    yield base + act(EX_BIND, 0, 0) + act(CONNECT, 0, 1) + post(8, 0) + turn()
    yield base + act(EX_BIND, 0, 0) + act(EX_BIND) + act(EX_BIND) + act(EX_MCAST)
    yield objects() + act(QP, 0, 2 + 33) + act(EX_MCAST)
    # Datagrams without an address, and what is no datagram.
    for kind in range(16):
        yield connected(UD) + act(EX_BIND, 0, 1) + post(kind, 0, 2) + act(EX_BIND) + turn()
    for number in range(0, 40):
        yield opened() + act(EX_NAMES, number)
    for action, more in ((EX_CQ, (7,)), (EX_WQ, (7,)), (EX_DM, ()), (EX_XRCD, (7,)), (EX_PARENT, ()), (EX_BIND, ()),
                         (EX_TABLE, ())):
        before = queues if action == EX_TABLE else raw
        for at in range(8, 96, 4):
            answer = changed(*((at + n, 255) for n in range(4)))
            yield before + act(action, 2, *more, answer=answer) + act(EX_MODIFY_WQ, 2, 1) + act(EX_READ, 2)
        yield before + act(action, 2, *more, answer=LEAST)
        yield before + act(action, 2, *more) + act(END) + act(action, 2, *more)


def turn():
    return act(WORK, 15) + act(POLL, 12) + act(POLL, 13) + act(EVENTS)


# The daemon consents that a completion queue is destroyed while a queue pair uses it.
CONSENT = changed(*((at, 0) for at in range(12, 16)))
# A status whose negative does not exist.
LEAST = changed((12, 0), (13, 0), (14, 0), (15, 128))


def corpus():
    yield from younger()
    yield opened() + act(PD) + act(CQ, 0) + act(QP, 0, RC) + act(CQ, 0, answer=CONSENT) + act(QP, 0, RC) + act(CQ, 0)
    for kind in (RC, UC, UD):
        made = connected(kind) + act(AH_MW, 1) + act(AH_MW, 0)
        work = post(RECV, 1, 4) + post(2, 0) + post(INLINE | 2, 0) + post(0, 0) + post(4, 0) + turn() * 3
        yield made + work + act(CLOSE)
        yield made + post(SHARED, 0, 20) + work + act(RESIZE_SRQ, 0, 40) + post(SHARED, 0, 20) + work
        yield made + work + act(END) + turn() * 4 + work
        yield made + post(RECV, 0, 20) + post(2, 0, 20) + act(MODIFY, ERR << 4) + turn() + act(MODIFY, RESET << 4) + work
        yield made + work + act(QUERY, 0) + act(QP, 0, 0) + act(CQ, 0) + act(SRQ, 0) + turn()
        # Completions, indices and events that make no sense.
        for segment in range(12):
            for at in (0, 4, 16, 64, 80, 96):
                spoil = act(WRITE, 0, segment, at, 0, 63, answer=b"\xff" * 63)
                yield made + work + spoil + turn() + post(2) + post(RECV) + act(POLL, 12)
        for how in range(4):
            for kind_of_event in range(20):
                record = struct.pack("<QII", 1 if how & 1 else 0, kind_of_event, 0)
                size = bytes([7]) if how & 2 else b""
                yield made + act(EVENT, 0, how, answer=size + record) + act(EVENTS) + act(EVENTS)
        yield made + act(EVENT, 0, 0, answer=b"\xff" * 16) + act(EVENT, 0, 1, answer=b"\xff" * 16) + act(EVENTS)
    # Each word of an answer, in turn, at its largest and at 0.
    base = opened() + act(PD) + act(MR) + act(CHANNEL)
    for action, more in ((CQ, ()), (SRQ, (15,)), (MR, ()), (PD, ()), (AH_MW, ()), (QP, (0,))):
        first = base + (act(CQ, 0) if action == QP else b"")
        for at in range(8, 160, 4):
            for value in (0, 255):
                answer = changed(*((at + n, value) for n in range(4)))
                yield first + act(action, 1, *more, answer=answer) + post(2, 1) + post(SHARED, 1) + turn()
        yield first + act(action, 1, *more, answer=LEAST) + post(2, 1) + turn()
    for at in range(0, 48, 2):
        yield opened(changed((at, 255), (at + 1, 255))) + act(PD) + act(CQ, 0)
    for how in (8, 16, 24):
        answer = bytes([how, 1] if how & 16 else [how])
        yield opened(answer) + act(PD)
        yield base + act(CQ, 0, answer=answer) + act(CQ, 1) + act(SRQ, 0, 9, answer=answer) + turn()
        yield objects() + act(QP, 0, 0, answer=answer) + act(QP, 1, 0) + post(2) + post(2, 1) + turn()


if __name__ == "__main__":
    corpus_folder.write(corpus())
