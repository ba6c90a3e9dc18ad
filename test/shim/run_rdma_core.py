#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own test suite, as Debian ships it with python3-pyverbs, over a loopback device. TAP: a point per test
of the generic part. Tests named in rdma-core-44.txt must pass; the others may also skip, but not fail.

usage: run_rdma_core.py --build DIR [--workers N] [--list]"""
import argparse
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # pyverbs is built for Debian's own
PROVIDER = re.compile(r"tests\.test_(mlx5|efa|cuda)")
SECONDS = 240


def unpack(folder):
    suite = os.path.join(folder, "tests")
    shutil.copytree(SUITE, suite)
    for packed in glob.glob(os.path.join(suite, "*.gz")):
        with gzip.open(packed) as source, open(packed[:-3], "wb") as target:
            shutil.copyfileobj(source, target)
        os.unlink(packed)
    return suite


def results(text):
    """{test: (outcome, reason)} of unittest's verbose output; a test with a docstring has its outcome a line later."""
    found, current = {}, None
    for line in text.splitlines():
        name = re.match(r"(\w+) \((tests\.[\w.]+)\)", line)
        if name:
            current = name.group(2)
        outcome = re.search(r"\.\.\. (ok|FAIL|ERROR|skipped)\b ?(.*)$", line)
        if outcome and current:
            found[current] = outcome.groups()
            current = None
    return found


def required():
    with open(os.path.join(HERE, "rdma-core-44.txt")) as names:
        return {line.strip() for line in names if line.strip() and line[0] != "#"}


def run_suite(daemon, suite):
    command = [PYTHON, "run_tests.py", "-v", "--dev", "uroce0", "--port", "1", "--gid", "0"]
    done = subprocess.run(command, cwd=suite, env=daemon.environment(), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    return done.stdout


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--workers", default="1")
    options.add_argument("--list", action="store_true", help="print the names of the tests that pass")
    arguments = options.parse_args()
    if not os.path.isdir(SUITE) or subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True).returncode:
        print("1..0 # SKIP python3-pyverbs and its tests are not installed")
        return 0

    kit.die_on_signals()
    folder = kit.scratch_folder()
    daemon = kit.Daemon(kit.Build(arguments.build), folder, arguments=("--loopback", "--workers", arguments.workers))
    try:
        text = run_suite(daemon, unpack(folder))
        alive = daemon.alive()
    finally:
        daemon.stop()
    found = {name: result for name, result in results(text).items() if not PROVIDER.match(name)}
    if arguments.list:
        print("\n".join(sorted(name for name, result in found.items() if result[0] == "ok")))
        return 0

    must = required()
    names = sorted(found.keys() | must)
    failed = not alive
    print(f"1..{len(names) + 1}")
    for number, name in enumerate(names, 1):
        outcome, reason = found.get(name, ("missing", ""))
        good = outcome == "ok" or outcome == "skipped" and name not in must
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}" + (f" # SKIP {reason}" if outcome == "skipped" else ""))
        if not good:
            print(f"# {outcome}")
    print(f"{'ok' if alive else 'not ok'} {len(names) + 1} - uroced survives")
    if failed:
        print("\n".join("# " + line for line in text.splitlines()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
