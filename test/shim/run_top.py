#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce top`: rates of what has been counted, of programs and of queue pairs, on a terminal and in JSON. TAP.

usage: run_top.py --build DIR"""
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

PINGPONG = "ibv_rc_pingpong -g 0 -n 2000".split()

daemon = None


def command(*options):
    return [daemon.build.uroce, "top", "--socket", daemon.socket, *options]


def expect(condition, what):
    if not condition:
        raise kit.Failure(str(what))


def counters():
    return {row["counter"]: row["value"] for row in daemon.show("counters")}


class Top:
    """It runs, and prints an object in each period."""

    def __init__(self, *options):
        self.process = subprocess.Popen(command("--json", "--period", "0.2", *options), stdout=subprocess.PIPE, text=True)
        self.rows = [self.next()]

    def next(self):
        line = self.process.stdout.readline()
        expect(line, "uroce top has ended")
        return json.loads(line)

    def until(self, condition):
        while not condition(self.rows[-1]):
            self.rows.append(self.next())
        return self.rows[-1]

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        self.process.stdout.close()


def is_idle(row):
    return row["ports"][0]["tx_packets/s"] == 0 and not row["programs"]


def sums_are_right():
    """What was sent, told in rates and seconds, is what the port has counted."""
    top = Top()
    try:
        before = counters()
        kit.run_pair(daemon, PINGPONG)
        after = counters()
        top.until(lambda row: not is_idle(row))
        top.until(is_idle)
    finally:
        top.end()
    told = sum(row["ports"][0]["tx_packets/s"] * row["seconds"] for row in top.rows)
    sent = after["tx_packets"] - before["tx_packets"]
    expect(sent > 4000 and sent <= told + 1 <= sent * 1.001 + 1 + len(top.rows), f"told {told}, sent {sent}")


def running(*options):
    """A transfer, and what top says of it when it runs."""
    port = str(kit.free_port())
    transfer = ["ib_write_bw", "-F", "-x", "0", "-D", "30", "-p", port]
    programs = [kit.Program(daemon, transfer)]
    top = None
    try:
        kit.await_listening(programs[0], int(port), 20)
        programs.append(kit.Program(daemon, [*transfer, "127.0.0.1"]))
        top = Top(*options)
        key = "qps" if "--qps" in options else "programs"
        row = top.until(lambda row: len(row[key]) == 2 and all(r["rx_packets/s"] for r in row[key]))
        return row[key], [program.process.pid for program in programs]
    finally:
        if top:
            top.end()
        for program in programs:
            program.kill()


def by_program():
    rows, (server, client) = running()
    expect({(row["program"], row["pid"]) for row in rows} == {("ib_write_bw", client), ("ib_write_bw", server)}, rows)
    sender = next(row for row in rows if row["pid"] == client)
    expect(sender["qps"] == 1 and sender["tx_GB/s"] > sender["rx_GB/s"], rows)
    bytes_of = [row["tx_GB/s"] + row["rx_GB/s"] for row in rows]
    expect(bytes_of == sorted(bytes_of, reverse=True), rows)


def by_queue_pair():
    rows, pids = running("--qps")
    expect({row["pid"] for row in rows} == set(pids) and all(row["qpn"] and row["type"] == "RC" for row in rows), rows)


def drops_are_there():
    subprocess.run([daemon.build.uroce, "fault", "add", "drop", "rx", "opcode", "RC_ACK", "nth", "10", "count", "30", "--socket", daemon.socket],
                   check=True, stdout=subprocess.DEVNULL)
    top = Top()
    try:
        kit.run_pair(daemon, PINGPONG)
        row = top.until(lambda row: row["drops"])
    finally:
        top.end()
        subprocess.run([daemon.build.uroce, "fault", "remove", "all", "--socket", daemon.socket], check=True)
    expect(row["drops"][0]["reason"] == "fault_rule" and row["drops"][0]["drops/s"] > 0, row)
    expect(row["ports"][0]["drops/s"] > 0, row)


def latencies():
    """While top asks for them. The stages add up to what the program's own clock says, by another way; the median of all is
    about what the program itself says."""
    top = Top("--latency")
    try:
        _, text = kit.run_pair(daemon, "ib_read_lat -F -x 0 -n 20000".split())
        row = top.until(lambda row: row["latency"])
        expect([stage["stage"] for stage in row["latency"]] == ["queued", "sending", "answer", "polled", "total"], row)
        rows = {stage["stage"]: stage for stage in daemon.show("latency")}
        expect(list(rows) == ["queued", "sending", "answer", "polled", "total"], rows)
        expect(len({stage["samples"] for stage in rows.values()}) == 1 and rows["total"]["samples"] > 100, rows)
        parts = sum(stage["mean_us"] for name, stage in rows.items() if name != "total")
        expect(abs(parts - rows["total"]["mean_us"]) < 0.05 * rows["total"]["mean_us"], f"{parts} of {rows}")
        expect(rows["answer"]["p50_us"] > 0, rows)
    finally:
        top.end()
    typical = float(re.search(r"^ 2 +20000(?: +[\d.]+){2} +([\d.]+)", text, re.M)[1])
    expect(typical / 3 < rows["total"]["p50_us"] < 3 * typical, f"{typical} {rows}")
    before = daemon.show("latency")
    kit.run_pair(daemon, PINGPONG)
    expect(daemon.show("latency") == before, "it goes on without top")


def histogram_of_metrics():
    """The buckets of Prometheus have what show has."""
    text = subprocess.run([daemon.build.uroce, "metrics", "--socket", daemon.socket], capture_output=True, text=True, check=True).stdout
    stages = daemon.show("latency")
    expect(len(stages) == 5, f"without samples there is nothing to compare: {stages}")
    for stage in stages:
        labels = r'\{device="uroce0",port="1",stage="' + stage["stage"] + '"'
        counts = [int(n) for n in re.findall(f"^uroce_send_latency_seconds_bucket{labels},le=\"[^\"]+\"}} (\\d+)$", text, re.M)]
        expect(len(counts) == 25 and counts == sorted(counts) and counts[-1] == stage["samples"], f"{stage}: {counts}")
        total = float(re.search(f"^uroce_send_latency_seconds_sum{labels}}} ([\\d.]+)$", text, re.M)[1])
        expect(abs(total - stage["samples"] * stage["mean_us"] / 1e6) < 1e-6, f"{stage}: {total}")


def tables():
    done = subprocess.run(command("--count", "2", "--period", "0.1"), capture_output=True, text=True, timeout=20)
    expect(done.returncode == 0 and not done.stderr, done)
    expect(len(re.findall(r"^device +rx_Gb/s", done.stdout, re.M)) == 2, done.stdout)
    expect("no programs" in done.stdout and "\033" not in done.stdout, done.stdout)


def terminal():
    """Each print replaces the last one."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command("--period", "0.1"), stdout=slave, stdin=slave, stderr=slave)
    os.close(slave)
    seen = ""
    try:
        deadline = time.monotonic() + 20
        while seen.count("\033[H\033[J") < 3 and time.monotonic() < deadline:
            if select.select([master], [], [], 1)[0]:
                seen += os.read(master, 65536).decode()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        os.close(master)
    expect(seen.count("\033[H\033[J") >= 3 and "rx_Gb/s" in seen, seen)


