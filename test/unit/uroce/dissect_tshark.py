#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The headers that `uroce dissect --json` shows are those that tshark shows: dissect_tshark.py UROCE VECTORS. TAP.

Then the same captures with frames cut short: their headers are the same, their ICRC is not judged."""
import gzip
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kit"))
from uroce_kit import Failure, run_points

CAPTURES = ("rc-atomic-v4", "rc-atomic-v6", "rc-mtu512-v6", "rc-nak-oob-read-v4", "rc-nak-perm-write-v4", "pt-udlat-v6",
            "pt-sendbw-v4")
# Ours, by header and member; tshark's.
FIELDS = {
    ("", "qp"): "bth.destqp", ("", "psn"): "bth.psn", ("", "pkey"): "bth.p_key", ("", "ack_req"): "bth.a",
    ("", "solicited"): "bth.se", ("", "mig_req"): "bth.m",
    ("deth", "qkey"): "deth.q_key", ("deth", "src_qp"): "deth.srcqp",
    ("reth", "va"): "reth.va", ("reth", "rkey"): "reth.r_key", ("reth", "length"): "reth.dmalen",
    ("atomiceth", "va"): "reth.va", ("atomiceth", "rkey"): "reth.r_key",
    ("atomiceth", "swap_add"): "atomiceth.swapdt", ("atomiceth", "compare"): "atomiceth.cmpdt",
    ("aeth", "syndrome"): "aeth.syndrome", ("aeth", "msn"): "aeth.msn",
    ("aeth", "credit"): "aeth.syndrome.credit_count", ("aeth", "nak_code"): "aeth.syndrome.error_code",
    ("atomicacketh", "original"): "atomicacketh.origremdt", ("", "immediate"): "immdt",
}
COLUMNS = sorted(set(FIELDS.values()))
CUT = 110  # bytes: all headers of IPv6 fit, most payloads do not
NEW = {"credit", "nak_code"}  # tshark shows them for some syndromes only


def dissect(program, path, status=(0,)):
    done = subprocess.run([program, "dissect", "--json", path], capture_output=True, text=True)
    if done.returncode not in status:
        raise Failure(f"exit status {done.returncode}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[:-1], lines[-1]["summary"]


def shown(path):
    """For each frame tshark's values, by name."""
    command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "occurrence=f"]
    for column in COLUMNS:
        command += ["-e", "infiniband." + column]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [dict(zip(COLUMNS, line.split("\t"))) for line in output.splitlines()]


def number(text):
    """As tshark prints numbers, flags and bytes; as uroce prints 64 bits."""
    if text in ("True", "False"):
        return text == "True"
    if ":" in text:
        return int(text.replace(":", ""), 16)
    return int(text, 0) if not text.isdigit() else int(text)


def members(frame):
    """(header, member, value) of those that tshark knows."""
    for (header, member) in FIELDS:
        holder = frame.get(header, {}) if header else frame
        if member in holder:
            yield header, member, holder[member]


def compare(frame, view):
    compared = 0
    for header, member, ours in members(frame):
        theirs = view[FIELDS[header, member]]
        if not theirs and member in NEW:
            continue
        theirs = int(theirs, 16) if member == "immediate" else number(theirs)
        if (number(ours) if isinstance(ours, str) else ours) != theirs:
            raise Failure(f"frame {frame['frame']}: {header} {member} is {ours}, tshark shows {theirs}")
        compared += 1
    return compared


def cut(source, target, most=CUT):
    """Writes the capture with `most` bytes at most of each frame; how many frames have more."""
    data, out, at, longer = source.read_bytes(), bytearray(), 24, 0
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    out += data[:24]
    while at < len(data):
        seconds, fraction, captured, length = struct.unpack_from(order + "IIII", data, at)
        kept = min(captured, most)
        longer += captured > most
        out += struct.pack(order + "IIII", seconds, fraction, kept, length) + data[at + 16:at + 16 + kept]
        at += 16 + captured
    target.write_bytes(out)
    return longer


def same_as_tshark(program, path):
    frames, _ = dissect(program, path)
    views = shown(path)
    if len(frames) != len(views):
        raise Failure(f"{len(frames)} frames, tshark shows {len(views)}")
    compared = sum(compare(frame, view) for frame, view in zip(frames, views))
    if compared < 6 * len(frames):
        raise Failure(f"only {compared} fields of {len(frames)} frames were compared")


def headers_of(frame):
    return {name: value for name, value in frame.items() if name not in ("verdict", "mad")}


def cut_short(program, path):
    with tempfile.TemporaryDirectory() as folder:
        short = pathlib.Path(folder) / "short.pcap"
        longer = cut(path, short)
        whole, (frames, summary) = dissect(program, path)[0], dissect(program, short)
    if [headers_of(frame) for frame in frames] != [headers_of(frame) for frame in whole]:
        raise Failure("the headers are not those of the whole frames")
    verdicts = [frame["verdict"] for frame in frames]
    if not longer == summary["cut"] == verdicts.count("cut") or set(verdicts) - {"cut", "ok"}:
        raise Failure(f"verdicts {set(verdicts)}, summary {summary}")


def headers_missing(program, path):
    """Without the end of its headers a frame cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        short = pathlib.Path(folder) / "short.pcap"
        cut(path, short, 50)
        _, summary = dissect(program, short, status=(1,))
    if summary["unparsable"] != summary["frames"] or summary["reasons"] != {"truncated": summary["frames"]}:
        raise Failure(str(summary))


def compressed(program, path):
    with tempfile.TemporaryDirectory() as folder:
        packed = pathlib.Path(folder) / "capture.pcap.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        done = subprocess.run([program, "dissect", packed], capture_output=True, text=True)
    if done.returncode != 2 or "zcat" not in done.stderr:
        raise Failure(f"exit status {done.returncode}: {done.stderr}")


def main():
    program, vectors = sys.argv[1], pathlib.Path(sys.argv[2])
    first = vectors / f"{CAPTURES[0]}.pcap"
    points = [("headers without their end", lambda: headers_missing(program, first)),
              ("a compressed capture is named", lambda: compressed(program, first))]
    for name in CAPTURES:
        path = vectors / f"{name}.pcap"
        points.append((f"{name}: cut short", lambda path=path: cut_short(program, path)))
        if shutil.which("tshark"):
            points.append((f"{name}: as tshark", lambda path=path: same_as_tshark(program, path)))
    return run_points(points)


if __name__ == "__main__":
    sys.exit(main())
