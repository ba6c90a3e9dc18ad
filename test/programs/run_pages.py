#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands that the pages of doc/site/pages.txt show, each as its page writes it. A TAP point for each block of code that
has such commands, and one for those in a page's sentences and tables. --table runs none: it says whether all have a line in
pages.txt.

usage: run_pages.py --build DIR [--match TEXT] [--list | --table]

pages.txt has the commands of each page (`= PAGE`; `= *`: of every page), and below each how it is run, in words with two spaces
between them. `~` begins a pattern. A command without such a line fails the test, and so does a line that no page has.

  plain, loop, objects  no daemon; over one with a loopback device; the same beside programs that work and one that failed
  private, setup NAME   on a machine of its own, with a setup of page_machine.py; for root
  at NAME               in this network namespace of it
  put WORD => TEXT      TEXT in the place of WORD
  before COMMAND        this before it; with `&`, and then its `ready`, as long as the block runs
  ready COMMAND         it serves when this succeeds; otherwise when it listens by TCP or rdma_cm
  stays, brief          it serves until the block is done, or until it is ready; with `&` alone it ends by itself
  until TEXT            it runs until it has printed TEXT
  exit N, has TEXT      its status, if not 0; its output has TEXT
  needs PROGRAM         it is left out where there is no such program
  file NAME             the block is this file for those below; text: it is text
  elsewhere TEST        that test runs it; not REASON: it cannot be run here; name: it is the name of a command, and not a line

The lines of output that a page shows are compared by their words: heads of columns, and the first word of others. A command that
fails ends its block."""
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import page_commands
import page_machine
import page_ways
import process_group
import uroce_kit as kit

ROOT = page_machine.ROOT
TABLE = os.path.join(HERE, "pages.txt")
HISTORY = "CHANGELOG.md"
FAILING = "build/test/shim/why_cases rkey_deregistered wait"
NEEDED = ("jq", "ib_write_bw", "rping", "gcc")  # most pages are about them, or the table's own words use them
ASSIGNMENT = re.compile(r"\w+=\S+")


class Unit:
    """Commands that run one after the other on one machine: (command, way)."""

    def __init__(self, name):
        self.name, self.pairs, self.files = name, [], {}

    def runs(self):
        return [(command, way) for command, way in self.pairs if way and not way.is_reason()]


def alike(pair):
    """Whether two units are for the same line of the table, such as the commands of a page that is all of one kind."""
    ways = {id(way) for unit in pair for _, way in unit.pairs}
    return len(ways) == 1 and all(len({command.page for command, _ in unit.pairs} | {pair[0].pairs[0][0].page}) == 1 for unit in pair)


def apart(found):
    """Of the last unit those commands that take a machine of their own become another one."""
    whole = found.pop()
    for private in (False, True):
        unit = Unit(whole.name)
        unit.pairs = [(command, way) for command, way in whole.pairs if (bool(way) and way.setting() == "private") == private]
        unit.files = whole.files
        if unit.pairs:
            found.append(unit)


def units(table):
    """All pages' units, and the commands that the table does not have."""
    found, unknown, files, seen = [], [], {}, set()

    def add(unit, commands):
        for command in commands:
            way = table.way(command.page, command.text)
            unit.pairs.append((command, way))
            if not way or not (way.setting() or way.is_reason()):
                unknown.append(command)
        unit.files = dict(files)
        found.append(unit)

    for page in page_commands.pages(ROOT):
        with open(os.path.join(ROOT, page)) as file:
            text = file.read()
        if page == HISTORY:
            continue
        for block in page_commands.blocks(page, text):
            whole = table.text(page, block.lines[0])
            if whole:
                if whole.get("file"):
                    files[whole.get("file")] = block.text()
                continue
            add(Unit(f"{page}:{block.line}"), page_commands.commands(block))
            if len(found) > 1 and alike(found[-2:]):
                found[-2].pairs += found.pop().pairs
        new = [command for command in page_commands.spans(page, text) if command.text not in seen]
        seen.update(command.text for command in new)
        if new:
            add(Unit(f"{page}, in its sentences"), new)
            apart(found)
    return found, unknown


