#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_slow_memory over loopback daemons with these numbers of workers. TAP.

usage: run_slow_memory.py --build DIR [--workers N]... TEST_SLOW_MEMORY"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit


def main():
    arguments = kit.point_arguments("program", match=False, more=[
        ("--workers", {"type": int, "action": "append", "help": "again for each number; default 2"})])

    def points(daemon, label):
        results = kit.cmocka_points(daemon, arguments.program, label, {"UROCE_MR": "copy"})
        return results + [(daemon.alive(), f"uroced survives, {label}", [daemon.log()])]

    return kit.print_points(kit.with_workers(arguments.build, arguments.workers or [2], points))


if __name__ == "__main__":
    sys.exit(main())
