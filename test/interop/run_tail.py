#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-perf's latency against load on a processor that nothing interrupts: that of a guest, whose microsecond is 500
instructions, whatever else the machine does. At 80 per cent of the highest rate the slowest message of a thousand takes
five times as long as the median one at most. TAP, with the tables. Skipped where there is no QEMU. Standard library only.

usage: run_tail.py --build DIR [--match RUN] [--seconds N]"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import dpdk_image
import guest as vm
import image
import uroce_kit as kit

PROGRAM = "app/uroce-perf/uroce-perf"
RUNS = ("--size 8 --depth 256", "--mode send --size 8 --depth 64", "--mode read --size 8 --depth 16",
        "--mode write --size 8 --depth 16 --qps 64", "--mode send --size 4096 --depth 64")
LOADS = (20, 50, 80, 90, 95)
JUDGED, MOST = 80, 5
SECONDS = 240


def check(guest, run, seconds):
    loads = ",".join(map(str, LOADS))
    text = guest.run(f"uroce-perf -- {run} --loads {loads} --duration {seconds} --floor off --format json", SECONDS)
    rows = {row["load"]: row for row in map(json.loads, text.splitlines())}
    if sorted(rows) != sorted(LOADS):
        raise kit.Failure(f"loads {sorted(rows)}")
    print("#  load %  messages/s    50 %    99 %  99.9 %     max us  99.9/50")
    for load, row in sorted(rows.items()):
        us = [row["latency_ns"][name] / 1000 for name in ("p50", "p99", "p99_9", "max")]
        print(f"# {load:7} {row['messages_per_s']:11.0f} " + " ".join(f"{value:7.1f}" for value in us) + f" {us[2] / us[0]:8.1f}")
    latency = rows[JUDGED]["latency_ns"]
    if latency["p99_9"] > MOST * latency["p50"]:
        raise kit.Failure(f"at {JUDGED} % of the load 99.9 % take {latency['p99_9'] / latency['p50']:.1f} times as long as the median")


def main():
    args = kit.point_arguments(more=(("--seconds", {"type": float, "default": 1}),))
    try:
        system = image.Image(os.path.join(args.build, "interop"), "6.1")
        archive = dpdk_image.with_dpdk(system, {"/bin/uroce-perf": os.path.join(args.build, PROGRAM)},
                                       os.path.join(kit.scratch_folder(), "initrd"))
    except image.Unavailable as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    with vm.Guest(system.kernel, archive, kit.scratch_folder(), [], cpus=1, memory=1024, cpu="max", counted=True) as guest:
        return kit.run_points([(run, lambda run=run: check(guest, run, args.seconds)) for run in RUNS], args.match)


if __name__ == "__main__":
    sys.exit(main())
