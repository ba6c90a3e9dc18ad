#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The pictures of the packet's path are true: each stage named in them is a function or a file of lib/ or drivers/.
TAP; run with the source folder as argument."""
import os
import re
import sys

from layers import lines, sources

PAGES = ("README.md", "lib/transport/README.md")
STAGE = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b(?!\()")
DEFINITION = re.compile(r"^(?:[A-Za-z_].*[ *])?([a-z]\w+)\(")


def pictures(text):
    """The lines of indented blocks that have an arrow: (number, line)."""
    block, found = [], []
    for n, line in list(enumerate(text, 1)) + [(0, "end")]:
        if line.startswith("    ") or (block and not line):
            block.append((n, line))
            continue
        if any("→" in line for _, line in block):
            found += block
        block = []
    return found


def names(root):
    """Functions and file stems."""
    known = set()
    for path in sources(root):
        if path.startswith(("lib/", "drivers/")) and path.endswith((".c", ".h")):
            known.add(os.path.splitext(os.path.basename(path))[0])
            known.update(m[1] for m in map(DEFINITION.match, lines(root, path)) if m)
            known.update(re.findall(r"^struct (\w+) \{", "\n".join(lines(root, path)), re.M))
    return known


def main():
    root, known, failed = sys.argv[1], names(sys.argv[1]), 0
    print(f"1..{len(PAGES)}")
    for number, page in enumerate(PAGES, 1):
        stages = [(n, stage) for n, line in pictures(lines(root, page)) for stage in STAGE.findall(line)]
        missing = [(n, stage) for n, stage in stages if stage not in known]
        failed += bool(missing) or len(stages) < 10
        print(f"{'not ok' if missing or len(stages) < 10 else 'ok'} {number} - {page}: {len(stages)} stages exist")
        for n, stage in missing:
            print(f"# {page}:{n}: {stage} is neither a function nor a file")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
