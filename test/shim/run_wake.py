#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_wake over loopback daemons with one worker and with several. TAP.

usage: run_wake.py --build DIR TEST_WAKE"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

WORKERS = (1, 2)
SLEEPS = 150  # of the messages that the program sends after a pause


def sleeps(daemon):
    return sum(worker["sleeps"] for worker in daemon.show()["workers"])


def main():
    arguments = kit.point_arguments("program", match=False)

    def points(daemon, label):
        results = kit.cmocka_points(daemon, arguments.program, label)
        slept = sleeps(daemon)
        return results + [(slept >= SLEEPS, f"a worker slept before each message, {label}", [f"{slept} times"])]

    return kit.print_points(kit.with_workers(arguments.build, WORKERS, points))


if __name__ == "__main__":
    sys.exit(main())
