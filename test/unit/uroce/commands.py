#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the programs say of wrong command lines, and their versions. TAP.

usage: commands.py UROCE UROCED UROCE_PERF HELLO_RC"""
import re
import subprocess
import sys

uroce, uroced, perf, hello = sys.argv[1:]
NO_NAME = "x" * 64  # no label of a name is that long, and no server is asked for it
COMMANDS = ("run", "show", "top", "rdma", "metrics", "trace", "why", "fault", "dissect", "replay", "entropy", "sim")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def versions():
    found = {run(*command)[1].split()[-1] for command in
             ((uroce, "--version"), (uroced, "--version"), (uroced, "-V"), (perf, "--version"), *((uroce, name, "--version") for name in COMMANDS))}
    return len(found) == 1 and re.fullmatch(r"\d+\.\d+\.\d+", found.pop())


def unknown_options():
    return all(says(2, f"uroce: {name}: unrecognized option '--nothing'", uroce, name, "--nothing") for name in COMMANDS)


def all_commands_are_here():
    listed = re.findall(r"^  (\w+) .*\n        ", run(uroce, "--help")[1], re.M)
    return sorted(listed) == sorted(COMMANDS)


def says(status, sentence, *command):
    done = run(*command)
    return done[0] == status and sentence in done[2]


POINTS = (
    ("versions", versions),
    ("every command is looked at", all_commands_are_here),
    ("unknown options", unknown_options),
    ("a topic that there is not", lambda: says(2, 'uroce: show: there is no topic "bogus"', uroce, "show", "bogus")),
    ("a command that there is not", lambda: says(2, "uroce: 'shwo' is not a command", uroce, "shwo")),
    ("a forgotten --", lambda: says(2, "uroce-perf: --size is not for the EAL: write it behind --", perf, "--size", "8")),
    ("the same with a value", lambda: says(2, "uroce-perf: --mode=send is not for the EAL", perf, "--mode=send")),
    ("a kernel's interface", lambda: says(1, "lo is an interface of the kernel: say net_af_packet0,iface=lo", perf, "--vdev", "lo", "--",
                                          "--duration", "0.05")),
    ("an example's host", lambda: says(1, "hello_rc: " + NO_NAME, hello, NO_NAME)),
    ("an example's options", lambda: says(2, "usage: hello_rc ", hello, "--help")),
)

print(f"1..{len(POINTS)}")
failed = 0
for number, (name, function) in enumerate(POINTS, 1):
    good = function()
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
sys.exit(bool(failed))
