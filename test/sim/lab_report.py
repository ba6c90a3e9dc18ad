#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the tables and pictures of doc/lab.md are what `uroce sim` gives for examples/sim, and keep their promises:

    lab_report.py UROCE ROOT

With --write it makes them so. The promises (CLAIMS) hold all the same."""
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kit"))
from uroce_kit import Failure, Tap

PAGE = "doc/lab.md"
BEGIN, END = "<!-- begin: lab_report.py {} -->\n", "<!-- end -->\n"
PICTURES = (("incast", "queues"), ("share", "rates"), ("dcqcn", "rates"), ("poisson", "fct"))
HEADERS, FCS_AND_GAP, MTU = 58, 24, 4096  # of a frame in the middle of a WRITE


def require(condition, what):
    if not condition:
        raise Failure(what)


class Lab:
    def __init__(self, uroce, root):
        self.uroce, self.root, self.kept = uroce, root, {}

    def text(self, example, changes, more):
        text = (self.root / "examples/sim" / f"{example}.net").read_text()
        for old, new in changes:
            require(old in text, f"{example}.net has no \"{old}\"")
            text = text.replace(old, new)
        return text + "".join(line + "\n" for line in more)

    def run(self, example, *more, changes=(), options=()):
        """The JSON answer for an example with changes, and with more lines."""
        key = example, more, changes
        if options or key not in self.kept:
            done = subprocess.run([self.uroce, "sim", "--json", *options, "-"], input=self.text(example, changes, more),
                                  capture_output=True, text=True, timeout=300)
            require(done.returncode == 0, f"{example}: {done.stderr}")
            self.kept[key] = json.loads(done.stdout)
        return self.kept[key]


    def summary(self, example):
        """The lines that are printed without --json, and its command."""
        done = subprocess.run([self.uroce, "sim", self.root / f"examples/sim/{example}.net"], capture_output=True, text=True,
                              timeout=300)
        require(done.returncode == 0, f"{example}: {done.stderr}")
        lines = [f"$ uroce sim {example}.net"] + done.stdout.split("\n\n")[0].splitlines()
        return "".join(f"    {line}\n" for line in [*lines, "..."])


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" if i == 0 else "---:" for i in range(len(head))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


# ---- DCQCN against its equations (Zhu et al., SIGCOMM 2015, 3.1 and 5.1) ----

LINE, G, CLOCK, BYTES, FAST, ADDITIVE, HYPER = 40e9, 1 / 256, 55e-6, 10e6, 5, 40e6, 400e6
CNPS = [2.004e-3 + 60e-6 * i for i in range(4)]  # the marks, and the way of mark and CNP
WINDOW = 2e-3


def equations(until, step=1e-6):
    """The sender's rate in each step."""
    rate = target = LINE
    alpha, started, cnps, rates, t = 1.0, False, list(CNPS), [], 0.0
    alpha_at = time_at = sent = 0
    times = counts = 0
    while t < until:
        if cnps and t >= cnps[0]:
            cnps.pop(0)
            while started and alpha_at + CLOCK <= t:
                alpha, alpha_at = alpha * (1 - G), alpha_at + CLOCK
            started, target = True, rate
            rate, alpha = rate * (1 - alpha / 2), (1 - G) * alpha + G
            alpha_at = time_at = t
            sent = times = counts = 0
        increases = 0
        if started:
            sent += rate * step / 8
            if sent >= BYTES:
                sent, counts, increases = sent - BYTES, counts + 1, increases + 1
            if t - time_at >= CLOCK - 1e-12:
                time_at, times, increases = time_at + CLOCK, times + 1, increases + 1
        for _ in range(increases):
            if min(times, counts) > FAST:
                target += (min(times, counts) - FAST) * HYPER
            elif max(times, counts) > FAST:
                target += ADDITIVE
            target = min(target, LINE)
            rate = (rate + target) / 2
        rates.append(rate)
        t += step
    return rates


