#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares `uroce dissect` with what others count: vectors_independent.py UROCE VECTORS

Per capture: the frames and valid ICRCs that icrc_check.py finds with zlib, and the frames and
opcodes that SUMMARY.txt has from other tools. Then a spoiled copy of a capture has to be noticed
by both.
"""
import ast
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import icrc_check

# SUMMARY.txt names a few opcodes in its own way.
OUR_NAMES = {"RC_READ_REQ": "RC_READ_REQUEST", "RC_CMP_SWAP": "RC_CMP_SWP"}


def dissect(program, path):
    """Exit status, objects of the frames, and the summary."""
    run = subprocess.run([program, "dissect", "--json", path], stdout=subprocess.PIPE, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return run.returncode, lines[:-1], lines[-1]["summary"]


def expected_opcodes(vectors):
    """{file name: {opcode: count}} from SUMMARY.txt."""
    text = (vectors / "SUMMARY.txt").read_text()
    found = re.findall(r"^(\S+\.pcap) .*\n +ops=(\{.*?\})", text, re.M)
    return {name: {OUR_NAMES.get(op, op): n for op, n in ast.literal_eval(ops).items()}
            for name, ops in found}


def count(frames, key):
    counts = {}
    for frame in frames:
        counts[frame[key]] = counts.get(frame[key], 0) + 1
    return counts


def check_capture(program, path, opcodes):
    status, frames, summary = dissect(program, path)
    counts = icrc_check.check_file(path)
    good = counts["ipv4"] + counts["ipv6"] + counts["roce_v1"]
    assert status == 0, f"{path}: status {status}"
    assert counts["bad"] == counts["not_whole"] == 0, f"{path}: {counts}"
    assert summary["frames"] == counts["frames"] == len(frames), f"{path}: {summary} {counts}"
    assert summary["ok"] == good, f"{path}: {summary} {counts}"
    assert summary["skipped"] == counts["other"], f"{path}: {summary} {counts}"
    assert count(frames, "opcode") == opcodes, f"{path}: {count(frames, 'opcode')} != {opcodes}"
    return good


def check_spoiled(program, path):
    """One bit of the last frame's payload wrong, and one frame that is not RoCE behind it."""
    data = bytearray(pathlib.Path(path).read_bytes())
    data[-5] ^= 0x10
    other = bytes(12) + b"\x08\x06" + bytes(28)
    record = data[24:32] + len(other).to_bytes(4, "little") * 2 + other
    with tempfile.TemporaryDirectory() as folder:
        spoiled = pathlib.Path(folder) / "spoiled.pcap"
        spoiled.write_bytes(data + record)
        status, frames, summary = dissect(program, spoiled)
        counts = icrc_check.check_file(spoiled)
        whole = spoiled.read_bytes()
        spoiled.write_bytes(whole[:-3])
        cut_status = dissect(program, spoiled)[0]
    assert status == 1, f"spoiled: status {status}"
    assert summary["bad_icrc"] == counts["bad"] == 1, f"spoiled: {summary} {counts}"
    assert summary["skipped"] == counts["other"] == 1, f"spoiled: {summary} {counts}"
    assert [f["verdict"] for f in frames[-2:]] == ["bad_icrc", "skipped"]
    assert cut_status == 2, f"cut file: status {cut_status}"


def main():
    program, vectors = sys.argv[1], pathlib.Path(sys.argv[2]) / "rxe-6.1"
    opcodes = expected_opcodes(vectors)
    paths = sorted(vectors.glob("*.pcap"))
    assert len(paths) == len(opcodes) == 106, f"{len(paths)} captures, {len(opcodes)} summaries"
    total = sum(check_capture(program, path, opcodes[path.name]) for path in paths)
    check_spoiled(program, vectors / "rc-write-only-v4.pcap")
    check_spoiled(program, vectors / "rc-write-only-v6.pcap")
    assert subprocess.run([program, "dissect", "/nonexistent"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 2
    print(f"{len(paths)} captures, {total} frames")


main()
