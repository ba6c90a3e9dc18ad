#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Line coverage of each surface that faces outside by its fuzz target.

usage: coverage.py ROOT [--only TARGET]... [--corpus FOLDER] [--seconds N] [--lines FILE] [--write]

Builds the targets with clang's coverage in build-coverage, runs each once over the corpus that the build makes, and prints a
table. --corpus adds FOLDER/TARGET, as libFuzzer has grown it. --seconds first lets each target grow its corpus for that
long, and counts executions. --lines prints the lines of a file that no input has reached. --write writes the table into
test/fuzz/README.md."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

BUILD = "build-coverage"
PAGE = "test/fuzz/README.md"
BEGIN, END = "<!-- begin: coverage.py --write -->", "<!-- end -->"
# What comes from outside; the target; the files that read it. A trailing / is a folder.
SURFACES = (
    ("frames: headers", "packet", ("lib/encap/", "lib/wire/", "lib/steer/")),
    ("frames: transport", "engine", ("lib/transport/",)),
    ("frames: ARP, ND, ICMP, groups", "net", ("lib/net/",)),
    ("options of uroce entropy", "flows", ("app/uroce/entropy/",)),
    ("laboratories of uroce sim", "lab", ("lib/lab/", "lib/fabric/")),
    ("rules of uroce fault", "inject", ("lib/inject/",)),
    ("datagrams, frames to UDP sockets", "socket", ("drivers/pktio/socket/",)),
    ("frames of packet sockets", "long_frames", ("drivers/pktio/packet/",)),
    ("frames: raw packets", "raw", ("lib/transport/raw/",)),
    ("queues in shared memory", "queue", ("lib/queue/", "lib/abi/queue_abi.h")),
    ("control messages", "ctl", ("lib/device/control/", "lib/device/objects/", "lib/device/show/")),
    ("control messages, MADs: rdma_cm", "ctl", ("lib/device/cm/", "lib/device/net/gsi_rx.c", "lib/device/net/gsi_tx.c")),
    ("the control socket", "server", ("lib/device/control/server.c", "lib/device/control/connection.c",
                                      "lib/device/control/connection_end.c", "lib/device/control/connection_receive.c",
                                      "lib/device/control/connection_serve.c", "lib/device/control/turn.c",
                                      "lib/device/control/session.c", "lib/abi/ctl_msg.c")),
    ("registered memory", "memory", ("drivers/mem/", "app/uroced/memory.c")),
    ("replies, completions, events", "client", ("lib/client/", "lib/verbs/", "lib/abi/ctl_msg.c")),
    ("replies and events of connections", "rdmacm", tuple(f"lib/rdmacm/{part}.c" for part in (
        "channel", "channel_read", "connect", "event", "id", "qp", "resolve", "take"))),
    ("what an rsocket's peer sends", "rsockets", ("lib/rdmacm/rsocket/rs_wire.c", "lib/rdmacm/rsocket/rs_ring.h",
                                                  "lib/rdmacm/rsocket/rs_flow.h")),
    ("a program's pages", "adopt", ("lib/adopt/",)),
    ("messages of connections", "cm", ("lib/cm/",)),
    ("captures", "replay", ("app/uroce/replay/", "app/uroce/dissect.c")),
    ("the configuration", "config", ("app/uroced/config", )),
    ("options of uroce-perf", "perf_options", ("app/uroce-perf/options.c",)),
)


