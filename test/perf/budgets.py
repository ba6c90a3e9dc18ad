#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions that each stage of the packet's path takes, counted by callgrind and compared with budgets.json. TAP.

usage: budgets.py --build DIR [--only NAME] [--update | --json]

A stage that takes more than its budget and the tolerance fails; one that takes less by more than that is told of, so
that its budget can be lowered. --update writes what was counted as the budgets. callgrind's processor has no AVX-512,
whatever the real one has, so the counts are the same on every machine with AVX2; other compilers give others."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "bench"), os.path.join(HERE, "..", "kit")]
import figures
import uroce_kit as kit

FILE = os.path.join(HERE, "budgets.json")
TOLERANCE = 3  # per cent
TIMES = 4096
# By size: enough messages that one-time work, such as growing the queues, has little weight.
MESSAGE_TIMES = {8: 16384, 4096: TIMES, 65536: 512}
# "marked": WRITEs, half of them with the mark "congestion experienced"; the names of controllers: WRITEs under these.
CONTROLLERS = ("dcqcn", "swift")
MESSAGES = [(op, size) for op in ("write", "send", "read") for size in MESSAGE_TIMES] + [("marked", 8)] + [
    (op, size) for op in CONTROLLERS for size in MESSAGE_TIMES]
# Other headers, services and work requests, of 8 bytes: the message that they are compared with, and how many times its instructions
# they may take. Atomics are answered by responses, as READs are. None: a budget alone. "copied": both ends' memory is not mapped; the
# copies themselves are no system calls here.
FORMS = {("write", "ipv6"): ("write-8", 1.05), ("read", "ipv6"): ("read-8", 1.05), ("write", "vlan"): ("write-8", 1.5),
         ("write", "vlan6"): ("write-8", 1.5), ("send", "srq"): ("send-8", 1.5), ("write", "inline"): ("write-8", 1.5),
         ("write", "fence"): ("write-8", 1.5), ("write", "uc"): ("write-8", 1.5), ("send", "uc"): ("send-8", 1.5),
         ("write-imm", ""): ("write-8", 1.5), ("send-imm", ""): ("send-8", 1.5), ("write", "sges"): ("write-8", 1.5), ("send", "ud"): ("send-8", 1.5),
         ("write", "counted"): ("write-8", 1.5), ("send", "counted"): ("send-8", 1.5), ("read", "counted"): ("read-8", 1.5),
         ("fetch-add", ""): ("read-8", 1), ("cmp-swap", ""): ("read-8", 1), ("fetch-add", "ipv6"): ("fetch-add-8", 1.05),
         ("read", "copied"): None, ("fetch-add", "copied"): ("read-8-copied", 1.5), ("write", "copied"): None, ("send", "copied"): None,
         ("write-imm", "copied"): ("write-8-copied", 1.5), ("send-imm", "copied"): ("send-8-copied", 1.5),
         ("send", "ud-copied"): ("send-8-copied", 1.5), ("send", "recv-sges"): ("send-8", 1.5), ("read", "sges"): ("read-8", 1.5),
         ("send", "srq-copied"): ("send-8-copied", 1.5), ("write", "alone"): None, ("read", "fence"): ("write-8-alone", 1.5),
         ("fetch-add", "fence"): ("write-8-alone", 1.5), ("send", "srq-sges"): ("send-8", 1.5), ("write", "sges-copied"): ("write-8-copied", 1.5),
         ("send", "recv-sges-copied"): None, ("atomic-write", ""): ("read-8", 1.1),
         ("flush", ""): ("read-8", 1.1), ("write", "xrc"): ("write-8", 1.5), ("write", "xrc6"): ("write-8", 1.5), ("send", "xrc"): ("send-8", 1.5),
         ("read", "xrc"): ("read-8", 1.5), ("fetch-add", "xrc"): ("fetch-add-8", 1.5)}
# Per cent that a message may cost more under a controller.
CONTROL = 5
# Queue pairs that are paced, and wait for their time. A packet of many may cost that many per cent more than one of few:
# what is fetched into the cache ahead of it (tx_ahead.c).
PACED = {n: f"paced-{n}" for n in (10, 10000)}
PACED_PACKETS, PACED_MORE = 40000, 10
# The functions of engine_cost, and what happens in them.
HALVES = {"requester_tx": "request", "responder_rx": "execute", "responder_tx": "answer", "requester_rx": "complete"}
SECONDS = 120


