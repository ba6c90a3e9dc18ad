#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs that make connections by librdmacm, over a loopback device. TAP.

usage: run_cm.py --build DIR --listening LIBRARY --api TEST_CM TEST_CM_ERRNO TEST_CM_PROGRAMS [--workers N] [--long] [--only NAME]"""
import argparse
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import cm_programs as cm
import uroce_kit as kit
from cm_programs import Pairs, Server, simple

SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # pyverbs is built for Debian's own
ADDRESS = "127.0.0.1"


def busy():
    """How many times longer than alone a thread takes for its work now, as others have the processors."""
    begin, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.05:
        pass
    return (time.monotonic() - begin) / (time.process_time() - used)


def thousand(pairs):
    """1,000 connects at once, with queue pairs, take less than a second of a machine that does nothing else: the median of the tries,
    each divided by how busy the machine was before or after it."""
    tries = []
    for _ in range(3):
        before = busy()
        text = cm.cmtime_text(pairs, 1000)
        found = re.search(r"^connect\s*:\s+([\d.]+)", text, re.M)
        later = re.search(r"^cm connect\s+\d+\s+(\d+)", text, re.M)  # in us, and the first series is that with queue pairs
        if not found and not later:
            raise kit.Failure("no result in:\n" + text)
        tries.append((float(found.group(1)) if found else int(later.group(1)) / 1000, max(before, busy())))
    text = ", ".join(f"{ms:.0f} ms ({factor:.1f})" for ms, factor in tries)
    print(f"# 1,000 connects (and how busy the machine was): {text}")
    if sorted(ms / factor for ms, factor in tries)[1] >= 1000:
        raise kit.Failure(f"1,000 connects take {text}")


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
    ("mckey", cm.group()),
    ("rdma_server, rdma_client", simple("rdma_server -p PORT", f"rdma_client -s {ADDRESS} -p PORT")),
    ("rdma_xserver, rdma_xclient", simple("rdma_xserver -p PORT", f"rdma_xclient -s {ADDRESS} -p PORT")),
    ("rdma_xserver, rdma_xclient, XRC", simple("rdma_xserver -c x -p PORT", f"rdma_xclient -c x -s {ADDRESS} -p PORT")),
    ("cmtime, 100 connections", cm.cmtime(100)),
    ("cmtime, 1,000 connects within a second", thousand),
    ("ib_write_bw -R", cm.perftest("ib_write_bw -n 500 -d uroce0")),
    ("ib_read_bw -R, 4 queue pairs", cm.perftest("ib_read_bw -n 100 -q 4 -d uroce0")),
    ("a port without listener", fails(f"ucmatose -s {ADDRESS} -p 19999", "REJECTED")),
    ("an address without route", fails("ucmatose -s 203.0.113.1", "ADDR_ERROR|UNREACHABLE|unreachable")),
    ("rdma-core's tests", suite_of_rdma_core),
)

# More of each.
LONG = (
    *((f"rping, {size} bytes, 1000 times", cm.rping(f"-C 1000 -S {size}")) for size in (16, 64, 1024, 4096, 65535)),
    ("cmtime, 1000 connections", cm.cmtime(1000)),
    ("ucmatose, 1000 connections", simple("ucmatose -c 1000 -p PORT", f"ucmatose -s {ADDRESS} -c 1000 -p PORT", seconds=60)),
    *((f"{program} -R", cm.again(cm.perftest(f"{program} -n 500 -d uroce0"))) for program in cm.PERFTEST),
    *((f"{program} -R -c UD", cm.perftest(f"{program} -n 200 -c UD -s 1024 -d uroce0")) for program in ("ib_send_bw", "ib_send_lat")),
    ("qperf", cm.again(cm.qperf("rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat"))),
    ("qperf, atomics", cm.again(cm.qperf("rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add"))),
)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--listening", required=True, help="the module that tells when a program listens")
    options.add_argument("--api", required=True, nargs=3, help="the tests of the API, of its errnos, and of what programs rely on")
    options.add_argument("--workers", default="1")
    options.add_argument("--only", default="", help="points whose names contain this")
    options.add_argument("--long", action="store_true")
    arguments = options.parse_args()
    kit.die_on_signals()
    build, folder = kit.Build(arguments.build), kit.scratch_folder()
    points = [point for point in POINTS + (LONG if arguments.long else ()) if arguments.only in point[0]]
    daemon = kit.Daemon(build, folder, arguments=("--loopback", "--workers", arguments.workers))
    tap = kit.Tap(len(points) + 6)
    try:
        pairs = Pairs(daemon, os.path.abspath(arguments.listening))
        for name, point in points:
            tap.point(name, lambda point=point: point(pairs))
        tap.point("the API", lambda: api(pairs, arguments.api[0]))
        tap.point("the errnos of the API", lambda: api(pairs, arguments.api[1]))
        tap.point("what programs rely on", lambda: api(pairs, arguments.api[2]))
        alive = daemon.alive()
    finally:
        status = daemon.stop()

    def survived():
        if not alive or status != 0:
            raise kit.Failure(f"exit status {status}:\n" + daemon.log())
    tap.point("uroced survives", survived)
    tap.point("a program whose daemon ends", lambda: daemon_ends(build, folder, pairs.listening))
    tap.point("ids of the next daemon", lambda: next_daemon(build, folder, arguments.api[0]))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