def refusals():
    for options in (("--period", "nan"), ("--period", "0"), ("--period", "1x"), ("--count", "0"), ("--count", "-1"), ("more",),
                    ("--nothing",)):
        done = subprocess.run(command(*options), capture_output=True, text=True, timeout=20)
        expect(done.returncode == 2 and "usage: uroce top" in done.stderr and not done.stdout, f"{options}: {done}")
    done = subprocess.run([daemon.build.uroce, "top", "--socket", "/nonexistent"], capture_output=True, text=True, timeout=20)
    expect(done.returncode == 1 and "/nonexistent" in done.stderr, done)


def daemon_ends():
    other = kit.Daemon(daemon.build, kit.scratch_folder(), name="other")
    process = subprocess.Popen([daemon.build.uroce, "top", "--period", "0.1", "--json", "--socket", other.socket],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    other.stop()
    _, errors = process.communicate(timeout=20)
    expect(process.returncode == 1 and errors, f"{process.returncode} {errors}")


def main():
    global daemon
    options = kit.point_arguments()
    daemon = kit.Daemon(kit.Build(options.build), kit.scratch_folder(), arguments=(kit.FIXED_LOOPBACK,))
    points = [("sums are right", sums_are_right), ("by program", by_program), ("by queue pair", by_queue_pair),
              ("drops", drops_are_there), ("latencies", latencies),
              ("a histogram for monitors", histogram_of_metrics), ("tables", tables), ("a terminal", terminal), ("wrong arguments", refusals),
              ("the daemon ends", daemon_ends)]
    try:
        return kit.run_points(points, options.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
