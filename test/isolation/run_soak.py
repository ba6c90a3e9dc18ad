#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs are killed at random moments beside a pair that checks every byte: no wrong byte, and the daemon has afterwards the
memory, descriptors, mappings and objects that it had before. TAP.

usage: run_soak.py --build DIR MORTALS WITNESS [--kills N] [--workers N] [--seed N]

mortals.c has what the programs do, witness.c the pair. The seed is printed; it repeats the programs' choices and the times, not
the scheduling."""
import os
import random
import select
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "shim")]
import run_control as control
import uroce_kit as kit
from shared_daemon import OTHER, VICTIM, SharedDaemon

AT_ONCE = 4
GROWTH_KIB = 1024  # of a daemon that has served a tenth as many programs before
TABLES_BYTES = 8 << 20  # anonymous mappings from there on, when no program has come yet
SECONDS_EACH = 1  # at most, on a loaded machine
PHASES = ("connecting", "registering", "transferring", "destroying", "by-cm")


def mappings(daemon):
    """Start, end and private KiB of each mapping of the daemon."""
    found = []
    with open(f"/proc/{daemon.process.pid}/smaps") as lines:
        for words in (line.split() for line in lines):
            if not words[0].endswith(":"):
                found.append([*(int(word, 16) for word in words[0].split("-")), words[5:] == [], 0])
            elif words[0] in ("Private_Clean:", "Private_Dirty:"):
                found[-1][3] += int(words[1])
    return found


def memory(daemon, tables):
    """KiB that the daemon alone has, outside its tables: these have their whole size from the start, and get pages as numbers
    and keys are used for the first time."""
    total = 0
    for start, end, _, kib in mappings(daemon):
        common = sum(max(0, min(end, table[1]) - max(start, table[0])) for table in tables)
        total += min(kib, (end - start - common) // 1024)
    return total


class Witness:
    def __init__(self, daemon, program):
        self.process = subprocess.Popen([program, str(VICTIM)], env=daemon.environment(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        readable, _, _ = select.select([self.process.stdout], [], [], 20)
        said = self.process.stdout.readline() if readable else "nothing"
        if said != "ready\n":
            self.process.kill()
            raise kit.Failure("the witness: " + said)

    def finish(self):
        try:
            said = self.process.communicate("", timeout=60)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise kit.Failure("the witness: no message for a minute")
        if self.process.returncode:
            raise kit.Failure(f"the witness: {self.process.returncode}: {said}")
        return said.strip()


def kill_programs(daemon, program, kills, seed):
    """How many were killed in each phase."""
    try:
        out = subprocess.run([program, str(kills), str(AT_ONCE), str(seed), str(OTHER)], env=daemon.environment(),
                             capture_output=True, text=True, timeout=60 + kills * SECONDS_EACH)
    except subprocess.TimeoutExpired:
        raise kit.Failure("mortals: not done in time")
    if out.returncode:
        raise kit.Failure(f"mortals: {out.returncode}: {out.stdout}{out.stderr}")
    return {line.split()[0]: int(line.split()[1]) for line in out.stdout.splitlines()}


def run(arguments, seed):
    with SharedDaemon(kit.Build(arguments.build), arguments=("--workers", str(arguments.workers))) as daemon:
        daemon.unused = control.unused(daemon)
        tables = [m for m in mappings(daemon) if m[2] and m[1] - m[0] >= TABLES_BYTES]
        kill_programs(daemon, arguments.mortals, max(arguments.kills // 10, 100), seed + 1)
        control.await_clean(daemon, 20)
        before, start = memory(daemon, tables), time.monotonic()
        witness = Witness(daemon, arguments.witness)
        try:
            found = kill_programs(daemon, arguments.mortals, arguments.kills, seed)
        finally:
            said = witness.finish()
        control.await_clean(daemon, 20)
        after = memory(daemon, tables)
        print(f"# {sum(found.values())} killed in {time.monotonic() - start:.0f} s: {found}; the witness: {said}; "
              f"KiB: {before}, then {after}; descriptors and mappings: {daemon.unused}, as before", flush=True)
        if after > before + GROWTH_KIB:
            raise kit.Failure(f"the daemon's memory grew from {before} to {after} KiB")
        if sum(found.values()) != arguments.kills or not all(found.get(phase) for phase in PHASES):
            raise kit.Failure(f"killed: {found}")
        if daemon.stop() != 0:
            raise kit.Failure("the daemon's end:\n" + daemon.log())


def main():
    arguments = kit.point_arguments("mortals", "witness", match=False, more=(
        ("--kills", {"type": int, "default": 10000}), ("--workers", {"type": int, "default": 1}), ("--seed", {"type": int, "default": random.randrange(1 << 30)})))
    if os.geteuid():
        print("1..0 # SKIP programs of several users need root")
        return 0
    print(f"# --seed {arguments.seed}", flush=True)
    return kit.run_points([(f"{arguments.kills} killed programs", lambda: run(arguments, arguments.seed))])


if __name__ == "__main__":
    sys.exit(main())
