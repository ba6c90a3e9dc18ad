#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/generated/rdma-core-44.md: each test of rdma-core 44's suite, from the lists of those that pass and of those that skip
with the reason. TAP: the page is what the lists say, and these name each test once.

usage: rdma_core_page.py SOURCE [--write]"""
import collections
import os
import sys

TESTS = 273
PASS, SKIP, PAGE = "test/shim/rdma-core-44.txt", "test/shim/rdma-core-44-skips.txt", "doc/generated/rdma-core-44.md"
HEAD = """# rdma-core 44's test suite

Each of the {tests} tests of the suite that Debian 12 ships with python3-pyverbs, over the loopback device: {passed} pass, {skipped} skip. Of
the skipped ones {provider} test interfaces of one vendor's devices. `test/shim/run_rdma_core.py` runs the suite and compares it with the
two lists beside it, from which `test/shim/rdma_core_page.py . --write` writes this page.

## Why tests skip

| tests | reason |
|---:|---|
"""


def lines(source, name):
    with open(os.path.join(source, name)) as file:
        return [line.rstrip("\n") for line in file if line.strip() and line[0] != "#"]


def outcomes(source):
    """[(name, None or the reason)], in the order of names."""
    found = [(name, None) for name in lines(source, PASS)]
    found += [tuple(line.split(": ", 1)) for line in lines(source, SKIP)]
    return sorted(found)


def page(found):
    reasons = collections.Counter(reason for _, reason in found if reason)
    provider = sum(count for reason, count in reasons.items() if "own interface" in reason or "CUDA" in reason)
    skipped = sum(reasons.values())
    text = HEAD.format(tests=len(found), passed=len(found) - skipped, skipped=skipped, provider=provider)
    text += "".join(f"| {count} | {reason} |\n" for reason, count in reasons.most_common())
    module = None
    for name, reason in found:
        if name.split(".")[1] != module:
            module = name.split(".")[1]
            text += f"\n## {module}\n\n| test | |\n|---|---|\n"
        text += f"| {'.'.join(name.split('.')[2:])} | {'skip: ' + reason if reason else 'pass'} |\n"
    return text


def main():
    source = sys.argv[1]
    found = outcomes(source)
    path = os.path.join(source, PAGE)
    if "--write" in sys.argv:
        with open(path, "w") as file:
            file.write(page(found))
        return 0
    with open(path) as file:
        checks = [(len(found) == TESTS, f"{TESTS} tests are listed"),
                  (len({name for name, _ in found}) == len(found), "each one once"),
                  (file.read() == page(found), f"{PAGE} is what the lists say")]
    print(f"1..{len(checks)}")
    for number, (good, what) in enumerate(checks, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
    return 0 if all(good for good, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
