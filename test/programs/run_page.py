#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of doc/programs.md, a TAP point for each row of its tables, over one uroced with a loopback device.

usage: run_page.py --build DIR [--match TEXT] [--user]

The last point counts: a program of the table under "The count" works if all rows that it names are of tables of programs that work,
passed in this run, and have no setting; the page has to name that number, and LEAST at least.

The first of several commands is a server: it runs until the others are done. A row passes when all but the server succeed, or
fail in the table whose heading says "does not", when the last one's output has the text of the third column, and when the
ports have sent the number of packets of the fourth. A program that is not installed is a skipped point, and a failed one with
UROCE_TEST_STRICT=1, as scripts/test sets it after it has installed all. --user: as an ordinary user, for root."""
import os
import re
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import process_group
import uroce_kit as kit

PAGE = os.path.join(ROOT, "doc", "programs.md")
SECONDS = 100
PROGRAMS, LEAST = 60, 55
# What a command must not have, for a program that works without a setting. These rows are about a choice of transport.
SETTING = re.compile(r"UCX_|UROCE_|--mca|--device-name|--sys|LD_|\bFI_")
CHOICES = {"iperf3 on rsockets", "Open MPI, libfabric", "Open MPI, pml ucx"}
USER = 65532
# Sources, by their paths from this folder, and what compiles them.
COMPILED = {"mpi_exchange.openmpi": ["mpicc.openmpi", "-O2", "mpi_exchange.c"],
            "mpi_exchange.mpich": ["mpicc.mpich", "-O2", "mpi_exchange.c"],
            "mpi_table.openmpi": ["mpicc.openmpi", "-O2", "../perf/mpi_table.c"],
            "mpi_table.mpich": ["mpicc.mpich", "-O2", "../perf/mpi_table.c"],
            "ucp_connect": ["gcc", "-O2", "ucp_connect.c", "-lucp", "-lucs"],
            "gloo_sum": ["g++", "-O1", "gloo_sum.cc", "-lgloo", "-libverbs", "-lpthread"]}


def rows(page):
    """The tables' rows: (works, name, commands, text, packets)."""
    works = True
    for line in page.splitlines():
        if line.startswith("## "):
            works = "does not" not in line
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if len(cells) == 4 and "`" in cells[1]:
            yield works, cells[0], re.findall(r"`([^`]+)`", cells[1]), cells[2].strip("`"), int(cells[3] or 0) if works else 0


def counted(page):
    """{program: names of rows} of the table under "The count"."""
    part = re.search(r"^## The count$(.*?)^## ", page, re.MULTILINE | re.DOTALL)[1]
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", part, re.MULTILINE)[1:]
    return {program: names.split("; ") for program, names in found}


def check_count(page, table, passed):
    """Whether what the page says of the number of programs is what this run has found."""
    programs = counted(page)
    row_of = {row[1]: row for row in table}
    by_hand = re.findall(r"^\| ([^|]+) \|", page[page.index("\n## What does not work"):], re.MULTILINE)
    unknown = [name for names in programs.values() for name in names if name not in row_of and name not in by_hand]
    if unknown or len(programs) != PROGRAMS:
        raise kit.Failure(f"{len(programs)} programs; there are no rows {unknown}")

    def works(name):
        if name not in passed or not row_of[name][0]:
            return False
        return name in CHOICES or not any(SETTING.search(command) for command in row_of[name][2])

    missing = [program for program, names in programs.items() if not all(works(name) for name in names)]
    found = PROGRAMS - len(missing)
    said = [int(number) for number in re.findall(rf"\*\*(\d+) of {PROGRAMS}\*\*", page)]
    if said != [found] or found < LEAST:
        raise kit.Failure(f"{found} of {PROGRAMS}, the page says {said}; not {missing}")


