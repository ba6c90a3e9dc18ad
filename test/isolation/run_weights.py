#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Users with weights: programs that always have work move bytes in the proportion of their users' weights. TAP.

usage: run_weights.py --build DIR ATTACKER"""
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "shim")]
import uroce_kit as kit
from shared_daemon import OTHER, VICTIM, SharedDaemon

SECONDS, PERIODS, TRIES = 1.5, 3, 3  # the median of periods; other programs on the machine keep one from its work for a while
TOLERANCE = 1.25


def moved(daemon):
    """Bytes that each user's queue pairs have sent."""
    uid = {client["pid"]: client["uid"] for client in daemon.show("clients")}
    total = {}
    for qp in daemon.show("qps"):
        user = uid.get(qp["pid"])
        total[user] = total.get(user, 0) + qp["tx_bytes"]
    return total


def start(daemon, program, uid, pairs):
    process = subprocess.Popen([program, str(uid), "polling", str(pairs)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               text=True, env=daemon.environment())
    if process.stdout.readline().strip() != "ready":
        process.kill()
        raise kit.Failure("the program does not begin")
    return process


def share(build, program, weight, victims, others):
    """What VICTIM's programs move to what OTHER's do; each list has the queue pairs of a program."""
    programs = []
    with SharedDaemon(build, more=f"[weight]\n{VICTIM} = {weight}\n") as daemon:
        try:
            programs = [start(daemon, program, uid, pairs) for uid, all_ in ((VICTIM, victims), (OTHER, others)) for pairs in all_]
            seen = [moved(daemon)]
            for _ in range(PERIODS):
                time.sleep(SECONDS)
                seen.append(moved(daemon))
        finally:
            for process in programs:
                process.kill()
                process.wait()
    ratios = [(after[VICTIM] - before[VICTIM]) / (after[OTHER] - before[OTHER]) for before, after in zip(seen, seen[1:])]
    print(f"# weight {weight}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios), flush=True)
    return statistics.median(ratios)


def main():
    arguments = kit.point_arguments("attacker")
    if os.geteuid():
        print("1..0 # SKIP programs of several users need root")
        return 0
    build = kit.Build(arguments.build)

    def expect(weight, victims, others):
        for _ in range(TRIES):
            got = share(build, arguments.attacker, weight, victims, others)
            if weight / TOLERANCE <= got <= weight * TOLERANCE:
                return
        raise kit.Failure(f"{got:.2f} times as much, not {weight}")

    return kit.run_points([
        ("equal users", lambda: expect(1, [4], [4])),
        ("a user with weight 3", lambda: expect(3, [4], [4])),
        ("weight 3 against more queue pairs", lambda: expect(3, [4], [16])),
    ], arguments.match)


if __name__ == "__main__":
    sys.exit(main())