class Runner:
    def __init__(self, build):
        self.build = build
        self.folder = kit.scratch_folder()
        self.place, self.programs = page_machine.tree(build, self.folder)
        self.daemon = None

    def loopback(self):
        """The daemon of the test, started again where a command has ended it."""
        if not self.daemon or not self.daemon.alive():
            self.daemon = kit.Daemon(self.build, self.folder, arguments=(kit.FIXED_LOOPBACK,))
        return self.daemon

    def machine(self, unit):
        settings = {way.setting() for _, way in unit.runs()}
        if "private" in settings:
            setup = next((way.get("setup") for _, way in unit.runs() if way.has("setup")), "")
            return page_machine.Private(self.place, self.programs, setup)
        served = settings & {"loop", "objects"}
        return page_machine.Here(self.place, self.programs, self.loopback().socket if served else None)

    def objects(self, machine, running):
        """A request that has failed, and two programs that exchange messages."""
        failing = machine.start(f"uroce run -- {FAILING}", None)
        if failing.finish() != 0:
            raise kit.Failure(failing.text())
        for command, ready in (("rping -s -C 1000000000", self.listens), ("rping -c -a 127.0.0.1 -C 1000000000", self.connected)):
            program = machine.start(f"uroce run -- {command}", None)
            running.append((program, page_ways.ANYHOW))
            kit.wait_until(lambda: ready(program), 20, command)

    def connected(self, program):
        """Whether a client has a connection."""
        if program.process.poll() is not None:
            raise kit.Failure(f"{program.command}: has ended:\n{program.text()}")
        pids = process_group.family(program.process.pid)
        return any(row["state"] == "RTS" and row["pid"] in pids for row in self.daemon.show("qps"))

    def serves(self, program):
        """Whether a server has begun to listen, by TCP or rdma_cm, or has joined a group, or waits for raw frames."""
        if program.process.poll() is not None:
            raise kit.Failure(f"{program.command}: has ended:\n{program.text()}")
        if process_group.listens(process_group.family(program.process.pid)):
            return True
        if not program.machine.socket:
            return False
        return self.listens(program) or bool(self.daemon.show("groups") or self.daemon.show("flows"))

    def listens(self, program):
        """Whether it listens by rdma_cm."""
        pids = process_group.family(program.process.pid)
        return any(row["pid"] in pids and row["state"] == "LISTEN" for row in self.daemon.show("cm_ids"))

    def run(self, unit):
        machine = self.machine(unit)
        running, missing, assigned = [], set(), ""
        try:
            for name, text in unit.files.items():
                os.makedirs(os.path.dirname(os.path.join(self.place, name)) or ".", exist_ok=True)
                with open(os.path.join(self.place, name), "w") as file:
                    file.write(text)
            if machine.socket:
                kit.wait_until(lambda: not self.daemon.show("cm_ids"), 20, "the programs before are gone")
            if any(way.setting() == "objects" for _, way in unit.runs()):
                self.objects(machine, running)
            for command, way in unit.runs():
                if not shutil.which(way.get("needs", "sh"), path=machine.environment["PATH"]):
                    missing.add(way.get("needs"))
                elif ASSIGNMENT.fullmatch(command.text):
                    assigned += command.text + "\n"
                else:
                    self.one(machine, command, way, assigned, running)
            for program, way in running:
                self.last(program, way)
        finally:
            for program, _ in reversed(running):
                program.end()
            if machine.socket and self.daemon.alive():
                machine.quiet("uroce fault remove all")
            machine.close()
        if missing and len(missing) == len(unit.runs()):
            raise kit.Skipped(f"there is no program {', '.join(sorted(missing))}")

    def one(self, machine, command, way, assigned, running):
        for before in way.all("before"):
            if " &" in before:
                server, _, ready = before.partition(" &")
                self.background(machine, server, page_ways.STAYS, running, ready)
            elif machine.start(before, None).finish() != 0:
                raise kit.Failure(f"{before} fails")
        text = assigned + command.text
        for put in way.all("put"):
            text = text.replace(*put.split(" => "))
        if text.endswith("&") or way.has("stays") or way.has("brief"):
            self.background(machine, text.removesuffix("&").rstrip(), way, running, way.get("ready"))
            if way.has("brief"):
                running.pop()[0].end()
        else:
            output = self.foreground(machine, text, way)
            missing = page_commands.unlike(command.shown, output)
            if missing:
                raise kit.Failure(f"{command.text}: the page shows, and the command does not:\n" + "\n".join(missing) + "\n\n" + output)

    def foreground(self, machine, text, way):
        program = machine.start(text, way.get("at"))
        try:
            if way.get("until"):
                program.wait_for(way.get("until"))
                return program.text()
            self.last(program, way)
        finally:
            program.end()
        return program.text()

    def background(self, machine, text, way, running, ready):
        program = machine.start(text, way.get("at"))
        running.append((program, way))
        kit.wait_until(lambda: self.answers(program, ready) if ready else self.serves(program), 20, f"{text} is ready")

    def answers(self, program, command):
        if program.process.poll() is not None:
            raise kit.Failure(f"{program.command}: has ended:\n{program.text()}")
        return program.machine.quiet(command)

    def last(self, program, way):
        """How a program ends that was to end, and what it has printed."""
        if way.has("stays"):
            if way.get("exit") != "*" and program.process.poll() not in (None, 0):
                raise kit.Failure(f"{program.command}: has ended:\n{program.text()}")
        else:
            status, wanted = program.finish(), way.get("exit", "0")
            if wanted != "*" and status != int(wanted):
                raise kit.Failure(f"{program.command}: exit status {status}:\n{program.text()}")
        for words in way.all("has"):
            if words not in program.text():
                raise kit.Failure(f"{program.command}: no '{words}' in:\n{program.text()}")


