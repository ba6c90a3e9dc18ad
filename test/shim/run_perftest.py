#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of perftest, except raw_ethernet_burst_lat (doc/programs.md), with each of its options that concern the device, over
one uroced with a loopback device, and its script run_perftest_loopback. TAP; a point per program and option.

usage: run_perftest.py --build DIR [--few] [--source [FOLDER]] [--match TEXT]

--few: the few that the default suite runs. --source: builds the perftest of that folder, in a folder of its own, in place of
Debian's; without the name of a folder $UROCE_PERFTEST_SOURCE names it, and the test is skipped if nothing does. An option that this
version's program does not have is a skipped point. The newest needs Debian's libibumad-dev and libpci-dev to be built. Huge pages
are reserved if the user may do that."""
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
    yield program, "-R -n 500"
    if verb in ("send", "atomic"):
        yield program, "--inline_recv=64 -n 500" + (" -s 64" if verb == "send" else "")
    if verb in ("write", "read"):
        for options in ("--use-null-mr -n 500", "--use-null-mr -R -n 500", "--data_validation -n 500"):
            yield program, options
    if verb == "write":
        for options in ("--write_with_imm -n 500", "--reversed -n 500", "--mr_per_qp -q 4 -n 200"):
            yield program, options
    if verb == "send":
        yield program, "-l 16 --recv_post_list=16 -n 512"


def latency(verb):
    program = f"ib_{verb}_lat"
    odp = () if verb == "atomic" else ("--odp -n 500",)
    for options in ("-D 1", *odp, f"{HUGE} -n 500", "-R -n 500"):
        yield program, options
    if verb == "read":  # ib_write_lat waits for bytes to arrive in its memory, and a null region discards them
        yield program, "--use-null-mr -n 500"
    if verb == "send":
        yield program, "--inline_recv=64 -s 64 -n 500"


def raw():
    for options in ("-n 2000 --report_gbits", "-D 2", "-n 2000 -t 512 --cq-mod=8", f"-n 2000 {HUGE}", "-n 2000 -s 64"):
        yield "raw_ethernet_bw", options
    for options in ("-n 500", "-D 1", "-n 500 -s 1500", f"-n 500 {HUGE}"):
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


def until_in_time(attempt, said):
    """Tries again after a client that says that no server listens yet."""
    for left in range(4, -1, -1):
        try:
            return attempt()
        except kit.Failure as failure:
            if not left or said not in str(failure):
                raise


class Programs:
    """Runs the programs of a folder over a daemon."""

    def __init__(self, daemon, folder):
        self.daemon, self.folder = daemon, folder

    def run(self, program, options):
        """The huge pages of a point are reserved for it alone: other programs of the host may reserve some, too."""
        has_option(self.folder, program, options)
        with kit.huge_pages(HUGE_PAGES) if HUGE in options else contextlib.nullcontext(True) as enough:
            if not enough:
                raise kit.Skipped("there are no huge pages")
            (self.raw if program.startswith("raw_") else self.pair)(program, options)

    def pair(self, program, options):
        command = [os.path.join(self.folder, program), "-F", "-x", "0", *options.split()]
        by_cm = "-R" in command
        # Such a client connects twice; the second time all but that of ib_write_bw do not wait for the server.
        _, text = until_in_time(lambda: kit.run_pair(self.daemon, command, by_cm=by_cm), "RDMA_CM_EVENT_REJECTED; error: 8")
        self.check_result(program, command, text)

    @staticmethod
    def check_result(program, words, text):
        (check_timed_latency if program.endswith("_lat") and "-D" in words else kit.check_perftest)(text)

    def sent(self):
        return sum(row["value"] for row in self.daemon.show("counters") if row["counter"] == "tx_packets")

    def raw(self, program, options):
        """The two sides share no socket: the client begins when the server has its flow rule."""
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
        self.check_result(program, words, text)
        if self.sent() - before < 500:
            raise kit.Failure(f"{self.sent() - before} packets only:\n{text}")


    def script(self):
        """perftest's own script for both sides. It waits for a second before it starts the client, which may be too early."""
        script = os.path.join(self.folder, "run_perftest_loopback")
        if not os.path.exists(script):
            raise kit.Skipped("this perftest has no such script")
        cpus = sorted(os.sched_getaffinity(0))
        # timeout(1) ends both sides.
        command = ["timeout", "30", script, str(cpus[0]), str(cpus[-1]), os.path.join(self.folder, "ib_write_bw"), "-F", "-x", "0",
                   "-n", "500"]
        text = until_in_time(
            lambda: kit.Program(self.daemon, [*command, "-p", str(kit.free_port())]).finish(60), "Couldn't connect")
        kit.check_perftest(text, rows=2)


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
    rows = [row for verb in VERBS for row in (*bandwidth(verb), *latency(verb))] + list(raw())
    found = [(f"{program} {options}", lambda p=program, o=options: programs.run(p, o)) for program, options in rows]
    found.append(("run_perftest_loopback", programs.script))
    return [point for point in found if not few or point[0].startswith(FEW)]


def main():
    arguments = kit.point_arguments(more=[("--few", {"action": "store_true", "help": "only those of the default suite"}),
                                          ("--source", {"nargs": "?", "const": "", "help": "a folder with perftest's source"})])
    try:
        with programs_of(arguments.source) as folder:
            daemon = kit.Daemon(kit.Build(arguments.build), kit.scratch_folder())
            try:
                chosen = points(Programs(daemon, folder), arguments.few)
                return kit.run_points(chosen, arguments.match)
            finally:
                daemon.stop()
    except kit.Skipped as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
