#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections in masses by one program, and what another one notices. TAP.

usage: run_cm_storm.py --build DIR CM_STORM"""
import os
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

CONNECTIONS = 10000
IDS = 100000
UNREAD = 3000


def used(daemon):
    return sum(row["used"] for row in daemon.show("quotas") if row["kind"] == "cm_ids")


def wait_for_none(daemon):
    """Ids that a program left behind end in slices of the control thread's time."""
    deadline = time.monotonic() + 20
    while used(daemon):
        if time.monotonic() > deadline:
            raise kit.Failure(f"{used(daemon)} ids are left")
        select.select([], [], [], 0.05)


class Holder:
    """A program that has something, until the block ends: then it is killed."""

    def __init__(self, daemon, program, *arguments):
        self.process = subprocess.Popen([program, *map(str, arguments)], env=daemon.environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        readable, _, _ = select.select([self.process.stdout], [], [], 120)
        said = self.process.stdout.readline() if readable else "nothing"
        if said != "ready\n":
            self.process.kill()
            raise kit.Failure(f"{arguments}: it said {said!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def storm(daemon, program, n, window, backlog):
    out = subprocess.run([program, "connects", str(n), str(window), str(backlog)], env=daemon.environment(),
                         capture_output=True, text=True, timeout=240)
    if out.returncode or not out.stdout.startswith(f"{n} established, {n} at the other end"):
        raise kit.Failure(f"{out.returncode}: {out.stdout}{out.stderr}")
    return out.stdout.strip()


def main():
    arguments = kit.point_arguments("program")
    daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder())

    def connects():
        print("# " + storm(daemon, arguments.program, CONNECTIONS, 256, 0))
        wait_for_none(daemon)

    def small_backlog():
        """What finds no room is repeated by the peer, after 4.3 s."""
        print("# " + storm(daemon, arguments.program, 20, 4, 1))

    def beside(what, n):
        with Holder(daemon, arguments.program, what, n):
            if used(daemon) < n:
                raise kit.Failure(f"{used(daemon)} ids")
            print("# beside: " + storm(daemon, arguments.program, 200, 16, 0))
        wait_for_none(daemon)

    points = [("10,000 connections by one program", connects),
              ("a backlog of one", small_backlog),
              ("beside a program with 100,000 ids, which is killed", lambda: beside("ids", IDS)),
              ("beside requests that a program never reads", lambda: beside("unread", UNREAD))]
    try:
        return kit.run_points(points, arguments.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
