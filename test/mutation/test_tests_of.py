#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Does scripts/tests-of answer what the results of the mutation tests say? TAP; run with the source folder as argument."""
import pathlib
import re
import subprocess
import sys

import results
import table as faults

ROOT = pathlib.Path(sys.argv[1]).resolve()


def tests_of(*names):
    done = subprocess.run([sys.executable, ROOT / "scripts/tests-of", *names], capture_output=True, text=True, cwd="/")
    return done.returncode, done.stdout, done.stderr


def noticed(text):
    """What the lines of tests add up to."""
    return sum(map(int, re.findall(r"^ *(\d+)  \S", text, re.M)))


def every_file(table, known):
    paths = sorted({str(m.path) for m in table})
    status, out, _ = tests_of(*paths)
    return status == 0 and noticed(out) == sum(1 for m in table if known[m.name].program)


def most_first(table, known):
    _, out, _ = tests_of("pkt_parse.c")
    counts = [int(n) for n in re.findall(r"^ *(\d+)  \S", out, re.M)]
    return counts == sorted(counts, reverse=True) and counts


def end_of_a_path(table, known):
    names = [path.name for path in (ROOT / "lib").rglob("*.[ch]")]
    path = next(m.path for m in table if names.count(m.path.name) == 1)
    return tests_of(path.name) == tests_of(str(path)) == tests_of(str(ROOT / path))


def function(table, known):
    m = next(m for m in table if known[m.name].program)
    status, out, _ = tests_of(m.function)
    return status == 0 and str(m.path) in out and known[m.name].program in out


def without_faults(table, known):
    status, out, _ = tests_of("lib/verbs/device.c")
    return status == 0 and "no fault" in out


def unknown(table, known):
    for name in ("no_such.c", "no_such_function"):
        status, _, error = tests_of(name)
        if status != 1 or name not in error:
            return False
    return True


CASES = (every_file, most_first, end_of_a_path, function, without_faults, unknown)


def main():
    table, known = faults.read(ROOT / "test/mutation/mutations.txt"), results.read(ROOT)
    faults.find_all(table, faults.Tree(ROOT))
    table = [m for m in table if m.path and m.name in known]  # mutation_table reports the others
    failed = 0
    print(f"1..{len(CASES)}")
    for number, case in enumerate(CASES, 1):
        passed = case(table, known)
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {case.__name__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
