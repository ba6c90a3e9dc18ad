#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_client's corpus: make_client_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import struct

import corpus_folder

(OPEN, CLOSE, QUERY, PD, MR, CHANNEL, CQ, QP, SRQ, CONNECT, MODIFY, POST, POLL, EVENTS, WRITE, EVENT, WORK, END, AH_MW,
 RESIZE_SRQ) = range(20)
OK = b"\0"  # an answer that is not changed
RC, UC, UD = range(3)
RESET, ERR = 0, 6
RECV, INLINE, SHARED = 32, 64, 128


def changed(*places):
    """An answer with these bytes: (position, value)."""
    return bytes([len(places)]) + b"".join(struct.pack("<HB", at, value) for at, value in places)


def act(action, which=0, *operands, answers=1, answer=OK):
    """The first answer is `answer`, the others are not changed."""
    return bytes([action, which, *operands]) + (answer + OK * (answers - 1) if answers else b"")


def opened(answer=OK):
    # 2 questions about devices, and OPEN; the library asks on when it opens.
    return act(OPEN, answers=2) + answer + OK * 12


def objects():
    return opened() + act(PD) + act(MR) + act(CHANNEL) + act(CQ, 0) + act(CQ, 13) + act(SRQ, 0, 15) + act(SRQ, 1, 7)


def connected(kind=RC):
    return (objects() + act(QP, 0, kind | 32) + act(QP, 1, kind | 32) + act(CONNECT, 0, 1, answers=8) +
            act(CONNECT, 1, 0, answers=8))


def post(kind, which=0, n=2):
    return bytes([POST, 0, kind, which, n])


def turn():
    return act(WORK, 15, answers=0) + act(POLL, 12, answers=0) + act(POLL, 13, answers=0) + act(EVENTS, answers=0)


# The daemon consents that a completion queue is destroyed while a queue pair uses it.
USED_QUEUE = bytes.fromhex("0002000000000000001201d7001200080000000000002603000006000007002200090009010000002e")


def corpus():
    yield USED_QUEUE
    for kind in (RC, UC, UD):
        made = connected(kind) + act(AH_MW, 1, answers=2) + act(AH_MW, 0, answers=2)
        work = post(RECV, 1, 4) + post(2, 0) + post(INLINE | 2, 0) + post(0, 0) + post(4, 0) + turn() * 3
        yield made + work + act(CLOSE, answers=0) + OK * 20
        yield made + post(SHARED, 0, 20) + work + act(RESIZE_SRQ, 0, 40) + post(SHARED, 0, 20) + work
        yield made + work + act(END, answers=0) + turn() * 4 + work
        yield made + post(RECV, 0, 20) + post(2, 0, 20) + act(MODIFY, ERR << 4) + turn() + act(MODIFY, RESET << 4) + work
        yield made + work + act(QUERY, 0, answers=12) + act(QP, 0, 0) + act(CQ, 0) + act(SRQ, 0) + turn()
        # Completions, indices and events that make no sense.
        for segment in range(12):
            for at in (0, 4, 16, 64, 80, 96):
                spoil = bytes([WRITE, 0, segment, at, 0, 63]) + b"\xff" * 63
                yield made + work + spoil + turn() + post(2) + post(RECV) + act(POLL, 12, answers=0)
        for how in range(4):
            for kind_of_event in range(20):
                record = struct.pack("<QII", 1 if how & 1 else 0, kind_of_event, 0)
                size = bytes([7]) if how & 2 else b""
                yield made + bytes([EVENT, 0, how]) + size + record + act(EVENTS, answers=0) + act(EVENTS, answers=0)
        yield made + bytes([EVENT, 0, 0]) + b"\xff" * 16 + bytes([EVENT, 0, 1]) + b"\xff" * 16 + act(EVENTS, answers=0)
    # Each word of an answer, in turn, at its largest and at 0.
    base = opened() + act(PD) + act(MR) + act(CHANNEL)
    for action, more in ((CQ, ()), (SRQ, (15,)), (MR, ()), (PD, ()), (AH_MW, ()), (QP, (0,))):
        first = base + (act(CQ, 0) if action == QP else b"")
        for at in range(8, 160, 4):
            for value in (0, 255):
                answer = changed(*((at + n, value) for n in range(4)))
                yield first + act(action, 1, *more, answer=answer, answers=3) + post(2, 1) + post(SHARED, 1) + turn()
    for at in range(0, 48, 2):
        yield opened(changed((at, 255), (at + 1, 255))) + act(PD) + act(CQ, 0)
    for how in (8, 16, 24):
        answer = bytes([how]) + (b"\1" if how & 16 else b"")
        yield opened(answer) + act(PD)
        yield base + act(CQ, 0, answer=answer) + act(CQ, 1) + act(SRQ, 0, 9, answer=answer) + turn()
        yield objects() + act(QP, 0, 0, answer=answer) + act(QP, 1, 0) + post(2) + post(2, 1) + turn()


if __name__ == "__main__":
    corpus_folder.write(corpus())
