#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rsockets over a loopback device: test_rsockets, and unmodified programs, some by librspreload. TAP.

usage: run_rsockets.py --build DIR --listening LIBRARY [--only NAME] TEST_RSOCKETS"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "kit")]
import uroce_kit as kit
from run_cm import ADDRESS, Pairs, Server

PRELOAD = "/usr/lib/{}-linux-gnu/rsocket/librspreload.so.1".format(os.uname().machine)
IPERF3_BYTES = 200000000
NOTICED_SECONDS = 2  # some hundredths of a second; the machine may be busy


def finished(text, program):
    """The last line of a table of results has a bandwidth and a time above zero."""
    row = text.split("\n")[1].split() if text.startswith("name") else []
    if len(row) != 8 or float(row[7]) <= 0:
        raise kit.Failure(f"no result of {program} in:\n{text}")
    print(f"# {program}: {row[6]} Gb/s, {row[7]} us")


def both(program, options, address=ADDRESS):
    """A pair that exchanges messages and ends."""
    def point(pairs):
        _, text = pairs.run(f"{program} -b {address} -p PORT {options}", f"{program} -s {address} -p PORT {options}")
        finished(text, f"{program} {options}")
    return point


def latency_and_bandwidth(pairs):
    """rstream's own series: each has a result, from 64 bytes to a megabyte."""
    _, text = pairs.run(f"rstream -b {ADDRESS} -p PORT", f"rstream -s {ADDRESS} -p PORT")
    rows = [line.split() for line in text.splitlines()[1:]]
    if [row[0] for row in rows] != ["64_lat", "4k_lat", "64k_lat", "1m_lat", "64_bw", "4k_bw", "64k_bw", "1m_bw"]:
        raise kit.Failure("not all results in:\n" + text)
    for row in rows:
        print(f"# rstream {row[0]}: {row[6]} Gb/s, {row[7]} us")


def copies(pairs):
    folder = kit.scratch_folder()
    source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
    with open(source, "wb") as file:
        file.write(os.urandom(5000001))
    pairs.run("rcopy -p PORT", f"rcopy {source} {ADDRESS}:{target} -p PORT", ends=False)
    with open(source, "rb") as one, open(target, "rb") as other:
        if one.read() != other.read():
            raise kit.Failure("the copy differs")


def datagrams(options):
    """The server goes on without end, and is no listener of rdma_cm."""
    def point(pairs):
        _, text = pairs.run(f"udpong -b {ADDRESS} -p PORT {options}", f"udpong -s {ADDRESS} -p PORT {options}",
                            ends=False, listens=False)
        row = text.split("\n")[1].split() if text.startswith("name") else []
        if len(row) != 7 or float(row[6]) <= 0:
            raise kit.Failure("no result in:\n" + text)
    return point


class Preloaded(Pairs):
    """Pairs of programs that use sockets, with librspreload in between."""

    def __init__(self, pairs):
        super().__init__(pairs.daemon, f"{PRELOAD} {pairs.listening}")
        self.port = 25000


def received(daemon):
    return sum(row["value"] for row in daemon.show("counters") if row["counter"] == "rx_bytes")


def forks(pairs):
    """A server that forks for each connection; librspreload connects in the child."""
    if not os.path.exists(PRELOAD):
        raise kit.Skipped("librspreload is not installed")
    command = "rstream -T f -T s -p PORT -S 5000 -I 100 -C 10"
    environment = {"RDMAV_FORK_SAFE": "1", "LD_PRELOAD": PRELOAD}
    before, port = received(pairs.daemon), kit.free_port()
    server = kit.Program(pairs.daemon, command.replace("PORT", str(port)).split(), environment)
    try:
        kit.await_listening(server, port, 10)
        client = kit.Program(pairs.daemon, command.replace("PORT", str(port)).split() + ["-s", ADDRESS], environment)
        text = client.finish(20)
    finally:
        server.kill()
    finished(text, "rstream that forks")
    if received(pairs.daemon) - before < 2 * 5000 * 1000:
        raise kit.Failure("the bytes went elsewhere:\n" + text)


def iperf3(pairs):
    if not os.path.exists(PRELOAD) or not shutil.which("iperf3"):
        raise kit.Skipped("iperf3 or librspreload is not installed")
    preloaded, before = Preloaded(pairs), received(pairs.daemon)
    preloaded.port += 1
    server = Server(preloaded, f"iperf3 -s -1 -p {preloaded.port}".split())
    client = kit.Program(pairs.daemon, f"iperf3 -c {ADDRESS} -p {preloaded.port} -n {IPERF3_BYTES}".split(), {"LD_PRELOAD": PRELOAD})
    try:
        text = client.finish(30)
        server.finish(10)
    finally:
        server.kill()
        client.kill()
    rate = re.search(r"([\d.]+) Gbits/sec.*receiver", text)
    if not rate or float(rate.group(1)) <= 0:
        raise kit.Failure("no result in:\n" + text + server.text())
    if received(pairs.daemon) - before < IPERF3_BYTES:
        raise kit.Failure("the bytes went elsewhere:\n" + text)
    print(f"# iperf3: {rate.group(1)} Gb/s")


