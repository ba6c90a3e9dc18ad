#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-perf: every mode moves and verifies what it says, output has its shape, the prompt does its commands, bad
arguments are told, a wrong byte is found. Of a figure only its presence is checked. TAP.

usage: run_perf.py UROCE_PERF --faulty PROGRAM"""
import argparse
import csv
import errno
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

MESSAGES = ("write", "write_imm", "send", "read", "atomic", "ud")
STAGES = ("rx-only", "parse", "icrc", "build", "loop", "tx-only", "io")
TIMEOUT = 60
RESULT = {"messages", "bytes", "received", "lost", "wrong", "seconds", "cpu_seconds", "messages_per_s", "gigabytes_per_s",
          "ns_per_message", "cycles_per_message"}
LATENCY = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"]
FLOOR = {"messages_per_s", "gigabytes_per_s", "ns_per_message", "ratio", "samples"}

program = faulty = None


def run(*arguments, eal=(), path=None):
    return subprocess.run([path or program, *eal, "--", *arguments], capture_output=True, text=True, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL)


def result_of(*arguments, eal=()):
    """The object of a run that must succeed, in JSON."""
    done = run("--format", "json", *arguments, eal=eal)
    if done.returncode:
        raise kit.Failure(f"{arguments}: status {done.returncode}: {done.stderr}{done.stdout}")
    return json.loads(done.stdout.splitlines()[-1])


def expect(condition, what):
    if not condition:
        raise kit.Failure(str(what))


# ---- modes ----

def exact(mode, size, *options):
    """This many messages were requested, and this many were sent, every byte of them compared."""
    wanted = 1003
    r = result_of("--mode", mode, "--messages", str(wanted), "--verify", "--size", str(size), *options)
    expect(r["error"] is None and r["wrong"] == 0, r)
    expect(r["messages"] + r["lost"] == wanted, f"{mode} {options}: {r['messages']} messages, {r['lost']} lost")
    expect(mode == "ud" or not r["lost"], r)
    expect(r["bytes"] == r["messages"] * size, r)
    expect(r["received"] == (r["messages"] if mode in ("send", "write_imm", "ud") else 0), r)
    expect(r["latency_ns"]["count"] == r["messages"], r)


def sizes(mode):
    if mode == "atomic":
        return [8]
    return [0, 1, 7, 4096] if mode == "ud" else [0, 1, 4097, 20000]


def mode_is_exact(mode):
    for size in sizes(mode):
        exact(mode, size)
    exact(mode, sizes(mode)[-1], "--qps", "5", "--depth", "7", "--signal", "3", "--bidirectional", "--mtu", "4096")
    exact(mode, sizes(mode)[-1], "--qps", "4", "--workers", "2", "--mtu", "4096")
    if mode not in ("read", "atomic"):
        exact(mode, 64, "--inline", "64", "--mtu", "256")


def threads_cpus(pid):
    """The CPUs of each worker's thread, as the kernel lists them."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        found[lines["Name"]] = lines["Cpus_allowed_list"]
    return [cpus for name, cpus in sorted(found.items()) if name.startswith("perf-w")]