def dcqcn(lab):
    """(ms, measured, expected) of each window: bytes of data."""
    with tempfile.TemporaryDirectory() as folder:
        lab.run("dcqcn", options=("--csv", folder))
        rows = list(csv.DictReader((pathlib.Path(folder) / "rates.csv").open()))
    per, rates, found = round(WINDOW / 0.5e-3), equations(30e-3), []
    for i in range(per - 1, len(rows) - per + 1, per):  # the first sample is the second of the run
        part = rows[i:i + per]
        last = int(part[-1]["ns"])
        expected = [min(r * MTU / (MTU + HEADERS), LINE * MTU / (MTU + HEADERS + FCS_AND_GAP))
                    for r in rates[round(last / 1e3) - round(WINDOW * 1e6):round(last / 1e3)]]
        found.append((last / 1e6, sum(float(r["bps"]) for r in part) / per, sum(expected) / len(expected)))
    return found


def dcqcn_table(lab):
    return table(("up to, ms", "in the laboratory, Gb/s", "equations, Gb/s", "difference"),
                 [(f"{ms:.0f}", f"{real / 1e9:.2f}", f"{wanted / 1e9:.2f}", f"{100 * (real / wanted - 1):+.1f} %")
                  for ms, real, wanted in dcqcn(lab)])


# ---- shares ----

# Those by delay with the round trip that all flows have when queues are empty.
CONTROLS = ("none", "dcqcn", "swift,base_delay=10", "rtt,base_delay=10")
SWIFT = CONTROLS[2]
SWIFT_TARGET = (10 + 30 + 60) * 1e-6  # for the smallest windows


def name_of(control):
    return control.split(",")[0]


def share(lab, flows, control, *more):
    return lab.run("share", f"hosts control={control}", *more, changes=(("h[1-8]", f"h[1-{flows}]"), ("hosts=9", f"hosts={flows + 1}"),
                                                                ("to=h9", f"to=h{flows + 1}")))


def endless_table(lab):
    rows = []
    for flows in (2, 8, 64):
        for control in ("none", "dcqcn"):
            a = share(lab, flows, control, ENDLESS)
            s = a["summary"]
            rows.append((flows, control, f"{s['late_bps'] / 1e9:.1f}", f"{s['late_jain']:.3f}", f"{s['late_queue'] / 1e3:.0f}",
                         f"{fullest(a) / 1e3:.0f}", a["counters"].get("rp_cnp_handled", 0)))
    return table(("flows", "control", "Gb/s", "Jain's index", "mean queue, kB", "most, kB", "CNPs"), rows)


def fullest(answer):
    return max(p["queue_most"] for p in answer["ports"] if p["name"].startswith("s"))


def share_table(lab):
    rows = []
    for flows in (2, 8, 64):
        for control in CONTROLS:
            a = share(lab, flows, control)
            s = a["summary"]
            rows.append((flows, name_of(control), f"{s['late_bps'] / 1e9:.1f}", f"{s['late_jain']:.3f}", f"{s['late_queue'] / 1e3:.0f}",
                         f"{fullest(a) / 1e3:.0f}", a["frames"]["dropped"]))
    return table(("flows", "control", "Gb/s", "Jain's index", "mean queue, kB", "most, kB", "frames dropped"), rows)


# ---- a switch that never drops ----

DEEP = {2: ("h[1-2]", 1), 8: ("h[1-4]", 2), 65: ("h[1-5]", 13)}  # flows: from which hosts, and how many of each
GENTLE = ("dcqcn,rpg_time_reset=300", "dcqcn,rpg_ai_rate=1")  # increases that suit many flows over a slow link
ENDLESS = "switches buffer=1G alpha=all"


def deep(lab, flows, control):
    hosts, each = DEEP[flows]
    return lab.run("deep", f"hosts control={control}", changes=(("h[1-5]", hosts), ("flows=13", f"flows={each}")))


