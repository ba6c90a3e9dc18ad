#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the compiler has kept what fetches cache lines ahead of their use (lib/base/lines.h): each call in a source file
is at least one instruction of its object file. gcc takes a function that only fetches for one without effect, and leaves
out its calls. TAP.

usage: fetches.py --build DIR [--match FILE]"""
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

CALL = re.compile(r"\bline_fetch(?:_to_write)?\(")
INSTRUCTION = re.compile(r"\t(?:prefetch|prfm)")  # amd64, arm64


def compiled(build):
    """{object file: its source} of lib and app, without what tests compile once more."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        commands = json.load(file)
    found = {os.path.join(command["directory"], command["output"]): os.path.join(command["directory"], command["file"])
             for command in commands}
    return {out: source for out, source in found.items() if "/test/" not in out and os.path.exists(out)}


def check(path, calls):
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    kept = len(INSTRUCTION.findall(text))
    print(f"# {kept} instructions of {calls} calls")
    if kept < calls:
        raise kit.Failure(f"{path}: of {calls} calls that fetch {kept} are left")


def main():
    args = kit.point_arguments()
    if shutil.which("objdump") is None:
        print("1..0 # SKIP there is no objdump")
        return 0
    points = []
    for path, source in sorted(compiled(args.build).items()):
        with open(source) as file:
            calls = len(CALL.findall(file.read()))
        if calls:
            name = os.path.relpath(source, os.path.join(HERE, "..", ".."))
            points.append((name, lambda path=path, calls=calls: check(path, calls)))
    if not points:
        raise kit.Failure("no source file fetches anything")
    return kit.run_points(points, args.match)


if __name__ == "__main__":
    sys.exit(main())
