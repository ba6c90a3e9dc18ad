#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Workers with CPUs of their own: `uroced --cpus LIST --poll MODE`. TAP.

usage: run_reserved.py --build DIR"""
import contextlib
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

build = None
ALL = sorted(os.sched_getaffinity(0))
OTHER = next(cpu for cpu in range(1024) if cpu not in ALL)


@contextlib.contextmanager
def serving(*options):
    daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", *options))
    try:
        yield daemon
    finally:
        daemon.stop()


def cpus_of(daemon, name):
    """The CPUs of a thread of the daemon."""
    tasks = f"/proc/{daemon.process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/comm") as comm:
            if comm.read().strip() == name:
                return sorted(os.sched_getaffinity(int(task)))
    raise kit.Failure(f"there is no thread {name}")


def served(options, check):
    """A program works, and no other thread of the daemon is bound to the worker's CPU."""
    with serving(*options) as daemon:
        if cpus_of(daemon, "uroce-w0") != ALL[-1:] or cpus_of(daemon, "uroce-watch") != ALL:
            raise kit.Failure("the worker is not where it should be, or others are not elsewhere")
        kit.check_pingpong(kit.run_pair(daemon, "ibv_rc_pingpong -g 0 -n 1000".split())[1], iterations=1000)
        check(daemon)


def never_sleeps(daemon):
    time.sleep(0.3)  # idle
    worker = daemon.show("workers")[0]
    if worker["sleeps"] or worker["yields"] or worker["mode"] != "polling":
        raise kit.Failure(f"it has slept or yielded: {worker}")


def sleeps(daemon):
    kit.wait_until(lambda: daemon.show("workers")[0]["mode"] == "asleep", 10, "the worker sleeps")


def refused(options, sentence):
    done = subprocess.run([build.uroced, "--loopback", "--socket", kit.scratch_folder() + "/s", *options], capture_output=True,
                          text=True, timeout=10)
    if done.returncode != 2 or sentence not in done.stderr:
        raise kit.Failure(f"{options}: status {done.returncode}: {done.stderr}")


def several():
    """A worker for each CPU of the list, unless --workers says otherwise."""
    if len(ALL) < 2:
        raise kit.Skipped("there is one CPU")
    with serving("--cpus", f"{ALL[1]},{ALL[0]}") as daemon:
        if cpus_of(daemon, "uroce-w0") != [ALL[1]] or cpus_of(daemon, "uroce-w1") != [ALL[0]]:
            raise kit.Failure("the workers are not in the list's order")


POINTS = (
    ("a worker that always polls, on its CPU", lambda: served(["--cpus", str(ALL[-1]), "--poll", "always"], never_sleeps)),
    ("a worker that sleeps, on its CPU", lambda: served(["--cpus", str(ALL[-1])], sleeps)),
    ("a worker for each CPU", several),
    ("a CPU that cannot be used", lambda: refused(["--cpus", str(OTHER)], f"CPU {OTHER} cannot be used")),
    ("a CPU that is there twice", lambda: refused(["--cpus", f"{ALL[0]},{ALL[0]}"], "is there twice")),
    ("fewer CPUs than workers", lambda: refused(["--cpus", str(ALL[0]), "--workers", "2"], "less than the 2 of the workers")),
    ("always polling without a CPU", lambda: refused(["--poll", "always"], "needs a CPU of its own")),
    ("no list of CPUs", lambda: refused(["--cpus", "0-"], "bad value")),
    ("no mode of polling", lambda: refused(["--poll", "never"], "bad value")),
)


def main():
    global build
    arguments = kit.point_arguments()
    build = kit.Build(arguments.build)
    return kit.run_points(POINTS, arguments.match)


if __name__ == "__main__":
    sys.exit(main())