def deep_table(lab):
    rows = []
    for flows in DEEP:
        for control in ("none", "dcqcn", *GENTLE, "swift,base_delay=12"):
            a = deep(lab, flows, control)
            s = a["summary"]
            rows.append((flows, control if control in GENTLE else name_of(control), f"{s['late_bps'] / 1e9:.2f}", f"{s['late_jain']:.3f}", f"{s['late_queue'] / 1e3:.0f}",
                         f"{fullest(a) / 1e3:.0f}", a["counters"].get("rp_cnp_handled", 0)))
    return table(("flows", "control", "Gb/s", "Jain's index", "mean queue, kB", "most, kB", "CNPs"), rows)


# ---- incast ----

INCASTS = tuple((control, pfc) for pfc in ("", "pfc=3") for control in CONTROLS)


def incast(lab, control, pfc):
    return lab.run("incast", f"hosts control={control}", *([f"switches {pfc}"] if pfc else []))


def incast_table(lab):
    rows = []
    for control, pfc in INCASTS:
        a = incast(lab, control, pfc)
        s = a["summary"]
        rows.append((name_of(control), "yes" if pfc else "no", f"{s['goodput_bps'] / 1e9:.1f}", a["frames"]["dropped"],
                     a["counters"].get("retransmits", 0), a["frames"]["pauses"], f"{s['p50_ns'] / 1e6:.2f}",
                     f"{s['p999_ns'] / 1e6:.2f}"))
    return table(("control", "PFC", "goodput, Gb/s", "frames dropped", "sent again", "pauses", "median, ms", "p99.9, ms"), rows)


# ---- an incast over a switch that trims ----

TRIMS = tuple((control, selective, trim) for control in CONTROLS[:3] for selective in ("no", "yes") for trim in ("no", "yes"))


def trimmed(lab, control, selective, trim):
    if (selective, trim) == ("no", "no"):
        return incast(lab, control, "")
    return lab.run("incast", f"hosts control={control} selective={selective}", f"switches trim={trim}")


def trim_table(lab):
    rows = []
    for control, selective, trim in TRIMS:
        a = trimmed(lab, control, selective, trim)
        s = a["summary"]
        rows.append((name_of(control), selective, trim, f"{s['goodput_bps'] / 1e9:.1f}", a["frames"]["dropped"], a["frames"]["trimmed"],
                     a["counters"].get("retransmits", 0), f"{s['p50_ns'] / 1e6:.2f}", f"{s['p999_ns'] / 1e6:.2f}"))
    return table(("control", "selective", "trim", "goodput, Gb/s", "frames dropped", "trimmed", "sent again", "median, ms", "p99.9, ms"), rows)


# ---- small messages beside large ones ----

def mice(lab, control, pfc):
    return lab.run("mice", f"hosts control={control}", *([f"switches {pfc}"] if pfc else []))


def mice_table(lab):
    rows = []
    for control, pfc in INCASTS:
        a = mice(lab, control, pfc)
        s = a["summary"]
        rows.append((name_of(control), "yes" if pfc else "no", f"{s['late_bps'] / 1e9:.1f}", f"{s['late_queue'] / 1e3:.0f}", a["frames"]["dropped"],
                     f"{s['done']} of 1024", f"{s['p50_ns'] / 1e3:.0f}", f"{s['p999_ns'] / 1e3:.0f}"))
    return table(("control", "PFC", "all, Gb/s", "mean queue, kB", "frames dropped", "small ones done", "their median, us", "p99.9, us"), rows)


# ---- paths ----

PATHS = tuple((f"entropy={p}", f"hosts entropy={p}", "flow") for p in ("kernel", "rfc", "spray", "fixed:50000")) + tuple(
    (f"ecmp={e}", "hosts entropy=kernel", e) for e in ("spray", "roundrobin", "adaptive"))
DEAD = tuple(f"fail leaf{i} spine1 at=1ms" for i in range(1, 5))
SPINES = 8


def paths(lab, hosts, ecmp, dead):
    more = [hosts, f"switches ecmp={ecmp}"]
    if dead == "silent":
        more.append("hosts repath=1 timeout=8")
    if dead:
        more += [line + (" silent=yes" if dead == "silent" else "") for line in DEAD]
    return lab.run("clos", *more)["summary"]["late_bps"]


