#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of a loopback uroced, read by a parser that shares nothing with it. TAP.

usage: run_metrics.py --build DIR"""
import collections
import http.client
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import run_control as control
import uroce_kit as kit

try:
    import prometheus_client.openmetrics.parser as openmetrics
    import prometheus_client.parser as prometheus
except ImportError:
    openmetrics = prometheus = None

SECONDS = 30
CONNECTIONS = 16   # that the daemon serves at once
PORTS = 16         # of one of the daemons
LIFE = 10          # seconds that a connection lasts at most
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
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
    """Of all ports together."""
    sums = collections.Counter()
    for row in daemon.show("counters"):
        sums[row["counter"]] += row["value"]
    return sums


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


# ---- by HTTP ----

class Place:
    """Where a daemon serves metrics: a TCP port or a path."""

    def __init__(self, where):
        self.where = where
        self.is_path = isinstance(where, str)

    def argument(self):
        return f"unix:{self.where}" if self.is_path else f"127.0.0.1:{self.where}"

    def connect(self, small=False):
        connection = socket.socket(socket.AF_UNIX if self.is_path else socket.AF_INET)
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        # Waits in the kernel where the backlog is full; with settimeout it would fail.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SECONDS, 0))
        connection.connect(self.where if self.is_path else ("127.0.0.1", self.where))
        connection.settimeout(SECONDS)
        return connection

    def request(self, method="GET", path="/metrics", headers=None, body=None):
        """Status, headers and body."""
        client = http.client.HTTPConnection("localhost", timeout=SECONDS)
        client.sock = self.connect()
        try:
            client.request(method, path, body, headers or {})
            answer = client.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            client.close()

    def scrape(self):
        status, headers, text = self.request(headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
        expect("status", (status, headers["Content-Type"]), (200, OPENMETRICS))
        return parse(text)


def scrape_fresh(place):
    """A text is used again for a tenth of a second, and no event tells of its end."""
    time.sleep(0.11)
    return place.scrape()


def serves_urllib(place):
    """A program that does not ask for OpenMetrics gets the older format."""
    with urllib.request.urlopen(f"http://{place.argument()}/metrics", timeout=SECONDS) as answer:
        expect("type", answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        older = parse(answer.read().decode(), prometheus)
    expect("samples of one format alone", set(older) ^ set(place.scrape()), set())


def send(place, data, ends=False):
    connection = place.connect()
    try:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it was closed
    return connection


def read_all(connection):
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:
        pass
    connection.close()
    return data


def answers_others(place):
    expect("another path", place.request(path="/")[0], 404)
    expect("a longer path", place.request(path="/metrics/x")[0], 404)
    expect("a query", place.request(path="/metrics?a=b")[0], 200)
    expect("POST", place.request("POST", body="x")[0], 405)
    head = f"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 20}\r\n\r\n"
    answer = read_all(send(place, head.encode() + b"x" * (1 << 20)))  # the daemon does not read all of it
    if answer and not answer.startswith(b"HTTP/1.1 405"):
        raise kit.Failure(f"POST: {answer[:100]}")
    expect("DELETE", place.request("DELETE")[0], 405)
    status, headers, text = place.request("HEAD")
    expect("HEAD", (status, text, int(headers["Content-Length"]) > 10000), (200, "", True))
    headers = place.request(headers={"Accept": "application/openmetrics-text;q=0.1, text/plain"})[1]
    expect("the type of more weight", headers["Content-Type"].split(";")[0], "text/plain")


def refuses_garbage(place):
    """No request, or too long a one. A line that is answered has an error; the daemon logs none of it."""
    for data in (b"\0" * 100 + b"\r\n\r\n", b"\xff" * 20000, b"GET\r\n\r\n", b"\r\n" * 5000, b"GET / HTTP/9.9\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"a" * 20000 + b"\r\n\r\n",
                 b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"):
        answer = read_all(send(place, data, ends=True))
        if answer and not answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5", b"HTTP/1.0 4")):
            raise kit.Failure(f"{data[:40]}: {answer[:100]}")
    place.scrape()


def control_time(daemon):
    """The median time of a small request of another program, in seconds."""
    client = control.Client(daemon)
    times = []
    for _ in range(100):
        start = time.monotonic()
        client.must(control.QUERY_DEVICE)
        times.append(time.monotonic() - start)
    client.close()
    return statistics.median(times)


def holds(daemon, place, data, keeps_on=None):
    """Clients that hold all connections are cut; others are served before and after, and descriptors are few."""
    before = control.resources(daemon)[0]
    held = [send(place, data) for _ in range(CONNECTIONS)]
    start = time.monotonic()
    kit.wait_until(lambda: control.resources(daemon)[0] >= before + CONNECTIONS, SECONDS, "the connections")
    late = []
    waiting = threading.Thread(target=lambda: late.append(place.request()[0]))
    waiting.start()
    expect("descriptors", control.resources(daemon)[0], before + CONNECTIONS)
    spent = control_time(daemon)
    if spent > 0.01:
        raise kit.Failure(f"other programs wait for {spent * 1000:.1f} ms")
    while waiting.is_alive() and time.monotonic() < start + SECONDS:
        waiting.join(1)
        for connection in held if keeps_on else []:
            try:
                connection.send(keeps_on)
            except OSError:
                pass  # it was cut
    expect("a scrape that waited", late, [200])
    if time.monotonic() - start > LIFE + 5:
        raise kit.Failure(f"it waited for {time.monotonic() - start:.1f} s")
    for connection in held:
        connection.close()
    kit.wait_until(lambda: control.resources(daemon)[0] <= before, SECONDS, "the end of the connections")


def never_reads(daemon, place):
    """Answers that are not read. The kernel may take them whole, and then the connection ends by itself."""
    before = control.resources(daemon)[0]
    held = []
    for _ in range(2 * CONNECTIONS):
        connection = place.connect(small=True)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        held.append(connection)
        if control.resources(daemon)[0] > before + CONNECTIONS:
            raise kit.Failure("more connections than the daemon serves")
    place.scrape()
    kit.wait_until(lambda: control.resources(daemon)[0] <= before, 4 * SECONDS, "the end of the connections")
    for connection in held:
        connection.close()


def crowd(daemon, place, count=200):
    """Many at once: each gets its answer, and the daemon's descriptors stay few."""
    before, most, statuses = control.resources(daemon)[0], [0], []

    def one():
        try:
            statuses.append(place.request()[0])
        except OSError as error:
            statuses.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most[0] = max(most[0], control.resources(daemon)[0])
        threads[-1].join(0.01)
    expect("answers", statuses, [200] * count)
    if most[0] > before + CONNECTIONS:
        raise kit.Failure(f"{most[0] - before} descriptors more")