def pinned():
    cpus = [str(cpu) for cpu in sorted(os.sched_getaffinity(0), reverse=True)[:2]]
    exact("write", 64, "--cpus", cpus[0])
    for names in (cpus[:1], cpus):
        wanted = ",".join(names)
        process = subprocess.Popen([program, "--", "--cpus", wanted, "--workers", str(len(names)), "--duration", "50",
                                    "--stats-period", "0.01", "--format", "json"],
                                   stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        try:
            process.stdout.readline()  # the threads run
            found = threads_cpus(process.pid)
            process.send_signal(signal.SIGTERM)
            config = json.loads(process.communicate(timeout=20)[0].splitlines()[-1])["config"]
        finally:
            process.kill()
            process.wait()
        expect(found == names, f"threads on CPUs {found}, not {names}")
        expect(config["cpus"] == wanted, config)


def depths():
    exact("write", 64, "--depth", "1")
    exact("send", 64, "--depth", "256", "--signal", "256")
    exact("ud", 64, "--depth", "512")
    exact("write", 5000, "--icrc", "off")
    exact("write", 8, "--qps", "300", "--depth", "2", "--idle", "50")


# ---- at a rate ----

def at_a_rate(mode):
    """All messages are sent, and none before it is due."""
    for arrivals in ("poisson", "even"):
        for more in ((), ("--qps", "5", "--bidirectional"), ("--qps", "4", "--workers", "2")):
            r = result_of("--mode", mode, "--size", "8", "--messages", "2003", "--verify", "--rate", "50000", "--arrivals", arrivals,
                          *more)
            expect(r["messages"] + r["lost"] == 2003 and not r["error"] and not r["wrong"], r)
            expect("floor" not in r and r["config"]["rate"] == 50000, r)
            # 40 ms; the sum of that many gaps is less by a tenth in one of 100,000 turns.
            expect(r["seconds"] > 0.035, f"{mode} {arrivals} {more}: {r['seconds']} s")


def waits_count():
    """At a rate above the highest the messages wait, and their latencies count from when they were due: the last one's is
    nearly the whole time. In a closed loop it is that of a few messages."""
    r = result_of("--size", "8", "--depth", "1", "--messages", "20000", "--rate", "1000000000")
    expect(r["latency_ns"]["max"] > 0.9e9 * r["seconds"], r)
    expect(0.1e9 * r["seconds"] < r["latency_ns"]["p50"], r)


def loads():
    done = run("--size", "8", "--loads", "10,60", "--duration", "0.2", "--format", "json")
    expect(done.returncode == 0, done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    expect([line["load"] for line in lines] == [10, 60], done.stdout)
    for line in lines:
        expect(abs(line["config"]["rate"] - line["highest_per_s"] * line["load"] / 100) <= 1 + line["highest_per_s"] / 1e5, line)
        expect(line["messages"] > 0 and {"count", "ms", "longest_ms"} == set(line["pauses"]), line)
    rows = list(csv.DictReader(io.StringIO(run("--size", "8", "--loads", "10,60", "--duration", "0.1", "--format", "csv").stdout)))
    expect([row["type"] for row in rows] == ["load10", "load60"] and all(int(row["due_per_s"]) > 0 for row in rows), rows)
    text = run("--mode", "send", "--size", "8", "--loads", "10,60", "--duration", "0.1").stdout
    expect(re.fullmatch(r"send, 8 bytes, .*poisson arrivals, us\n *load % .*99.9/50 .*\n +10 .*\n +60 .*\n", text), text)


def timed(mode, *options, eal=()):
    r = result_of("--mode", mode, "--duration", "0.05", *options, eal=eal)
    expect(r["messages"] > 0 and r["messages_per_s"] > 0 and r["ns_per_message"] > 0, r)
    return r


def stages():
    for mode in STAGES:
        r = timed(mode)
        expect(r["bytes"] == r["messages"] * r["config"]["size"], r)
        expect("latency_ns" not in r and "floor" not in r, r)
        expect(mode != "parse" or r["received"] >= r["messages"], f"packets that do not parse: {r}")
        timed(mode, "--workers", "2", "--size", "200")
        r = result_of("--mode", mode, "--messages", "5000")
        expect(5000 <= r["messages"] < 5000 + 16 * 32, r)


def floor():
    for mode, size in (("write", 65536), ("send", 8), ("read", 4096), ("ud", 1024)):
        r = timed(mode, "--size", str(size), "--duration", "0.2")
        expect(set(r["floor"]) == FLOOR, r)
        expect(all(r["floor"][key] > 0 for key in FLOOR), r)
    expect("floor" not in timed("write", "--floor", "off"), "a floor that was turned off")


def pair(name, folder):
    if name == "memif":
        common = f"socket={folder}/memif.sock,socket-abstract=no"
        return ["--vdev", f"net_memif0,role=server,{common}", "--vdev", f"net_memif1,role=client,{common}"]
    return ["--vdev", name]


def ports(folder):
    memif = pair("memif", folder)
    for mode in MESSAGES:
        size = {"atomic": "8", "ud": "1024"}.get(mode, "3000")
        r = result_of("--mode", mode, "--size", size, "--mtu", "1024", "--messages", "300", "--verify", eal=memif)
        expect(r["messages"] + r["lost"] == 300 and not r["error"], r)
    exact_two = result_of("--mode", "write", "--size", "3000", "--mtu", "1024", "--messages", "200", "--verify",
                          "--bidirectional", "--workers", "2", eal=memif)
    expect(exact_two["messages"] == 200, exact_two)


def bare_ports(folder):
    memif = pair("memif", folder)
    for mode in ("tx-only", "rx-only", "loop", "io", "parse"):
        timed(mode, "--mtu", "1024", eal=memif)
    r = timed("tx-only", "--workers", "2", eal=memif)
    expect(r["received"] > 0, r)
    timed("rx-only", eal=["--vdev=net_null0"])
    timed("tx-only", eal=["--vdev", "net_null0", "-l", "0", "-m", "128"])
    timed("loop", eal=["--vdev", "net_ring0"])
    timed("write", "--size", "8", eal=["--vdev", "net_ring0"])


# ---- output ----

def json_shape():
    done = run("--format", "json", "--size", "64", "--duration", "0.3", "--stats-period", "0.05", "--workers", "2",
               "--qps", "4")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    expect([x["type"] for x in lines][-1] == "result" and len(lines) >= 2, done.stdout)
    for line in lines[:-1]:
        expect(line["type"] == "period" and {"at", "messages", "messages_per_s", "gigabytes_per_s"} <= set(line), line)
    r = lines[-1]
    expect(RESULT | {"version", "tsc_hz", "config", "device", "error", "workers"} <= set(r), r)
    expect(len(r["workers"]) == 2 and all(RESULT <= set(w) for w in r["workers"]), r)
    expect(sum(w["messages"] for w in r["workers"]) == r["messages"], r)
    expect(sum(w["latency_ns"]["count"] for w in r["workers"]) == r["latency_ns"]["count"] == r["messages"], r)
    expect(max(w["latency_ns"]["max"] for w in r["workers"]) == r["latency_ns"]["max"], r)
    for part in [r, *r["workers"]]:
        values = [part["latency_ns"][key] for key in LATENCY]
        expect(values == sorted(values) and values[0] > 0, values)
    expect(r["config"]["size"] == 64 and r["config"]["mode"] == "write" and r["config"]["floor"] is True, r["config"])
    expect({"forwarded", "heap_per_qp", "us_per_qp"} == set(r["device"]), r["device"])
    # Counted once: what periods say is at most what was sent.
    expect(sum(x["messages"] for x in lines[:-1]) <= r["messages"], done.stdout)


def csv_shape():
    done = run("--format", "csv", "--size", "64", "--duration", "0.2", "--stats-period", "0.05", "--workers", "2",
               "--qps", "4")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    kinds = [row["type"] for row in rows]
    expect(kinds[-3:] == ["worker0", "worker1", "result"] and set(kinds[:-3]) == {"period"}, done.stdout)
    for row in rows:
        expect(None not in row and None not in row.values(), f"columns: {row}")
        for name, value in row.items():
            if name not in ("type", "mode"):
                float(value)
    expect(rows[-1]["mode"] == "write" and rows[-1]["size"] == "64", rows[-1])
    expect(sum(int(row["messages"]) for row in rows[-3:-1]) == int(rows[-1]["messages"]) > 0, rows)


def table_shape():
    done = run("--size", "64", "--duration", "0.2", "--verify", "--stats-period", "0.05")
    for text in ("messages/s", "99.99", "floor:", "verified: every byte", "so far"):
        expect(text in done.stdout, f"no {text}: {done.stdout}")


# ---- arguments ----

BAD = (
    (["--mode", "sing"], 'mode: "sing" is none of: write'),
    (["--mode"], "mode: needs a value"),
    (["--frobnicate", "1"], 'there is no option "frobnicate"'),
    (["write"], 'unexpected argument "write"'),
    (["--"], 'unexpected argument "--"'),
    (["--" + "x" * 100], "unexpected argument"),
    (["--size", "65M"], "size: 65M is not between 0 and"),
    (["--size", "eight"], 'size: "eight" is no number'),
    (["--size", "-8"], 'size: "-8" is no number'),
    (["--size", "8KB"], 'size: "8KB" is no number'),
    (["--size", "99999999999999999999999"], "is no number"),
    (["--size", "18446744073709551615M"], "is no number"),
    (["--size="], "size: the value is empty"),
    (["--depth", "0"], "depth: 0 is not between 1 and"),
    (["--depth", "100000"], "depth: 100000 is not between"),
    (["--qps", "0"], "qps: 0 is not between"),
    (["--qps", "100000"], "qps: 100000 is not between"),
    (["--idle", "100000"], "idle: 100000 is not between"),
    (["--qps", "60000", "--depth", "100"], "more than the 4194304 that completion queues hold"),
    (["--mode", "send", "--qps", "5000", "--depth", "1000"], "more than the 2097152 that completion queues hold"),
    (["--workers", "0"], "workers: 0 is not between 1 and 16"),
    (["--workers", "17"], "workers: 17 is not between 1 and 16"),
    (["--mtu", "1500"], "mtu: 1500 is none of"),
    (["--mtu", "128"], "mtu: 128 is not between"),
    (["--inline", "513"], "inline: 513 is not between"),
    (["--mode", "read", "--inline", "8"], "inline: what read sends has no data"),
    (["--signal", "0"], "signal: 0 is not between"),
    (["--signal", "17"], "signal: a completion for 17 messages never comes when 16"),
    (["--buffer", "1"], "buffer: 1 is not between"),
    (["--duration", "soon"], 'duration: "soon" is no number of seconds'),
    (["--duration", "nan"], "no number of seconds"),
    (["--duration", "-1"], "no number of seconds"),
    (["--duration", "1e9"], "duration: 1e9 s is not between"),
    (["--duration", "0.0001"], "duration: 0.0001 s is not between"),
    (["--duration", "1", "--messages", "5"], "only one of them"),
    (["--messages", "5", "--qps", "6"], "messages: fewer than the 6 queue pairs that send"),
    (["--seed", "x"], 'seed: "x" is no number'),
    (["--seed", str(2 ** 63)], "seed: 9223372036854775808 is not between 0 and 9223372036854775807"),
    (["--stats-period", "0.001"], "stats-period: 0.001 s is not between"),
    (["--format", "xml"], 'format: "xml" is none of: table'),
    (["--floor", "maybe"], 'floor: "maybe" is neither on nor off'),
    (["--verify=perhaps"], 'verify: "perhaps" is neither on nor off'),
    (["--batch", "--interactive"], "only one of them"),
    (["--mode", "atomic", "--size", "16"], "size: an atomic has 8 bytes, not 16"),
    (["--mode", "ud", "--size", "5000"], "does not fit path MTU 4096"),
    (["--mode", "parse", "--size", "2048", "--mtu", "1024"], "does not fit path MTU 1024"),
    (["--mode", "loop", "--size", "59"], "60 to 4200 bytes, not 59"),
    (["--mode", "io", "--size", "5000"], "60 to 4200 bytes, not 5000"),
    (["--mode", "loop", "--verify"], "verify: mode loop has no messages"),
    (["--mode", "loop", "--icrc", "off"], "icrc: off has no effect in mode loop"),
    (["--mode", "icrc", "--bidirectional"], "bidirectional: mode icrc has no messages"),
    (["--cpus", "1" * 100], "is too long"),
    (["--rate", "2000000000"], "rate: 2000000000 is not between 0 and"),
    (["--rate", "5", "--loads", "50"], "rate, loads: only one of them"),
    (["--rate", "5", "--signal", "2"], "rate, signal: each message needs a completion of its own"),
    (["--rate", "5", "--mode", "loop"], "rate: mode loop has no messages"),
    (["--arrivals", "late"], 'arrivals: "late" is none of: poisson'),
    (["--loads", "50", "--messages", "5"], "loads, messages: only one of them"),
    (["--loads", "50", "--interactive"], "loads, interactive: only one of them"),
    *((["--loads", text], f'loads: "{text}" is no list of per cent') for text in ("x", "0", "101", "50,", ",5", "1000", "5;6", "-5")),
    *((["--client", "h", *more], f"client, {more[0][2:]}: only one of them") for more in (
        ["--server"], ["--verify"], ["--bidirectional"], ["--idle", "1"], ["--workers", "2"], ["--icrc", "off"], ["--interactive"],
        ["--mtu", "1024"])),
    (["--client", "h", "--mode", "ud"], "client: mode ud has no connections"),
    (["--client", "h", "--mode", "loop"], "client: mode loop has no connections"),
    (["--client", "h" * 64], "is too long"),
    (["--server", "--rate", "5"], "server: its clients say what is sent"),
    (["--port", "0"], "port: 0 is not between 1 and 65535"),
    (["--cpus", "x"], 'cpus: "x" is no list of CPUs'),
    (["--cpus", "0,"], "is no list of CPUs"),
    (["--cpus", "0,,1"], "is no list of CPUs"),
    (["--cpus", "0,1x"], "is no list of CPUs"),
    (["--cpus", "0-"], "is no list of CPUs"),
    (["--cpus", "3-1"], "is no list of CPUs"),
    (["--cpus", "99999"], "is no list of CPUs"),
    (["--cpus", "0", "--workers", "2"], 'cpus: "0" has fewer than 2'),
)
# What only the machine can tell: status 1.
REFUSED = (
    (["--cpus", "1000"], "cpus: CPU 1000 cannot be used"),
    (["--size", "64M", "--depth", "16384", "--verify"], "of memory, over"),
)


def refused(arguments, text, status, eal=()):
    done = run(*arguments, eal=eal)
    expect(done.returncode == status, f"{arguments}: status {done.returncode}: {done.stderr}{done.stdout}")
    expect(text in done.stderr and not done.stdout, f"{arguments}: {done.stderr}{done.stdout}")


def bad_arguments():
    for arguments, text in BAD:
        refused(arguments, text, 2)


def refusals():
    for arguments, text in REFUSED:
        refused([*arguments, "--duration", "0.05"], text, 1)


def bad_devices(folder):
    null = ["--vdev", "net_null0", "--vdev", "net_null1", "--vdev", "net_null2"]
    refused([], "more than two devices", 2, null)
    refused([], "a device has no name", 2, ["--vdev"])
    refused([], "a device has no name", 2, ["--vdev", "x" * 300])
    refused([], "too many EAL options", 2, ["-v"] * 70)
    refused(["--duration", "0.05"], "net_nonsense: DPDK cannot use this device", 1, ["--vdev", "net_nonsense"])
    refused(["--mode", "loop", "--workers", "3"], "workers: mode loop has work for 2 here", 1,
            ["--vdev", "net_null0", "--vdev", "net_null1"])
    refused(["--icrc", "off"], "icrc: off is for the loopback port alone", 1, ["--vdev", "net_ring0"])
    refused(["--server"], "EAL options: a client or a server has no ports", 2, ["--vdev", "net_null0"])
    done = run("--duration", "0.05", eal=["--no-such-option"])
    # Since version 25 DPDK ends the program itself.
    expect(done.returncode and re.search("DPDK's environment does not start|unknown argument --no-such-option", done.stdout + done.stderr),
           done.stdout + done.stderr)


def helps():
    for arguments in (["--help"], ["--", "--help"]):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=TIMEOUT)
        expect(not done.returncode and "--stats-period" in done.stdout and "EAL options" in done.stdout, done.stdout)


# ---- a wrong byte ----

def wrong_byte():
    for mode in MESSAGES:
        if mode == "atomic": # there are no contents
            continue
        size = 1001
        done = run("--mode", mode, "--size", str(size), "--verify", "--messages", "400", path=faulty)
        found = re.search(r"message 99 of queue pair 0x[0-9a-f]+: byte 500 is 0x(..) and not 0x(..)", done.stderr)
        expect(done.returncode == 1 and found, f"{mode}: status {done.returncode}: {done.stderr}")
        expect(int(found[1], 16) ^ int(found[2], 16) == 0x10, done.stderr)
        expect("WRONG" in done.stdout, done.stdout)
    # Contents are checked only on request.
    done = run("--size", "1001", "--messages", "400", path=faulty)
    expect(done.returncode == 0, done.stderr)


# ---- signals and the prompt ----

def ends_on(number):
    process = subprocess.Popen([program, "--", "--duration", "50", "--size", "64", "--stats-period", "0.05"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    try:
        process.stdout.readline() # it runs
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    expect(process.returncode == 0 and "messages/s" in out and "99.99" in out and not err, f"{process.returncode} {out}{err}")


def signals():
    ends_on(signal.SIGINT)
    ends_on(signal.SIGTERM)


class Terminal:
    """The program at a terminal of its own."""

    def __init__(self, *arguments):
        self.fd, other = pty.openpty()
        attributes = termios.tcgetattr(other)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(other, termios.TCSANOW, attributes)
        self.process = subprocess.Popen([program, "--", *arguments], stdin=other, stdout=other, stderr=other,
                                        start_new_session=True)
        os.close(other)
        self.seen = ""

    def expect(self, pattern, seconds=20):
        """Waits for it, and forgets what came up to its end."""
        deadline = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.seen, re.S)
            if found:
                self.seen = self.seen[found.end():]
                return found
            ready = select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))[0]
            try:
                data = os.read(self.fd, 65536).decode() if ready else ""
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = ""
            if not data:
                raise kit.Failure(f"no {pattern!r} in: {self.seen[-2000:]}")
            self.seen += data

    def command(self, text, pattern):
        os.write(self.fd, text.encode() + b"\n")
        return self.expect(pattern)

    def end(self, status=0):
        try:
            expect(self.process.wait(timeout=20) == status, f"status {self.process.returncode}: {self.seen}")
        finally:
            self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


