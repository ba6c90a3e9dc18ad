#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_descriptors over a loopback device. Its own TAP.

usage: run_descriptors.py --build DIR TEST_DESCRIPTORS"""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("program")
    arguments = options.parse_args()
    kit.die_on_signals()
    daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder())
    try:
        done = subprocess.run([arguments.program], env=daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP"}), timeout=50,
                              stdin=subprocess.DEVNULL)
        return done.returncode or not daemon.alive()
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