def others(lab, hosts, ecmp, dead):
    """What is carried with a dead path, as a part of what the other paths carried before."""
    return paths(lab, hosts, ecmp, dead) / (paths(lab, hosts, ecmp, "") * (SPINES - 1) / SPINES)


def paths_table(lab):
    return table(("", "8 spines, Gb/s", "one dead, noticed", "of the others'", "one dead, silent", "of the others'"),
                 [(name, f"{paths(lab, hosts, ecmp, '') / 1e9:.0f}",
                   *(cell for dead in ("noticed", "silent")
                     for cell in (f"{paths(lab, hosts, ecmp, dead) / 1e9:.0f}", f"{others(lab, hosts, ecmp, dead):.2f}")))
                  for name, hosts, ecmp in PATHS])


# ---- the victim of a pause ----

def victim(lab, control, pfc):
    a = lab.run("pause", f"hosts control={control}", f"switches pfc={pfc}")
    return next(f for f in a["flows"] if f["name"] == "victim")["bps"], a


def pause_table(lab):
    rows = []
    for control, pfc in (("none", "no"), ("none", "3"), ("dcqcn", "3"), ("dcqcn", "no")):
        bps, a = victim(lab, control, pfc)
        to_r1 = sum(f["bps"] for f in a["flows"] if f["to"] == "r1")
        rows.append((control, pfc, f"{bps / 1e9:.1f}", f"{to_r1 / 1e9:.1f}", a["frames"]["dropped"], a["frames"]["pauses"]))
    return table(("control", "pfc", "victim, Gb/s", "the 8 others, Gb/s", "frames dropped", "pauses"), rows)


# ---- packets that go wrong ----

FIRST_RULE = "h2 drop rx opcode RC_WRITE_MIDDLE nth 100 count 1"  # as the file has it
RULES = ("", FIRST_RULE, "h2 drop rx opcode RC_WRITE_LAST count 1", "h2 corrupt rx opcode RC_WRITE_MIDDLE nth 100 count 1",
         "h1 drop rx opcode RC_ACK nth 3 count 1", "h2 delay 20us rx opcode RC_WRITE_LAST", "h2 reorder 3 rx opcode RC_WRITE_MIDDLE nth 100 count 1",
         "h1 nak rnr rx opcode RC_ACK nth 3 count 1", "h1 nak remote_access rx opcode RC_ACK count 1", "h2 link_down after 50us for 100us")


def rule(lab, text):
    return lab.run("faults", changes=((f"fault {FIRST_RULE}", f"fault {text}" if text else ""),))


def rules_table(lab):
    rows = []
    for text in RULES:
        a = rule(lab, text)
        flow = a["flows"][0]
        rows.append((f"`{text}`" if text else "none", flow["outcome"], f"{flow['ns'] / 1e3:.1f}", a["counters"].get("retransmits", 0),
                     a["counters"].get("timeouts", 0)))
    return table(("`fault`", "the flow is", "after, us", "sent again", "timeouts"), rows)


# ---- promises ----

def dcqcn_follows(lab):
    for ms, real, wanted in dcqcn(lab):
        require(abs(real / wanted - 1) <= 0.02, f"up to {ms} ms: {real / 1e9:.2f} Gb/s, not {wanted / 1e9:.2f}")


def shares_are_equal(lab):
    for control in ("dcqcn", SWIFT):
        for flows in (2, 8, 64):
            s = share(lab, flows, control)["summary"]
            require(s["late_jain"] >= 0.98, f"{control}, {flows} flows: Jain's index {s['late_jain']}")
            require(s["late_bps"] >= 0.85 * LINE, f"{control}, {flows} flows: {s['late_bps'] / 1e9} Gb/s")


