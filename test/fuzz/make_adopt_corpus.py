#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_adopt's corpus: make_adopt_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import itertools

import corpus_folder

ACQUIRE, RELEASE, COPIED, REFUSED, FORK, MAP, UNMAP, SHARED, PROTECT, FILL = range(10)
WRITES, MOVE, AGAIN, ANYTIME, DAEMON_REFUSES = 1, 2, 4, 8, 128


def acquire(lease, first, pages, less=0, flags=WRITES | MOVE, kind=ACQUIRE):
    return bytes([kind, lease, first, pages - 1, less, flags])


def change(action, first, pages, how=0):
    return bytes([action, first, pages - 1, how])


def corpus():
    for flags in range(16):
        yield acquire(0, 4, 8, 100, flags) + acquire(1, 8, 16, 0, flags) + bytes([RELEASE, 0]) + acquire(2, 40, 20, 7, flags)
    changes = [change(action, 6, 3, how) for action in (MAP, UNMAP, SHARED, PROTECT, FILL) for how in (0, 1, 2, 77)]
    for one, two in itertools.product(changes[::2], changes):
        yield acquire(0, 4, 8) + one + two + acquire(1, 2, 20) + bytes([RELEASE, 0]) + two
        yield one + acquire(0, 4, 8) + bytes([FORK]) + two + acquire(1, 2, 20, flags=7) + bytes([RELEASE, 0, RELEASE, 1])
    for flags in (3, 7, 11, 15, 7 | DAEMON_REFUSES):
        yield acquire(0, 4, 8, kind=COPIED) + acquire(1, 2, 20, flags=flags) + change(FILL, 0, 30, 9) + bytes([RELEASE, 0])
    yield acquire(0, 4, 8) + bytes([REFUSED, 0]) + acquire(1, 4, 8) + bytes([FORK, FORK, RELEASE, 1]) + acquire(2, 4, 8)
    yield b"".join(acquire(n, n * 10, 9) + change(FILL, n * 10, 3, n) for n in range(8)) + bytes([FORK])
    yield b"".join(change(PROTECT, n, 1, 1 + n % 4 // 2) for n in range(40)) + acquire(0, 0, 40, flags=2) + acquire(1, 0, 40)


if __name__ == "__main__":
    corpus_folder.write(corpus())
