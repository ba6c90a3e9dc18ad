#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes fuzz_memory's corpus: make_memory_corpus.py VECTORS FOLDER. (The captures are of no use for it.)"""
import itertools

import corpus_folder

MAP, UNMAP, TOUCH, TRUNCATE, PUNCH, FILL, SEAL, PROTECT, COPY, ATOMIC, FREEZE, REACH = range(12)
WRITES, READS = 7, 2
UNSEALED = 3  # the file


def inside(page, byte):
    """A position that is not a page's first byte."""
    return bytes([128 | page, byte])


def pages(n):
    return bytes([n])


def mapping(*pieces, region=0, file=0, access=WRITES, addr=pages(3), wrong=0):
    body = b"".join(offset + length + b"\0" for offset, length in pieces)
    return bytes([MAP, region, file, access]) + addr + bytes([len(pieces)]) + body + bytes([wrong])


def touch(at=pages(0), region=0):
    return bytes([TOUCH, region]) + at + b"\x5a"


def change(action, at, length=pages(1), file=0):
    return bytes([action, file]) + at + length


def copy(how, *ranges):
    return bytes([COPY, how, len(ranges) - 1]) + b"".join(addr + length for addr, length in ranges)


def corpus():
    whole = mapping((pages(0), pages(16)))
    two = mapping((pages(0), pages(4)), (pages(8), pages(4)))
    odd = mapping((inside(2, 100), inside(1, 7)), addr=inside(5, 100))
    for made in (whole, two, odd, mapping((pages(4), inside(1, 50))), mapping((pages(0), pages(16)), file=UNSEALED),
                 mapping((pages(8), pages(9))), mapping((pages(0), pages(4)), wrong=1), mapping((pages(0), pages(4)), access=READS),
                 mapping((inside(0, 9), pages(4)), (pages(8), pages(4))), mapping((pages(0), pages(0)), (pages(8), pages(4)))):
        yield made + touch() + touch(pages(3)) + touch(inside(7, 9)) + bytes([UNMAP, 0]) + made + touch()
        for action, file in itertools.product((TRUNCATE, PUNCH, FILL), (0, UNSEALED)):
            yield made + change(action, pages(2), pages(3), file) + touch(pages(2)) + touch(pages(3)) + bytes([UNMAP, 0])
            yield change(action, pages(2), pages(3), file) + made + touch(pages(2)) + touch(pages(3))
        for seal in range(5):
            yield change(SEAL, pages(seal)) + made + touch() + change(SEAL, pages(seal)) + change(TRUNCATE, pages(1)) + touch()
            yield change(SEAL, pages(seal), file=UNSEALED) + change(TRUNCATE, pages(1), file=UNSEALED) + made + touch()
    yield mapping((pages(0), b"\x01"), region=1) + bytes([MAP, 0, 0, 7, 3, 1, 0, 1, 255, 0])
    yield b"".join(mapping((pages(n), pages(2)), region=n) + touch(region=n) for n in range(8))
    for how in range(4):
        yield copy(how, (pages(1), pages(1)), (inside(2, 50), inside(0, 90)), (pages(4), inside(1, 3)))
        yield copy(how, (pages(0), pages(1))) + copy(how, (inside(16, 200), inside(0, 200)), (pages(1), pages(1)))
        for protection in range(3):
            yield (bytes([PROTECT, 2, 1, protection]) + copy(how, (pages(2), inside(1, 99)), (pages(3), pages(1)), (pages(6), pages(1))) +
                   bytes([ATOMIC, how]) + inside(3, 64) + b"\1\2")
        yield bytes([ATOMIC, how]) + pages(1) + b"\1\0" + bytes([ATOMIC, how]) + pages(0) + b"\1\0"
    yield bytes([FREEZE, 9, REACH]) + copy(1, (pages(1), pages(1)))


if __name__ == "__main__":
    corpus_folder.write(corpus())