def shares_are_equal_without_drops(lab):
    for flows in (2, 8, 64):
        a, without = share(lab, flows, "dcqcn", ENDLESS), share(lab, flows, "none", ENDLESS)["summary"]
        s = a["summary"]
        require(not a["frames"]["dropped"], f"{flows} flows: {a['frames']['dropped']} frames were dropped")
        require(s["late_jain"] >= 0.98, f"{flows} flows: Jain's index {s['late_jain']}")
        require(s["late_bps"] >= 0.85 * LINE, f"{flows} flows: {s['late_bps'] / 1e9} Gb/s")
        require(s["late_queue"] <= without["late_queue"] / 5, f"{flows} flows: {s['late_queue']} bytes in the queue")


def swift_keeps_its_target(lab):
    for flows in (2, 8, 64):
        a = share(lab, flows, SWIFT)
        waits = a["summary"]["late_queue"] * 8 / LINE
        require(waits <= SWIFT_TARGET, f"{flows} flows: packets wait for {waits * 1e6:.0f} us")
        require(not a["frames"]["dropped"], f"{flows} flows: {a['frames']['dropped']} frames were dropped")
    a = incast(lab, SWIFT, "")
    require(not a["frames"]["dropped"] and not a["counters"].get("retransmits", 0), f"incast: {a['frames']}")
    require(a["summary"]["goodput_bps"] >= 95e9, f"incast: {a['summary']['goodput_bps'] / 1e9} Gb/s")


def queues_stay_short(lab):
    for flows, control in ((2, "dcqcn"), (8, "dcqcn"), *((65, c) for c in GENTLE), *((n, "swift,base_delay=12") for n in DEEP)):
        require(control not in GENTLE or deep(lab, flows, control)["summary"]["late_jain"] >= 0.98, f"{control}: unequal shares")
        s, without = deep(lab, flows, control)["summary"], deep(lab, flows, "none")["summary"]
        require(s["late_queue"] <= without["late_queue"] / 5, f"{flows} flows, {control}: {s['late_queue']} bytes in the queue")
        least = 0.8 if control in GENTLE else 0.85
        require(s["late_bps"] >= least * without["late_bps"], f"{flows} flows, {control}: {s['late_bps'] / 1e9} Gb/s")


def pfc_drops_nothing(lab):
    without, controlled = (incast(lab, control, "") for control in ("none", "dcqcn"))
    require(controlled["frames"]["dropped"] < without["frames"]["dropped"] / 2, "control does not halve the drops")
    for control in ("none", "dcqcn"):
        a = incast(lab, control, "pfc=3")
        require(not a["frames"]["dropped"] and a["summary"]["done"] == 64, f"PFC with {control}: {a['frames']}")


def trimming_helps(lab):
    for control in ("none", "dcqcn"):
        for selective in ("no", "yes"):
            without, with_trim = (trimmed(lab, control, selective, trim) for trim in ("no", "yes"))
            old, new = without["summary"], with_trim["summary"]
            require(not with_trim["frames"]["dropped"] and new["done"] == 64, f"{control}, {selective}: {with_trim['frames']}")
            require(new["goodput_bps"] >= 1.05 * old["goodput_bps"] and new["p999_ns"] <= 0.95 * old["p999_ns"],
                    f"{control}, {selective}: {new['goodput_bps'] / 1e9:.1f} Gb/s after {old['goodput_bps'] / 1e9:.1f}")


def control_shortens_the_tail(lab):
    for pfc in ("", "pfc=3"):
        without = mice(lab, "none", pfc)["summary"]
        for control in CONTROLS[1:]:
            controlled = mice(lab, control, pfc)["summary"]
            require(controlled["p999_ns"] <= without["p999_ns"] / 5, f"{control}, {pfc}: p99.9 is more than a fifth")
            require(controlled["done"] == 1024 and controlled["late_bps"] >= 0.95 * without["late_bps"], f"{control}, {pfc}: {controlled}")


def dead_paths_are_left(lab):
    for name, hosts, ecmp in PATHS:
        require(others(lab, hosts, ecmp, "noticed") >= 0.85, f"{name}: a path that is down")
        if ecmp == "flow":
            require(others(lab, hosts, ecmp, "silent") >= 0.85, f"{name}: a path that is silent")


