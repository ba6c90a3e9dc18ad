#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What adopting registered memory is worth: perftest with UROCE_MR=copy and auto in turn, as Markdown.

usage: test/perf/memory.py [--build DIR] [--rounds N]

Medians of the rounds; the last column is the median of the ratios of two runs in a row."""
import argparse
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

# command, what, unit, column of perftest's row (average bandwidth, message rate, or typical latency), its factor
ROWS = (("ib_write_bw -s 65536 -n 20000", "WRITE 64 KiB", "MB/s", 3, 1),
        ("ib_write_bw -s 4096 -n 50000", "WRITE 4 KiB", "MB/s", 3, 1),
        ("ib_write_bw -s 8 -n 100000", "WRITE 8 B", "1000/s", 4, 1000),
        ("ib_read_bw -s 65536 -n 10000", "READ 64 KiB", "MB/s", 3, 1),
        ("ib_send_bw -s 4096 -n 50000", "SEND 4 KiB", "MB/s", 3, 1),
        ("ib_send_lat -s 8 -n 20000", "SEND 8 B, half a round trip", "us", 4, 1),
        ("ib_write_lat -s 8 -n 20000", "WRITE 8 B, half a round trip", "us", 4, 1))


def measure(daemon, command, column, factor):
    values = {}
    for mode in ("copy", "auto"):
        words = command.split()
        _, text = kit.run_pair(daemon, [words[0], "-F", "-x", "0", *words[1:]], extra_environment={"UROCE_MR": mode},
                               seconds=200)
        values[mode] = kit.check_perftest(text)[0][column] * factor
    return values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    kit.die_on_signals()
    daemon = kit.Daemon(kit.Build(options.build), kit.scratch_folder())
    try:
        print("| what | unit | copied | adopted | adopted / copied |\n|---|---|---|---|---|", flush=True)
        for command, what, unit, column, factor in ROWS:
            rounds = [measure(daemon, command, column, factor) for _ in range(options.rounds)]
            copied, adopted = (statistics.median(r[mode] for r in rounds) for mode in ("copy", "auto"))
            ratio = statistics.median(r["auto"] / r["copy"] for r in rounds)
            print(f"| {what} | {unit} | {copied:.4g} | {adopted:.4g} | {ratio:.2f} |", flush=True)
    finally:
        daemon.stop()


if __name__ == "__main__":
    main()
