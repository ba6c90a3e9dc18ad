#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replays the captures of the Linux kernel: replay_kernel.py UROCE FOLDER EXPLAINED. TAP, one point
per capture: both sides of it are played, and what differs is explained in EXPLAINED, all of it.
"""
import json
import pathlib
import re
import subprocess
import sys


class Explanation:
    def __init__(self, line, number):
        fields = [field.strip() for field in line.split(" | ")]
        if len(fields) != 8 or not all(fields):
            sys.exit(f"line {number} of the explanations has not 8 fields")
        self.key = tuple(fields[:6])
        self.clause, self.why = fields[6:]
        self.occurs = False


def read_explanations(path):
    lines = enumerate(path.read_text().splitlines(), 1)
    return [Explanation(line, n) for n, line in lines if line.strip() and not line.startswith("#")]


def opcode(frame):
    found = re.search(r"\b(RC|UC|UD|XRC)_\w+", frame["text"]) if frame else None
    return found.group() if found else "-"


def key_of(capture, run, difference):
    return (capture, run["side"], difference["kind"], difference.get("fields", "-"),
            opcode(difference.get("recorded")), opcode(difference.get("ours")))


def describe(difference):
    lines = [f"frame {difference['frame']}: {difference['kind']} {difference.get('fields', '')} "
             f"{difference.get('text', '')}"]
    for whose in ("recorded", "ours"):
        if whose in difference:
            lines += [f"  {whose}: {difference[whose]['text']}", f"    {difference[whose]['hex']}"]
    return lines


def replay(uroce, path):
    done = subprocess.run([uroce, "replay", "--json", path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    result = json.loads(done.stdout) if done.stdout else None
    # Captures of connection management alone have nothing to replay.
    wanted = (0, 1) if result is None or result["replayed"] else (2,)
    if result is None or done.returncode not in wanted:
        return None, [f"exit status {done.returncode}: {done.stderr}"]
    return result, []


def check(uroce, path, explanations):
    """Lines of what is wrong; and how many frames were compared."""
    result, wrong = replay(uroce, path)
    if result is None:
        return wrong, 0
    for run in result["runs"]:
        if run["failed"]:
            wrong.append(f"side {run['side']}: {run['failed']}")
        for difference in run["differences"]:
            known = [e for e in explanations if e.key == key_of(path.stem, run, difference)]
            for explanation in known:
                explanation.occurs = True
            if not known:
                wrong += [f"side {run['side']}, not explained:"] + describe(difference)
    silent = [n for n in result["not_replayed"] if n != "connection_management"]
    if silent:
        wrong.append(f"frames that were not replayed: {', '.join(silent)}")
    compared = sum(run["compared"] for run in result["runs"])
    if result["replayed"] and not compared:
        wrong.append("nothing was compared")
    return wrong, compared


def main():
    uroce, folder, table = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    explanations = read_explanations(table)
    captures = sorted(folder.glob("*.pcap"))
    print(f"1..{len(captures) + 1}")
    failed = 0
    for n, path in enumerate(captures, 1):
        wrong, compared = check(uroce, path, explanations)
        failed += bool(wrong)
        print("\n".join(f"# {line}" for line in wrong) + "\n" * bool(wrong), end="")
        print(f"{'not ' if wrong else ''}ok {n} - {path.stem} ({compared} frames compared)", flush=True)
    stale = [e for e in explanations if not e.occurs]
    for explanation in stale:
        print(f"# does not occur: {' | '.join(explanation.key)}")
    failed += bool(stale)
    print(f"{'not ' if stale else ''}ok {len(captures) + 1} - every explanation is needed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
