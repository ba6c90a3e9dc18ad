#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_server's corpus: make_server_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import corpus_folder
import make_ctl_corpus as ctl

CONNECT, SEND, STEP, READ, CLOSE, SHUTDOWN = range(6)
NONE, MAGIC, VERSION, LENGTH, CREDENTIALS, MANY, POSTED = range(7)
CLIENTS = 4
# Bytes of the actions of fuzz_ctl that have no meaning here, of the input from the opcode on.
OTHERS = {
    ctl.POLL: lambda action: 4,
    ctl.POST: lambda action: 9,
    ctl.WRITE: lambda action: 6 + action[5],
    ctl.CONTROL: lambda action: 3,
    ctl.MAD: lambda action: 6 + 2 * action[5],
    ctl.FRAME: lambda action: 3 + action[2],
    ctl.ADD_PORT: lambda action: 1,
}


def send(kind, body=b"", client=0, fds=0, first=0, flaw=NONE, length=None):
    size = bytes([length & 255, length >> 8]) if flaw == LENGTH else b""
    return bytes([SEND, client, kind, fds | first << 3, flaw]) + size + bytes([len(body)]) + body


def step(n=3):
    return bytes([STEP, n])


def connect(client=0):
    return bytes([CONNECT, client])


def served(*args, **kwargs):
    """A message that is answered, and whose reply is read."""
    client = kwargs.get("client", 0)
    return send(*args, **kwargs) + step() + bytes([READ, client])


def translated(actions):
    """The messages of an input of fuzz_ctl, over the socket."""
    made, at = connect(0) + connect(1) + connect(2), 0
    while at < len(actions):
        action = actions[at]
        if action == ctl.MESSAGE:
            kind, client, fd, size = actions[at + 1:at + 5]
            made += served(kind, actions[at + 5:at + 5 + size], client=client % 3, fds=fd & 1)
            at += 5 + size
        elif action == ctl.CLOSE:
            made += bytes([CLOSE, actions[at + 1]]) + step() + connect(actions[at + 1])
            at += 2
        else:
            at += OTHERS[action](actions[at:])
    return made


def corpus():
    yield from map(translated, ctl.corpus())
    opened = connect() + served(ctl.OPEN, bytes(4))
    for flaw in range(MANY + 1):
        for kind in (ctl.QUERY_DEVICE, ctl.REG_MR, ctl.OPEN_XRCD, 200):
            for fds in (0, 1, 5):
                yield opened + send(kind, bytes(64), fds=fds, flaw=flaw, length=8) + step() + served(ctl.ALLOC_PD)
    for length in (0, 1, 511, 513, 4096, 65535):
        yield connect() + send(1, flaw=LENGTH, length=length) + step() + bytes([READ, 0])
        yield connect() + send(1, flaw=LENGTH, length=length, fds=3) + step() + bytes([READ, 0])
    for first in range(7):
        for kind in (ctl.REG_MR, ctl.OPEN_XRCD, ctl.REMAP_MR):
            yield opened + served(ctl.ALLOC_PD) + served(kind, bytes(96), fds=1, first=first) + bytes([CLOSE, 0]) + step()
    for how in range(3):
        yield opened + send(ctl.ALLOC_PD) + bytes([SHUTDOWN, 0, how]) + step() + served(ctl.ALLOC_PD)
    # Replies that are not read, messages that are not served, clients that come and go.
    yield opened + (send(ctl.SHOW, bytes(8)) + step(1)) * 60 + bytes([READ, 0]) + step(255)
    yield opened + send(ctl.REG_MR, bytes(64), fds=4) * 60 + bytes([CLOSE, 0]) + step(255)
    yield b"".join(connect(n % CLIENTS) + send(ctl.OPEN, bytes(4), client=n % CLIENTS) for n in range(40)) + step(255)


if __name__ == "__main__":
    corpus_folder.write(corpus())
