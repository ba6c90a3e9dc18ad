#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/bench and budgets.py make of numbers and of programs' output. TAP; runs no program."""
import json
import os
import sys
import tempfile
import xml.dom.minidom

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "bench"), os.path.join(HERE, "..", "kit")]
import budgets
import comparisons
import figures
import plot
import programs
import run
import uroce_kit as kit
from figures import Result, Target


def check(claim, what=""):
    if not claim:
        raise kit.Failure(f"does not hold: {what}")


def equal(found, wanted):
    check(found == wanted, f"{found!r} is not {wanted!r}")


def fails(function, kind):
    try:
        function()
    except kind:
        return
    raise kit.Failure(f"raised no {kind.__name__}")


def result(rounds, targets=(), **more):
    return Result("name", "Title", "GB/s", "TCP", targets, rounds, ["ours -x", "theirs"], **more)


def medians():
    equal(figures.median([3, 1, 2]), 2)
    equal(figures.median([4, 1, 2, 3]), 2.5)
    equal(figures.median([None, 5, None]), 5)
    equal(figures.median([]), None)
    r = result([(10, 1), (20, 10), (30, 10)])
    equal(r.value(), 20)
    equal(r.other_value(), 10)
    # Of the rounds, 10 2 3: not the medians' ratio, 2.
    equal(r.ratio(), 3)
    equal(result([(1, None), (2, None)]).ratio(), None)
    equal(result([(1, 0)]).ratio(), None)


def targets():
    least, most = Target("ratio", at_least=3), Target("value", at_most=10)
    equal(least.verdict(1, 3), "met")
    equal(least.verdict(1, 2.7), "**missed by 10 %**")
    equal(least.verdict(1, 2.999), "**missed by 0.0 %**")
    equal(least.verdict(1, None), "not measured")
    equal(most.verdict(10, None), "met")
    equal(most.verdict(15, None), "**missed by 50 %**")
    equal(most.score(5, None), 2)
    equal(least.score(0, 1.5), 0.5)
    equal(most.score(0, None), None)
    equal(least.text("GB/s"), "≥ 3 ×")
    equal(most.text("µs"), "≤ 10 µs")
    fails(lambda: Target("value"), ValueError)
    fails(lambda: Target("value", at_least=1, at_most=2), ValueError)
    fails(lambda: Target("speed", at_least=1), ValueError)
    both = result([(9, 2)], [Target("value", at_least=8), Target("ratio", at_least=9)])
    equal(both.missed(), both.targets[1:])
    equal(both.score(), 0.5)
    equal(result([(9, 2)]).score(), None)


def numbers():
    for value, text in ((0, "0"), (None, ""), (0.0471, "0.047"), (0.5, "0.5"), (1.484, "1.48"), (28.0, "28"),
                        (28.44, "28.4"), (99.96, "100"), (2424.7, "2425"), (8, "8"), (100, "100"), (10, "10")):
        equal(figures.number(value), text)
    equal(figures.spread([2, 1, 3]), "2 (1 – 3)")
    equal(figures.spread([2]), "2")
    equal(figures.spread([]), "")


def tables():
    r = result([(9, 2), (10, 2)], [Target("value", at_least=8), Target("ratio", at_least=10)])
    row = figures.table_row(r)
    equal(row, "| Title | GB/s | 9.5 | 2 | TCP | 4.75 (4.5 – 5) | ≥ 8 GB/s; ≥ 10 × | met; **missed by 52 %** |")
    equal(row.count("|"), figures.HEAD.splitlines()[0].count("|"))
    absent = figures.table_row(result([], problem="there is no iperf3"))
    equal(absent, "| Title | GB/s |  |  | TCP |  |  | not measured: there is no iperf3 |")
    equal(absent.count("|"), row.count("|"))
    check("1 rounds only: it broke" in figures.table_row(result([(1, 1)], problem="it broke")), "the problem is told")
    equal(figures.summary([r, result([], r.targets)]), "2 targets: 1 met, 1 missed (name); not measured: name.")
    equal(figures.summary([result([(0, 1)], r.targets)]), "0 targets: 0 met, 0 missed.")