def inclusive(text):
    """Calls and instructions, those below included, of each function in callgrind's output, which it has to have
    written without compression of names and positions."""
    counts = {}
    callee = None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("cfn="):
            callee = re.sub(r"(\.(constprop|isra|part|cold)(\.\d+)?)+$", "", line[4:])
        elif line.startswith("calls="):
            calls, cost = int(line[6:].split()[0]), int(next(lines).split()[1])
            before = counts.get(callee, (0, 0))
            counts[callee] = before[0] + calls, before[1] + cost
    return counts


def callgrind(program, arguments):
    with tempfile.TemporaryDirectory(prefix="uroce-budgets.") as folder:
        out = os.path.join(folder, "out")
        result = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                                 "--compress-strings=no", "--compress-pos=no", program, *map(str, arguments)],
                                capture_output=True, text=True, timeout=SECONDS)
        if result.returncode != 0:
            raise kit.Failure(f"{program} {arguments}: exit status {result.returncode}:\n{result.stdout}{result.stderr}")
        with open(out) as file:
            return inclusive(file.read())


def count_stages(program):
    """{name: instructions} of the stages by themselves."""
    found = {name[5:]: cost / TIMES for name, (_, cost) in callgrind(program, ("stages", 0, TIMES)).items()
             if name.startswith("cost_")}
    if not found:
        raise kit.Failure("callgrind saw none of the stages")
    return found


def name_of(op, form):
    return f"{op}-8" + (f"-{form}" if form else "")


def count_form(program, op, form):
    """Instructions a message of both ends together."""
    seen = callgrind(program, (op, 8, MESSAGE_TIMES[8], form))
    return sum(seen[half][1] for half in HALVES if half in seen) / MESSAGE_TIMES[8]


def count_messages(program, op, size):
    """{name: instructions a message} of both ends together, and of each part."""
    times = MESSAGE_TIMES[size]
    seen = callgrind(program, (op, size, times))
    missing = [half for half in HALVES if half not in seen]
    if missing:
        raise kit.Failure(f"callgrind saw no {', '.join(missing)}")
    parts = {f"{op}-{size} {what}": seen[half][1] / times for half, what in HALVES.items()}
    return {f"{op}-{size}": sum(parts.values()), **parts}


