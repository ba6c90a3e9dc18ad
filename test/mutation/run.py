#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Breaks the engine on purpose and sees whether the tests notice: run.py ROOT [options].

Each entry of mutations.txt is one fault: a text of a source file and what replaces it. The pure
libraries and the test programs are compiled once, in a folder of their own; then, fault by fault,
the one changed file is compiled (of a header, whoever in its folder includes it) and the programs
run, the quick ones first, until one fails. A fault that none notices is a missing test, unless the
table says why nothing can notice it.

  --sample N    only N faults, spread over the table
  --only ID     only this one (may be repeated)
  --missing     only those of which doc/mutation.md says nothing, or that nothing noticed though a test
                should; what it says of the others is kept
  --check       compile and run nothing: does the table apply, and is doc/mutation.md of this table
  --write       write doc/mutation.md
  --jobs N      this many faults at a time
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIBRARIES = ("base", "wire", "encap", "net", "steer", "mem", "abi", "queue", "transport", "dataplane")
UNIT_TESTS = ("wire", "encap", "net", "steer", "mem", "abi", "queue", "transport", "dataplane")
PURE_PARTS = {"dataplane": ("forward", "poll_policy")}  # of libraries that are not pure as a whole
UNIT_SHARED = ("capture", "net_kit", "raw_kit", "roce_frame", "run_kit")
NEEDS_DRIVERS = ("test_mem_copy", "test_mem_freeze", "test_mem_mapped", "test_mem_pinned", "test_steer_thash")
FOLDERS = tuple(f"lib/{name}" for name in LIBRARIES) + (
    "test/kit", "test/sim", "test/script", "test/unit", "test/replay", "app/uroce")
SIMULATIONS = {"sim_rc": ("sim_rc", "sim_flow", "sim_plan", "sim_pool")}
SIM_SEEDS = "150"
FIRST_TIMEOUT = 120  # seconds, without a fault
LEAST_TIMEOUT = 10  # a program gets that or many times what it needs without a fault
BOUNDS = ("-fsanitize=bounds-strict", "-fsanitize-undefined-trap-on-error")  # as the sanitize suite has
OUTPUT_MAX = 1 << 24
MEMORY_MAX = 1 << 32


class Mutation:
    def __init__(self, name, path):
        self.name, self.path = name, path
        self.about = self.survives = ""
        self.old, self.new = [], []

    def apply(self, text):
        """The text with the fault, or None if the original is not there exactly once."""
        old = "\n".join(self.old)
        return text.replace(old, "\n".join(self.new)) if text.count(old) == 1 else None


def read_table(path):
    """Entries are separated by empty lines; see the head of the table."""
    table, entry = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            entry = None if not line else entry
            continue
        word, _, rest = line.partition(" ")
        if word == "mutation":
            entry = Mutation(*rest.split())
            table.append(entry)
        elif entry and word == "about":
            entry.about = rest
        elif entry and word == "survives":
            entry.survives = rest
        elif entry and word in "-+":
            (entry.old if word == "-" else entry.new).append(rest)
        else:
            sys.exit(f"{path.name}:{number}: not understood: {line}")
    return table


def table_faults(table, root):
    """What is wrong with the table itself."""
    names = [m.name for m in table]
    faults = [f"{name}: more than once" for name in sorted(set(names)) if names.count(name) > 1]
    for m in table:
        source = root / m.path
        if not m.about or not m.old:
            faults.append(f"{m.name}: no description or no text")
        elif not source.is_file() or m.apply(source.read_text()) is None:
            faults.append(f"{m.name}: its text is not in {m.path} exactly once")
        elif m.old == m.new:
            faults.append(f"{m.name}: changes nothing")
    return faults


# ---- building and running ----

