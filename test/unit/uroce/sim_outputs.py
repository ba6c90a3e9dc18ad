#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce sim` from outside: its outputs agree with each other, and come again byte for byte: sim_outputs.py UROCE EXAMPLES"""
import csv
import json
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kit"))
from uroce_kit import Failure, Tap

UROCE, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])

SMALL = """seed 4
until 2ms
hosts control=dcqcn
links loss=0.001
switches buffer=200K
clos leaves=2 spines=2 hosts=3
incast h[2-6] to=h1 size=100K
poisson load=0.2 sizes=4K:3,60K:1 verb=send
flow h1 h6 size=300K verb=read
fail leaf1 spine1 at=300us until=600us
"""

RULES = ("drop rx chance 0.005 seed 7", "h1 corrupt rx opcode RC_SEND_*,RC_WRITE_* nth 50", "h[2-3] delay 20us tx chance 0.01",
         "reorder 3 rx nth 90", "duplicate tx nth 70", "mark rx opcode RC_WRITE_* chance 0.1 device h1",
         "h6 nak remote_access rx count 1", "h4 link_down after 50us for 100us")
# A byte of a link without delay takes less than a nanosecond.
INSTANT = "links rate=10000g delay=0\nhost a b\nlink a b\nflow a b size=1\n"
FILE_MAX = 64 << 20  # a picture without an end fills no disk

SPOILED = SMALL + "".join(f"fault {rule}\n" for rule in RULES)


def require(condition, what):
    if not condition:
        raise Failure(what)


def sim(*arguments, text=SMALL):
    return subprocess.run([UROCE, "sim", *map(str, arguments), "-"], input=text, capture_output=True, text=True, timeout=100,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX)))


def good(*arguments, text=SMALL):
    done = sim(*arguments, text=text)
    require(done.returncode == 0 and not done.stderr, f"{arguments}: status {done.returncode}: {done.stderr}")
    return done.stdout


