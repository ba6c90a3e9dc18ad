#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_memory over loopback daemons, with memory that is adopted where that is possible, and with copied memory. TAP.

usage: run_memory.py --build DIR [--many REGIONS] [--workers N] TEST_MEMORY"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit


def held(daemon):
    """What a daemon without programs has: descriptors and mappings."""
    process = f"/proc/{daemon.process.pid}"
    with open(process + "/maps") as maps:
        return len(os.listdir(process + "/fd")), sum("/memfd:" in line for line in maps)


def left(daemon):
    """What is registered or charged, beside what `uroce show` takes."""
    return daemon.show("mr"), {row["kind"] for row in daemon.show("quotas") if row["used"]} - {"connections", "descriptors"}


def points_of(build, mode, arguments):
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder, arguments=("--loopback", "--workers", arguments.workers))
    program = os.path.join(folder, "program")
    with open(program, "w") as script:
        script.write(f'#!/bin/sh\nexec {arguments.program} {f"many {arguments.many}" if arguments.many else ""}\n')
    os.chmod(program, 0o700)
    label = f"UROCE_MR={mode}"
    try:
        before = held(daemon)
        points = kit.cmocka_points(daemon, program, label, {"UROCE_MR": mode}, 400)
        points.append((daemon.alive(), f"uroced survives, {label}", [daemon.log()]))
        kit.wait_until(lambda: held(daemon) <= before and left(daemon) == ([], set()), 10,
                       f"{held(daemon)} after {before}, {left(daemon)}")
        points.append((True, f"nothing is left, {label}", []))
    except kit.Failure as failure:
        points.append((False, f"nothing is left, {label}", [str(failure)]))
    finally:
        daemon.stop()
    return points


def main():
    arguments = kit.point_arguments("program", more=(("--many", {"default": ""}), ("--workers", {"default": "1"})), match=False)
    build = kit.Build(arguments.build)
    with kit.huge_pages(2):
        return kit.print_points([point for mode in ("auto", "copy") for point in points_of(build, mode, arguments)])


if __name__ == "__main__":
    sys.exit(main())