def shell(*command, **kwargs):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **kwargs)
    if result.returncode:
        raise kit.Failure(f"{' '.join(map(str, command))}:\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return result


def build(root, targets):
    folder = root / BUILD
    if not (folder / "build.ninja").exists():
        shell("meson", "setup", folder, root, "--native-file", root / "config/coverage.ini")
    parts = [f"test/fuzz/{kind}_{target}" for target in targets for kind in ("fuzz", "corpus")]
    shell("ninja", "-C", folder, "-j2", *parts)


def tool(name):
    """The program of llvm's that fits clang."""
    version = re.search(r"version (\d+)", shell("clang", "--version").stdout).group(1)
    return f"{name}-{version}"


def program(root, target):
    return root / BUILD / f"test/fuzz/fuzz_{target}"


def corpora(root, target, extra):
    own = root / BUILD / f"test/fuzz/corpus_{target}"
    grown = pathlib.Path(extra) / target if extra else None
    return [own] + ([grown] if grown and grown.is_dir() else [])


def grow(root, target, extra, seconds):
    """Executions per second. The corpus grows in extra/TARGET."""
    folder = pathlib.Path(extra) / target
    folder.mkdir(parents=True, exist_ok=True)
    ran = shell(program(root, target), f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=20",
                f"-artifact_prefix={folder}-", folder, *corpora(root, target, None),
                env=dict(os.environ, LLVM_PROFILE_FILE="/dev/null"), cwd=extra)
    done = int(re.search(r"number_of_executed_units: (\d+)", ran.stderr).group(1))
    took = int(re.search(r"Done \d+ runs in (\d+) second", ran.stderr).group(1))
    return done / max(took, 1)


def profile(root, target, extra, folder):
    """Runs the target over its corpora; the merged profile."""
    raw = pathlib.Path(folder) / target
    shell(program(root, target), "-runs=0", "-timeout=60", *corpora(root, target, extra),
          env=dict(os.environ, LLVM_PROFILE_FILE=f"{raw}-%m.profraw"), cwd=folder)
    merged = f"{raw}.profdata"
    shell(tool("llvm-profdata"), "merge", "-sparse", "-o", merged, *pathlib.Path(folder).glob(f"{target}-*.profraw"))
    return merged


def objects(root, target):
    found = [program(root, target)]
    return found + (["-object", root / BUILD / "lib/verbs/libibverbs.so.1"] if target in ("client", "rdmacm") else [])


def lines(root, target, merged):
    """{file: (lines covered, lines)}, by its path in the tree."""
    text = shell(tool("llvm-cov"), "export", "-summary-only", f"-instr-profile={merged}", *objects(root, target)).stdout
    counted = {}
    for file in json.loads(text)["data"][0]["files"]:
        name = os.path.relpath(file["filename"], root)
        counted[name] = file["summary"]["lines"]["covered"], file["summary"]["lines"]["count"]
    return counted


def share(counted, files):
    chosen = [value for name, value in counted.items() if name.startswith(files)]
    if not chosen:
        raise kit.Failure(f"no file of {' '.join(files)} was counted")
    return 100 * sum(covered for covered, _ in chosen) / sum(count for _, count in chosen)


def uncovered(root, target, merged, file):
    shown = shell(tool("llvm-cov"), "show", f"-instr-profile={merged}", *objects(root, target), root / file).stdout
    print("\n".join(line for line in shown.splitlines() if re.match(r"\s*\d+\|\s*0\|", line)))


def table(rows):
    yield "| from outside | target | files | lines |"
    yield "|---|---|---|---:|"
    for surface, target, files, covered in rows:
        yield f"| {surface} | `fuzz_{target}` | {', '.join(f'`{file}`' for file in files)} | {covered:.0f} % |"


def write(root, rows):
    page = root / PAGE
    before, rest = page.read_text().split(BEGIN)
    page.write_text("\n".join([before + BEGIN, *table(rows), END + rest.split(END)[1]]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--corpus")
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--lines")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    root = options.root.resolve()
    surfaces = [s for s in SURFACES if not options.only or s[1] in options.only]
    rows = []
    build(root, [target for _, target, _ in surfaces])
    with tempfile.TemporaryDirectory(prefix="uroce-coverage.") as folder:
        extra = options.corpus or (folder if options.seconds else None)
        for surface, target, files in surfaces:
            if options.seconds:
                rate = grow(root, target, extra, options.seconds)
                print(f"fuzz_{target}: {rate:.0f} executions per second", flush=True)
            merged = profile(root, target, extra, folder)
            rows.append((surface, target, files, share(lines(root, target, merged), files)))
            if options.lines:
                uncovered(root, target, merged, options.lines)
    print("\n".join(table(rows)))
    if options.write:
        write(root, rows)


if __name__ == "__main__":
    try:
        main()
    except kit.Failure as failure:
        sys.exit(f"coverage.py: {failure}")
