#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of a loopback uroced, read by a parser that shares nothing with it. TAP.

usage: run_metrics.py --build DIR"""
import os
import shutil
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

try:
    import prometheus_client.openmetrics.parser as openmetrics
    import prometheus_client.parser as prometheus
except ImportError:
    openmetrics = prometheus = None

SECONDS = 20
# Of `uroce show counters`, and of metrics.
COUNTERS = {"rx_packets": "uroce_port_rx_packets_total", "rx_bytes": "uroce_port_rx_bytes_total",
            "tx_packets": "uroce_port_tx_packets_total", "tx_bytes": "uroce_port_tx_bytes_total",
            "rx_delivered": "uroce_port_rx_delivered_packets_total"}


def expect(what, got, wanted):
    if got != wanted:
        raise kit.Failure(f"{what}: {got}, not {wanted}")


def run(daemon, *arguments):
    out = subprocess.run([daemon.build.uroce, "metrics", "--socket", daemon.socket, *arguments], capture_output=True, text=True,
                         timeout=SECONDS)
    expect("exit status", (out.returncode, out.stderr), (0, ""))
    return out.stdout


def parse(text, parser=None):
    """The samples of a text: {(name, labels): value}."""
    if not openmetrics:
        raise kit.Skipped("python3-prometheus-client is not installed")
    samples = {}
    for family in (parser or openmetrics).text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            expect("a repetition", key in samples, False)
            samples[key] = sample.value
    return samples


def value(samples, name, **labels):
    """Of the samples with these labels: the sum."""
    found = [number for (sample, have), number in samples.items() if sample == name and labels.items() <= dict(have).items()]
    if not found:
        raise kit.Failure(f"there is no {name} with {labels}")
    return sum(found)


def write_some(daemon):
    _, text = kit.run_pair(daemon, ["ib_write_bw", "-F", "-n", "500", "-s", "65536"])
    kit.check_perftest(text)


def shown_counters(daemon):
    return {row["counter"]: row["value"] for row in daemon.show("counters")}


def moves(daemon, read):
    """Metrics move by what `uroce show` says."""
    before, shown_before = read(), shown_counters(daemon)
    write_some(daemon)
    after, shown_after = read(), shown_counters(daemon)
    for field, name in COUNTERS.items():
        moved = value(after, name) - value(before, name)
        expect(name, moved, shown_after[field] - shown_before[field])
        if not moved:
            raise kit.Failure(f"{name} has not moved")
    expect("bytes by priority", value(after, "uroce_priority_tx_bytes_total"), value(after, COUNTERS["tx_bytes"]))


def formats(daemon):
    """Both have the same samples."""
    first, second = parse(run(daemon)), parse(run(daemon, "--format", "prometheus"), prometheus)
    expect("samples of one format alone", set(first) ^ set(second), set())
    if len(first) < 150:
        raise kit.Failure(f"only {len(first)} samples")


def users(daemon):
    """What a program has. It has ended, and so is not there."""
    program = kit.Program(daemon, ["ibv_rc_pingpong", "-g", "0", "-p", str(kit.free_port())])
    try:
        kit.wait_until(lambda: daemon.show("qps"), SECONDS, "a queue pair")
        samples = parse(run(daemon))
        expect("queue pairs", value(samples, "uroce_user_objects", user=str(os.getuid()), device="uroce0", kind="qps"), 1)
        expect("queue pairs of all", value(samples, "uroce_objects", device="uroce0", kind="qps"), 1)
        if value(samples, "uroce_user_memory_bytes", kind="memory") < 4096:
            raise kit.Failure("the queue pair needs no memory")
    finally:
        program.kill()
    kit.wait_until(lambda: not daemon.show("qps"), SECONDS, "the queue pair's end")
    names = [dict(labels)["kind"] for name, labels in parse(run(daemon)) if name == "uroce_user_objects"]
    expect("queue pairs", "qps" in names, False)


def drops(daemon):
    """All reasons, also those that have not occurred."""
    samples = parse(run(daemon))
    reasons = {dict(labels)["reason"] for name, labels in samples if name == "uroce_port_drops_total"}
    expect("reasons", len(reasons) > 20 and "bad_icrc" in reasons, True)


def promtool(daemon):
    """It also objects to names and types that are not usual."""
    if not shutil.which("promtool"):
        raise kit.Skipped("promtool is not installed")
    out = subprocess.run(["promtool", "check", "metrics"], input=run(daemon, "--format", "prometheus"), capture_output=True,
                         text=True, timeout=SECONDS)
    expect("promtool", (out.returncode, out.stderr), (0, ""))


def node_exporter(daemon):
    """It serves what it finds in a file."""
    program = shutil.which("prometheus-node-exporter")
    if not program:
        raise kit.Skipped("prometheus-node-exporter is not installed")
    folder, port = kit.scratch_folder(), kit.free_port()
    with open(os.path.join(folder, "uroce.prom"), "w") as file:
        file.write(run(daemon, "--format", "prometheus"))
    exporter = kit.Program(daemon, [program, "--collector.disable-defaults", "--collector.textfile",
                                    "--collector.textfile.directory", folder, "--web.listen-address", f"127.0.0.1:{port}"])
    try:
        kit.wait_until(lambda: kit.listens(port, exporter.process.pid), SECONDS, "node_exporter")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
            samples = parse(answer.read().decode(), prometheus)
    finally:
        exporter.kill()
    expect("errors", value(samples, "node_textfile_scrape_error"), 0)
    expect("the port", value(samples, "uroce_port_up", device="uroce0"), 1)


def usage(daemon):
    for arguments, status in ((("--format", "xml"), 2), (("more",), 2), (("--socket", daemon.socket + "-"), 1), (("--help",), 0)):
        out = subprocess.run([daemon.build.uroce, "metrics", *arguments], capture_output=True, text=True, timeout=SECONDS)
        expect(arguments, (out.returncode, bool(out.stdout)), (status, status == 0))


def full(daemon):
    """Standard output that takes nothing."""
    with open("/dev/full", "w") as sink:
        out = subprocess.run([daemon.build.uroce, "metrics", "--socket", daemon.socket], stdout=sink, stderr=subprocess.PIPE,
                             text=True, timeout=SECONDS)
    expect("exit status", (out.returncode, "No space" in out.stderr), (1, True))


def main():
    arguments = kit.point_arguments()
    build = kit.Build(arguments.build)
    daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", "--workers", "2"))
    try:
        return kit.run_points([
            ("uroce metrics moves with traffic", lambda: moves(daemon, lambda: parse(run(daemon)))),
            ("both formats have the same samples", lambda: formats(daemon)),
            ("objects of a user", lambda: users(daemon)),
            ("drops have all reasons", lambda: drops(daemon)),
            ("promtool finds no fault", lambda: promtool(daemon)),
            ("node_exporter reads a file", lambda: node_exporter(daemon)),
            ("arguments", lambda: usage(daemon)),
            ("a full disk", lambda: full(daemon)),
        ], arguments.match)
    finally:
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
