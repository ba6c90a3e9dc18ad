#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rsockets over a loopback device: their own tests, and unmodified programs, some by librspreload. TAP.

usage: run_rsockets.py --build DIR --listening LIBRARY [--only NAME] TEST..."""
import argparse
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import cm_programs as cm
import uroce_kit as kit
from cm_programs import Pairs, Server, datagrams, stream

ADDRESS = "127.0.0.1"
NOTICED_SECONDS = 2  # some hundredths of a second; the machine may be busy


def latency_and_bandwidth(pairs):
    """rstream's own series: each has a result, from 64 bytes to a megabyte. 100,000 messages of 64 bytes go there and back, each with
    two wake-ups: 15 s in all, and two minutes where four other programs want the processors."""
    _, text = pairs.run(f"rstream -b {ADDRESS} -p PORT", f"rstream -s {ADDRESS} -p PORT", seconds=300)
    rows = [line.split() for line in text.splitlines()[1:]]
    if [row[0] for row in rows] != ["64_lat", "4k_lat", "64k_lat", "1m_lat", "64_bw", "4k_bw", "64k_bw", "1m_bw"]:
        raise kit.Failure("not all results in:\n" + text)
    for row in rows:
        print(f"# rstream {row[0]}: {row[6]} Gb/s, {row[7]} us")


def at(address, point):
    return lambda pairs: point(Pairs(pairs.daemon, pairs.listening, address=address))


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


def without_confirmation(build, folder, program):
    """The first connection's RTU is lost: it is the third message, after REQ and REP."""
    daemon = kit.Daemon(build, folder, "lossy", configuration="""[port.0]
device = loopback
icrc = always
fault = drop rx opcode UD_SEND_ONLY qp 1 nth 3 count 1
""")
    try:
        own_tests(daemon, program)
        counts = {row["counter"]: row for row in daemon.show("cm")}
        if counts["RTU"]["received"] or not counts["REJ"]["received"]:
            raise kit.Failure(f"{counts['RTU']}, {counts['REJ']}")
    finally:
        daemon.stop()


POINTS = (
    ("rstream, its series", latency_and_bandwidth),
    ("rstream, blocking, verified", stream("rstream", "-T b -T v -S 5000 -I 100 -C 10")),
    ("rstream, not blocking, verified", stream("rstream", "-T n -T v -S 5000 -I 100 -C 10")),
    ("rstream, rpoll, verified", stream("rstream", "-T a -T v -S 5000 -I 100 -C 10")),
    ("rstream, resolved by rdma_cm", stream("rstream", "-T r -T v -S 1000 -I 100 -C 10")),
    ("rstream, a megabyte, IPv6", at("::1", stream("rstream", "-T v -S 1000000 -I 10 -C 4"))),
    ("rstream, buffers of 8 KiB", stream("rstream", "-T v -B 8192 -S 100000 -I 10 -C 4")),
    ("riostream, blocking, verified", stream("riostream", "-T b -T v -S 5000 -I 5 -C 10")),
    ("riostream, rpoll, verified", stream("riostream", "-T a -T v -S 50000 -I 5 -C 5")),
    ("rcopy", cm.copies),
    ("udpong", datagrams("-C 500 -S 1000")),
    ("udpong, rpoll", datagrams("-T a -C 500 -S 1000")),
    ("udpong, echo", datagrams("-T e -C 100 -S 200")),
    ("iperf3 by librspreload", cm.iperf3),
    *((f"{program} by librspreload", cm.pipe(program)) for program in cm.PIPES),
    ("datagrams by librspreload", cm.datagrams_by_preload),
    ("a server that forks, by librspreload", cm.forks),
    ("kill -9 of the server", killed("-T b", "server")),
    ("kill -9 of the client", killed("-T b", "client")),
    ("kill -9 of the server under rpoll", killed("-T a", "server")),
    ("kill -9 of the client under rpoll", killed("-T a", "client")),
)


def own_tests(daemon, program):
    bad = [(name, details) for passed, name, details in kit.cmocka_points(daemon, program, "rsockets") if not passed]
    if bad:
        raise kit.Failure(f"{bad[0][0]}:\n" + "\n".join(bad[0][1]))


def with_fault(daemon, rule, program):
    """While there is a rule, which has acted once in the end."""
    fault = [daemon.build.uroce, "fault", "--socket", daemon.socket]
    subprocess.run([*fault, "add", *rule.split()], check=True, stdout=subprocess.DEVNULL)
    try:
        own_tests(daemon, program)
        acted = [row["acted"] for row in daemon.show("faults")]
        if acted != [1]:
            raise kit.Failure(f"the rule has acted {acted} times")
    finally:
        subprocess.run([*fault, "remove", "all"], check=True, stdout=subprocess.DEVNULL)


def without_memory(daemon, program):
    """The queue pair of the first raccept, which is the second one after its peer's, finds no memory."""
    with_fault(daemon, "fail create_qp ENOMEM nth 2 count 1", program)


def lost_datagram(daemon, program):
    with_fault(daemon, "complete loc_qp_op_err operation send nth 50 count 1", program)


def left_over(daemon):
    """What the programs made is gone with them."""
    kit.wait_until(lambda: not daemon.show("qps"), 10, "no queue pair")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--listening", required=True, help="the module that tells when a program listens")
    options.add_argument("--only", default="", help="points whose names contain this")
    options.add_argument("tests", nargs="+", help="the own tests: programs")
    arguments = options.parse_args()
    kit.die_on_signals()
    build, folder, listening = kit.Build(arguments.build), kit.scratch_folder(), os.path.abspath(arguments.listening)
    daemon = kit.Daemon(build, folder)
    pairs = Pairs(daemon, listening)
    points = [(name, lambda point=point: point(pairs)) for name, point in POINTS]
    tests = {os.path.basename(test): test for test in arguments.tests}
    own = [(name, lambda test=test: own_tests(daemon, test)) for name, test in tests.items()]
    own.append(("test_rsocket_limit, without memory", lambda: without_memory(daemon, tests["test_rsocket_limit"])))
    own.append(("test_rsocket_lost, a datagram that fails", lambda: lost_datagram(daemon, tests["test_rsocket_lost"])))
    own.append(("test_rsocket_end, without an RTU",
                lambda: without_confirmation(build, folder, tests["test_rsocket_end"])))
    points = own + points + [
        ("nothing is left", lambda: left_over(daemon)),
        ("a stream whose daemon ends", lambda: daemon_ends(build, folder, listening)),
    ]
    try:
        return kit.run_points(points, arguments.only)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
