#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Breaks the engine on purpose and sees whether the tests notice: run.py ROOT [options].

Each entry of mutations.txt is one fault: a text of a function and what replaces it. The pure libraries
and the test programs are compiled once, in a folder of their own; then, fault by fault, the one changed
file is compiled (for a header, the files that include it) and the programs run, the quick ones first,
until one fails. A fault that no program notices is a missing test, unless the table says why nothing
can notice it.

  --sample N    only N faults, spread over the table
  --only ID     only this one (may be repeated)
  --missing     only the faults that doc/generated/mutation.md has no result for, whose code has changed
                since, or that no test noticed though one should; the page's other results are kept
  --check       compile and run nothing: can each fault be applied, and does the page show this table
  --write       write the page
  --rewrite     write the page with the results that it has, and run nothing
  --jobs N      this many faults at a time
"""
import argparse
import concurrent.futures
import functools
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import results
import table as faults_table
from table import LIBRARIES

UNIT_TESTS = ("wire", "encap", "inject", "net", "steer", "fabric", "mem", "abi", "cm", "queue", "cc", "transport", "lab", "dataplane",
              "device")
# Of libraries that are not pure as a whole.
TESTED_PARTS = {"dataplane": ("forward", "poll_policy"),
                "device": ("account", "async", "cm", "cm_address", "cm_with_qp", "fault", "steps", "watch")}
UNIT_KITS = ("engine", "batch", "capture", "cm", "frame", "net", "raw", "turns")
DEVICE_KITS = ("app", "device", "sides")
DRIVERS = ("loop", "sim", "sim_queue")
NEEDS_DRIVERS = ("test_mem_copy", "test_mem_freeze", "test_mem_mapped", "test_mem_pinned", "test_mem_populated",
                 "test_steer_thash")
FOLDERS = (*(f"lib/{name}" for name in LIBRARIES), *(f"test/kit/{kit}" for kit in ("unit", *UNIT_KITS, *DEVICE_KITS)),
           "drivers/pktio", "test/sim", "test/script", "test/unit", "test/replay", "app/metrics", "app/output", "app/state",
           "app/uroce")
SIMULATIONS = {"sim_rc": ("sim_rc", "sim_flow", "sim_plan", "sim_pool"), "sim_cm": ("sim_cm",)}
SIM_SEEDS = "150"
FIRST_LIMIT = 120  # seconds of CPU time, without a fault
LEAST_LIMIT = 10  # a program gets that or many times what it needs without a fault
WALL_TIME = 20  # times the limit: other programs may keep the machine busy
BOUNDS = ("-fsanitize=bounds-strict", "-fsanitize-undefined-trap-on-error")  # as the sanitize suite has
OUTPUT_MAX = 1 << 24
MEMORY_MAX = 1 << 32


# ---- building and running ----

class Program:
    """A test program: its objects beside the libraries', and how it is run. All scripts and all
    replays are one program's."""

    def __init__(self, name, objects, command, libs=()):
        self.name, self.objects, self.command, self.libs = name, objects, command, list(libs)
        kind, what = name.split()
        self.linked = what if kind in ("unit", "sim") else kind
        self.needs_device = kind == "unit" and what.startswith("test_device_")
        self.limit = LEAST_LIMIT

    def may_notice(self, library):
        """A unit test knows nothing of the libraries above its own; all else needs the pure ones. The tests
        of the others would be slow for the faults of the pure ones, which have tests of their own."""
        kind, program = self.name.split()
        if kind != "unit":
            return library not in TESTED_PARTS
        tested = program.split("_")[1]
        if tested in TESTED_PARTS:
            return library == tested
        return LIBRARIES.index(tested) >= LIBRARIES.index(library)