def session(terminal):
    terminal.expect("uroce-perf> ")
    terminal.command("show stats", "there was no run yet")
    terminal.command("stop", "no run is in progress")
    terminal.command("clear", "no run is in progress")
    terminal.command("frobnicate", "[Cc]ommand not found")
    terminal.command("show nothing", "[Bb]ad arguments")
    terminal.command("set mode sing", '"sing" is none of')
    terminal.command("set nothing 1", 'there is no option "nothing"')
    terminal.command("set batch on", "for the command line only")
    terminal.command("set loads 50", "for the command line only")
    terminal.command("help", "show latency.*--stats-period.*quit")
    terminal.command("set mode atomic", "> ")
    terminal.command("set size 16", "> ")
    terminal.command("start", "an atomic has 8 bytes")
    terminal.command("set mode write", "> ")
    terminal.command("set size 64", "> ")
    terminal.command("set verify on", "> ")
    terminal.command("show config", r"mode +write.*size +64.*verify +on")
    terminal.command("start", "started")
    terminal.command("start", "a run is in progress")
    terminal.command("set size 65", "takes effect at the next start")

    def messages():
        return int(terminal.command("show stats", r"all +(\d+) ")[1])

    kit.wait_until(lambda: messages() > 1000, 20, "messages")
    terminal.command("show latency", r"99\.99.*all +\d")
    terminal.command("show qps", r"0x[0-9a-f]+ 0x[0-9a-f]+ 0 +RTS +[1-9]\d*\r\n.*RTS +0\r\n")
    terminal.command("show xstats", r"port0_q0_tx_packets: [1-9]\d*.*worker0_loops: [1-9]")
    before = messages()
    terminal.command("clear", "> ")
    kit.wait_until(lambda: 0 < messages(), 20, "messages after clear")
    # Queue pairs count on: what was cleared is in there besides.
    after = messages()
    sent = int(terminal.command("show qps", r"RTS +([1-9]\d*)\r\n")[1])
    expect(0 < before and before + after <= sent, f"{before} before, {after} after clear, of {sent}")
    terminal.command("stop", "write, 64 bytes.*verified: every byte")
    terminal.command("show stats", "write, 64 bytes")
    # Runs that end by themselves, over a device that is made anew.
    terminal.command("set workers 2", "> ")
    terminal.command("set qps 2", "> ")
    terminal.command("set mode send", "> ")
    terminal.command("set messages 500", "> ")
    terminal.command("start", "started.*send, 65 bytes.*worker1.*all +500 .*verified: every byte")
    terminal.command("set messages 0", "> ")
    terminal.command("set verify off", "> ")
    terminal.command("set mode loop", "> ")
    terminal.command("set duration 0.1", "> ")
    terminal.command("start", "started.*loop, 65 bytes.*all +[1-9]")
    terminal.command("show qps", "no queue pairs")
    terminal.command("set stats-period 0.05", "> ")
    terminal.command("set format json", "> ")
    terminal.command("set mode write", "> ")
    terminal.command("start", 'started.*"type":"period".*"type":"result"')