class Program:
    """A test program: its objects beside the libraries', and how it is run. All scripts and all
    replays are one program's."""

    def __init__(self, name, objects, command, libs=()):
        self.name, self.objects, self.command, self.libs = name, objects, command, list(libs)
        self.linked = name.split()[-1] if name.split()[0] in ("unit", "sim") else name.split()[0]
        self.timeout = LEAST_TIMEOUT

    def may_notice(self, library):
        """A unit test knows nothing of the libraries above its own; all else needs them all."""
        kind, program = self.name.split()
        if kind != "unit":
            return library not in PURE_PARTS
        return LIBRARIES.index(program.split("_")[1]) >= LIBRARIES.index(library)


def compile_command(tree, source, output):
    root = tree / "src"
    include = [f"-I{root / source.parent}"] + [f"-I{root / folder}" for folder in FOLDERS]
    return ["gcc", "-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE", "-fno-strict-aliasing",
            *BOUNDS,
            f'-DTEST_VECTORS="{root}/test/vectors"', '-DUROCE_VERSION="0"', '-DUROCE_REL_LIBDIR="."',
            *include, "-c", "-o", str(output)]


def object_of(tree, source):
    return tree / "obj" / (str(source).replace("/", "_") + ".o")


def compile_all(tree, jobs):
    root = tree / "src"
    sources = [path.relative_to(root) for folder in FOLDERS for path in sorted((root / folder).glob("*.c"))
               if is_wanted(folder, path.stem)]
    (tree / "obj").mkdir()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda s: subprocess.run(
            compile_command(tree, s, object_of(tree, s)) + [str(root / s)], capture_output=True, text=True), sources))
    for source, result in zip(sources, done):
        if result.returncode:
            sys.exit(f"{source} does not compile:\n{result.stderr}")
    return sources


def is_wanted(folder, stem):
    if folder != "test/unit":
        return stem in PURE_PARTS.get(pathlib.Path(folder).name, (stem,))
    if stem in UNIT_SHARED:
        return True
    _, library, topic = (stem.split("_", 2) + ["", ""])[:3]
    return (stem.startswith("test_") and library in UNIT_TESTS and stem not in NEEDS_DRIVERS
            and topic in PURE_PARTS.get(library, (topic,)))


def programs(tree, sources):
    """In the order they run: what is quick first."""
    root = tree / "src"

    def objects(folder, *stems):
        return [object_of(tree, s) for s in sources
                if str(s.parent) == folder and (not stems or s.stem in stems)]

    kit = objects("test/kit")
    result = []
    for source in sources:
        if str(source.parent) == "test/unit" and source.stem not in UNIT_SHARED:
            result.append(Program(f"unit {source.stem}", objects("test/unit", source.stem, *UNIT_SHARED), [],
                                  ["-lcmocka", "-lpcap", "-lpthread"]))
    for script in sorted((root / "test/script").glob("*.uds")):
        result.append(Program(f"script {script.stem}", objects("test/script") + kit, [script]))
    for source in sources:
        if str(source.parent) == "test/sim" and source.stem.startswith("test_"):
            wrap = ["-Wl,--wrap=calloc"] if "__wrap_calloc" in (root / source).read_text() else []
            result.append(Program(f"sim {source.stem}", objects("test/sim", source.stem, "rules") + kit, [],
                                  ["-lcmocka", *wrap]))
    for name, stems in SIMULATIONS.items():
        result.append(Program(f"sim {name}", objects("test/sim", *stems) + kit, ["--seeds", SIM_SEEDS]))
    replayer = objects("app/uroce")
    replay, vectors = root / "test/replay", root / "test/vectors/rxe-6.1"
    for name, extra in (("replay_kernel", [replay / "explained.txt"]), ("replay_edited", [])):
        result.append(Program(f"replay {name}", replayer, [sys.executable, replay / f"{name}.py", "EXE", vectors] + extra,
                              ["-ljansson", "-lpcap", "-lm"]))
    return result


