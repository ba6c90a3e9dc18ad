#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What idle queue pairs cost: time to create one, the daemon's memory and mappings, and the time until all is free
again when their program is killed. A measurement, not a test.

usage: many_qps.py --build DIR [--over DIR] [--entries N] [--connected] QUEUE_PAIRS...

--over: the build whose daemon and library are measured, when it is another than the one with the program.
--connected: they are ready to send, each to itself."""
import argparse
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

SECONDS = 300


def memory(pid):
    """RSS and PSS in KiB, and the number of mappings."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        found = {line.split(":")[0]: line.split()[1] for line in lines if ":" in line and line.endswith("kB\n")}
    with open(f"/proc/{pid}/maps") as lines:
        return int(found["Rss"]), int(found["Pss"]), sum(1 for _ in lines)


def system():
    """KiB of shared memory, and of the kernel's own structures, on the whole machine."""
    with open("/proc/meminfo") as lines:
        found = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return found["Shmem"], found["Slab"] + found["PageTables"]


def measure(build, program, count, entries, state):
    daemon = kit.Daemon(build, kit.scratch_folder())
    process = None
    try:
        before, before_all = memory(daemon.process.pid), system()
        process = subprocess.Popen([program, str(count), str(entries), *state], env=daemon.environment(), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        create, renew = process.stdout.readline().strip(), process.stdout.readline().strip()
        if not renew:
            raise kit.Failure("the queue pairs were not created")
        full, full_all = memory(daemon.process.pid), system()
        start = time.monotonic()
        process.kill()
        kit.wait_until(lambda: "uroce-context" not in open(f"/proc/{daemon.process.pid}/maps").read(), SECONDS,
                       "the end of the objects")
        cleaned = time.monotonic() - start
        rss, pss = (1024 * (full[i] - before[i]) / count for i in (0, 1))
        shared, kernel = (1024 * (full_all[i] - before_all[i]) / count for i in (0, 1))
        print(f"| {count} | {create} | {renew} | {rss:.0f} | {pss:.0f} | {shared:.0f} | {kernel:.0f} "
              f"| {full[2] - before[2]} | {cleaned:.2f} |", flush=True)
    finally:
        if process is not None:
            process.kill()
            process.wait()
        daemon.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--over")
    parser.add_argument("--entries", type=int, default=16)
    parser.add_argument("--connected", action="store_true")
    parser.add_argument("count", type=int, nargs="+")
    arguments = parser.parse_args()
    kit.die_on_signals()
    program = os.path.join(os.path.abspath(arguments.build), "test/perf/many_qps")
    print("| queue pairs | create, µs | destroy and create, µs | daemon's RSS, B | its PSS, B | shared memory, B "
          "| kernel, B | daemon's mappings | cleaned up, s |\n|" + "---|" * 9)
    for count in arguments.count:
        measure(kit.Build(arguments.over or arguments.build), program, count, arguments.entries,
                ["connected"] if arguments.connected else [])


if __name__ == "__main__":
    sys.exit(main())
