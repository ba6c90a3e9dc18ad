#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""For each case of the scripts a fault that this very case notices: cases.py ROOT [options].

A case that no fault makes fail may prove nothing. The page doc/generated/cases.md names for each case
the fault of mutations.txt that it notices, of several the one that the fewest cases notice.

  --check       run nothing: has each case a fault that there is
  --write       find a fault for each case that has none, and write the page
  --all         find them for all cases
  --fault NAME  try only this one (may be repeated)
  --verify      apply the faults of the page, and see that their cases fail
  --jobs N      this many faults at a time
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import run
import table as faults_table

PAGE = "doc/generated/cases.md"
LIBRARIES = ("base", "wire", "encap", "steer", "mem", "abi", "queue", "cc", "transport")
HEAD = """# What each case is for

Each of the {count} cases of `test/script` fails when the fault beside it is in the engine
([mutation.md](mutation.md) says what is broken then). Of the faults that a case notices it is the one that
the fewest other cases notice.

This page is generated: `test/mutation/cases.py . --write`. Nightly `--verify` applies the faults again.
"""
ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \|$", re.M)
CASE = re.compile(r"^case (\w+)", re.M)
SECONDS = 60  # for a file of cases with a fault


def all_cases(root):
    """Names by file."""
    return {path.stem: CASE.findall(path.read_text()) for path in sorted((root / "test/script").glob("*.case"))}


def read_page(root):
    path = root / PAGE
    return dict(ROW.findall(path.read_text())) if path.exists() else {}


def page(cases, fault_of):
    lines = [HEAD.format(count=sum(map(len, cases.values())))]
    for file, names in cases.items():
        lines += [f"## {file}", "", "| case | fault |", "|---|---|"]
        lines += [f"| `{name}` | `{fault_of[name]}` |" for name in names if name in fault_of] + [""]
    return "\n".join(lines)


def failed_cases(suites, scripts, mutation):
    """The cases that notice the fault."""
    folder = suites.tree / ("cases_" + mutation.name)
    folder.mkdir()
    changed = suites.compile_mutant(mutation, folder)
    failed = set()
    if changed:
        exe = run.link(scripts[0], [(s, changed.get(s, o)) for s, o in suites.library.items()], folder)
        for program in scripts:
            try:
                done = subprocess.run([exe, *program.command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      errors="replace", timeout=SECONDS, preexec_fn=lambda: run.limit(SECONDS))
            except subprocess.TimeoutExpired:
                continue
            failed |= set(re.findall(r"^not ok \d+ (?:- )?(\w+)", done.stdout, re.M))
    run.shutil.rmtree(folder)
    return failed


def try_all(root, mutations, jobs):
    """(mutation, the cases that notice it), one after the other."""
    with tempfile.TemporaryDirectory(prefix="uroce-cases-") as folder:
        suites = run.Suites(root, pathlib.Path(folder), jobs)
        scripts = [p for p in suites.programs if p.name.startswith("script ")]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            yield from zip(mutations, pool.map(lambda m: failed_cases(suites, scripts, m), mutations))


def choose(noticed):
    """For each case a fault of those that it notices."""
    best = {}
    for mutation, cases in noticed:
        for case in cases:
            best[case] = min(best.get(case, (len(cases), mutation.name)), (len(cases), mutation.name))
    return {case: name for case, (_, name) in best.items()}


def verify(root, mutations, fault_of, jobs):
    wanted = collections.defaultdict(set)
    for case, name in fault_of.items():
        wanted[name].add(case)
    missed = []
    for mutation, failed in try_all(root, [m for m in mutations if m.name in wanted], jobs):
        missed += [f"{case} does not notice {mutation.name}" for case in sorted(wanted[mutation.name] - failed)]
    return missed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    for name in ("--check", "--write", "--all", "--verify"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser.parse_args()


def main():
    options = arguments()
    root = options.root.resolve()
    mutations = faults_table.read(root / "test/mutation/mutations.txt")
    wrong = faults_table.find_all(mutations, faults_table.Tree(root))
    mutations = [m for m in mutations if not m.survives and m.path and run.library_of(m.path) in LIBRARIES]
    cases, names = all_cases(root), {m.name for m in mutations}
    known = {name for listed in cases.values() for name in listed}
    fault_of = {c: f for c, f in read_page(root).items() if c in known and f in names}
    if options.write and not wrong and (options.all or known - fault_of.keys()):
        tried = [m for m in mutations if not options.fault or m.name in options.fault]
        found = choose(try_all(root, tried, options.jobs))
        fault_of = found if options.all else found | fault_of
    if options.write:
        (root / PAGE).write_text(page(cases, fault_of))
    wrong += [f"{name} notices no fault: write one for it" for name in sorted(known - fault_of.keys())]
    if not wrong and (root / PAGE).read_text() != page(cases, fault_of):
        wrong.append(f"{PAGE} is of other cases: run test/mutation/cases.py . --write")
    if options.verify and not wrong:
        wrong = verify(root, mutations, fault_of, options.jobs)
    for line in wrong:
        print("#", line)
    print(f"{len(known) - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