def count_paced(program, queue_pairs):
    """Instructions of a packet that leaves when its queue pair's time has come, with those of the timer."""
    seen = callgrind(program, ("paced", queue_pairs, PACED_PACKETS))
    if "paced_tx" not in seen:
        raise kit.Failure("callgrind saw no paced_tx")
    writes = 1 << (-(-PACED_PACKETS // queue_pairs) - 1).bit_length()
    return seen["paced_tx"][1] / (queue_pairs * (writes - 1))


def count_all(program, only=""):
    """In the order of the file: messages and their parts, then stages. only: those whose name contains it."""
    counts = {}
    for op, size in MESSAGES:
        name = f"{op}-{size}"
        if only in name or name in only or any(only in f"{name} {what}" for what in HALVES.values()):
            counts.update(count_messages(program, op, size))
    counts.update({name_of(*form): count_form(program, *form) for form in FORMS if only in name_of(*form)})
    counts.update({name: count_paced(program, n) for n, name in PACED.items() if only in name})
    # Without one of its messages' names it may be a stage's.
    if only not in PACED.values() and not any(f"{op}-{size}" in only for op, size in MESSAGES):
        counts.update(count_stages(program))
    return {name: round(count, 1) for name, count in counts.items() if only in name}


def judge(count, budget, tolerance):
    """"over", "under" (by more than the tolerance, so that the budget may be lowered) or "kept"."""
    if count > budget * (1 + tolerance / 100):
        return "over"
    return "under" if count < budget * (1 - tolerance / 100) else "kept"


def dearer(counts):
    """(controller, size, per cent that a message costs more than without it) of those that were counted."""
    return [(op, size, 100 * (counts[f"{op}-{size}"] / counts[f"write-{size}"] - 1)) for op in CONTROLLERS
            for size in MESSAGE_TIMES if f"{op}-{size}" in counts and f"write-{size}" in counts]


def compared(counts):
    """(what, per cent more, at most) of what has to cost as much as something else that was counted."""
    found = [(f"{size} bytes under {op}", more, CONTROL) for op, size, more in dearer(counts)]
    for form, limit in FORMS.items():
        name = name_of(*form)
        if limit and name in counts and limit[0] in counts:
            found.append((name, 100 * (counts[name] / counts[limit[0]] - 1), round(100 * (limit[1] - 1))))
    few, many = PACED.values()
    if few in counts and many in counts:
        found.append((f"a packet of {max(PACED)} paced queue pairs", 100 * (counts[many] / counts[few] - 1), PACED_MORE))
    return found


def report(counts, known):
    """Lines of TAP, and how many stages failed."""
    others = compared(counts)
    lines, failed = [f"1..{len(counts) + len(others)}"], 0
    for number, (name, count) in enumerate(counts.items(), 1):
        entry = known["stages"].get(name)
        if entry is None:
            failed += 1
            lines.append(f"not ok {number} - {name}: {count} instructions, and no budget: budgets.py --update")
            continue
        verdict = judge(count, entry["budget"], entry.get("tolerance", TOLERANCE))
        failed += verdict == "over"
        target = f", target {entry['target']}" if "target" in entry else ""
        lines.append(f"{'not ok' if verdict == 'over' else 'ok'} {number} - {name}: {count} instructions of "
                     f"{entry['budget']}{target}")
        if verdict == "under":
            lines.append(f"# {name} is well under its budget: lower it with budgets.py --update")
        if verdict == "over":
            lines.append(f"# {100 * (count / entry['budget'] - 1):.1f} % over. What it does besides: callgrind_annotate; "
                         "if it has to be: budgets.py --update, and say why in the commit")
    for number, (what, more, most) in enumerate(others, len(counts) + 1):
        failed += more > most
        lines.append(f"{'not ok' if more > most else 'ok'} {number} - {what} cost {more:.1f} % more, at most {most}")
    return lines, failed


def updated(known, counts, compiler, whole):
    """The file's content with what was counted. A budget that is right within half a per cent stays. Targets and
    tolerances stay; stages that are no more go if all were counted."""
    stages = {} if whole else dict(known.get("stages", {}))
    for name, count in counts.items():
        entry = dict(known.get("stages", {}).get(name, {}))
        if "budget" not in entry or abs(count - entry["budget"]) > 0.005 * entry["budget"]:
            entry["budget"] = count
        stages[name] = entry
    return {"compiler": compiler, "stages": stages}


def as_text(content):
    """A line for each stage, so that changes of several branches merge."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content["stages"].items())
    return f'{{"compiler": {json.dumps(content["compiler"])}, "stages": {{\n{rows}\n}}}}\n'


def compiler_of(build):
    """Name and major version of the one that made the build."""
    result = subprocess.run(["readelf", "-p", ".comment", os.path.join(build, "test/perf/engine_cost")],
                            capture_output=True, text=True)
    found = re.search(r"(GCC|clang)\D*?(?:\(.*?\))?\s*(?:version )?(\d+)\.", result.stdout)
    return f"{found.group(1).lower()} {found.group(2)}" if found else "unknown"


def why_not(known, build):
    """Why counts would not compare with the budgets, or None."""
    if shutil.which("valgrind") is None:
        return "there is no valgrind"
    with open("/proc/cpuinfo") as file:
        if " avx2 " not in file.read():
            return "the processor has no AVX2"
    compiler = compiler_of(build)
    if known.get("compiler") and compiler != known["compiler"]:
        return f"the budgets are those of {known['compiler']}, this is {compiler}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default="", metavar="NAME", help="stages and messages whose name contains this")
    parser.add_argument("--update", action="store_true", help="write what was counted to budgets.json")
    parser.add_argument("--json", action="store_true", help="print what was counted, judge nothing")
    options = parser.parse_args()
    known = {"stages": {}}
    if os.path.exists(FILE):
        with open(FILE) as file:
            known = json.load(file)
    reason = why_not({} if options.update else known, options.build)
    if reason and not options.update and not options.json:
        print(f"1..0 # SKIP {reason}")
        return 0
    counts = count_all(os.path.join(options.build, "test/perf/engine_cost"), options.only)
    if not counts:
        raise kit.Failure(f"no stage is called {options.only}")
    if options.json:
        print(json.dumps(counts))
        return 0
    if options.update:
        content = updated(known, counts, compiler_of(options.build), not options.only)
        for name, entry in content["stages"].items():
            before = known["stages"].get(name, {}).get("budget")
            if entry["budget"] != before:
                print(f"{name}: {before} -> {entry['budget']}")
        figures.write_file(FILE, as_text(content))
        return 0
    lines, failed = report(counts, known)
    print("\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (kit.Failure, OSError, ValueError, subprocess.TimeoutExpired) as problem:
        sys.exit(f"budgets: {problem}")