def pages():
    r = result([(9, 2)], [Target("value", at_least=8)])
    part = figures.page([("Group", [r])], ["machine"], "scripts/bench", "img/p.svg")
    text = f"before\n{figures.BEGIN}\nold\n{figures.END}\nafter\n"
    new = figures.replace_part(text, part)
    check(new.startswith("before\n") and new.endswith("\nafter\n") and "old" not in new, new)
    check("| Title | `ours -x` | `theirs` |" in new and "img/p.svg" in new and "### Group" in new, new)
    # And once more, over itself.
    equal(figures.replace_part(new, part), new)
    for bad in ("no marks", text + text, f"{figures.END}\n{figures.BEGIN}"):
        fails(lambda: figures.replace_part(bad, part), ValueError)
    with open(os.path.join(HERE, "..", "..", "doc", "performance.md")) as file:
        figures.replace_part(file.read(), part)


def kept():
    r = result([(9, 2), (8, None)], [Target("value", at_least=8), Target("ratio", at_most=10)], problem="p")
    again = Result.from_dict(json.loads(json.dumps(r.as_dict())))
    equal(again.as_dict(), r.as_dict())
    equal(again.rounds, [(9, 2), (8, None)])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f")
        for text in ("one", "two"):
            figures.write_file(path, text)
        with open(path) as file:
            equal(file.read(), "two")
        equal(os.listdir(folder), ["f"])


def pictures():
    results = [result([(value, None)], [Target("value", at_least=8)]) for value in (1e-6, 4, 8, 16, 1e6)]
    for r, title in zip(results, ("a <b> & `c`", "d", "e", "f", "g")):
        r.title = title
    document = xml.dom.minidom.parseString(plot.svg(results + [result([(1, 2)]), result([])]))
    bars = [e for e in document.getElementsByTagName("rect") if e.getAttribute("fill") in (plot.MET, plot.MISSED)]
    equal([e.getAttribute("fill") == plot.MET for e in bars], [False, False, True, True, True])
    middle = plot.x_of(1)
    for e, left in zip(bars, (True, True, False, False, False)):
        start, end = float(e.getAttribute("x")), float(e.getAttribute("x")) + float(e.getAttribute("width"))
        check(plot.LABELS <= start and end <= plot.LABELS + plot.WIDTH, "the bar is inside")
        check((start < middle - 1) == left and (end <= middle + 0.1) == left, "the bar is on its side")
    check(any(t.firstChild.data == "a <b> & c" for t in document.getElementsByTagName("text")), "the title")


def outputs():
    equal(programs.qperf_value("tcp_bw:\n    bw   =  1,800,339 KB/sec\n", "bw"), 1800339e3)
    check(abs(programs.qperf_value("tcp_lat:\n    latency  =  4.5 us\n", "latency") - 4.5e-6) < 1e-12, "4.5 µs")
    fails(lambda: programs.qperf_value("tcp_lat:\n", "latency"), kit.Failure)
    row = "                       10000     12.614    39.335    39.335        0.19       0.20       25423       25424"
    equal(programs.ucx_columns(f"|  Test |\n{row}\n\n")[1:6:2], [12.614, 39.335, 0.20])
    fails(lambda: programs.ucx_columns("| Test |\n[1795.5] [vm:1] UCX  ERROR failed\n"), kit.Failure)
    equal(programs.received_bytes("RX-packets: 7 RX-missed: 0 RX-bytes:  700\n  TX-bytes: 9\n"), 700)
    fails(lambda: programs.received_bytes("nothing"), kit.Failure)
    equal(round(programs.gigabytes([65536, 9, 0, 1000, 1]), 9), 1.048576)


def group_of(rig, *measures):
    members = [comparisons.Comparison(f"c{i}", f"C{i}", "s", ("", m)) for i, m in enumerate(measures)]
    return comparisons.Group("g", "G", rig, members)


def boom(_):
    raise kit.Failure("first line\nsecond")