def await_traffic(daemon):
    kit.wait_until(lambda: sum(qp.get("rx_packets", 0) > 100 for qp in daemon.show("qps")) >= 2, 20, "traffic")


def killed(options, victim):
    """One side is killed in the middle of its traffic. The other one ends by itself, with an error."""
    def point(pairs):
        pairs.port += 1
        command = f"rstream -p {pairs.port} -I 100000000 -C 10 -S 5000 {options}".split()
        server = Server(pairs, command + ["-b", ADDRESS])
        client = None
        try:
            client = kit.Program(pairs.daemon, command + ["-s", ADDRESS])
            await_traffic(pairs.daemon)
            ends, goes_on = (server, client) if victim == "server" else (client, server)
            ends.process.kill()
            begin = time.monotonic()
            try:
                status = goes_on.process.wait(NOTICED_SECONDS)
            except subprocess.TimeoutExpired:
                raise kit.Failure(f"it goes on after {NOTICED_SECONDS} s:\n" + goes_on.text())
            if status <= 0:
                raise kit.Failure(f"exit status {status}:\n" + goes_on.text())
            print(f"# noticed after {1000 * (time.monotonic() - begin):.0f} ms")
        finally:
            server.kill()
            if client:
                client.kill()
    return point


def daemon_ends(build, folder, listening):
    """A stream whose daemon is gone fails; it does not hang."""
    daemon = kit.Daemon(build, folder, "second")
    pairs = Pairs(daemon, listening)
    command = "rstream -p 20001 -I 100000000 -C 10 -S 5000".split()
    server = Server(pairs, command + ["-b", ADDRESS])
    client = kit.Program(daemon, command + ["-s", ADDRESS])
    try:
        await_traffic(daemon)
        daemon.process.kill()
        for program in (server, client):
            try:
                status = program.process.wait(NOTICED_SECONDS)
            except subprocess.TimeoutExpired:
                raise kit.Failure("it goes on:\n" + program.text())
            if status <= 0:
                raise kit.Failure(f"exit status {status}:\n" + program.text())
    finally:
        server.kill()
        client.kill()
        daemon.stop()


POINTS = (
    ("rstream, its series", latency_and_bandwidth),
    ("rstream, blocking, verified", both("rstream", "-T b -T v -S 5000 -I 100 -C 10")),
    ("rstream, not blocking, verified", both("rstream", "-T n -T v -S 5000 -I 100 -C 10")),
    ("rstream, rpoll, verified", both("rstream", "-T a -T v -S 5000 -I 100 -C 10")),
    ("rstream, resolved by rdma_cm", both("rstream", "-T r -T v -S 1000 -I 100 -C 10")),
    ("rstream, a megabyte, IPv6", both("rstream", "-T v -S 1000000 -I 10 -C 4", "::1")),
    ("rstream, buffers of 8 KiB", both("rstream", "-T v -B 8192 -S 100000 -I 10 -C 4")),
    ("riostream, blocking, verified", both("riostream", "-T b -T v -S 5000 -I 5 -C 10")),
    ("riostream, rpoll, verified", both("riostream", "-T a -T v -S 50000 -I 5 -C 5")),
    ("rcopy", copies),
    ("udpong", datagrams("-C 500 -S 1000")),
    ("udpong, rpoll", datagrams("-T a -C 500 -S 1000")),
    ("udpong, echo", datagrams("-T e -C 100 -S 200")),
    ("iperf3 by librspreload", iperf3),
    ("a server that forks, by librspreload", forks),
    ("kill -9 of the server", killed("-T b", "server")),
    ("kill -9 of the client", killed("-T b", "client")),
    ("kill -9 of the server under rpoll", killed("-T a", "server")),
    ("kill -9 of the client under rpoll", killed("-T a", "client")),
)


def own_tests(daemon, program):
    bad = [(name, details) for passed, name, details in kit.cmocka_points(daemon, program, "rsockets") if not passed]
    if bad:
        raise kit.Failure(f"{bad[0][0]}:\n" + "\n".join(bad[0][1]))


def left_over(daemon):
    """What the programs made is gone with them."""
    kit.wait_until(lambda: not daemon.show("qps"), 10, "no queue pair")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--listening", required=True, help="the module that tells when a program listens")
    options.add_argument("--only", default="", help="points whose names contain this")
    options.add_argument("program")
    arguments = options.parse_args()
    kit.die_on_signals()
    build, folder, listening = kit.Build(arguments.build), kit.scratch_folder(), os.path.abspath(arguments.listening)
    daemon = kit.Daemon(build, folder)
    pairs = Pairs(daemon, listening)
    points = [(name, lambda point=point: point(pairs)) for name, point in POINTS]
    points = [("test_rsockets", lambda: own_tests(daemon, arguments.program))] + points + [
        ("nothing is left", lambda: left_over(daemon)),
        ("a stream whose daemon ends", lambda: daemon_ends(build, folder, listening)),
    ]
    try:
        return kit.run_points(points, arguments.only)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
