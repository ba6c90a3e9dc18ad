#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Valkey's server and clients by RDMA over a loopback device: its own test, its stress line, and either side killed under load.
TAP. Debian 12 has no package: the folder with Valkey's sources is given, and built there, with its RDMA module.

usage: run_valkey.py --build DIR [--source FOLDER] [--kills N]"""
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

ADDRESS, PORT = "127.0.0.1", 6379
MAKE_SECONDS = 1800
NOTICED_SECONDS = 20  # a client of a killed server has ended
STRESS = "-d 256 --threads 16 -c 128 -P 384 -n 200000"


class Valkey:
    """The programs of a source folder over a daemon."""

    def __init__(self, daemon, source, folder):
        self.daemon, self.source, self.folder = daemon, source, folder
        self.server = None

    def make(self):
        for where, arguments in ((".", ["BUILD_RDMA=module", "MALLOC=libc"]), ("tests/rdma", [])):
            done = subprocess.run(["make", "-C", os.path.join(self.source, where), *arguments], stdin=subprocess.DEVNULL,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=MAKE_SECONDS)
            if done.returncode:
                raise kit.Failure(done.stdout)

    def path(self, name):
        return os.path.join(self.source, name)

    def start(self):
        self.server = kit.Program(self.daemon, [
            self.path("src/valkey-server"), "--port", "0", "--save", "", "--appendonly", "no", "--dir", self.folder,
            "--protected-mode", "no", "--loadmodule", self.path("src/valkey-rdma.so"), f"port={PORT}", f"bind={ADDRESS}"])
        kit.await_cm_listening(self.daemon, self.server, 20)
        # It listens before, and says LOADING to every command.
        kit.wait_until(lambda: "Ready to accept connections" in self.server.text(), 20, "the server is ready")

    def stop(self):
        if self.server:
            self.server.kill()

    def test(self, threads, *more):
        """Their rdma-test: keys that are set and compared, by each of its threads."""
        return kit.Program(self.daemon, [self.path("tests/rdma/rdma-test"), "--thread", str(threads), "-h", ADDRESS, "-p", str(PORT),
                                         *more])

    def answers(self):
        text = self.test(1, "-m", "4", "-M", "8").finish(20)
        if "[OK]" not in text:
            raise kit.Failure("another answer:\n" + text)

    def own_test(self):
        self.start()
        began = time.monotonic()
        try:
            self.test(4).finish(120)
        except kit.Failure as failure:
            raise kit.Failure(f"{failure}\nserver:\n{self.server.text()[-2000:]}")
        print(f"# rdma-test with 4 threads: {time.monotonic() - began:.1f} s")

    def stress(self):
        """Their stress line, where valkey-benchmark speaks RDMA; before, as many threads of rdma-test."""
        benchmark = self.path("src/valkey-benchmark")
        usage = subprocess.run([benchmark, "--help"], capture_output=True, text=True)
        began = time.monotonic()
        if "--rdma" not in usage.stdout + usage.stderr:
            self.test(16, "-m", "4096", "-M", "8192").finish(300)
            print(f"# valkey-benchmark has no --rdma; rdma-test with 16 threads: {time.monotonic() - began:.1f} s")
            return
        text = kit.Program(self.daemon, [benchmark, "--rdma", "-h", ADDRESS, "-p", str(PORT), *STRESS.split(), "-t", "set,get", "-q"]
                           ).finish(300)
        rates = re.findall(r"(SET|GET): ([\d.]+) requests per second", text)
        if {name for name, _ in rates} != {"SET", "GET"}:
            raise kit.Failure("no results:\n" + text)
        print("# " + ", ".join(f"{name}: {rate} requests/s" for name, rate in rates))

    def under_load(self, load):
        def look():
            if load.process.poll() is not None:
                raise kit.Failure("the load has ended:\n" + load.text())
            rows = [qp for qp in self.daemon.show("qps") if qp.get("rx_packets", 0) > 100]
            return len(rows) >= 2
        kit.wait_until(look, 20, "traffic")

    def load(self):
        """Clients with traffic. Each gives up after some hundredths of a second when it is not connected yet: a busy machine takes
        longer now and then."""
        for left in range(4, -1, -1):
            load = self.test(2, "-m", "16000", "-M", "16001")
            try:
                self.under_load(load)
                return load
            except kit.Failure:
                load.kill()
                if not left or "resolve failed" not in load.text():
                    raise

    def kill(self, victim):
        """One side is killed; the other ends or goes on, and the next one works."""
        load = self.load()
        try:
            if victim == "client":
                load.kill()
                if self.server.process.poll() is not None:
                    raise kit.Failure("the server has ended, too:\n" + self.server.text()[-2000:])
            else:
                self.server.kill()
                try:
                    load.process.wait(NOTICED_SECONDS)
                except subprocess.TimeoutExpired:
                    raise kit.Failure("the client of a killed server goes on:\n" + load.text())
                self.start()
            self.answers()
        finally:
            load.kill()

    def kills(self, count):
        if not self.server:
            self.start()
        began = time.monotonic()
        for number in range(count):
            try:
                self.kill(("server", "client")[number % 2])
            except kit.Failure as failure:
                raise kit.Failure(f"kill {number + 1}: {failure}")
        print(f"# {count} kills in {time.monotonic() - began:.0f} s")

    def nothing_is_left(self):
        self.stop()
        for topic in ("qps", "cm_ids", "mr"):
            kit.wait_until(lambda topic=topic: not self.daemon.show(topic), 10, f"no {topic}")


def main():
    arguments = kit.point_arguments(more=[("--source", {"default": os.environ.get("UROCE_TEST_VALKEY", "")}),
                                          ("--kills", {"type": int, "default": 200, "help": "half of them of servers"})])
    if not arguments.source:
        print("1..0 # SKIP no --source with a folder of Valkey's sources")
        return 0
    folder = kit.scratch_folder()
    daemon = kit.Daemon(kit.Build(arguments.build), folder)
    valkey = Valkey(daemon, os.path.abspath(arguments.source), folder)
    try:
        return kit.run_points([("it builds, with its RDMA module", valkey.make), ("its rdma-test", valkey.own_test),
                               ("its stress line", valkey.stress),
                               (f"{arguments.kills} times one side is killed under load", lambda: valkey.kills(arguments.kills)),
                               ("nothing is left", valkey.nothing_is_left)], arguments.match)
    finally:
        valkey.stop()
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
