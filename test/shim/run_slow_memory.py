#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_slow_memory over loopback daemons with one worker and with several. TAP.

usage: run_slow_memory.py --build DIR TEST_SLOW_MEMORY"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

WORKERS = (1, 2)
SECONDS = 100


def points(daemon, program, workers):
    """cmocka's lines, as (good, text, details)."""
    out = subprocess.run([program], env=daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP", "UROCE_MR": "copy"}),
                         timeout=SECONDS, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    lines = out.stdout.splitlines()
    if any(line.startswith("1..0") for line in lines):
        return [(True, f"memory that does not answer, workers: {workers} # SKIP no userfaultfd", [])]
    found = []
    for line in lines:
        if line.startswith(("ok ", "not ok ")):
            good = line.startswith("ok ")
            found.append((good, f"{line.split(' - ', 1)[-1]}, workers: {workers}", [] if good else lines))
    return found + [(out.returncode == 0, f"all points were reached, workers: {workers}", [])]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("program")
    arguments = options.parse_args()
    kit.die_on_signals()
    results = []
    for workers in WORKERS:
        daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder(),
                            arguments=("--loopback", "--workers", str(workers)))
        try:
            results += points(daemon, arguments.program, workers)
            results.append((daemon.alive(), f"uroced survives, workers: {workers}", [daemon.log()]))
        finally:
            daemon.stop()
    print(f"1..{len(results)}")
    for number, (good, what, details) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
        for line in [] if good else details:
            print("# " + line)
    return 0 if all(good for good, _, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
