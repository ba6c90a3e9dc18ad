#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""No function of ours has the name of one in a library that our programs are linked with: which of both a program gets
would depend on the order of the linker's arguments. TAP.

usage: own_names.py BUILD PROGRAM..."""
import pathlib
import re
import subprocess
import sys

build, programs = pathlib.Path(sys.argv[1]), sys.argv[2:]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def functions(files, *options):
    names = set()
    for file in sorted(files):
        listed = output("nm", "--defined-only", *options, str(file))
        names |= {name.split("@")[0] for name in re.findall(r"^[0-9a-f]+ [TWi] (\S+)$", listed, re.M)}
    return names


ours = functions(a for folder in ("app", "drivers", "lib") for a in (build / folder).rglob("*.a"))
libraries = {path for program in programs for path in re.findall(r"=> (/\S+)", output("ldd", program))}
shared = sorted(ours & functions(libraries, "-D"))
good = bool(ours and libraries and not shared)
print("1..1")
for name in shared:
    print(f"# {name} is also a function of a library")
print(f"{'ok' if good else 'not ok'} 1 - names of functions are ours alone")
sys.exit(not good)