def compile_command(tree, source, output):
    """The folder of the source comes first, so that its own headers win over others of that name; but
    not over those of libc."""
    root = tree / "src"
    include = [f"-iquote{root / source.parent}", *(f"-I{folder}" for folder in header_folders(root))]
    return ["gcc", "-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE", "-fno-strict-aliasing",
            *BOUNDS,
            f'-DTEST_VECTORS="{root}/test/vectors"', '-DUROCE_VERSION="0"', '-DUROCE_REL_LIBDIR="."',
            *include, "-c", "-o", str(output)]


@functools.lru_cache
def header_folders(root):
    folders = {root / folder for folder in FOLDERS} | {
        path.parent for folder in FOLDERS for path in (root / folder).rglob("*.h")}
    # lib/device names the rooms of its headers, and has a limits.h in one. app/uroce has headers of the
    # same names as others, and names their rooms.
    return sorted((folder for folder in folders if root / "lib/device" not in folder.parents),
                  key=lambda folder: (is_in(root / "app", folder), folder))


def object_of(tree, source):
    return tree / "obj" / (str(source).replace("/", "_") + ".o")


def compile_all(tree, jobs):
    root = tree / "src"
    sources = [path.relative_to(root) for folder in FOLDERS for path in sorted((root / folder).rglob("*.[cS]"))
               if is_wanted(folder, path.stem)]
    (tree / "obj").mkdir()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda s: subprocess.run(
            compile_command(tree, s, object_of(tree, s)) + [str(root / s)], capture_output=True, text=True), sources))
    for source, result in zip(sources, done):
        if result.returncode:
            sys.exit(f"{source} does not compile:\n{result.stderr}")
    return sources


def is_in(folder, source):
    return pathlib.Path(folder) in source.parents


def library_of(source):
    return source.parts[1] if source.parts[0] == "lib" else None


def is_wanted(folder, stem):
    if folder != "test/unit":
        return folder != "drivers/pktio" or stem in DRIVERS
    _, library, topic = (stem.split("_", 2) + ["", ""])[:3]
    return (stem.startswith("test_") and library in UNIT_TESTS and stem not in NEEDS_DRIVERS
            and topic in TESTED_PARTS.get(library, (topic,)))


def programs(tree, sources):
    """In the order they run: what is quick first."""
    root = tree / "src"

    def objects(folder, *stems):
        return [object_of(tree, s) for s in sources
                if is_in(folder, s) and (not stems or s.stem in stems)]

    kit = objects("test/kit/engine")
    unit_kits = [o for name in UNIT_KITS for o in objects(f"test/kit/{name}")]
    device_kits = [o for name in DEVICE_KITS for o in objects(f"test/kit/{name}")] + objects("drivers/pktio")
    result = []
    for source in sources:
        if is_in("test/unit", source):
            kits = device_kits if source.stem.startswith("test_device_") else unit_kits
            result.append(Program(f"unit {source.stem}", objects("test/unit", source.stem) + kits, [],
                                  ["-lcmocka", "-lpcap", "-lpthread"]))
    for script in sorted((root / "test/script").rglob("*.case")):
        result.append(Program(f"script {script.stem}", objects("test/script") + kit, [script]))
    for source in sources:
        if is_in("test/sim", source) and source.stem.startswith("test_"):
            wrap = [f"-Wl,--wrap={name}" for name in sorted(set(re.findall(r"__wrap_(\w+)\(", (root / source).read_text())))]
            result.append(Program(f"sim {source.stem}", objects("test/sim", source.stem, "rules") + kit, [],
                                  ["-lcmocka", *wrap]))
    for name, stems in SIMULATIONS.items():
        result.append(Program(f"sim {name}", objects("test/sim", *stems) + kit + objects("test/kit/cm"),
                              ["--seeds", SIM_SEEDS], ["-lcmocka"]))
    replayer = objects("app/uroce") + objects("app/metrics") + objects("app/output") + objects("app/state")
    replay, vectors = root / "test/replay", root / "test/vectors/rxe-6.1"
    for name, extra in (("replay_kernel", [replay / "explained.txt"]), ("replay_edited", [])):
        result.append(Program(f"replay {name}", replayer, [sys.executable, replay / f"{name}.py", "EXE", vectors] + extra,
                              ["-ljansson", "-lpcap", "-lm"]))
    return result


