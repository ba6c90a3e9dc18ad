#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs that make connections by librdmacm, over a loopback device. TAP.

usage: run_cm.py --build DIR --listening LIBRARY --api TEST_CM [--workers N] [--only NAME]"""
import argparse
import glob
import gzip
import os
import re
import select
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # pyverbs is built for Debian's own
ADDRESS = "127.0.0.1"
LISTEN_SECONDS = 20


class Server(kit.Program):
    """A server; the constructor returns when it listens, or ends, or LISTEN_SECONDS are over."""

    def __init__(self, pairs, command):
        listens, open_until_then = os.pipe()
        try:
            super().__init__(pairs.daemon, command, fds=(open_until_then,), extra_environment={
                "LD_PRELOAD": pairs.listening, "UROCE_TEST_LISTENING_FD": str(open_until_then)})
            os.close(open_until_then)
            select.select([listens], [], [], LISTEN_SECONDS)
        finally:
            os.close(listens)


class Pairs:
    """Pairs of programs, each at a port number of its own: the daemon, and so its port numbers, are the test's."""

    def __init__(self, daemon, listening):
        self.daemon = daemon
        self.listening = listening
        self.port = 20000

    def run(self, server, client, seconds=20, ends=True, listens=True):
        """Both outputs, the server's first. PORT in a command is the port number."""
        program = server.split()[0]
        if not shutil.which(program):
            raise kit.Skipped(program + " is not installed")
        self.port += 1
        commands = [command.replace("PORT", str(self.port)).split() for command in (server, client)]
        server = Server(self, commands[0]) if listens else kit.Program(self.daemon, commands[0])
        client = None
        try:
            client = kit.Program(self.daemon, commands[1])
            try:
                text = client.finish(seconds)
            except kit.Failure as failure:
                server.kill()
                raise kit.Failure(f"{failure}\nserver's side:\n{server.text()}")
            return (server.finish(seconds) if ends else server.text()), text
        finally:
            server.kill()
            if client is not None:
                client.kill()


def simple(server, client, **options):
    return lambda pairs: pairs.run(server, client, **options)


def perftest(command):
    def point(pairs):
        _, text = pairs.run(f"{command} -p PORT", f"{command} -p PORT {ADDRESS}")
        kit.check_perftest(text)
    return point


def times(pairs):
    """Each step has a time. Since rdma-core 50 it also connects queue pairs that do not exist, with numbers that it chooses:
    both sides are one device, which has each number once."""
    usage = subprocess.run(["cmtime", "-?"], capture_output=True, text=True)
    server, client = ("-q 10000", "-q 20000") if "-q base_qpn" in usage.stdout + usage.stderr else ("", "")
    _, text = pairs.run(f"cmtime -b {ADDRESS} -p PORT -c 100 {server}", f"cmtime -s {ADDRESS} -p PORT -c 100 {client}", ends=False)
    steps = re.findall(r"^(?:connect|full connect|disconnect|resolve addr)\s*:?\s+([\d.]+)", text, re.M)
    if len(steps) < 3 or not any(float(time) > 0 for time in steps):
        raise kit.Failure("no result in:\n" + text)


def group(pairs):
    """The sender waits for 3 s, and at its end not for its datagrams: some may be flushed."""
    pairs.run(f"mckey -m 239.1.2.3 -b {ADDRESS} -C 1", f"mckey -m 239.1.2.3 -b {ADDRESS} -s -C 50", listens=False)


def fails(command, pattern, seconds=20):
    """A program that has no peer fails at once, and says why."""
    def point(pairs):
        program = kit.Program(pairs.daemon, command.split())
        try:
            status = program.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise kit.Failure(f"{command}: not done after {seconds} s:\n{program.text()}")
        finally:
            program.kill()
        if status == 0 or not re.search(pattern, program.text()):
            raise kit.Failure(f"{command}: exit status {status}:\n{program.text()}")
    return point


