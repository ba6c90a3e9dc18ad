#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether doc/entropy.md, doc/generated/entropy-tables.md and the pictures in doc/img say what `uroce entropy` says:

    entropy_report.py UROCE DOC

With --write it makes them say so."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kit"))
from uroce_kit import Failure, Tap

FLOWS, PATHS = (16, 64, 256, 1024, 4096), (2, 4, 8, 16, 32, 64)
HASHES = ("toeplitz", "crc16", "crc32", "xor")
SHOWN_FLOWS, SHOWN_PATHS = 256, 16
BEGIN, END = "<!-- begin: entropy_report.py --write -->\n", "<!-- end -->\n"
WORSE = 1.25  # times what chance does


def span(first, count, step=1):
    last = first + (count - 1) * step
    return f"{first:#x}-{last:#x}" + (f"/{step}" if step > 1 else "")


# Name, what it stands for, and the options of n flows.
SCENARIOS = (
    ("equal", "Two devices that hand out numbers in sequence, both from the same one, and connect in order",
     lambda n: ["--qps", f"{span(0x10, n)}:{span(0x10, n)}"]),
    ("shifted", "The same, but the destination has handed out 499 numbers more",
     lambda n: ["--qps", f"{span(0x10, n)}:{span(0x203, n)}"]),
    ("one-host", "Both ends on one host, whose device numbers them in turn",
     lambda n: ["--qps", f"{span(0x10, n, 2)}:{span(0x11, n, 2)}", "--dst", "192.0.2.1"]),
    ("steps", "Devices that hand out every 64th number",
     lambda n: ["--qps", f"{span(0x400, n, 64)}:{span(0x800, n, 64)}"]),
    ("one-source", "One queue pair, number 0x2000, that sends to many of one host",
     lambda n: ["--qps", f"0x2000:{span(0x10, n)}"]),
    ("random", "Numbers at random", lambda n: ["--random", str(n)]),
)
POLICIES = (("kernel", ["--policy", "kernel"]), ("rfc", ["--policy", "rfc"]), ("spray", ["--policy", "spray"]),
            ("spray, one message", ["--policy", "spray", "--messages", "1"]))
PICTURES = ("equal", "shifted", "one-host")


