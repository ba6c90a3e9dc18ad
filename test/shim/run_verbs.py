#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_verbs over a loopback daemon, and over one that ends. Its own TAP, and a last point.

usage: run_verbs.py --build DIR TEST_VERBS"""
import argparse
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit


def points(daemon, program):
    out = subprocess.run([program], env=daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP"}), timeout=100, text=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = [line for line in out.stdout.splitlines() if line.startswith(("ok", "not ok", "#"))]
    if out.returncode:
        lines += ["# " + line for line in out.stdout.splitlines()]
    return lines, out.returncode


def end_of_the_daemon(daemon, program):
    process = subprocess.Popen([program, "end-of-the-daemon"], env=daemon.environment(), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        daemon.stop()
        return process.wait(20)
    finally:
        process.kill()


def idle_child(daemon, program):
    """A child that does not use its ended parent's context keeps it for some seconds (HEIR_SECONDS), or until it ends."""
    def left():
        process = subprocess.run([program, "idle-child"], env=daemon.environment(), text=True, timeout=20,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        return int(process.stdout)

    def lives(seconds):
        start = time.monotonic()
        while daemon.show("qps") and time.monotonic() - start < seconds:
            time.sleep(0.01)
        return time.monotonic() - start

    children = [left()]
    try:
        waited = lives(10)
        children.append(left())
        os.kill(children[1], signal.SIGKILL)
        return 2 < waited < 8 and lives(2) < 1
    finally:
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("program")
    arguments = options.parse_args()
    kit.die_on_signals()
    daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder())
    try:
        lines, status = points(daemon, arguments.program)
        idle = idle_child(daemon, arguments.program)
        alive = daemon.alive()
        fatal = end_of_the_daemon(daemon, arguments.program) if alive else "no daemon"
    finally:
        daemon.stop()
    print("\n".join(lines))
    count = sum(not line.startswith("#") for line in lines)
    ends = [("all points were reached", status == 0), ("uroced survives", alive), ("an idle child loses its ended parent's context", idle),
            ("the daemon's end is an event, and then an error", fatal == 0)]
    for number, (what, good) in enumerate(ends, count + 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
    print(f"1..{count + len(ends)}")
    return 0 if all(good for _, good in ends) else 1


if __name__ == "__main__":
    sys.exit(main())