def prompt():
    terminal = Terminal()
    try:
        session(terminal)
        terminal.command("start", "started")
        os.write(terminal.fd, b"quit\n")
    except BaseException:
        terminal.close()
        raise
    terminal.end()


def prompt_ends():
    """By a signal while something runs, by the end of a pipe."""
    terminal = Terminal("--size", "64", "--stats-period", "0.05")
    try:
        terminal.expect("> ")
        terminal.command("start", "so far")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.expect("write, 64 bytes")
    except BaseException:
        terminal.close()
        raise
    terminal.end()
    done = subprocess.run([program, "--", "--interactive"], input="set messages 200\nstart\nshow qps\n", text=True,
                          capture_output=True, timeout=TIMEOUT)
    expect(done.returncode == 0 and "started" in done.stdout and "RTS" in done.stdout, done.stdout + done.stderr)


def batch_on_terminal():
    terminal = Terminal("--batch", "--messages", "100")
    try:
        terminal.expect("all +100 ")
    except BaseException:
        terminal.close()
        raise
    terminal.end()


def main():
    global program, faulty
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--faulty", required=True)
    options = parser.parse_args()
    program, faulty = options.program, options.faulty
    kit.die_on_signals()
    folder = kit.scratch_folder()
    points = [(f"mode {mode}: exactly the messages that were asked for, verified", lambda m=mode: mode_is_exact(m))
              for mode in MESSAGES]
    points += [(f"mode {mode}: at a rate", lambda m=mode: at_a_rate(m)) for mode in MESSAGES]
    points += [("waits count", waits_count), ("several loads", loads), ("on a CPU that is named", pinned), ("depths and many queue pairs", depths), ("stages, and the bare loopback port", stages),
               ("the floor is there where it applies", floor), ("through two DPDK ports", lambda: ports(folder)),
               ("bare DPDK ports", lambda: bare_ports(folder)), ("JSON", json_shape), ("CSV", csv_shape),
               ("tables", table_shape), ("bad arguments are told", bad_arguments),
               ("so is what the machine refuses", refusals), ("and bad devices", lambda: bad_devices(folder)),
               ("help", helps), ("a wrong byte is found", wrong_byte), ("signals end a run with its result", signals),
               ("the prompt", prompt), ("the prompt ends", prompt_ends), ("batch mode on a terminal", batch_on_terminal)]
    tap = kit.Tap(len(points))
    for name, function in points:
        tap.point(name, function)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