class Commands:
    """Runs commands as a user types them, in a folder that has the page's own programs."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.daemon = kit.Daemon(build, folder, arguments=("--loopback",))
        # Open MPI refuses to run for root unless both are set.
        self.environment = dict({k: v for k, v in os.environ.items() if not k.startswith(("LD_", "MALLOC_", "UCX_", "UROCE_"))},
                                UROCE_SOCKET=self.daemon.socket, HOME=folder, TMPDIR=folder,
                                PATH=f"{os.path.dirname(build.uroce)}:{os.environ['PATH']}:/usr/sbin",
                                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        shutil.copy(os.path.join(ROOT, "README.md"), folder)
        for name in ("fork_verbs.py", "iser.sh", "ceph.sh"):
            shutil.copy(os.path.join(HERE, name), folder)

    def prepare(self, words):
        """Compiles those of the words that are a program's own; a missing program is a reason to skip."""
        for word in words:
            name = word.removeprefix("./")
            if name in COMPILED and not os.path.exists(os.path.join(self.folder, name)):
                compiler, *arguments = COMPILED[name]
                self.need(compiler)
                sources = [os.path.join(HERE, a) if a.endswith((".c", ".cc")) else a for a in arguments]
                out = subprocess.run([compiler, *sources, "-o", os.path.join(self.folder, name)],
                                     capture_output=True, text=True, timeout=SECONDS)
                if out.returncode != 0:
                    raise kit.Failure(f"{name}: {out.stderr}")
        after = words[words.index("--") + 1:] if words[:2] == ["uroce", "run"] else words
        after = [word for word in after if word != "env" and "=" not in word]
        self.need(after[0])

    def need(self, name):
        if not name.startswith("./") and not shutil.which(name, path=self.environment["PATH"]):
            if os.environ.get("UROCE_TEST_STRICT"):
                raise kit.Failure(f"there is no program {name}")
            raise kit.Skipped(f"there is no program {name}")

    def start(self, command):
        words = shlex.split(command)
        self.prepare(words)
        return Running(command, words, self.folder, self.environment)

    def packets(self):
        return sum(row["value"] for row in self.daemon.show("counters") if row["counter"] == "tx_packets")


class Running:
    """A command in a process group of its own."""

    def __init__(self, command, words, folder, environment):
        self.command = command
        self.name = os.path.join(folder, "output")
        self.output = open(self.name, "w+")
        os.unlink(self.name)
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
                                        cwd=folder, env=environment, start_new_session=True)

    def text(self):
        return os.pread(self.output.fileno(), os.fstat(self.output.fileno()).st_size, 0).decode(errors="replace")

    def finish(self):
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            raise kit.Failure(f"{self.command}: not done after {SECONDS} s:\n{self.text()}")

    def end(self):
        """Ends what the command started, first by request."""
        process_group.end(self.process)


def ready(commands, server):
    """Whether the server has begun to listen, by TCP or rdma_cm, or has joined a group, or waits for raw frames."""
    if server.process.poll() is not None:
        raise kit.Failure(f"{server.command}: has ended:\n{server.text()}")
    pids = process_group.family(server.process.pid)
    if process_group.listens(pids, process_group.TCP + process_group.UDP):
        return True
    ids = [row for row in commands.daemon.show("cm_ids") if row["pid"] in pids]
    groups = {row["group"] for row in commands.daemon.show("groups")}
    return (any(row["state"] == "LISTEN" or row.get("dst", "").rsplit(":", 1)[0] in groups for row in ids)
            or bool(commands.daemon.show("flows")))



def run(commands, works, sequence, text, packets):
    before = commands.packets()
    server = commands.start(sequence[0]) if len(sequence) > 1 else None
    try:
        if server:
            kit.wait_until(lambda: ready(commands, server), 30, f"{server.command} listens")
        for command in sequence[1 if server else 0:]:
            program = commands.start(command)
            try:
                status = program.finish()
            finally:
                program.end()
            output = program.text()
            if (status == 0) != works:
                raise kit.Failure(f"{command}: exit status {status}:\n{output}" + (f"\nserver:\n{server.text()}" if server else ""))
    finally:
        if server:
            server.end()
    if text not in output:
        raise kit.Failure(f"no '{text}' in:\n{output}")
    sent = commands.packets() - before
    if sent < packets:
        raise kit.Failure(f"{sent} packets only, of {packets}:\n{output}")


def main():
    arguments = kit.point_arguments(more=[("--user", {"action": "store_true", "help": "as an ordinary user"})])
    if arguments.user:
        if os.geteuid() != 0:
            print("1..0 # SKIP only root can become another user")
            return 0
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    with open(PAGE) as file:
        page = file.read()
    table = list(rows(page))
    commands = Commands(kit.Build(arguments.build), kit.scratch_folder())
    passed, skipped = set(), set()

    def one(row):
        try:
            run(commands, row[0], *row[2:])
        except kit.Skipped:
            skipped.add(row[1])
            raise
        passed.add(row[1])

    def count():
        if skipped:
            raise kit.Skipped(f"these programs were not run: {', '.join(sorted(skipped))}")
        check_count(page, table, passed)

    points = [(row[1], lambda row=row: one(row)) for row in table]
    if not arguments.match:
        points.append(("the number of programs that work without a setting", count))
    try:
        return kit.run_points(points, arguments.match)
    finally:
        commands.daemon.stop()


sys.exit(main())
