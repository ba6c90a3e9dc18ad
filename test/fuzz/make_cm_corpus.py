#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_cm's corpus: make_cm_corpus.py VECTORS FOLDER. Exchanges of every kind, and the MADs of the captures."""
import pathlib
import struct
import sys

import corpus_folder

RAW, MESSAGE, AGAIN, TIME, CREATE, CALL = range(6)
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(11)
(CONNECT, LISTEN, SIDR, ACCEPT, REJECT, DELAY, ESTABLISH, NOTIFY, DISCONNECT, REPLY, DESTROY, QP) = range(12)
TCP, UDP, NATIVE, IB = range(4)
MAD_LEN = 256
SECONDS = (0, 10, 13, 17, 19)  # of STEP_TIME: 1 ms << n


def message(kind, host=0, which=0, damages=()):
    body = b"".join(bytes(damage) for damage in damages)
    return bytes([MESSAGE, kind, host, which, len(damages)]) + body


def raw(mad, host=0):
    return bytes([RAW, host]) + struct.pack(">H", len(mad)) + mad


def create(space, bound=1, exact=1, flags=0):
    return bytes([CREATE, space, bound] + ([] if space == NATIVE else [exact, flags]))


def call(what, n=0, *operands):
    return bytes([CALL, what, n, *operands])


def time(exponent):
    return bytes([TIME, exponent])


def mads(vectors):
    """The payloads of packets to queue pair 1 in the captures of the connection manager."""
    for path in sorted(pathlib.Path(vectors).glob("**/cm-*.pcap")):
        data = path.read_bytes()
        at = 24
        while at + 16 <= len(data):
            length = struct.unpack_from("<I", data, at + 8)[0]
            frame = data[at + 16:at + 16 + length]
            at += 16 + length
            headers = 14 + (20 if frame[12:14] == b"\x08\0" else 40) + 8
            bth = frame[headers:]
            if len(bth) == 12 + 8 + MAD_LEN + 4 and bth[5:8] == b"\0\0\1":
                yield bth[20:20 + MAD_LEN]


def corpus(vectors):
    listen, active = create(TCP) + call(LISTEN, 0, 0), create(TCP, 0) + call(CONNECT, 0, 15, 7, 0)
    passive = listen + message(REQ)
    established = passive + call(ACCEPT, 1) + message(RTU, 0, 1)
    connected = active + message(REP) + call(ESTABLISH)
    starts = [b"", listen, active, passive, passive + call(DELAY, 1, 20), passive + call(ACCEPT, 1), established,
              established + call(DISCONNECT, 1), established + message(DREQ, 0, 1), active + message(MRA),
              active + message(REP), active + message(REP) + call(DELAY, 0, 20), connected, connected + call(DISCONNECT),
              connected + call(DISCONNECT) + message(DREP), connected + message(DREQ),
              create(UDP) + call(LISTEN, 0, 0) + message(SIDR_REQ), create(UDP, 0) + call(SIDR, 0, 15, 7, 0),
              create(NATIVE) + call(CONNECT, 0, 0x2F, 7, 0)]
    for start in starts:
        for kind in range(11):
            for which in 0, 1:
                yield start + message(kind, 0, which) + bytes([AGAIN, 0]) + time(13) + message(kind, 1, which)
            yield start + message(kind, 0, 0, [(24 + 8, 0x40), (24 + 11, 10)]) + time(17)
        for what in range(12):
            for n in 0, 1:
                yield start + call(what, n, 7, 7, 7) + time(13) + call(DESTROY, n) + time(19)
        yield start + time(17) + time(19)
    for mad in mads(vectors):
        yield listen + raw(mad) + raw(mad, 1) + time(13)
    for kind, attribute in ((1, 1), (1, 16), (2, 1), (0x81, 1)):
        yield raw(bytes([1, 7, 2, kind]) + bytes(12) + struct.pack(">H", attribute) + bytes(238))
    for kind in 1, 0x81:
        peer = bytes([1, 0x35, 1, kind]) + bytes(12) + b"\0\x10" + bytes(19) + b"\2ur" + b"uroce\0\0\0\0\0\0\1"
        yield raw(peer.ljust(MAD_LEN, b"\0"))
    yield listen + b"".join(message(REQ, n, 0, [(24 + 3, n), (24 + 34, n)]) for n in range(1, 60))
    yield raw(b"") + raw(bytes(255)) + raw(bytes(264))


if __name__ == "__main__":
    corpus_folder.write(corpus(sys.argv[1]))
