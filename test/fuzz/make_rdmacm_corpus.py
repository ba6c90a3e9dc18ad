#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_rdmacm's corpus: make_rdmacm_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import struct

import corpus_folder

(CHANNEL, ID, BIND, ADDR, ROUTE, LISTEN, QP, SRQ, CONNECT, ACCEPT, REJECT, ESTABLISH, NOTIFY, DISCONNECT, DESTROY, MIGRATE,
 OPTION, ECE, JOIN, LEAVE, ATTR, EVENTS, EP, REQUEST, DEVICES, ADDRINFO, WORK, TELL, END) = range(29)
TCP, UDP, IB, IPOIB, SYNC = range(5)
LOCAL, ANY, LOCAL6, ANY6, OTHER, GROUP, GROUP6, FOREIGN = range(8)
NONE = 255  # no source address
FD_LESS, FD_MORE, ENDS = 8, 16, 32  # enum change
SAME = b"\0"  # an answer that is not changed
ALL = 31 * 8  # EVENTS: as many as there are
TOLD_BYTES = 576
# enum rdma_cm_event_type
EVENT_TYPES = range(20)


def changed(*places, how=0):
    """An answer or event with these bytes: (position, value)."""
    return bytes([len(places) | how]) + b"".join(struct.pack("<HB", at, value) for at, value in places)


def word(at, value):
    return changed(*((at + n, value) for n in range(4)))


def act(action, which=0, *operands, answer=b""):
    body = bytes(operands) + answer
    return bytes([action, which, len(body)]) + body


def events(channel=0, answer=b""):
    return act(WORK, 15, 0, answer=answer) + act(EVENTS, ALL | channel)


def status(value):
    return changed(*((12 + n, byte) for n, byte in enumerate(struct.pack("<i", value))))


def listening(space=TCP, address=LOCAL):
    return act(CHANNEL, 0) + act(ID, 0, space) + act(BIND, 0, address) + act(LISTEN, 0, 5)


def resolved(space=TCP, address=LOCAL, qp=True):
    """Of the second id, on the other channel."""
    return (act(CHANNEL, 1) + act(ID, 1, space | 8) + act(ADDR, 1, NONE, address) + events(1) + act(ROUTE, 1) + events(1) +
            (act(QP, 1, 2) if qp else b""))


def both(space=TCP, address=LOCAL, qp=True):
    return listening(space, address) + resolved(space, address, qp)


def accepted(space=TCP, qp=True):
    """The request's id is the third one."""
    return (both(space, qp=qp) + act(CONNECT, 1, 2, 10) + events() + (act(QP, 2, 2) if qp else b"") + act(ACCEPT, 2, 2, 5) +
            events(1))


def connected(space=TCP, qp=True):
    return accepted(space, qp) + (b"" if qp else act(ESTABLISH, 1)) + events() + events(1)


def ended():
    return act(DISCONNECT, 1) + events() + events(1) + act(DISCONNECT, 2) + act(DESTROY, 1) + act(DESTROY, 2)


def ways():
    """Programs whose daemon does what it should."""
    for space in (TCP, UDP, IB, IPOIB):
        for address in (LOCAL, LOCAL6):
            yield both(space, address) + act(CONNECT, 1, 2, 10) + events() + act(ACCEPT, 2, 2, 5) + events(1) + ended()
        for qp in (True, False):
            yield connected(space, qp) + ended()
    yield both() + act(CONNECT, 1, 128, 56) + events() + act(REJECT, 2, 2) + events(1) + ended()
    yield connected() + act(DISCONNECT, 2) + events(1) + events() + ended()
    yield connected() + act(NOTIFY, 2) + act(ATTR, 1) + act(ATTR, 2) + act(ECE, 1, 7) + act(SRQ, 2) + ended()
    yield connected() + act(MIGRATE, 1, 1) + act(MIGRATE, 2, 2) + act(MIGRATE, 0, 0) + ended()
    for option in range(8):
        yield both() + act(OPTION, 1, option, 4) + act(OPTION, 1, option | 8) + act(CONNECT, 1, 2, 10) + events()
    yield both(qp=False) + act(OPTION, 1, 128) + events(1) + act(CONNECT, 1, 2, 10) + events()
    for group in (GROUP, GROUP6):
        for kind in (0, 128):
            member = resolved(UDP) + act(JOIN, 1, group | kind) + events(1)
            yield member + act(LEAVE, 1, group) + act(JOIN, 1, group) + act(DESTROY, 1)
            yield member + act(JOIN, 1, group | 16) + act(LEAVE, 1, group) + events(1)
    passive = act(EP, 0, 6) + act(LISTEN, 0, 5)
    yield passive + act(EP, 1, 4) + act(REQUEST, 0)
    yield passive + resolved() + act(CONNECT, 1, 2, 10) + act(REQUEST, 0) + act(ACCEPT, 2, 2, 5) + events(1)
    yield act(DEVICES) + act(EP, 1, 5) + act(CONNECT, 1, 2, 10) + act(DISCONNECT, 1)
    yield act(ID, 0, SYNC) + act(BIND, 0, LOCAL) + act(LISTEN, 0, 5) + act(REQUEST, 0)
    yield act(CHANNEL) + act(ID, 0, TCP) + act(ADDRINFO) + events() + act(ROUTE) + events() + act(DEVICES)
    yield (act(ID, 0, SYNC | UDP) + act(ADDR, 0, NONE, GROUP) + act(QP, 0, 2) + act(JOIN, 0, GROUP) + act(LEAVE, 0, GROUP))
    yield act(ID, 0, SYNC) + act(ADDRINFO, 0) + act(ROUTE, 0) + act(QP, 0, 0) + act(CONNECT, 0, 2, 10)
    for address in (OTHER, FOREIGN):
        yield resolved(address=address) + act(CONNECT, 1, 2, 10) + act(WORK, 15, 17) * 4 + events(1)
        yield act(CHANNEL) + act(ID, 0, TCP) + act(BIND, 0, address) + act(ADDR, 0, address, LOCAL) + events()


