#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""UCX's own tests (test/gtest) of its transports rc_verbs and ud_verbs over a loopback device. TAP, a point for each suite of
theirs. The folder with UCX's sources is given, and UCX is built in a folder below it. ucx_gtest_known.txt names the tests that
fail, each with its reason; one of them that passes is a failure too.

usage: run_ucx_gtest.py --build DIR [--source FOLDER] [--part PART] [--match SUITE] [--seed NUMBER] [--list]"""
import collections
import fnmatch
import os
import random
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

MAKE_SECONDS = 3600
TEST_SECONDS = 300  # their watchdog ends a program whose test takes longer
PERF_SECONDS = 600
CONFIGURE = ["--enable-gtest", "--enable-mt", "--enable-fault-injection", "--with-verbs", "--with-rdmacm", "--with-mlx5-dv=no",
             "--without-dc", "--without-java", "--without-go", "--without-cuda", "--without-rocm", "--without-fuse3",
             "--disable-doxygen-doc", "--disable-static", "CFLAGS=-O2 -g"]
# The tests take most of the time to build: without optimisation they take half of it. Newer compilers warn of them.
MAKE = ["CXXFLAGS=-O0 -g0 -Wno-error", "CCLD=g++"]  # programs in C link objects in C++
ENVIRONMENT = {"UCX_HANDLE_ERRORS": "none", "UCX_LOG_LEVEL": "warn"}

# Left out: 100,000 requests, one by one; rates of ucp, which are not compared with anything, for an hour.
LEFT_OUT = "*_multiple_sends/*:*test_ucp_perf.*:*test_ucp_loopback.*"

# Filters of gtest, for parts of about ten minutes: what a part has, and what of it is in another part.
PARTS = {
    "uct-rc": ("rc_verbs/*", ""),
    "uct-ud": ("ud_verbs/*:ib/*", ":ib/*sockaddr*"),
    "cm": ("rdmacm/*:ib/*sockaddr*", ""),
    "ucp-rc": ("rc/*", ":*sockaddr*:*tag_xfer*:*nbx_dts*"),
    "ucp-ud": ("ud/*:rc_ud/*:ud_tcp/*", ":*sockaddr*:*tag_xfer*:*nbx_dts*"),
    "types-rc": ("rc/*tag_xfer*:rc/*nbx_dts*", ""),
    "types-ud": ("ud/*tag_xfer*:ud/*nbx_dts*", ""),
    "sockaddr-rc": ("rc/*sockaddr*:rc_no_ud/*sockaddr*", ""),
    "sockaddr-ud": ("ud/*sockaddr*", ""),
}


class Known:
    """The rows of ucx_gtest_known.txt: whether a failure is certain, a pattern of names, the reason."""

    def __init__(self):
        self.rows = []
        with open(os.path.join(HERE, "ucx_gtest_known.txt")) as file:
            for line in file:
                if line.strip() and not line.startswith("#"):
                    when, pattern, reason = line.split(None, 2)
                    self.rows.append((when, pattern, reason.strip()))

    def of(self, name):
        return next((row for row in self.rows if fnmatch.fnmatchcase(name, row[1])), (None, None, None))


class Gtest:
    """Their program over a daemon."""

    def __init__(self, source, seed):
        self.source, self.seed = source, seed
        self.folder = os.path.join(source, "uroce-build")
        self.program = os.path.join(self.folder, "test/gtest/gtest")
        self.daemon = None

    def make(self):
        if os.path.exists(self.program):
            return
        os.makedirs(self.folder, exist_ok=True)
        if not os.path.exists(os.path.join(self.source, "configure")):
            self.build_step([os.path.join(self.source, "autogen.sh")], self.source)
        self.build_step([os.path.join(self.source, "configure"), *CONFIGURE], self.folder)
        self.build_step(["make", "-j2", *MAKE], self.folder)

    @staticmethod
    def build_step(command, folder):
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, text=True, errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=MAKE_SECONDS)
        if done.returncode:
            raise kit.Failure(" ".join(command) + ":\n" + done.stdout)

    def start(self, *arguments):
        """`uroce run`, which also shows the device in /sys: they look there for interfaces that rdma_cm can use."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "UCX_", "GTEST_"))}
        return subprocess.Popen([self.daemon.build.uroce, "run", "--socket", self.daemon.socket, "--", self.program, *arguments],
                                env={**environment, **ENVIRONMENT}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace")

    def tests(self, wanted):
        """Their tests that a filter lets through, by suites."""
        suites, suite = collections.OrderedDict(), None
        for line in self.start("--gtest_list_tests", "--gtest_filter=" + wanted).communicate(timeout=60)[0].splitlines():
            word = line.split("#")[0].strip()
            if line.startswith("  ") and suite:
                suites[suite].append(word)
            elif re.fullmatch(r"[\w/]+\.", word):
                suite = word[:-1]
                suites[suite] = []
        return {suite: tests for suite, tests in suites.items() if tests}


class Run:
    """The tests of a suite, in one process while none of them ends it. results: name to (what became of it, its output)."""

    def __init__(self, gtest, names):
        self.gtest, self.suite, self.left, self.results = gtest, names[0].split(".")[0], list(names), {}
        self.seconds = PERF_SECONDS if "perf" in names[0] or "loopback" in names[0] else TEST_SECONDS

    def all(self):
        while self.left:
            before = len(self.left)
            self.process()
            if len(self.left) == before:
                raise kit.Failure(f"{self.left[0]} did not begin:\n" + "".join(self.text))
        return self.results

    def process(self):
        # Short for the many tests of other suites: gtest compares each of them with all that is before the minus.
        wanted = ":".join([f"{self.suite}.*-{LEFT_OUT}", *self.results])
        process = self.gtest.start("--gtest_filter=" + wanted, "-t", str(self.seconds), "-s", str(self.gtest.seed))
        self.name, self.text, skipped = None, [], False
        guard = threading.Timer(self.seconds, process.kill)
        guard.start()
        try:
            for line in process.stdout:
                began = re.match(r"\[ RUN      \] (\S+)", line)
                ended = re.match(r"\[(?:       OK |  FAILED  )\] (\S+?),? ", line)
                if began:
                    self.name, self.text, skipped = began[1], [], False
                    guard.cancel()
                    guard = threading.Timer(self.seconds + 30, process.kill)  # their watchdog comes first
                    guard.start()
                elif ended and ended[1] == self.name:
                    self.end("skipped" if skipped else "passed" if "OK" in line[:14] else "failed")
                else:
                    skipped = skipped or line.startswith("[     SKIP ]")
                    self.text.append(line)
            status = process.wait(60)
        finally:
            guard.cancel()
            kit.end(process)
        if self.name:
            self.end("failed", f"the program has ended with status {status}\n")

    def end(self, what, more=""):
        self.results[self.name] = (what, "".join(self.text) + more)
        self.left = [name for name in self.left if name != self.name]
        self.name = None


class Suites:
    """The points, and what all of them add up to."""

    def __init__(self, gtest):
        self.gtest, self.known, self.count = gtest, Known(), collections.Counter()

    def point(self, suite, tests):
        began = time.monotonic()
        results = Run(self.gtest, [f"{suite}.{test}" for test in tests]).all()
        wrong, count = [], collections.Counter()
        for name, (what, text) in results.items():
            when, _, reason = self.known.of(name)
            if what == "failed" and when:
                what = "known to fail"
                print(f"# {name}: fails: {reason}")
            elif what == "failed":
                wrong.append(f"{name} failed:\n{text}")
            elif what == "passed" and when == "always":
                wrong.append(f"{name} passed, and is named in ucx_gtest_known.txt as one that fails: {reason}")
            count[what] += 1
        self.count += count
        print(f"# {suite}: {written(count)}, {time.monotonic() - began:.0f} s", flush=True)
        if not self.gtest.daemon.alive():
            wrong.append("uroced has ended:\n" + self.gtest.daemon.log())
        if wrong:
            raise kit.Failure("\n".join(wrong))

    def nothing_is_left(self):
        for topic in ("qps", "cm_ids", "mr"):
            kit.wait_until(lambda topic=topic: not self.gtest.daemon.show(topic), 20, f"no {topic}")
        print(f"# {written(self.count)}")
        if not self.count:
            raise kit.Failure("no test has run")


def written(count):
    return ", ".join(f"{number} {what}" for what, number in sorted(count.items(), key=lambda row: -row[1]))


def main():
    arguments = kit.point_arguments(more=[
        ("--source", {"default": os.environ.get("UROCE_TEST_UCX", "")}), ("--part", {"choices": PARTS, "default": "uct-rc"}),
        ("--seed", {"type": int, "default": random.randrange(32768)}), ("--list", {"action": "store_true"})])
    if not arguments.source:
        print("1..0 # SKIP no --source with a folder of UCX's sources")
        return 0
    gtest = Gtest(os.path.abspath(arguments.source), arguments.seed)
    folder = kit.scratch_folder()
    try:
        gtest.make()
    except (kit.Failure, subprocess.TimeoutExpired) as failure:
        return kit.print_points([(False, "UCX builds", str(failure).splitlines()[-60:])])
    gtest.daemon = kit.Daemon(kit.Build(arguments.build), folder)
    try:
        wanted, elsewhere = PARTS[arguments.part]
        suites = gtest.tests(f"{wanted}-{LEFT_OUT}{elsewhere}")
        if arguments.list:
            print("".join(f"{suite}.{test}\n" for suite, tests in suites.items() for test in tests), end="")
            return 0
        print(f"# {sum(map(len, suites.values()))} tests in {len(suites)} suites, seed {arguments.seed}")
        all_suites = Suites(gtest)
        points = [(suite, lambda suite=suite, tests=tests: all_suites.point(suite, tests)) for suite, tests in suites.items()]
        return kit.run_points([point for point in points if arguments.match in point[0]] +
                              [("nothing is left", all_suites.nothing_is_left)])
    finally:
        gtest.daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