def suite_of_rdma_core(pairs):
    """Their tests of rdma_cm take the address of the device's network interface from sysfs: here, from a copy."""
    if not os.path.isdir(SUITE) or subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True).returncode:
        raise kit.Skipped("python3-pyverbs and its tests are not installed")
    folder = kit.scratch_folder()
    suite = os.path.join(folder, "tests")
    shutil.copytree(SUITE, suite)
    os.makedirs(os.path.join(folder, "infiniband/uroce0/device/net/lo"))
    for packed in glob.glob(os.path.join(suite, "*.gz")):
        with gzip.open(packed, "rt") as source, open(packed[:-3], "w") as target:
            target.write(source.read().replace("/sys/class/infiniband/", folder + "/infiniband/"))
        os.unlink(packed)
    done = subprocess.run([PYTHON, "run_tests.py", "-v", "--dev", "uroce0", "--port", "1", "--gid", "0", "-k", "test_rdmacm."],
                          cwd=suite, env=pairs.daemon.environment(kit.rdma_program(folder)), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    passed = len(re.findall(r"\(tests\.test_rdmacm\..*\.\.\. ok$", done.stdout, re.M))
    if done.returncode or passed < 10 or "skipped=" in done.stdout:
        raise kit.Failure(f"{passed} passed:\n" + done.stdout)


def daemon_ends(build, folder, listening):
    """A program that waits for connections learns that the daemon has ended, and ends too."""
    daemon = kit.Daemon(build, folder, "second")
    server = Server(Pairs(daemon, listening), ["rping", "-s", "-a", ADDRESS])
    try:
        if server.process.poll() is not None:
            raise kit.Failure("it has ended before:\n" + server.text())
        daemon.stop()
        try:
            server.process.wait(10)
        except subprocess.TimeoutExpired:
            raise kit.Failure("rping still waits:\n" + server.text())
        if "device removal" not in server.text():
            raise kit.Failure("no event:\n" + server.text())
    finally:
        server.kill()
        daemon.stop()


def api(pairs, program):
    done = subprocess.run([program], env=pairs.daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP"}), timeout=70, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise kit.Failure(done.stdout)


def next_daemon(build, folder, program):
    """A program with channels and ids of a daemon that ends goes on with the next one."""
    daemon = kit.Daemon(build, folder, "third")
    process = subprocess.Popen([program, "end-of-the-daemon"], env=daemon.environment(), text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        heard = [process.stdout.readline()]
        daemon.stop()
        heard.append(process.stdout.readline())
        daemon = kit.Daemon(build, folder, "third")
        heard.append(process.communicate("next\n", timeout=60)[0])
        if process.returncode or heard[:2] != ["ready\n", "gone\n"]:
            raise kit.Failure(f"exit status {process.returncode}:\n" + "".join(heard))
    finally:
        process.kill()
        daemon.stop()


POINTS = (
    ("rping", simple(f"rping -s -a {ADDRESS} -p PORT -C 1000 -V", f"rping -c -a {ADDRESS} -p PORT -C 1000 -V")),
    ("rping, 60000 bytes", simple(f"rping -s -a {ADDRESS} -p PORT -C 20 -S 60000 -V",
                                  f"rping -c -a {ADDRESS} -p PORT -C 20 -S 60000 -V")),
    ("rping, IPv6", simple("rping -s -a ::1 -p PORT -C 10 -V", "rping -c -a ::1 -p PORT -C 10 -V")),
    ("rping, a wildcard and a bound client", simple("rping -s -p PORT -C 10 -V",
                                                    f"rping -c -a {ADDRESS} -I {ADDRESS} -p PORT -C 10 -V")),
    ("ucmatose, 100 connections", simple("ucmatose -c 100 -p PORT", f"ucmatose -s {ADDRESS} -c 100 -p PORT")),
    ("ucmatose, migrated", simple(f"ucmatose -b {ADDRESS} -c 10 -m -p PORT", f"ucmatose -s {ADDRESS} -c 10 -m -p PORT")),
    ("ucmatose, a type of service", simple(f"ucmatose -b {ADDRESS} -t 104 -p PORT", f"ucmatose -s {ADDRESS} -t 104 -p PORT")),
    ("udaddy, 20 ids", simple(f"udaddy -b {ADDRESS} -c 20", f"udaddy -s {ADDRESS} -c 20")),
    ("udaddy, the port space of IPoIB", simple("udaddy -p 0x2", f"udaddy -s {ADDRESS} -p 0x2")),
    ("mckey", group),
    ("rdma_server, rdma_client", simple("rdma_server -p PORT", f"rdma_client -s {ADDRESS} -p PORT")),
    ("rdma_xserver, rdma_xclient", simple("rdma_xserver -p PORT", f"rdma_xclient -s {ADDRESS} -p PORT")),
    ("rdma_xserver, rdma_xclient, XRC", simple("rdma_xserver -c x -p PORT", f"rdma_xclient -c x -s {ADDRESS} -p PORT")),
    ("cmtime, 100 connections", times),
    ("ib_write_bw -R", perftest("ib_write_bw -R -n 500 -d uroce0")),
    # Not with datagrams: its client asks for the service before its server listens, and uses an id that it has freed.
    ("ib_read_bw -R, 4 queue pairs", perftest("ib_read_bw -R -n 100 -q 4 -d uroce0")),
    ("a port without listener", fails(f"ucmatose -s {ADDRESS} -p 19999", "REJECTED")),
    ("an address without route", fails("ucmatose -s 203.0.113.1", "ADDR_ERROR|UNREACHABLE|unreachable")),
    ("rdma-core's tests", suite_of_rdma_core),
)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--listening", required=True, help="the module that tells when a program listens")
    options.add_argument("--api", required=True, help="the test of the API")
    options.add_argument("--workers", default="1")
    options.add_argument("--only", default="", help="points whose names contain this")
    arguments = options.parse_args()
    kit.die_on_signals()
    build, folder = kit.Build(arguments.build), kit.scratch_folder()
    points = [point for point in POINTS if arguments.only in point[0]]
    daemon = kit.Daemon(build, folder, arguments=("--loopback", "--workers", arguments.workers))
    tap = kit.Tap(len(points) + 4)
    try:
        pairs = Pairs(daemon, os.path.abspath(arguments.listening))
        for name, point in points:
            tap.point(name, lambda point=point: point(pairs))
        tap.point("the API", lambda: api(pairs, arguments.api))
        alive = daemon.alive()
    finally:
        status = daemon.stop()

    def survived():
        if not alive or status != 0:
            raise kit.Failure(f"exit status {status}:\n" + daemon.log())
    tap.point("uroced survives", survived)
    tap.point("a program whose daemon ends", lambda: daemon_ends(build, folder, pairs.listening))
    tap.point("ids of the next daemon", lambda: next_daemon(build, folder, arguments.api))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
