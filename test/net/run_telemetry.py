#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon's counters by DPDK's telemetry socket, over a port that DPDK drives: the values are those of `uroce show`. TAP.

usage: run_telemetry.py --build DIR [--match TEXT]"""
import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

COMMANDS = {"/uroce/" + name for name in ("info", "ports", "port", "counters", "drops", "qps", "objects", "workers", "worker")}
PORTS = "".join(f"[port.{n}]\ndevice = net_ring{n}\nmtu = 4200\naddress.0 = 10.9.{n}.1/24\n" for n in range(2))
REPLY_MAX = 65536
build = None
daemon = None


def expect(condition, what):
    if not condition:
        raise kit.Failure(str(what))


def equal(found, wanted):
    expect(found == wanted, f"{found}\ninstead of\n{wanted}")


def folder_of(a_daemon):
    """The EAL's, for its files."""
    runtime = os.environ.get("RUNTIME_DIRECTORY") or ("/var/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp"))
    return os.path.join(runtime, "dpdk", f"uroced-{a_daemon.process.pid}")


class Client:
    """A connection to the socket; a context manager."""

    def __init__(self, a_daemon):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(os.path.join(folder_of(a_daemon), "dpdk_telemetry.v2"))  # few may wait for it at once: it blocks
        self.socket.settimeout(20)
        self.hello = json.loads(self.socket.recv(1024))

    def ask(self, command):
        self.socket.sendall(command.encode())
        reply = self.socket.recv(REPLY_MAX)
        if not reply:
            raise ConnectionError("the other end is gone")
        return json.loads(reply)[command.split(",")[0]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def ask(command, a_daemon=None):
    with Client(a_daemon or daemon) as client:
        return client.ask(command)


def scalars(value):
    return {name: int(v) if isinstance(v, bool) else v for name, v in value.items() if isinstance(v, (int, str))}


def same(command, wanted):
    """The answer to a command, and what of `uroce show --json` it should be, at a moment in which that stands still."""
    def look():
        before = wanted(daemon.show())
        found = ask(command)
        if before == wanted(daemon.show()):
            expect(before, f"{command}: nothing to compare")
            equal(found, before)
            return True
        return False

    kit.wait_until(look, 20, f"{command}: the numbers stand still")


def port(state, device="uroce0"):
    return next(d for d in state["devices"] if d["name"] == device)["ports"][0]


def transfer():
    """Programs send, and one goes on holding objects."""
    kit.run_pair(daemon, "ibv_rc_pingpong -g 0 -n 500".split())


# ---- points ----

def offered():
    expect(COMMANDS <= set(ask("/")), ask("/"))
    for command in COMMANDS:
        text, = ask("/help," + command).values()
        expect(len(text) > 20 and "arameter" in text, f"{command}: {text}")


def information():
    found, state = ask("/uroce/info"), daemon.show()
    for name in ("version", "pid", "cpus"):
        equal(found[name], state[name])
    equal((found["devices"], found["workers"], found["socket"]), (2, 2, daemon.socket))
    expect(0 <= found["uptime_s"] <= state["uptime_s"], found)


def lists():
    equal(ask("/uroce/ports"), ["uroce0", "uroce1"])
    equal(ask("/uroce/workers"), [0, 1])


def lose_some():
    """Of acknowledgments, so that there are drops."""
    fault = [build.uroce, "fault", "--socket", daemon.socket]
    subprocess.run([*fault, "add", "drop", "rx", "opcode", "RC_ACK", "nth", "10", "count", "30"], check=True, stdout=subprocess.DEVNULL)
    try:
        transfer()
    finally:
        subprocess.run([*fault, "remove", "all"], check=True)


def numbers():
    lose_some()
    for device in ("uroce0", "uroce1"):
        same(f"/uroce/port,{device}", lambda s, device=device: scalars(port(s, device)))
        same(f"/uroce/counters,{device}", lambda s, device=device: scalars(port(s, device)["counters"]))
    expect(ask("/uroce/counters,uroce0")["tx_packets"] > 1000, ask("/uroce/counters,uroce0"))
    same("/uroce/drops,uroce0", lambda s: port(s)["counters"]["drops"])
    expect(ask("/uroce/drops,uroce0")["fault_rule"] > 0, ask("/uroce/drops,uroce0"))


def workers():
    """They always move; the numbers lie between those of before and after."""
    before, found, after = (daemon.show("workers")[1], ask("/uroce/worker,1"), daemon.show("workers")[1])
    equal(set(found), set(before))
    for name, value in found.items():
        expect(isinstance(value, str) or before[name] <= value <= after[name], f"{name}: {before[name]}, {value}, {after[name]}")


def queue_pairs():
    """The sums of `uroce metrics`, also over what is gone."""
    transfer()
    page = subprocess.run([build.uroce, "metrics", "--socket", daemon.socket], capture_output=True, text=True, check=True).stdout
    found = ask("/uroce/qps,uroce0")
    metrics = {name: f'uroce_qp_{metric}_total{{device="uroce0",port="1"}} ' for name, metric in
               (("tx_packets", "tx_packets"), ("rx_packets", "rx_packets"), ("duplicate_request", "duplicate_request"))}
    compared = 0
    for name, text in metrics.items():
        values = [int(line[len(text):]) for line in page.splitlines() if line.startswith(text)]
        compared += len(values)
        expect(not values or values == [found[name]], f"{name}: {values}, {found[name]}")
    expect(compared and found["tx_packets"] > 1000, f"{compared} compared: {found}")


def objects():
    number = str(kit.free_port())
    program = kit.Program(daemon, ["ibv_srq_pingpong", "-q", "3", "-g", "0", "-p", number])
    try:
        kit.await_listening(program, int(number), 20)
        same("/uroce/objects,uroce0", lambda s: {row["kind"]: row["used"] for row in s["quotas"]
                                                 if row["uid"] == "all" and row.get("device") == "uroce0"})
        found = ask("/uroce/objects,uroce0")
        equal((found["qps"], found["srqs"], found["pds"]), (3, 1, 1))
    finally:
        program.kill()


def refused():
    """DPDK's null."""
    for command in ("/uroce/port", "/uroce/port,uroce9", "/uroce/port,", "/uroce/counters,uroce0x", "/uroce/worker", "/uroce/worker,2",
                    "/uroce/worker,-1", "/uroce/worker,1x", "/uroce/nothing"):
        equal(ask(command), None)


def unmodified_client():
    program = shutil.which("dpdk-telemetry.py")
    if not program:
        raise kit.Skipped("there is no dpdk-telemetry.py")
    commands = ("/uroce/ports", "/uroce/port,uroce0", "/uroce/workers")
    done = subprocess.run([program, "-f", os.path.basename(folder_of(daemon))], input="".join(c + "\n" for c in commands),
                          capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, done)
    equal([json.loads(line) for line in done.stdout.splitlines()], [{c.split(",")[0]: ask(c)} for c in commands])


def only_owner():
    equal(stat.S_IMODE(os.stat(folder_of(daemon)).st_mode), 0o700)


def many_clients():
    """At once, while programs send: every one has its answers, and so do the programs."""
    failures = []

    def client():
        try:
            with Client(daemon) as one:
                for _ in range(100):
                    if one.ask("/uroce/counters,uroce0") is None or one.ask("/uroce/info")["pid"] != daemon.process.pid:
                        raise kit.Failure("a wrong answer")
        except (kit.Failure, OSError, ValueError) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    transfer()
    for thread in threads:
        thread.join()
    expect(not failures, failures)


@contextlib.contextmanager
def another(configuration, arguments=()):
    folder = kit.scratch_folder()
    path = os.path.join(folder, "another.ini")
    with open(path, "w") as file:
        file.write(configuration)
    one = kit.Daemon(build, folder, arguments=("-c", path, *arguments))
    try:
        yield one
    finally:
        one.stop()


def off_unless_asked():
    with another(PORTS) as one:
        expect(not os.path.exists(os.path.join(folder_of(one), "dpdk_telemetry.v2")), os.listdir(folder_of(one)))


def by_option():
    """Several daemons have a socket each. Nothing of it remains."""
    with another(PORTS, ("--telemetry",)) as one:
        equal(ask("/uroce/info", one)["pid"], one.process.pid)
        equal(ask("/uroce/info")["pid"], daemon.process.pid)
        equal(one.log(), "")
        folder = folder_of(one)
    expect(not os.path.exists(folder), folder)


def other_user():
    """The daemon has given up root and most system calls."""
    if os.geteuid():
        raise kit.Skipped("needs root")
    with another("[uroced]\ntelemetry = yes\nuser = daemon\n" + PORTS) as one:
        equal(ask("/uroce/ports", one), ["uroce0", "uroce1"])
        equal(ask("/uroce/port,uroce0", one)["driver"], "ethdev")


def ends_while_asked():
    """Clients ask as fast as they can while the daemon ends; it ends well, and each has an answer, null or the end."""
    for _ in range(5):
        with another("[uroced]\ntelemetry = yes\n" + PORTS) as one:
            clients = [Client(one) for _ in range(4)]
            answers = [0] * 4

            def ask_on(number):
                with clients[number] as mine, contextlib.suppress(OSError):
                    while True:
                        mine.ask("/uroce/counters,uroce0")
                        answers[number] += 1

            threads = [threading.Thread(target=ask_on, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            kit.wait_until(lambda: all(answers), 20, "every client has an answer")
            equal(one.stop(), 0)
            for thread in threads:
                thread.join()


def without_dpdk():
    for arguments in (("--loopback", "--telemetry"), ("--udp", "--telemetry")):
        done = subprocess.run([build.uroced, *arguments, "--socket", os.path.join(kit.scratch_folder(), "s")], capture_output=True,
                              text=True, timeout=20)
        expect(done.returncode == 2 and "telemetry is DPDK's, and no port is" in done.stderr, done)


def wrong_value():
    path = os.path.join(kit.scratch_folder(), "wrong.ini")
    with open(path, "w") as file:
        file.write("[uroced]\ntelemetry = perhaps\n" + PORTS)
    done = subprocess.run([build.uroced, "-c", path], capture_output=True, text=True, timeout=20)
    expect(done.returncode == 2 and "telemetry" in done.stderr and "perhaps" in done.stderr, done)


def main():
    global build, daemon
    options = kit.point_arguments()
    build = kit.Build(options.build)
    points = [("commands and their help", offered), ("information", information), ("lists", lists), ("numbers of ports", numbers),
              ("workers", workers), ("queue pairs", queue_pairs), ("objects", objects), ("refused", refused),
              ("dpdk-telemetry.py", unmodified_client), ("the folder is its owner's", only_owner), ("many clients", many_clients),
              ("off unless it is asked for", off_unless_asked), ("by an option", by_option), ("another user", other_user),
              ("the daemon ends", ends_while_asked), ("without DPDK", without_dpdk), ("a wrong value", wrong_value)]
    daemon = kit.Daemon(build, kit.scratch_folder(), configuration="[uroced]\ntelemetry = yes\nworkers = 2\n" + PORTS)
    try:
        return kit.run_points(points, options.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
