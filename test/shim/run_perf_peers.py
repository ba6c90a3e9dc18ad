#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-perf as a client and as a server: programs over a daemon. Of a figure only its presence is checked. TAP.

usage: run_perf_peers.py --build DIR"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

MODES = ("write", "write_imm", "send", "read", "atomic")
SECONDS = 60
PORT = "18700"

build = daemon = perf = None


@contextlib.contextmanager
def serving(of=None):
    server = kit.Program(of or daemon, [perf, "--", "--server", "--port", PORT])
    try:
        kit.await_cm_listening(of or daemon, server, 20)
        yield server
    finally:
        server.kill()


def command(*options, address="127.0.0.1"):
    return [perf, "--", "--client", address, "--format", "json", *options]


def run(*options, **where):
    return subprocess.run(command(*options, **where), capture_output=True, text=True, timeout=SECONDS,
                          env=daemon.environment(), stdin=subprocess.DEVNULL)


def results(*options, **where):
    done = run(*options, **where)
    if done.returncode:
        raise kit.Failure(f"{options}: status {done.returncode}: {done.stderr}{done.stdout}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def expect(condition, what):
    if not condition:
        raise kit.Failure(str(what))


def nothing_is_left():
    kit.wait_until(lambda: not daemon.show("qps") and not daemon.show("mr"), 20, "all queue pairs and regions are gone")


# ---- traffic ----

def exact(mode, size, *options, **where):
    r = results("--mode", mode, "--size", str(size), "--messages", "2003", *options, **where)[-1]
    expect(r["messages"] == 2003 == r["latency_ns"]["count"] and r["bytes"] == 2003 * size, r)
    expect(r["error"] is None and "device" not in r and "floor" not in r, r)
    return r


def each_mode(mode):
    size = 8 if mode == "atomic" else 5001
    with serving():
        exact(mode, size)
        exact(mode, size, "--qps", "3", "--depth", "5", "--signal", "4", address="::1")
        r = exact(mode, size, "--rate", "100000", "--depth", "64", "--arrivals", "even")
        expect(r["seconds"] > 0.02, f"sent before it was due: {r}")
        if mode in ("write", "write_imm", "send"):
            exact(mode, 64, "--inline", "64")
        if mode != "atomic":
            exact(mode, 0)
    nothing_is_left()


def loads():
    with serving():
        lines = results("--size", "8", "--loads", "10,50", "--duration", "0.2")
    expect([line["load"] for line in lines] == [10, 50] and all(line["messages"] for line in lines), lines)


# ---- what goes wrong ----

def fails(sentence, *options, **where):
    done = run("--messages", "100", *options, **where)
    expect(done.returncode == 1 and re.search(sentence, done.stderr) and not done.stdout,
           f"{options}: status {done.returncode}: {done.stderr}{done.stdout}")


def refusals():
    fails("no server listens there")
    fails('"a..b" is no address', address="a..b")  # no server is asked for an empty label
    fails("the server cannot be reached: .+ .RDMA_CM_EVENT_ADDR_ERROR.|there is no device for this address: ", address="203.0.113.77")
    with serving() as server:
        second = subprocess.run([perf, "--", "--server", "--port", PORT], capture_output=True, text=True, timeout=20, env=daemon.environment())
        expect(second.returncode == 1 and second.stderr == "uroce-perf: the server cannot listen: Address already in use\n", second)
        rping = kit.Program(daemon, f"rping -c -a 127.0.0.1 -p {PORT} -C 1".split())
        try:
            rping.process.wait(20)
            expect(rping.process.returncode, f"rping has connected: {rping.text()}")
        finally:
            rping.kill()
        expect("a client is refused: no uroce-perf" in server.text() or "another version" in server.text(), server.text())
        exact("send", 64)
    other = kit.Program(daemon, f"rping -s -a 127.0.0.1 -p {PORT}".split())
    try:
        kit.await_cm_listening(daemon, other, 20)
        fails("the server is no uroce-perf|the server refuses|no server listens")
    finally:
        other.kill()
    nothing_is_left()


def busy_client(*options):
    """One that has sent something, and goes on."""
    client = kit.Program(daemon, command("--duration", "50", "--size", "64", "--stats-period", "0.05", *options))
    kit.wait_until(lambda: '"period"' in client.text(), 20, "the client sends")
    return client


def ends_apart():
    """Each goes on, or says why not, when the other is killed."""
    with serving() as server:
        for mode in ("write", "send"):
            busy_client("--mode", mode).kill()
            exact(mode, 64)
        client = busy_client("--mode", "send", "--qps", "2")
        server.kill()
        status = client.process.wait(SECONDS)
        sentence = r"uroce-perf: (message \d+ of queue pair 0x[0-9a-f]+: |the server has ended the connection)"
        expect(status == 1 and re.search(sentence, client.text()), client.text()[-1000:])
    nothing_is_left()


def signals():
    with serving() as server:
        client = busy_client()
        client.process.send_signal(signal.SIGINT)
        expect('"type":"result"' in client.finish(20), client.text())
        client = busy_client("--mode", "read")
        server.process.send_signal(signal.SIGTERM)
        expect("serving at port " + PORT in server.finish(20), server.text())
        expect(client.process.wait(SECONDS) == 1, client.text()[-1000:])
    nothing_is_left()


def signal_before_an_answer():
    """The server is stopped; the user of the client need not wait for its answer."""
    with serving() as server:
        server.process.send_signal(signal.SIGSTOP)
        try:
            client = kit.Program(daemon, command())
            kit.wait_until(lambda: daemon.show("qps"), 20, "the client has a queue pair")
            client.process.send_signal(signal.SIGINT)
            status = client.process.wait(SECONDS)
            expect(status == 1 and "uroce-perf: a signal came before the server has answered" in client.text(), client.text())
        finally:
            server.process.send_signal(signal.SIGCONT)
    nothing_is_left()


def daemon_ends():
    other = kit.Daemon(build, kit.scratch_folder(), name="other")
    with serving(other) as server:
        other.stop()
        expect(server.process.wait(20) == 1 and "the device is gone" in server.text(), server.text())
    done = subprocess.run(command(), capture_output=True, text=True, env=other.environment(), timeout=SECONDS)
    expect(done.returncode == 1 and "no RDMA device" in done.stderr, done.stderr)


def path_mtu():
    """The configuration that is printed is the connection's."""
    other = kit.Daemon(build, kit.scratch_folder(), configuration="[port.0]\ndevice = net_ring0\naddress.0 = 192.0.2.1/24\n")
    try:
        with serving(other), serving():
            for of, address, mtu in ((other, "192.0.2.1", 1024), (daemon, "127.0.0.1", 4096)):
                done = subprocess.run(command("--messages", "100", address=address), capture_output=True, text=True, timeout=SECONDS,
                                      env=of.environment(), stdin=subprocess.DEVNULL)
                expect(done.returncode == 0 and json.loads(done.stdout)["config"]["mtu"] == mtu, done)
    finally:
        other.stop()
    nothing_is_left()


def many_clients():
    """At once, each with its own memory at the server."""
    with serving():
        clients = [kit.Program(daemon, command("--mode", mode, "--messages", "3000", "--size", "8")) for mode in MODES]
        for client in clients:
            r = json.loads(client.finish(SECONDS).splitlines()[-1])
            expect(r["messages"] == 3000, r)
    nothing_is_left()


def main():
    global build, daemon, perf
    options = kit.point_arguments()
    build = kit.Build(options.build)
    perf = os.path.join(build.folder, "app/uroce-perf/uroce-perf")
    kit.die_on_signals()
    daemon = kit.Daemon(build, kit.scratch_folder())
    points = [(f"mode {mode}: the messages that were asked for", lambda mode=mode: each_mode(mode)) for mode in MODES]
    points += [("several loads", loads), ("several clients at once", many_clients), ("the path MTU", path_mtu),
               ("what is refused", refusals),
               ("one of them is killed", ends_apart), ("signals end each", signals),
               ("a signal before the server answers", signal_before_an_answer), ("the daemon ends", daemon_ends)]
    try:
        return kit.run_points(points, options.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
