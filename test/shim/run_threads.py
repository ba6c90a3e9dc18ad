#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_threads over loopback daemons, with one worker and with two. Where it is built with ThreadSanitizer (config/tsan.ini), a data race
in the program or in its libraries fails a point; the daemon is then another build's (UROCE_TEST_DAEMON, as in scripts/test). TAP.

usage: run_threads.py --build DIR [--rounds N] TEST_THREADS"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

REPORT = "WARNING: ThreadSanitizer"


# Work requests are timed, so that posting and polling threads share what they keep of one.
TIMED = "[uroced]\nworkers = {}\nlatency = yes\n[port.0]\ndevice = loopback\naddress = 127.0.0.1\n"


def many_threads(build, workers, arguments, timed=False):
    folder = kit.scratch_folder()
    options = ["--loopback", "--workers", str(workers)]
    if timed:
        options = ["-c", os.path.join(folder, "uroced.conf")]
        with open(options[1], "w") as file:
            file.write(TIMED.format(workers))
    daemon = kit.Daemon(build, folder, arguments=options)
    try:
        out = subprocess.run([arguments.program, str(arguments.rounds)], env=daemon.environment(), timeout=250, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if out.returncode or REPORT in out.stdout:
            raise kit.Failure(f"exit status {out.returncode}:\n{out.stdout}")
        if not daemon.alive():
            raise kit.Failure(daemon.log())
    except subprocess.TimeoutExpired as late:
        raise kit.Failure(f"not done in time:\n{(late.stdout or b'').decode()}")
    finally:
        daemon.stop()


def end_of_the_daemon(build, workers, arguments):
    daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", "--workers", str(workers)))
    process = subprocess.Popen([arguments.program, "end"], env=daemon.environment(), text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        first = process.stdout.readline()
        daemon.process.kill()
        rest = process.communicate(timeout=60)[0]
        if first != "at work\n" or process.returncode or REPORT in rest:
            raise kit.Failure(f"exit status {process.returncode}:\n{first}{rest}")
    except subprocess.TimeoutExpired:
        raise kit.Failure("the program does not notice the daemon's end")
    finally:
        process.kill()
        daemon.stop()


def main():
    arguments = kit.point_arguments("program", more=[("--rounds", {"type": int, "default": 60})])
    build = kit.Build(arguments.build)
    points = [(f"workers: {n}", lambda n=n: many_threads(build, n, arguments)) for n in (1, 2)]
    points += [("workers: 2, timed", lambda: many_threads(build, 2, arguments, timed=True))]
    points += [(f"the daemon ends, workers: {n}", lambda n=n: end_of_the_daemon(build, n, arguments)) for n in (1, 2)]
    return kit.run_points(points, arguments.match)


if __name__ == "__main__":
    sys.exit(main())
