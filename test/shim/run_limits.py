#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_limits over a daemon with small quotas. Its own TAP.

usage: run_limits.py --build DIR TEST_LIMITS"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

QUOTAS = {"pds": 6, "cqs": 7, "qps": 9, "mrs": 30, "mws": 11, "srqs": 8, "ahs": 12, "groups": 5, "wqs": 10, "rwq_tables": 13}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("program")
    arguments = options.parse_args()
    kit.die_on_signals()
    folder = kit.scratch_folder()
    name = os.path.join(folder, "uroced.ini")
    with open(name, "w") as file:
        file.write("[uroced]\n[quota]\n" + "".join(f"client.{kind} = {limit}\n" for kind, limit in QUOTAS.items()) +
                   "[port.0]\ndevice = loopback\n")
    daemon = kit.Daemon(kit.Build(arguments.build), folder, arguments=("--config", name))
    try:
        done = subprocess.run([arguments.program], env=daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP"}), timeout=100,
                              stdin=subprocess.DEVNULL)
        return done.returncode or not daemon.alive()
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
