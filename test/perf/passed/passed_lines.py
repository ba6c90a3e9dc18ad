#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Cache lines that two workers pass to each other while each serves queue pairs of its own: false sharing, mostly. TAP.

usage: passed_lines.py [--match MODE] [--top N] [--folder DIR]

Builds uroce-perf so that each access to memory is noted by its cache line (record.c), runs it with two workers, and
counts the accesses that found the line with the other worker. A longer run less a shorter one leaves out what is done
once. --top prints the lines of code that met the most; --folder keeps what is built in DIR."""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(HERE, "..", "..", "kit"))
import uroce_kit as kit

# For 1,000 messages. Each worker's bursts are of 32 messages: a line that each burst passes on would count 30 and more.
MOST = {"write": 1, "send": 1, "read": 1}
MESSAGES = 400000, 1600000
BUILD_SECONDS, RUN_SECONDS = 900, 120


def run(command, **more):
    result = subprocess.run(command, capture_output=True, text=True, **more)
    if result.returncode != 0:
        raise kit.Failure(f"{' '.join(command)}: exit status {result.returncode}:\n{result.stdout[-4000:]}{result.stderr[-4000:]}")
    return result.stdout


class Program:
    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "build/app/uroce-perf/uroce-perf")

    def build(self):
        record = os.path.join(self.folder, "record.o")
        build = os.path.join(self.folder, "build")
        run(["gcc", "-O2", "-c", os.path.join(HERE, "record.c"), "-o", record])
        if not os.path.exists(build):
            run(["meson", "setup", build, ROOT, "-Dwerror=false", "-Dexamples=false", "-Dtests=disabled", "-Db_pie=false",
                 "-Dc_args=-fsanitize=thread -fno-pie -g", f"-Dc_link_args={record} -no-pie"],
                env={**os.environ, "CC": "gcc"}, timeout=BUILD_SECONDS)
        run(["ninja", "-C", build, "app/uroce-perf/uroce-perf"], timeout=BUILD_SECONDS)

    def passed(self, mode, messages):
        """{place: accesses that found the line with another thread}, and the number of messages."""
        with tempfile.NamedTemporaryFile(mode="r", dir=self.folder) as found:
            text = run([self.path, "--", "--workers", "2", "--mode", mode, "--size", "8", "--qps", "16", "--floor", "off",
                        "--messages", str(messages), "--format", "json"],
                       env={**os.environ, "PASSED_LINES": found.name}, timeout=RUN_SECONDS)
            counts = collections.Counter()
            for line in found:
                place, reads, writes = line.split()
                counts[place] += int(reads) + int(writes)
        return counts, json.loads(text.splitlines()[0])["messages"]

    def where(self, place):
        lines = run(["addr2line", "-f", "-s", "-e", self.path, hex(int(place, 16) - 1)]).splitlines()
        return " ".join(lines)


def check(program, mode, top):
    program.build()
    few, first = program.passed(mode, MESSAGES[0])
    many, second = program.passed(mode, MESSAGES[1])
    many.subtract(few)
    thousands = (second - first) / 1000
    total = sum(n for n in many.values() if n > 0) / thousands
    for place, n in many.most_common(top):
        print(f"# {n / thousands:7.2f} {program.where(place)}")
    print(f"# {mode}: {total:.2f} cache lines for 1,000 messages, at most {MOST[mode]}", flush=True)
    if total > MOST[mode]:
        raise kit.Failure(f"{total:.2f} cache lines for 1,000 messages, more than {MOST[mode]}: see --top 20")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--match", default="", help="only points whose name contains this")
    parser.add_argument("--top", type=int, default=0, metavar="N")
    parser.add_argument("--folder", metavar="DIR")
    args = parser.parse_args()
    kit.die_on_signals()
    with tempfile.TemporaryDirectory(prefix="uroce-passed.") as scratch:
        program = Program(args.folder or scratch)
        return kit.run_points([(f"{mode}: workers keep their cache lines",
                                lambda mode=mode: check(program, mode, args.top)) for mode in MOST], args.match)


if __name__ == "__main__":
    sys.exit(main())