def users(folder, header):
    """The sources of a folder that include a header of it, perhaps through others of its headers."""
    texts = {path.name: path.read_text() for path in folder.glob("*.[ch]")}
    found, wanted = {header}, {header}
    while wanted:
        wanted = {name for name, text in texts.items()
                  if name not in found and any(f'#include "{h}"' in text for h in wanted)}
        found |= wanted
    return sorted(name for name in found if name.endswith(".c"))


def library_objects(tree, sources):
    return {s: object_of(tree, s) for s in sources if str(s).startswith("lib/")}


def link(program, library, folder):
    """Programs of the same objects are linked once."""
    exe = folder / ("exe_" + program.linked)
    if not exe.exists():
        done = subprocess.run(["gcc", "-fuse-ld=gold", "-o", exe, *program.objects, *library, "-lisal",
                               *program.libs], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{program.name} does not link:\n{done.stderr}")
    return exe


def limit():
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
                                 env=environment, preexec_fn=limit, start_new_session=True)
        try:
            status = child.wait(program.timeout)
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
    return f"crashes, signal {-status}" if status < 0 else f"exit status {status}"


class Suites:
    def __init__(self, root, tree, jobs):
        self.tree = tree
        for folder in FOLDERS + ("test/vectors",):
            shutil.copytree(root / folder, tree / "src" / folder)
        sources = compile_all(tree, jobs)
        self.library = library_objects(tree, sources)
        self.programs = programs(tree, sources)

    def baseline(self, names):
        """Without a fault all must pass; how long they take says what a hang is."""
        folder = self.tree / "baseline"
        folder.mkdir()
        for program in self.programs:
            if names and program.name.split()[0] not in names:
                continue
            program.timeout = FIRST_TIMEOUT
            began = time.monotonic()
            failure = run(program, link(program, self.library.values(), folder), folder)
            if failure:
                sys.exit(f"{program.name} fails without any fault: {failure}")
            program.timeout = max(LEAST_TIMEOUT, 10 * (time.monotonic() - began))

    def catch(self, mutation):
        """(program, how it failed) of the first that notices, or None."""
        source = pathlib.Path(mutation.path)
        folder = self.tree / mutation.name
        folder.mkdir()
        original = self.tree / "src" / source.parent
        names = [source.name]
        if source.suffix == ".h":  # whoever includes it finds it beside itself
            names = users(original, source.name)
            for path in (*original.glob("*.h"), *(original / name for name in names)):
                shutil.copy(path, folder)
        (folder / source.name).write_text(mutation.apply((self.tree / "src" / source).read_text()))
        changed = {source.parent / name: folder / f"{name}.o" for name in names}
        for s, output in changed.items():
            done = subprocess.run(compile_command(self.tree, s, output) + [str(folder / s.name)], capture_output=True,
                                  text=True)
            if done.returncode:
                return "compiler", done.stderr
        library = [changed.get(s, o) for s, o in self.library.items()]
        caught = None
        for program in self.programs:
            failure = None
            if program.may_notice(source.parent.name):
                failure = run(program, link(program, library, folder), folder)
            if failure:
                caught = (program.name, failure)
                break
        shutil.rmtree(folder)
        return caught


# ---- what came out ----

HEAD = """# Mutation testing

Tests that pass show little unless they fail when the code is wrong. `test/mutation/mutations.txt`
holds {count} faults, each a small change of the engine or of the parsers and memory checks below it:
a comparison the other way round, a check left out, a count one off, a state not changed, a wrong row
of a table. `test/mutation/run.py` applies them one at a time and runs the tests that need no network
until one fails: unit tests, scripts, directed simulations, {seeds} seeds of the random simulation,
replays of the kernel's captures.

{caught} of {count} are caught; {left}.

This page is generated: `test/mutation/run.py . --write` (with `--missing` only what is new). In the `mutation` suite a test runs a sample
of the faults; nightly all of them.
"""