def pauses_have_victims(lab):
    paused, free = victim(lab, "none", "3")[0], victim(lab, "dcqcn", "3")[0]
    require(paused < 0.2 * LINE and free > 1.5 * paused, f"the victim has {paused / 1e9:.1f} and {free / 1e9:.1f} Gb/s")


def rules_cost_time(lab):
    alone = rule(lab, "")
    require("faults" not in alone, "there are rules")
    for text in RULES[1:]:
        a = rule(lab, text)
        found = a["faults"][0]
        require(found["acted"] >= 1 and not found["missed"] and f"{found['hosts']} {found['rule']}" == text, found)
        require(("corrupt" in text) == ("bad_icrc" in a["engine_drops"]), a["engine_drops"])
        if "remote_access" not in text:
            require(a["flows"][0]["ns"] >= alone["flows"][0]["ns"], f"{text}: faster than without")


CLAIMS = (("DCQCN's rate is that of its equations within 2 %", dcqcn_follows),
          ("2, 8 and 64 flows share a link, Jain's index 0.98", shares_are_equal),
          ("2, 8 and 64 flows under DCQCN do so over a switch that never drops", shares_are_equal_without_drops),
          ("queues are under Swift's target, and an incast drops nothing", swift_keeps_its_target),
          ("control keeps the queue of a switch short that never drops", queues_stay_short),
          ("of an incast control halves the drops, and PFC drops nothing", pfc_drops_nothing),
          ("of an incast a switch that trims drops nothing, and more gets through earlier", trimming_helps),
          ("control cuts the tail of small messages to a fifth", control_shortens_the_tail),
          ("with a dead path 0.85 of what the others carry is carried", dead_paths_are_left),
          ("pauses hold up a flow to an idle host, and control frees it", pauses_have_victims),
          ("a rule acts, and costs time", rules_cost_time))
TABLES = (("summary", lambda lab: "\n" + lab.summary("incast") + "\n"), ("dcqcn", dcqcn_table), ("share", share_table), ("endless", endless_table), ("deep", deep_table), ("incast", incast_table), ("trim", trim_table), ("mice", mice_table), ("paths", paths_table), ("pause", pause_table), ("rules", rules_table))


def picture(lab, example, kind):
    with tempfile.TemporaryDirectory() as folder:
        lab.run(example, options=("--svg", folder))
        return (pathlib.Path(folder) / f"{kind}.svg").read_text()


def written(page, name):
    part = re.search(re.escape(BEGIN.format(name)) + "(.*?)" + re.escape(END), page, re.S)
    require(part, f"{PAGE} has no place for the table \"{name}\"")
    return part


def write(lab):
    path = lab.root / PAGE
    page = path.read_text()
    for name, make in TABLES:
        part = written(page, name)
        page = page[:part.start(1)] + make(lab) + page[part.end(1):]
    path.write_text(page)
    for example, kind in PICTURES:
        (lab.root / f"doc/img/lab-{example}.svg").write_text(picture(lab, example, kind))


def check_table(lab, name, make):
    require(written((lab.root / PAGE).read_text(), name)[1] == make(lab),
            f"{PAGE}: the table \"{name}\" is another one now. If the change is meant: lab_report.py --write")


def check_picture(lab, example, kind):
    path = lab.root / f"doc/img/lab-{example}.svg"
    require(path.exists() and path.read_text() == picture(lab, example, kind), f"{path} is not current: lab_report.py --write")


def main():
    lab = Lab(sys.argv[1], pathlib.Path(sys.argv[2]))
    if "--write" in sys.argv[3:]:
        write(lab)
        return 0
    tap = Tap(len(CLAIMS) + len(TABLES) + len(PICTURES))
    for name, claim in CLAIMS:
        tap.point(name, lambda: claim(lab))
    for topic, make in TABLES:
        tap.point(f"the table \"{topic}\"", lambda: check_table(lab, topic, make))
    for example, kind in PICTURES:
        tap.point(f"the picture lab-{example}.svg", lambda: check_picture(lab, example, kind))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