def users(root, header):
    """The libraries' sources that include a header, perhaps through other headers."""
    texts = {path: path.read_text() for path in (root / "lib").rglob("*.[ch]")}
    found, wanted = set(), {header}
    while wanted:
        names = {path.name for path in wanted}
        found |= wanted
        wanted = {path for path, text in texts.items() if path not in found
                  and any(pathlib.Path(h).name in names for h in re.findall(r'#include "(.*?)"', text))}
    return sorted(path.relative_to(root) for path in found if path.suffix == ".c")


def library_objects(tree, sources):
    return {s: object_of(tree, s) for s in sources if library_of(s)}


def link(program, library, folder):
    """Programs of the same objects are linked once. The device has names that other programs have, too."""
    exe = folder / ("exe_" + program.linked)
    library = [o for s, o in library if program.needs_device or library_of(s) != "device"]
    if not exe.exists():
        done = subprocess.run(["gcc", "-fuse-ld=gold", "-o", exe, *program.objects, *library, "-lisal",
                               "-ljansson", "-lpthread", "-lm", *program.libs], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{program.name} does not link:\n{done.stderr}")
    return exe


def limit(cpu):
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_MAX, OUTPUT_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(program, exe, folder):
    """None if it passes, else how it fails."""
    command = [str(exe) if part == "EXE" else str(part) for part in program.command]
    if "EXE" not in program.command:
        command.insert(0, str(exe))
    environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP")
    output = folder / "output"
    with open(output, "wb") as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                 env=environment, preexec_fn=lambda: limit(program.limit), start_new_session=True)
        try:
            status = child.wait(WALL_TIME * program.limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            return "hangs"
    return None if status == 0 else how_it_failed(status, output.read_text(errors="replace"))


def how_it_failed(status, text):
    failed = re.search(r"^not ok \d+ (?:- )?(\S+)", text, re.M)
    if failed:
        return failed.group(1)
    seed = re.search(r"seed (\d+)", text)
    if seed:
        return f"seed {seed.group(1)}"
    if status == -signal.SIGILL:
        return "out of bounds"
    if status == -signal.SIGXCPU:
        return "hangs"
    return f"crashes, signal {-status}" if status < 0 else f"exit status {status}"


def children_time():
    """CPU seconds of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Suites:
    def __init__(self, root, tree, jobs):
        self.tree = tree
        for folder in FOLDERS + ("test/vectors",):
            shutil.copytree(root / folder, tree / "src" / folder)
        sources = compile_all(tree, jobs)
        self.library = library_objects(tree, sources)
        self.programs = programs(tree, sources)

    def baseline(self, chosen, names):
        """Without a fault all that may notice one must pass; the CPU time that they take says what a hang is."""
        libraries = {library_of(m.path) for m in chosen}
        folder = self.tree / "baseline"
        folder.mkdir()
        for program in self.programs:
            if names and program.name.split()[0] not in names or not any(map(program.may_notice, libraries)):
                continue
            program.limit = FIRST_LIMIT
            before = children_time()
            failure = run(program, link(program, self.library.items(), folder), folder)
            if failure:
                sys.exit(f"{program.name} fails without any fault: {failure}")
            program.limit = max(LEAST_LIMIT, int(10 * (children_time() - before)))

    def catch(self, mutation):
        """(program, how it failed) of the first that notices, or None."""
        folder = self.tree / mutation.name
        folder.mkdir()
        changed = self.compile_mutant(mutation, folder)
        if not changed:
            return "compiler", "refuses it"
        library = [(s, changed.get(s, o)) for s, o in self.library.items()]
        caught = None
        for program in self.programs:
            failure = None
            if program.may_notice(library_of(mutation.path)):
                failure = run(program, link(program, library, folder), folder)
            if failure:
                caught = (program.name, failure)
                break
        shutil.rmtree(folder)
        return caught

    def compile_mutant(self, mutation, folder):
        """The objects that differ, by source; none if one does not compile. A header's users are
        compiled in a copy of the libraries that has the fault."""
        source = mutation.path
        if source.suffix == ".h":
            for part in ("lib", "drivers"):  # which have headers for each other
                shutil.copytree(self.tree / "src" / part, folder / "src" / part)
            wanted = [s for s in users(folder / "src", folder / "src" / source) if s in self.library]
            tree = folder
        else:
            wanted, tree = [source], self.tree
        mutant = (folder / "src" / source) if tree == folder else folder / source.name
        mutant.write_text(mutation.mutant)
        changed = {s: folder / (str(s).replace("/", "_") + ".o") for s in wanted}
        for s, output in changed.items():
            text = folder / "src" / s if tree == folder else mutant
            done = subprocess.run(compile_command(tree, s, output) + [str(text)], capture_output=True)
            if done.returncode:
                return {}
        return changed


def choose(table, options):
    if options.only:
        return [m for m in table if m.name in options.only]
    if options.sample:
        table = [m for m in table if not m.survives]
        return [table[(2 * i + 1) * len(table) // (2 * options.sample)] for i in range(options.sample)]
    return table


def report(table, caught_each):
    """One line per fault as soon as it is known. Returns the results, and how many are wrong."""
    width = max(len(m.name) for m in table)
    known, bad = {}, 0
    for m, caught in zip(table, caught_each):
        known[m.name] = results.Result(*(caught or (None, None)), m.digest)
        text = f"{caught[0]}: {caught[1]}" if caught else f"SURVIVES  {m.about}"
        broken = bool(caught) and caught[0] == "compiler"
        if not caught and m.survives:
            text = f"survives, as said: {m.survives}"
        elif caught and m.survives:
            text += "  (but the table says that it survives)"
        bad += broken or bool(caught) == bool(m.survives)
        print(f"{m.name:{width}}  {text}", flush=True)
    print(f"{len(table) - bad} passed, {bad} failed")
    return known, bad


def still_valid(table, known):
    """Results of code that has not changed, without faults that no test noticed though one should."""
    changed = results.stale(table, known)
    return {m.name: known[m.name] for m in table
            if m not in changed and bool(known[m.name].program) != bool(m.survives)}


def check(root, table, known, wrong):
    wrong = wrong + results.faults(root, table, known, SIM_SEEDS)
    old = len(results.stale(table, known)) if not wrong else 0
    for line in wrong:
        print(line)
    if old:
        print(f"of {old} faults the code has changed since the page was written")
    print(f"{len(table)} passed, {len(wrong)} failed")
    return bool(wrong)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser.parse_args()


def main():
    options = arguments()
    root = options.root.resolve()
    table = faults_table.read(root / "test/mutation/mutations.txt")
    wrong = faults_table.find_all(table, faults_table.Tree(root))
    known = results.read(root)
    if options.check or wrong:
        return check(root, table, known, wrong)
    if options.rewrite:
        return results.write(root, table, known, SIM_SEEDS)
    known = still_valid(table, known) if options.missing else {}
    chosen = [m for m in choose(table, options) if m.name not in known]
    new, bad = {}, 0
    if chosen:
        with tempfile.TemporaryDirectory(prefix="uroce-mutation-") as folder:
            suites = Suites(root, pathlib.Path(folder), options.jobs)
            suites.baseline(chosen, ("unit", "script") if options.sample else ())
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                new, bad = report(chosen, pool.map(suites.catch, chosen))
    if options.write and not options.sample:  # with --only the page keeps what it says of the others
        results.write(root, table, (results.read(root) if options.only else known) | new, SIM_SEEDS)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