def all_outputs(folder, text=SMALL):
    """Every byte that a run writes."""
    out = pathlib.Path(folder)
    files = {"stdout": good("--json", "--csv", out, "--svg", out, "--pcap", out, text=text).encode()}
    files.update({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    return files


def run_twice(text=SMALL):
    """All outputs, after a comparison with those of a second run."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = all_outputs(one, text), all_outputs(two, text)
    require(len(first) == 1 + 4 + 3 + 10, f"files: {sorted(first)}")
    require(first.keys() == second.keys(), "other files")
    for name, content in first.items():
        require(content == second[name], f"{name} is not the same again")
    return first


def same_again():
    first = run_twice()
    require(b"faults" not in first["stdout"], "rules without a rule")
    require(good("--json") == first["stdout"].decode(), "outputs change the results")
    require(json.loads(good("--json", "--seed", str(2 ** 63 - 1)))["seed"] == 2 ** 63 - 1, "a large seed")
    require(good("--json", "--seed", "5") != first["stdout"].decode(), "another seed changes nothing")


def rules_come_again():
    first, other = run_twice(SPOILED), run_twice(SPOILED.replace("seed 7", "seed 8"))
    captures = [name for name in first if name.endswith(".pcap")]
    require(all(first[name] != other[name] for name in captures if name.startswith("h")), "another seed of a rule changes nothing")
    require(good("--json", text=SPOILED) == first["stdout"].decode(), "outputs change the results")
    options = [word for rule in RULES for word in ("--fault", rule)]
    require(good("--json", *options) == first["stdout"].decode(), "--fault is not as a line")


def rules_act():
    answer = json.loads(good("--json", text=SPOILED))
    rules, drops = answer["faults"], answer["engine_drops"]
    require([(r["number"], r["rule"]) for r in rules] == [(n, rule[rule.find(" ") + 1:] if rule[0] == "h" else rule)
                                                          for n, rule in enumerate(RULES, 1)], rules)
    require([r["hosts"] for r in rules] == ["all", "h1", "h[2-3]", "all", "all", "h1", "h6", "h4"], rules)
    for rule in rules:
        require(rule["matched"] >= rule["acted"] >= 1 and not rule["missed"], f"a rule does not act: {rule}")
    require(drops["bad_icrc"] == rules[1]["acted"], f"of {rules[1]}: {drops}")
    require(rules[0]["acted"] < drops["fault_rule"] <= rules[0]["acted"] + rules[7]["acted"], f"of {rules[0]}: {drops}")
    require(answer["counters"]["retransmits"] > 0, answer["counters"])
    require([f["status"] for f in answer["flows"] if f["outcome"] == "failed"] == [10], "a NAK fails its flow")  # remote access
    lines = [line.split(None, 5) for line in good(text=SPOILED).split("\n\n")[1].splitlines()[1:]]
    require(lines[0] == ["number", "hosts", "matched", "acted", "missed", "rule"], lines[0])
    require([dict(zip(lines[0], map(str, line))) for line in lines[1:]] == [{k: str(v) for k, v in r.items()} for r in rules], lines)


def json_adds_up():
    answer = json.loads(good("--json"))
    frames, flows, ports = answer["frames"], answer["flows"], answer["ports"]
    require(frames["sent"] == sum(frames[k] for k in ("delivered", "dropped", "lost", "unrouted", "misplaced", "inside")),
            f"frames: {frames}")
    require(frames["lost"] > 0 and frames["sent"] > 1000, f"too little happens: {frames}")
    require(sum(p["dropped"] for p in ports) == frames["dropped"], "dropped")
    require(sum(p["lost"] for p in ports) == frames["lost"], "lost")
    require(sum(p["marked"] for p in ports) == frames["marked"], "marked")
    require(sum(p["frames"] for p in ports if p["name"].startswith("h")) <= frames["sent"], "ports of hosts")
    summary = answer["summary"]
    require(summary["bytes"] == sum(f["bytes"] for f in flows), "bytes")
    require(summary["done"] == sum(f["outcome"] == "done" for f in flows), "outcomes")
    times = sorted(f["ns"] for f in flows if f["outcome"] == "done")
    require(times and summary["p50_ns"] == times[(len(times) + 1) // 2 - 1], "the median")
    require(summary["p999_ns"] == times[-(-len(times) * 999 // 1000) - 1], "p99.9")
    rates = [f["bps"] for f in flows if f["outcome"] != "waiting"]
    jain = sum(rates) ** 2 / len(rates) / sum(r * r for r in rates)
    require(abs(summary["jain"] - jain) < 0.001, f"Jain's index is {jain}")
    for flow in flows:
        require(flow["outcome"] != "done" or flow["ns"] >= 0.99 * flow["ideal_ns"], f"faster than possible: {flow}")


def csv_agrees():
    answer = json.loads(good("--json"))
    with tempfile.TemporaryDirectory() as folder:
        good("--csv", folder)
        tables = {name: list(csv.DictReader((pathlib.Path(folder) / f"{name}.csv").open()))
                  for name in ("flows", "ports", "rates", "queues")}
    require([int(r["bytes"]) for r in tables["flows"]] == [f["bytes"] for f in answer["flows"]], "bytes of flows")
    require([int(r["end_ns"]) - int(r["start_ns"]) for r in tables["flows"] if r["end_ns"]] ==
            [f["ns"] for f in answer["flows"] if "ns" in f], "times of flows")
    require([int(r["queue_most"]) for r in tables["ports"]] == [p["queue_most"] for p in answer["ports"]], "queues of ports")
    most = {}
    for row in tables["queues"]:
        most[row["port"]] = max(most.get(row["port"], 0), int(row["most"]))
    for port in answer["ports"]:
        require(most.get(port["name"], 0) <= port["queue_most"], f"a queue of {port}")
    require(tables["rates"] and all(float(r["bps"]) > 0 for r in tables["rates"]), "rates")


def records(path):
    data = path.read_bytes()
    require(struct.unpack("<IHHIIII", data[:24])[0] == 0xA1B23C4D, f"{path}: no pcap file")
    at, last = 24, 0
    while at < len(data):
        seconds, nanoseconds, captured, length = struct.unpack("<IIII", data[at:at + 16])
        require(captured == length and seconds * 10 ** 9 + nanoseconds >= last, f"{path}: a record")
        last = seconds * 10 ** 9 + nanoseconds
        yield data[at + 16:at + 16 + captured]
        at += 16 + captured


def captures_are_whole():
    """Each frame is in the files of its links; `uroce dissect` finds every ICRC right."""
    with tempfile.TemporaryDirectory() as folder:
        answer = json.loads(good("--json", "--pcap", folder))
        for link in range(answer["links"]):
            one, other = answer["ports"][2 * link:2 * link + 2]
            path = pathlib.Path(folder) / (one["name"].replace(">", "-") + ".pcap")
            frames = list(records(path))
            require(len(frames) == one["frames"] + other["frames"], f"{path.name}: {len(frames)} frames")
            require(sum(map(len, frames)) == one["bytes"] + other["bytes"], f"{path.name}: bytes")
        path = pathlib.Path(folder) / "h1-leaf1.pcap"
        shown = subprocess.run([UROCE, "dissect", path], capture_output=True, text=True, timeout=60)
        lines = shown.stdout.splitlines()
        require(shown.returncode == 0 and sum(line.endswith("icrc ok") for line in lines) == len(list(records(path))),
                [line for line in lines if not line.endswith("icrc ok")][:5] + [shown.stderr])


def some_links_are_captured():
    with tempfile.TemporaryDirectory() as folder:
        good("--pcap", folder, "--link", "h[1-2]-*", "--link", "leaf2-spine1")
        names = sorted(path.name for path in pathlib.Path(folder).iterdir())
        require(names == ["h1-leaf1.pcap", "h2-leaf1.pcap", "leaf2-spine1.pcap"], names)


def links_of_one_name_are_captured():
    """As parallel links: in one file, each frame once."""
    text = "host a-b c a\nswitch b-c\nlink a-b c\nlink a b-c\nswitch s\nlink b-c s\nlink b-c s\nhost d\nlink d s\n" \
           "flow a-b c\nflow a d\n"
    with tempfile.TemporaryDirectory() as folder:
        answer = json.loads(good("--json", "--pcap", folder, text=text))
        paths = sorted(pathlib.Path(folder).iterdir())
        require([path.name for path in paths] == ["a-b-c.pcap", "b-c-s.pcap", "d-s.pcap"], paths)
        frames = sum(len(list(records(path))) for path in paths)
        require(frames == sum(port["frames"] for port in answer["ports"]), f"{frames} frames")


def pause_frames_are_captured():
    text = "until 200us\nswitches pfc=3 buffer=200K\nstar hosts=4\nincast h[2-4] to=h1 size=200K\n"
    with tempfile.TemporaryDirectory() as folder:
        answer = json.loads(good("--json", "--pcap", folder, text=text))
        pauses = [f for f in records(pathlib.Path(folder) / "h2-s1.pcap") if f[12:14] == b"\x88\x08"]
        require(answer["frames"]["dropped"] == 0 and answer["frames"]["pauses"] > 0, answer["frames"])
        require(pauses and all(f[:6].hex() == "0180c2000001" and f[14:18].hex() == "01010008" for f in pauses), "pause frames")
        require({f[24:26] for f in pauses} == {b"\0\0", b"\xff\xff"}, "pauses and their ends")


def pictures_are_sound(text=SMALL, names=("rates", "queues", "fct")):
    with tempfile.TemporaryDirectory() as folder:
        good("--svg", folder, text=text)
        for name in names:
            root = xml.parse(pathlib.Path(folder) / f"{name}.svg").getroot()
            paths = [p.get("d") for p in root.iter("{http://www.w3.org/2000/svg}path")]
            require(len(paths) > 5 and all(p and "nan" not in p and "inf" not in p for p in paths), f"{name}: {paths[:3]}")


def flows_take_no_time():
    require(json.loads(good("--json", text=INSTANT))["flows"][0]["ns"] == 0, "it takes time")
    pictures_are_sound(INSTANT, ("fct",))


def examples_run():
    for path in sorted(EXAMPLES.glob("*.net")):
        done = subprocess.run([UROCE, "sim", "--json", "--until", "300us", path], capture_output=True, text=True, timeout=100)
        require(done.returncode == 0, f"{path.name}: {done.stderr}")
        require(json.loads(done.stdout)["frames"]["delivered"] > 0, f"{path.name}: nothing arrives")


def wrong_usage():
    for arguments, text, status, word in (
            ((), "star hosts=2\nflow h1 h9\n", 1, '-:2: there is no node "h9"'),
            (("--seed", "x"), SMALL, 2, "--seed takes a number"),
            (("--seed", str(2 ** 63)), SMALL, 2, "--seed takes a number"),
            (("--until", "5"), SMALL, 2, "--until takes a time"),
            ((), SMALL + "fault fail reg_mr ENOMEM\n", 1, '-:11: "fail" is about the calls'),
            (("--fault", "dorp rx"), SMALL, 2, '--fault "dorp rx": "dorp" is no action'),
            (("--fault", "event port_err"), SMALL, 2, '"event" happens at once'),
            (("--fault", "h9 drop"), SMALL, 2, 'no host is called "h9"'),
            (("--fault", "drop") * 33, SMALL, 2, "--fault takes 32 rules"),
            (("--link", "h1-*"), SMALL, 2, "--link goes with --pcap"),
            (("--nothing",), SMALL, 2, "--help says more"),
            (("other.net",), SMALL, 2, "one FILE"),
            (("--csv", "/dev/null/x"), SMALL, 1, "/dev/null/x: Not a directory"),
            (("--svg", "/dev/null"), SMALL, 1, "/dev/null: Not a directory"),
            (("--pcap", "/dev/null/x"), SMALL, 1, "/dev/null/x"),
            (("--pcap", "/dev/null/x", "--link", "h1-*", "--link", "h99-*"), SMALL, 1, '--link: no link is called "h99-*"')):
        done = sim(*arguments, text=text)
        require(done.returncode == status and word in done.stderr, f"{arguments}: {done.returncode}: {done.stderr}")
        require(not done.stdout, f"{arguments}: it was run")
    done = subprocess.run([UROCE, "sim", "/nonexistent.net"], capture_output=True, text=True, timeout=60)
    require(done.returncode == 1 and "nonexistent.net: No such file" in done.stderr, done.stderr)
    require("usage: uroce sim" in good("--help"), "--help")


def main():
    tap = Tap(14)
    for name, check in (("all outputs come again byte for byte", same_again),
                        ("and with rules that spoil frames", rules_come_again),
                        ("which act, and are counted", rules_act),
                        ("the numbers of --json add up", json_adds_up),
                        ("the tables of --csv agree with them", csv_agrees),
                        ("the files of --pcap have every frame", captures_are_whole),
                        ("--link chooses among them", some_links_are_captured),
                        ("links of one name share a file", links_of_one_name_are_captured),
                        ("pause frames are in them", pause_frames_are_captured),
                        ("the pictures of --svg are sound", pictures_are_sound),
                        ("also of flows that take no time", flows_take_no_time),
                        ("a text summary is printed", lambda: require("goodput" in good(), "no summary")),
                        ("the examples run", examples_run),
                        ("wrong usage is refused with a reason", wrong_usage)):
        tap.point(name, check)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
