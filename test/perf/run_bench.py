#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/bench runs: a quick round of what needs no more than the tests do. TAP. usage: run_bench.py --build DIR"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

BENCH = os.path.join(HERE, "..", "..", "scripts", "bench")
PAGE = os.path.join(HERE, "..", "..", "doc", "performance.md")
CHOSEN = ("write_bw-8", "qps-100", "idle")


def bench(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=90)


def quick(build, folder):
    path = os.path.join(folder, "figures.json")
    before = os.stat(PAGE).st_mtime_ns
    only = [word for name in CHOSEN for word in ("--only", name)]
    out = bench("--build", build, "--quick", "--json", path, *only)
    if out.returncode != 0:
        raise kit.Failure(out.stdout + out.stderr)
    with open(path) as file:
        groups = json.load(file)["groups"]
    found = {result["name"]: result for group in groups for result in group["results"]}
    if not set(CHOSEN) <= set(found):
        raise kit.Failure(f"not measured: {set(CHOSEN) - set(found)}")
    for result in found.values():
        if result["problem"] or not result["rounds"] or result["value"] < 0:
            raise kit.Failure(json.dumps(result))
    if not found["qps-100"]["ratio"] > 0:
        raise kit.Failure("no ratio: " + json.dumps(found["qps-100"]))
    if os.stat(PAGE).st_mtime_ns != before:
        raise kit.Failure("a part of the figures was written to the page")


def again(folder):
    """The same figures from the file; what is not there is said."""
    out = bench("--from", os.path.join(folder, "figures.json"), "--no-doc")
    if out.returncode != 0 or "targets:" not in out.stdout:
        raise kit.Failure(out.stdout + out.stderr)


def refused(build):
    for arguments in (("--build", build, "--only", "no such thing"), ("--rounds", "0"), ("--from", "/no/such/file")):
        out = bench(*arguments)
        if out.returncode == 0 or "Traceback" in out.stderr or "bench: " not in out.stderr:
            raise kit.Failure(f"{arguments}: {out.stdout}{out.stderr}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    arguments = options.parse_args()
    kit.die_on_signals()
    folder = kit.scratch_folder()
    tap = kit.Tap(3)
    tap.point("a quick round of three comparisons", lambda: quick(arguments.build, folder))
    tap.point("figures from a file", lambda: again(folder))
    tap.point("what cannot be is refused", lambda: refused(arguments.build))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