def rounds():
    said, order = [], []

    def note(value):
        def function(_):
            order.append(value)
            return value
        return function

    group = group_of(comparisons.nothing, note(1), boom, note(2))
    group.comparisons[2].once = True
    absent = comparisons.Comparison("c3", "C3", "s", ("", note(3)), needs=["no-such-program", "sh"])
    results = run.measure_group(group, group.comparisons + [absent], 3, run.Clock(60), said.append)
    equal(order, [1, 2, 1, 1])
    equal([len(r.rounds) for r in results], [3, 0, 1, 0])
    equal([r.problem for r in results], [None, "first line", None, "there is no no-such-program"])
    equal(len(said), 1)
    over = run.measure_group(group, group.comparisons, 3, run.Clock(-1), said.append)
    equal([r.problem for r in over], ["no time was left"] * 3)

    def no_rig():
        raise kit.Failure("no daemon")

    broken = run.measure_group(group_of(no_rig, note(1)), group_of(no_rig, note(1)).comparisons, 1, run.Clock(60),
                               said.append)
    equal(broken[0].problem, "no daemon")


def choices():
    groups = comparisons.groups(comparisons.Settings(None, "/tmp", True))
    names = [c.name for group in groups for c in group.comparisons]
    equal(len(names), len(set(names)))
    equal([c.name for _, cs in run.chosen(groups, []) for c in cs], names)
    equal([group.name for group, _ in run.chosen(groups, ["ucx", "idle"])], ["loopback", "ucx"])
    equal([c.name for _, cs in run.chosen(groups, ["write_bw"]) for c in cs], ["write_bw", "write_bw-8"])
    equal(run.chosen(groups, ["nothing of this name"]), [])


CALLGRIND = """fn=main
0 10
cfn=cost_a
calls=2 0
0 500
cfn=b.constprop.0
calls=1 0
0 7
fn=cost_a
0 100
cfn=b
calls=3 0
0 9
"""


def callgrind_output():
    equal(budgets.inclusive(CALLGRIND), {"cost_a": (2, 500), "b": (4, 16)})


def judgements():
    equal([budgets.judge(count, 100, 3) for count in (104, 103, 97, 96)], ["over", "kept", "kept", "under"])
    known = {"stages": {"a": {"budget": 100}, "b": {"budget": 100, "tolerance": 10}, "c": {"budget": 100}}}
    lines, failed = budgets.report({"a": 104, "b": 104, "c": 50, "d": 1}, known)
    equal(failed, 2)
    equal([line.split(" - ")[0] for line in lines if "ok" in line.split()[:2]], ["not ok 1", "ok 2", "ok 3", "not ok 4"])
    check(any("c is well under" in line for line in lines), "told of what may be lowered")

    counts = {"write-8": 1000, "swift-8": 1040, "write-4096": 1000, "dcqcn-4096": 1060, "swift-8 request": 1}
    equal([(op, size, round(more, 3)) for op, size, more in budgets.dearer(counts)], [("dcqcn", 4096, 6.0), ("swift", 8, 4.0)])
    lines, failed = budgets.report(counts, {"stages": {name: {"budget": count} for name, count in counts.items()}})
    equal(failed, 1)
    equal([line.split(" - ")[0] for line in lines if "% more, at most" in line], ["not ok 6", "ok 7"])


def updates():
    known = {"compiler": "gcc 12", "stages": {"a": {"budget": 100, "target": 50}, "gone": {"budget": 1}}}
    new = budgets.updated(known, {"a": 100.4, "b": 7.0}, "gcc 13", True)
    equal(new, {"compiler": "gcc 13", "stages": {"a": {"budget": 100, "target": 50}, "b": {"budget": 7.0}}})
    part = budgets.updated(known, {"a": 90.0}, "gcc 12", False)
    equal(part["stages"], {"a": {"budget": 90.0, "target": 50}, "gone": {"budget": 1}})
    equal(known["stages"]["a"]["budget"], 100)
    text = budgets.as_text(new)
    equal(json.loads(text), new)
    equal(len(text.splitlines()), 2 + len(new["stages"]))
    with open(budgets.FILE) as file:
        content = file.read()
    equal(budgets.as_text(json.loads(content)), content)


POINTS = (medians, targets, numbers, tables, pages, kept, pictures, outputs, rounds, choices, callgrind_output,
          judgements, updates)


def main():
    tap = kit.Tap(len(POINTS))
    for point in POINTS:
        tap.point(point.__name__.replace("_", " "), point)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