def page(table, results):
    survivors = [m for m in table if not results[m.name]]
    left = "none survives" if not survivors else f"{len(survivors)} survive{'s' if len(survivors) == 1 else ''}"
    lines = [HEAD.format(count=len(table), caught=len(table) - len(survivors), left=left, seeds=SIM_SEEDS)]
    for folder in sorted({str(pathlib.Path(m.path).parent) for m in table}):
        lines += [f"## {folder}", "", "| fault | file | what is broken | caught by |", "|---|---|---|---|"]
        for m in table:
            if str(pathlib.Path(m.path).parent) == folder:
                caught = results[m.name]
                by = f"{caught[0]}: `{caught[1]}`" if caught else "**nothing**"
                lines.append(f"| `{m.name}` | {pathlib.Path(m.path).name} | {m.about} | {by} |")
        lines.append("")
    if survivors:
        lines += ["## Survivors", "", "| fault | why nothing can notice it |", "|---|---|"]
        lines += [f"| `{m.name}` | {m.survives or '**a test is missing**'} |" for m in survivors] + [""]
    return "\n".join(lines)


def page_rows(path):
    """(name, about): what the page says of it."""
    text = path.read_text() if path.exists() else ""
    rows = re.findall(r"^\| `(\w+)` \| \w+\.[ch] \| (.*?) \| (?:(.*?): `(.*)`|\*\*nothing\*\*) \|$", text, re.M)
    return {(name, about): (program, how) if program else None for name, about, program, how in rows}


def kept(table, path):
    """What the page says, where that is of the table."""
    rows = page_rows(path)
    return {m.name: rows[m.name, m.about] for m in table
            if (m.name, m.about) in rows and bool(rows[m.name, m.about]) != bool(m.survives)}


def page_faults(table, path):
    """The page names the same faults as the table."""
    if sorted(page_rows(path)) == sorted((m.name, m.about) for m in table):
        return []
    return [f"{path.name} is of another table: run test/mutation/run.py . --write"]


def choose(table, options):
    if options.only:
        return [m for m in table if m.name in options.only]
    if options.sample:
        table = [m for m in table if not m.survives]
        return [table[(2 * i + 1) * len(table) // (2 * options.sample)] for i in range(options.sample)]
    return table


def report(table, caught_each):
    """One line per fault as soon as it is known; what caught each, and how many are wrong."""
    width = max(len(m.name) for m in table)
    results, bad = {}, 0
    for m, caught in zip(table, caught_each):
        results[m.name] = caught
        text = f"{caught[0]}: {caught[1]}" if caught else f"SURVIVES  {m.about}"
        broken = bool(caught) and caught[0] == "compiler"
        if not caught and m.survives:
            text = f"survives, as said: {m.survives}"
        elif caught and m.survives:
            text += "  (but the table says that it survives)"
        bad += broken or bool(caught) == bool(m.survives)
        print(f"{m.name:{width}}  {text}", flush=True)
    print(f"{len(table) - bad} passed, {bad} failed")
    return results, bad


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    return parser.parse_args()


def main():
    options = arguments()
    root = options.root.resolve()
    table = read_table(root / "test/mutation/mutations.txt")
    doc = root / "doc/mutation.md"
    faults = table_faults(table, root)
    if options.check:
        faults += page_faults(table, doc)
    if faults or options.check:
        print("\n".join(faults))
        print(f"{len(table)} passed, {len(faults)} failed")
        return bool(faults)
    known = kept(table, doc) if options.missing else {}
    chosen = [m for m in choose(table, options) if m.name not in known]
    results, bad = {}, 0
    if chosen:
        with tempfile.TemporaryDirectory(prefix="uroce-mutation-") as folder:
            suites = Suites(root, pathlib.Path(folder), options.jobs)
            suites.baseline(("unit", "script") if options.sample else ())
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                results, bad = report(chosen, pool.map(suites.catch, chosen))
    if options.write and not options.only and not options.sample:
        doc.write_text(page(table, known | results))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