class Report:
    def __init__(self, uroce):
        self.uroce, self.kept = uroce, {}

    def run(self, *arguments, lines=""):
        done = subprocess.run([self.uroce, "entropy", *arguments], input=lines, capture_output=True, text=True,
                              timeout=60)
        if done.returncode:
            raise Failure(f"uroce entropy {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def numbers(self, flows):
        """{(policy, hash, paths): spread} and {paths: baseline} of a scenario's options."""
        key = tuple(flows)
        if key not in self.kept:
            spreads, baselines = {}, {}
            for name, options in POLICIES:
                answer = json.loads(self.run(*flows, *options, "--paths", ",".join(map(str, PATHS)), "--json"))
                spreads.update({(name, s["hash"], s["paths"]): s for s in answer["spreads"]})
                baselines = {b["paths"]: b for b in answer["baselines"]}
            self.kept[key] = spreads, baselines
        return self.kept[key]


def cell(spread, baseline):
    text = f"{spread['imbalance']:.2f}"
    return f"**{text}**" if spread["imbalance"] > WORSE * baseline["random"]["imbalance"] else text


def summary(report):
    """One number of flows and paths of all scenarios."""
    rows = [f"| {SHOWN_FLOWS} flows over {SHOWN_PATHS} paths | policy | " + " | ".join(HASHES) + " | ports |",
            "|---|---|" + "---:|" * (len(HASHES) + 1)]
    for name, _, flows in SCENARIOS:
        spreads, baselines = report.numbers(flows(SHOWN_FLOWS))
        for policy, _ in POLICIES:
            found = [spreads[policy, h, SHOWN_PATHS] for h in HASHES]
            cells = [cell(s, baselines[SHOWN_PATHS]) for s in found]
            rows.append(f"| {name} | {policy} | " + " | ".join(cells) + f" | {found[0]['ports']} |")
    chance = baselines[SHOWN_PATHS]["random"]["imbalance"]
    rows.append(f"| chance | | " + " | ".join([f"{chance:.2f}"] * len(HASHES)) + " | |")
    return "\n".join(rows) + "\n"


def table(report, flows):
    spreads, baselines = report.numbers(flows)
    rows = ["| policy | hash | " + " | ".join(f"{n} paths" for n in PATHS) + " | ports |",
            "|---|---|" + "---:|" * (len(PATHS) + 1)]
    for policy, _ in POLICIES:
        for h in HASHES:
            cells = [cell(spreads[policy, h, n], baselines[n]) for n in PATHS]
            rows.append(f"| {policy} | {h} | " + " | ".join(cells) + f" | {spreads[policy, h, PATHS[0]]['ports']} |")
    rows.append("| chance | | " + " | ".join(f"{baselines[n]['random']['imbalance']:.2f}" for n in PATHS) + " | |")
    rows.append("| ideal | | " + " | ".join(f"{baselines[n]['ideal']['imbalance']:.2f}" for n in PATHS) + " | |")
    return "\n".join(rows) + "\n"


def tables(report):
    parts = ["""# Source ports over paths: all numbers

max/mean, the fullest path's load by the mean: of how many times the link each path needs. Bold: more than a quarter
above what chance does. `fixed` is left out: all flows take one path, and max/mean is the number of paths. What the
scenarios stand for, and what follows: [entropy.md](../entropy.md). This page is generated:
`test/unit/uroce/entropy_report.py build/app/uroce/uroce doc --write`, and a unit test compares it.
"""]
    for name, about, flows in SCENARIOS:
        parts.append(f"## {name}\n\n{about}.\n")
        for n in FLOWS:
            paths = ",".join(map(str, PATHS))
            parts.append(f"### {name}: {n} flows\n\n    uroce entropy {' '.join(flows(n))} --paths {paths}\n\n"
                         + table(report, flows(n)))
    return "\n".join(parts)


def picture(report, name):
    flows = next(f for n, _, f in SCENARIOS if n == name)
    with tempfile.NamedTemporaryFile("r", suffix=".svg") as file:
        report.run(*flows(SHOWN_FLOWS), "--paths", str(SHOWN_PATHS), "--svg", file.name)
        return pathlib.Path(file.name).read_text()


def page(report, folder):
    """The written page with its generated part new."""
    text = (folder / "entropy.md").read_text()
    head, rest = text.split(BEGIN)
    return head + BEGIN + summary(report) + END + rest.split(END)[1]


def wanted(report, folder):
    files = {"entropy.md": lambda: page(report, folder), "generated/entropy-tables.md": lambda: tables(report)}
    files.update({f"img/entropy-{name}.svg": lambda name=name: picture(report, name) for name in PICTURES})
    return files


# What the page says in words: options, lines of flows, policy, hash, paths, and the name and range of a number.
SERVER = "".join(f"0x11 {0x10 + i} 10.0.0.{i} 10.0.1.1\n" for i in range(1, 65))
MESH = "".join(f"{a} {b}\n" for a in range(0x100, 0x120) for b in range(0x100, 0x120))
CLAIMS = (
    (["-q", "16-79:16-79"], "", "kernel", "xor", 16, "idle", 12, 12),
    (["-q", "16-79:16-79"], "", "kernel", "xor", 64, "idle", 52, 52),
    (["-q", "16-1039:16-1039"], "", "kernel", "xor", 16, "imbalance", 1.445, 1.455),
    (["-q", "16-4111:16-4111"], "", "kernel", "xor", 16, "imbalance", 1.0, 1.15),
    (["-q", "0x2000:16-271"], "", "kernel", "xor", 16, "ports", 128, 128),
    (["-q", "0x2000:16-4111"], "", "kernel", "xor", 16, "ports", 128, 128),
    (["-q", "0x2000:16-271"], "", "kernel", "crc32", 16, "idle", 8, 8),
    *((["-q", "0x2000:16-4111"], "", "kernel", h, 64, "imbalance", 1.99, 2.05) for h in HASHES[:3]),
    (["-q", "0x2000:16-4111"], "", "kernel", "xor", 64, "imbalance", 1.0, 1.05),
    (["-q", "128:128-131072/128"], "", "kernel", "xor", 16, "ports", 64, 64),
    (["-f", "-"], SERVER, "kernel", "xor", 16, "idle", 15, 15),
    (["-f", "-"], SERVER, "rfc", "xor", 16, "idle", 14, 14),
    (["-f", "-"], SERVER, "rfc", "xor", 16, "imbalance", 15.75, 15.75),
    *((["-f", "-"], MESH, p, "xor", 16, "ports", 1, 528) for p in ("kernel", "rfc", "spray")),
    (["-q", "16-79:16-79"], "", "rfc", "crc32", 16, "idle", 8, 8),
    (["-q", "16-271:515-770"], "", "rfc", "xor", 16, "ports", 27, 27),
    (["-q", "16-4111:515-4610"], "", "rfc", "xor", 16, "ports", 113, 113),
    *((["-q", "16-526/2:17-527/2"], "", "rfc", h, 16, "idle", 15, 15) for h in HASHES),
    (["-q", "0x400-0x43c0/64:0x800-0x47c0/64"], "", "rfc", "xor", 16, "ports", 4, 4),
    *((["-q", "16-271:515-770"], "", "spray", h, 16, "imbalance", 1.0, 1.1) for h in HASHES),
    *((["-r", "256", "--select", "high"], "", p, "xor", 16, "idle", 12, 12) for p in ("kernel", "rfc", "spray")),
)


def check_claims(report):
    for options, lines, policy, name, paths, number, least, most in CLAIMS:
        answer = json.loads(report.run(*options, "-p", policy, "-H", name, "-n", str(paths), "--json", lines=lines))
        value = answer["spreads"][0][number]
        if not least <= value <= most:
            raise Failure(f"{options}: {policy} with {name} over {paths} paths: {number} is {value}")


def main():
    report, folder = Report(sys.argv[1]), pathlib.Path(sys.argv[2])
    files = wanted(report, folder)
    if "--write" in sys.argv[3:]:
        for name, make in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(make())
        return 0

    def compare(name, make):
        path = folder / name
        if not path.exists() or path.read_text() != make():
            raise Failure(f"{path} is not current: entropy_report.py --write")
    tap = Tap(len(files) + 1)
    tap.point("what entropy.md says in words", lambda: check_claims(report))
    for name, make in files.items():
        tap.point(name, lambda: compare(name, make))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