def tests():
    """The names of the tests that meson knows, and of those that scripts run."""
    names = ""
    for folder, _, files in os.walk(os.path.join(ROOT, "test")):
        for name in files:
            if name == "meson.build":
                with open(os.path.join(folder, name)) as file:
                    names += file.read()
    return names


def check_table(table, found, unknown):
    """Each command has a way, each line of the table a command, and each test that it names exists."""
    complaints = [f"{command.page}:{command.line}: pages.txt has no way to run this: {command.text}" for command in unknown]
    complaints += [f"pages.txt:{way.line}: {way.page} has no such command: {way.pattern}" for way in table.unmet()]
    known = tests()
    for way in table.ways:
        test = way.get("elsewhere")
        if test and not (f"'{test}" in known or os.path.exists(os.path.join(ROOT, test.split()[0]))):
            complaints.append(f"pages.txt:{way.line}: there is no test {test}")
    ways = [way for unit in found for _, way in unit.pairs if way]
    print(f"# {sum(not way.is_reason() for way in ways)} commands run, {sum(way.has('elsewhere') for way in ways)} by another test, "
          f"{sum(way.has('not') for way in ways)} not here, {sum(way.has('name') for way in ways)} names")
    if complaints:
        raise kit.Failure("\n".join(complaints))


def main():
    arguments = kit.point_arguments(more=[("--list", {"action": "store_true", "help": "the commands, and how each is run"}),
                                          ("--table", {"action": "store_true", "help": "check pages.txt, and run nothing"})])
    with open(TABLE) as file:
        table = page_ways.Table(file.read())
    found, unknown = units(table)
    if arguments.list:
        for unit in found:
            for command, way in unit.pairs:
                print(f"{command.page}:{command.line}: {command.text}\n    {way.fields if way else 'nothing'}")
        return 0
    if arguments.table:
        return kit.run_points([("every command has a way, and every way a command", lambda: check_table(table, found, unknown))])
    lacking = [name for name in NEEDED if not shutil.which(name)]
    if lacking:
        print(f"1..0 # SKIP there is no program {', '.join(lacking)}")
        return 0
    runner = Runner(kit.Build(arguments.build))
    points = [(f"{unit.name}: {unit.runs()[0][0].text.splitlines()[0].replace('#', '')}", lambda unit=unit: runner.run(unit))
              for unit in found if unit.runs()]
    try:
        return kit.run_points(points, arguments.match)
    finally:
        if runner.daemon:
            runner.daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
