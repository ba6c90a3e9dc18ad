#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of perftest, except raw_ethernet_burst_lat (doc/programs.md), with each of its options that concern the device, over one uroced with a loopback device. TAP; a point
per program and option.

usage: run_perftest.py --build DIR [--few] [--source [FOLDER]] [--match TEXT]

--few: the few that the default suite runs. --source: builds the perftest of that folder, in a folder of its own, in place of
Debian's; without the name of a folder $UROCE_PERFTEST_SOURCE names it, and the test is skipped if nothing does. An option that this
version's program does not have is a skipped point. Huge pages are reserved if the user may do that."""
import contextlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

VERBS = ("write", "read", "send", "atomic")
SERVER_MAC, CLIENT_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
HUGE = "--use_hugepages"
HUGE_PAGES = 32
FEW = ("ib_write_bw --odp", "ib_send_lat -D 1", "ib_read_bw --report_gbits --cq-mod=8", "ib_send_bw --inline_recv=64",
       "raw_ethernet_bw -n 2000 --report_gbits", "raw_ethernet_lat -n 500")


def bandwidth(verb):
    program = f"ib_{verb}_bw"
    odp = () if verb == "atomic" else ("--odp -n 500",)  # perftest refuses both together
    for options in ("-D 1", "-D 1 -b", *odp, "--cq-mod=1 -n 500", "--cq-mod=8 --report_gbits -n 500", "-t 1 -n 500",
                    "-t 512 -n 2000", "--report_gbits -q 8 -n 200", f"{HUGE} -n 500"):
        yield program, options
    if verb in ("send", "atomic"):
        yield program, "--inline_recv=64 -n 500" + (" -s 64" if verb == "send" else "")
    if verb == "write":
        yield program, "--use-null-mr -n 500"


def latency(verb):
    program = f"ib_{verb}_lat"
    odp = () if verb == "atomic" else ("--odp -n 500",)
    for options in ("-D 1", *odp, f"{HUGE} -n 500"):
        yield program, options
    if verb == "send":
        yield program, "--inline_recv=64 -s 64 -n 500"


def raw():
    for options in ("-n 2000 --report_gbits", "-D 2", "-n 2000 -t 512 --cq-mod=8", f"-n 2000 {HUGE}", "-n 2000 -s 64"):
        yield "raw_ethernet_bw", options
    for options in ("-n 500", "-n 500 -s 1500", f"-n 500 {HUGE}"):
        yield "raw_ethernet_lat", options
    yield "raw_ethernet_fs_rate", "-n 500"


def has_option(folder, program, options):
    """The long options of a program are in its help; the rest every version has."""
    text = subprocess.run([os.path.join(folder, program), "--help"], capture_output=True, text=True).stdout
    for word in options.split():
        name = word.split("=")[0]
        if name.startswith("--") and name not in text:
            raise kit.Skipped(f"this {program} has no {name}")


def check_timed_latency(text):
    """Bytes, iterations, average, transactions in a second."""
    rows = kit.perftest_rows(text)
    if len(rows) != 1 or len(rows[0]) < 4 or min(rows[0][1:4]) <= 0:
        raise kit.Failure("a result of nothing:\n" + text)


class Programs:
    """Runs the programs of a folder over a daemon."""

    def __init__(self, daemon, folder, huge):
        self.daemon, self.folder, self.huge = daemon, folder, huge

    def check(self, program, options):
        has_option(self.folder, program, options)
        if HUGE in options and not self.huge:
            raise kit.Skipped("there are no huge pages")

    def pair(self, program, options):
        self.check(program, options)
        command = [os.path.join(self.folder, program), "-F", "-x", "0", *options.split()]
        _, text = kit.run_pair(self.daemon, command)
        if program.endswith("_lat") and "-D" in command:
            check_timed_latency(text)
        else:
            kit.check_perftest(text)

    def sent(self):
        return sum(row["value"] for row in self.daemon.show("counters") if row["counter"] == "tx_packets")

    def raw(self, program, options):
        """The two sides share no socket: the client begins when the server has its flow rule."""
        self.check(program, options)
        path, words = os.path.join(self.folder, program), options.split()
        if program == "raw_ethernet_fs_rate":
            text = kit.Program(self.daemon, [path, "--server", "-B", SERVER_MAC, *words]).finish(60)
            if "flow per sec" not in text:
                raise kit.Failure(f"no rate in:\n{text}")
            return
        before = self.sent()
        server = kit.Program(self.daemon, [path, "--server", "-B", SERVER_MAC, "-E", CLIENT_MAC, *words])
        try:
            kit.wait_until(lambda: self.daemon.show("flows"), 30, f"{program} has a flow rule")
            text = kit.Program(self.daemon, [path, "--client", "-B", CLIENT_MAC, "-E", SERVER_MAC, *words]).finish(60)
        finally:
            server.kill()
        kit.check_perftest(text)
        if self.sent() - before < 500:
            raise kit.Failure(f"{self.sent() - before} packets only:\n{text}")


@contextlib.contextmanager
def programs_of(source):
    """The folder with the programs: Debian's, or what is built from the source."""
    if source is None:
        if shutil.which("ib_write_bw") is None:
            raise kit.Skipped("there is no ib_write_bw")
        yield os.path.dirname(shutil.which("ib_write_bw"))
        return
    source = source or os.environ.get("UROCE_PERFTEST_SOURCE", "")
    if not source:
        raise kit.Skipped("no source of perftest is named: --source FOLDER or UROCE_PERFTEST_SOURCE")
    folder = os.path.join(kit.scratch_folder(), "perftest")
    shutil.copytree(source, folder, symlinks=True)
    for command in (["./autogen.sh"], ["./configure"], ["make", f"-j{os.cpu_count()}"]):
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=900)
        if done.returncode != 0:
            raise kit.Failure(f"{' '.join(command)} in a copy of {source}:\n{done.stdout}")
    yield folder


def points(programs, few):
    found = []
    for verb in VERBS:
        for program, options in (*bandwidth(verb), *latency(verb)):
            found.append((f"{program} {options}", lambda p=program, o=options: programs.pair(p, o)))
    for program, options in raw():
        found.append((f"{program} {options}", lambda p=program, o=options: programs.raw(p, o)))
    return [point for point in found if not few or point[0].startswith(FEW)]


def main():
    arguments = kit.point_arguments(more=[("--few", {"action": "store_true", "help": "only those of the default suite"}),
                                          ("--source", {"nargs": "?", "const": "", "help": "a folder with perftest's source"})])
    try:
        with programs_of(arguments.source) as folder, kit.huge_pages(HUGE_PAGES) as huge:
            daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder())
            try:
                chosen = points(Programs(daemon, folder, huge), arguments.few)
                return kit.run_points(chosen, arguments.match)
            finally:
                daemon.stop()
    except kit.Skipped as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