def resets(daemon, place):
    """Clients that go away at every point of a request."""
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    before = control.resources(daemon)[0]
    for length in list(range(len(request))) + [len(request)] * 50:
        connection = send(place, request[:length])
        if not place.is_path:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    place.scrape()
    kit.wait_until(lambda: control.resources(daemon)[0] <= before, SECONDS, "the end of the connections")


def starts(build, where, status, text=""):
    """How a daemon starts, or does not."""
    folder = kit.scratch_folder()
    out = subprocess.run([build.uroced, "--loopback", "--socket", os.path.join(folder, "s"), "--metrics", where],
                         capture_output=True, text=True, timeout=SECONDS)
    expect(where, (out.returncode, text in out.stderr), (status, True))


def refuses_places(build, place):
    for where in ("", "x", "localhost:80", "127.0.0.1:0", "unix:x"):
        starts(build, where, 2, "--metrics")
    starts(build, place.argument(), 1, place.argument() + ": Address already in use")
    starts(build, "unix:/dev/null", 1, "exists and is not a socket")
    starts(build, "192.0.2.1:9440", 1, "assign")


def configured(build):
    """By the file; the socket goes with the daemon."""
    folder = kit.scratch_folder()
    place = Place(os.path.join(folder, "m"))
    with open(os.path.join(folder, "ini"), "w") as file:
        file.write(f"[uroced]\nmetrics = {place.argument()}\n[port.0]\ndevice = loopback\n")
    daemon = kit.Daemon(build, folder, arguments=("-c", file.name))
    try:
        expect("mode", os.stat(place.where).st_mode & 0o777, 0o600)
        place.scrape()
    finally:
        status = daemon.stop()
    expect("status and socket", (status, os.path.exists(place.where)), (0, False))


