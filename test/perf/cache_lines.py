#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Cache lines that a message needs from memory when many queue pairs are busy, counted by cachegrind. TAP.

usage: cache_lines.py --build DIR [--match MODE] [--top N]

uroce-perf has 2,000 queue pairs with four messages each: more state than the simulated last-level cache, of 512 KiB,
holds. A longer run less a shorter one leaves out what is done once. --top prints the functions that wait most; with
-Ddebug=true, the lines of code."""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

# The most that a message may need, the benchmark's own ones included.
MOST = {"write": 17, "send": 20, "read": 21}
QUEUE_PAIRS, DEPTH, SIZE = 2000, 4, 8
MESSAGES = 24000, 64000
CACHES = ("--D1=32768,8,64", "--LL=524288,16,64")
SECONDS = 150


def misses(program, mode, messages):
    """{place: lines that were read or written and were in no cache} of a run."""
    with tempfile.TemporaryDirectory(prefix="uroce-lines.") as folder:
        out = os.path.join(folder, "out")
        result = subprocess.run(
            ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES, f"--cachegrind-out-file={out}", program, "--",
             "--mode", mode, "--size", str(SIZE), "--qps", str(QUEUE_PAIRS), "--depth", str(DEPTH), "--floor", "off",
             "--messages", str(messages), "--format", "json"],
            capture_output=True, text=True, timeout=SECONDS)
        if result.returncode != 0:
            raise kit.Failure(f"uroce-perf: exit status {result.returncode}:\n{result.stdout}{result.stderr}")
        with open(out) as file:
            return counted(file)


def counted(lines):
    found, place, function, columns = collections.Counter(), "", "", []
    for line in lines:
        key, _, value = line.rstrip("\n").partition("=")
        if key in ("fl", "fi", "fe"):
            place = value
        elif key == "fn":
            function = value
        elif line.startswith("events:"):
            columns = [1 + i for i, event in enumerate(line.split()[1:]) if event in ("DLmr", "DLmw")]
        elif line[:1].isdigit():
            fields = line.split()
            where = f"{function}, {os.path.basename(place)}:{fields[0]}" if fields[0] != "0" else function
            found[where] += sum(int(fields[i]) for i in columns)
    return found


def count(program, mode):
    """{place: lines a message}."""
    few, many = (misses(program, mode, n) for n in MESSAGES)
    many.subtract(few)
    return {place: n / (MESSAGES[1] - MESSAGES[0]) for place, n in many.items()}


def check(program, mode, top):
    found = count(program, mode)
    total = sum(found.values())
    for place, n in sorted(found.items(), key=lambda item: -item[1])[:top]:
        print(f"# {n:6.2f} {place}")
    print(f"# {mode}: {total:.1f} cache lines a message, at most {MOST[mode]}", flush=True)
    if total > MOST[mode]:
        raise kit.Failure(f"{total:.1f} cache lines a message, more than {MOST[mode]}: see --top 40")


def main():
    args = kit.point_arguments(more=(("--top", {"type": int, "default": 0, "metavar": "N"}),))
    program = os.path.join(args.build, "app/uroce-perf/uroce-perf")
    if shutil.which("valgrind") is None:
        print("1..0 # SKIP there is no valgrind")
        return 0
    return kit.run_points([(f"{mode}: what a message needs is in few cache lines",
                            lambda mode=mode: check(program, mode, args.top)) for mode in MOST], args.match)


if __name__ == "__main__":
    sys.exit(main())
