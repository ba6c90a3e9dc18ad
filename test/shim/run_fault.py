#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_fault over loopback daemons with one worker and with several. TAP.

usage: run_fault.py --build DIR TEST_FAULT UNSEALED"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

WORKERS = (1, 2)
CASES = 4


def build_with(arguments, folder):
    """The build, with a daemon that has the library."""
    build = kit.Build(arguments.build)
    wrapper = os.path.join(folder, "uroced")
    with open(wrapper, "w") as script:
        script.write(f'#!/bin/sh\nLD_PRELOAD={arguments.unsealed} exec {build.uroced} "$@"\n')
    os.chmod(wrapper, 0o700)
    build.uroced = wrapper
    return build


def main():
    arguments = kit.point_arguments("program", "unsealed", match=False)
    folder = kit.scratch_folder()
    build = build_with(arguments, folder)
    results = []
    for workers in WORKERS:
        label = f"workers: {workers}"
        daemon = kit.Daemon(build, folder, arguments=("--loopback", "--workers", str(workers)))
        try:
            results += kit.cmocka_points(daemon, arguments.program, label, {"LD_PRELOAD": arguments.unsealed})
            faults = sum(worker["memory_faults"] for worker in daemon.show()["workers"])
            results.append((faults >= CASES, f"a worker got SIGBUS in each case, {label}", [f"{faults} times"]))
            results.append((daemon.alive(), f"uroced survives, {label}", [daemon.log()]))
        finally:
            daemon.stop()
    return kit.print_points(results)


if __name__ == "__main__":
    sys.exit(main())