def ends_with_requests(build):
    """A daemon that ends while clients wait."""
    folder = kit.scratch_folder()
    place = Place(os.path.join(folder, "m"))
    daemon = kit.Daemon(build, folder, arguments=("--loopback", "--metrics", place.argument()))
    held = [send(place, b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"\r\n" * (i % 2)) for i in range(40)]
    expect("status", daemon.stop(), 0)
    for connection in held:
        connection.close()


def http_points(daemon, place):
    """Those that wait for the end of connections are for one kind of place."""
    half = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
    kind = "unix" if place.is_path else "TCP"
    points = [("a scrape moves with traffic", lambda: moves(daemon, lambda: scrape_fresh(place))),
              ("other requests", lambda: answers_others(place)),
              ("garbage", lambda: refuses_garbage(place)),
              ("clients that go away", lambda: resets(daemon, place)),
              ("200 connections at once", lambda: crowd(daemon, place)),
              ("an answer that is never read", lambda: never_reads(daemon, place))]
    if place.is_path:
        points += [("half a request", lambda: holds(daemon, place, half))]
    else:
        points += [("nothing is sent", lambda: holds(daemon, place, b"")),
                   ("a request that is drawn out", lambda: holds(daemon, place, half, b"A: b\r\n"))]
    return [(f"{name}, {kind}", function) for name, function in points]


def not_built():
    raise kit.Skipped("uroced was built without libmicrohttpd")


def served(build):
    """Points over two daemons that serve metrics; the text of one is longer than a socket's buffer."""
    folder, points, daemons = kit.scratch_folder(), [], []
    with open(os.path.join(folder, "ini"), "w") as file:
        file.write("[uroced]\nworkers = 16\n" + "".join(f"[port.{i}]\ndevice = loopback\n" for i in range(PORTS)))
    for number, (place, devices) in enumerate(((Place(kit.free_port()), ("--loopback",)),
                                               (Place(os.path.join(folder, "m")), ("-c", file.name)))):
        try:
            daemon = kit.Daemon(build, folder, f"uroced{number}", (*devices, "--metrics", place.argument()))
        except kit.Failure as failure:
            if "without libmicrohttpd" in str(failure):
                return [], [("metrics by HTTP", not_built)]
            raise
        daemons.append(daemon)
        points += http_points(daemon, place)
        if not place.is_path:
            points += [("urllib", lambda place=place: serves_urllib(place)),
                       ("bad places", lambda place=place: refuses_places(build, place))]
    points += [("metrics in the configuration file", lambda: configured(build)),
               ("the end of a daemon with clients", lambda: ends_with_requests(build)),
               ("the end of the daemons", lambda: ended(daemons))]
    return daemons, points


def ended(daemons):
    """They live, log nothing of what clients did, and end."""
    for daemon in daemons:
        expect("log", daemon.log(), "")
        expect("exit status", daemon.stop(), 0)


def main():
    arguments = kit.point_arguments()
    build = kit.Build(arguments.build)
    daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", "--workers", "2"))
    daemons, points = served(build)
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
            *points,
        ], arguments.match)
    finally:
        for one in [daemon, *daemons]:
            one.stop()


if __name__ == "__main__":
    sys.exit(main())