def ends():
    """The daemon goes, and comes again or does not."""
    for refused in (0, 1):
        for steps in (listening(), both(), accepted(), connected()):
            yield steps + act(END, refused) + events() + events(1) + ended()
            yield steps + act(END, refused) + act(DESTROY, 0) + act(ID, 3, TCP) + act(ID, 4, TCP | 8) + act(END, 0) + ended()
        yield act(ID, 0, SYNC) + act(END, refused) + act(ADDR, 0, NONE, LOCAL) + act(EP, 1, 4)


def steps():
    """(what a program has, what it does): each has an answer of its own."""
    channel, pair = act(CHANNEL), both()
    yield b"", CHANNEL, 0, ()
    yield channel, ID, 0, (TCP,)
    yield b"", ID, 0, (SYNC,)
    yield channel + act(ID, 0, TCP), BIND, 0, (LOCAL,)
    yield channel + act(ID, 0, TCP) + act(BIND, 0, LOCAL), LISTEN, 0, (5,)
    yield channel + act(ID, 0, TCP), ADDR, 0, (NONE, LOCAL)
    yield channel + act(ID, 0, TCP) + act(ADDR, 0, NONE, LOCAL), ROUTE, 0, ()
    yield both(qp=False), QP, 1, (2,)
    yield both(qp=False), SRQ, 1, ()
    yield pair, CONNECT, 1, (2, 10)
    yield both(qp=False), CONNECT, 1, (2, 10)
    yield pair + act(CONNECT, 1, 2, 10) + events() + act(QP, 2, 2), ACCEPT, 2, (2, 5)
    yield pair + act(CONNECT, 1, 2, 10) + events(), REJECT, 2, (1,)
    yield accepted(qp=False), ESTABLISH, 1, ()
    yield connected(), DISCONNECT, 1, ()
    yield connected(), ATTR, 1, ()
    yield connected(), MIGRATE, 1, (1,)
    yield connected(), MIGRATE, 1, (0,)
    yield connected(), DESTROY, 1, ()
    yield pair + act(CONNECT, 1, 2, 10), DESTROY, 0, ()
    yield resolved(UDP), JOIN, 1, (GROUP,)
    yield resolved(UDP) + act(JOIN, 1, GROUP) + events(1), LEAVE, 1, (GROUP,)
    yield b"", EP, 0, (4,)


def answers():
    """Every fourth word of the first answer, in turn, at its largest; other descriptors than there should be; and no answer."""
    for before, action, which, operands in steps():
        rest = events() + events(1) + act(CONNECT, 1, 2, 10) + events() + ended()
        for at in range(8, 120, 16):
            yield before + act(action, which, *operands, answer=word(at, 255)) + rest
        for answer in (bytes([FD_LESS]), bytes([FD_MORE, 1]), bytes([ENDS]), status(-11), status(-(1 << 31))):
            yield before + act(action, which, *operands, answer=SAME * (action == QP) + answer) + rest


def lies():
    """Events, changed or invented."""
    for kind in EVENT_TYPES:
        for has in (7, 143):
            yield accepted() + act(TELL, kind % 3, kind, has) * 2 + events() + events(1) + ended()
            yield connected() + act(TELL, 1, kind, has) + act(DESTROY, 1) + act(TELL, 2, kind, has) + events()
            yield resolved(UDP) + act(JOIN, 1, GROUP) + act(TELL, 1, kind, has) + events(1) + act(LEAVE, 1, GROUP)
            yield act(ID, 0, SYNC) + act(TELL, 0, kind, has) + act(ADDR, 0, NONE, LOCAL) + act(ROUTE, 0)
    for at in range(0, TOLD_BYTES, 16):
        yield both() + act(CONNECT, 1, 2, 10) + events(0, answer=word(at, 255)) + act(QP, 2, 2) + act(ACCEPT, 2, 2, 5)
        yield accepted() + act(TELL, 1, 5, 7, answer=word(at + 4, 255)) + events(1) + ended()
    for length in (0, 1, 255):
        yield accepted() + act(TELL, 1, 5, 7, answer=bytes([FD_LESS, length])) + events(1) + ended()


def corpus():
    yield from ways()
    yield from ends()
    yield from answers()
    yield from lies()


if __name__ == "__main__":
    corpus_folder.write(corpus())
