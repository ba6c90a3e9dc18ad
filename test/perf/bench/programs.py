# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program, or a pair of them, and reads one number from the output."""
import contextlib
import json
import os
import re
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kit"))
import uroce_kit as kit

PROGRAM_SECONDS = 25


class Place:
    """The network namespace of a program without a daemon, or none."""

    def __init__(self, namespace=None):
        self.prefix = ["ip", "netns", "exec", namespace] if namespace else []

    def environment(self, extra=None):
        return dict(os.environ, **(extra or {}))


def pair(places, command, port, client_more, extra=None):
    """Starts a server, and a client when the server listens. Returns the client's output."""
    server = kit.Program(places[0], command, extra)
    client = None
    try:
        kit.await_listening(server, port, 15)
        client = kit.Program(places[1], command + client_more, extra)
        return client.finish(PROGRAM_SECONDS)
    finally:
        server.kill()
        if client is not None:
            client.kill()


# ---- perftest ----

def perftest(daemons, address, command):
    """The columns of the only row."""
    _, text = kit.run_pair(daemons[0], command.split(), client_daemon=daemons[1], address=address,
                           seconds=PROGRAM_SECONDS)
    return kit.check_perftest(text)[0]


def gigabytes(row):
    return row[3] * 1.048576e-3


def million_messages(row):
    return row[4]


def median_us(row):
    return row[4]


# ---- TCP ----

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1, "bytes/sec": 1, "KB/sec": 1e3, "MB/sec": 1e6, "GB/sec": 1e9,
         "/sec": 1, "K/sec": 1e3, "M/sec": 1e6}


def qperf_value(text, field):
    """In seconds, bytes per second, or messages per second."""
    for line in text.splitlines():
        words = line.split()
        if words[:2] == [field, "="]:
            return float(words[2].replace(",", "")) * UNITS[words[3]]
    raise kit.Failure(f"qperf printed no {field}:\n{text}")


def qperf(places, address, test, size, seconds, field):
    port = kit.free_port()
    command = ["qperf", "-lp", str(port)]
    text = pair(places, command, port, ["-t", str(seconds), "-m", str(size), "-uu", "-v", address, test])
    return qperf_value(text, field)


def iperf3(places, address, seconds):
    """Bytes per second."""
    port = kit.free_port()
    server = kit.Program(places[0], ["iperf3", "-s", "-1", "-p", str(port)])
    try:
        kit.await_listening(server, port, 15)
        client = kit.Program(places[1], ["iperf3", "-c", address, "-p", str(port), "-l", "64K", "-t", str(seconds),
                                         "-J"])
        return json.loads(client.finish(PROGRAM_SECONDS))["end"]["sum_received"]["bits_per_second"] / 8
    finally:
        server.kill()


def udp_segments(places, address, size, seconds):
    """Bytes of datagrams' payload per second, which arrive joined."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "udp_segments.py")
    port = str(kit.free_port())
    server = kit.Program(places[0], [path, "receive", address, port])
    try:
        kit.wait_until(lambda: "ready" in server.text(), 10, "the receiver is ready")
        kit.Program(places[1], [path, "send", address, port, str(size), str(seconds)]).finish(PROGRAM_SECONDS)
        return float(server.finish(PROGRAM_SECONDS).split()[-1])
    finally:
        server.kill()


# ---- UCX ----

# UCX needs a device file with the name that verbs reports, so it gets a /dev of its own.
UCX_DEV = """
new=$(mktemp -d) && mount -t tmpfs none "$new" || exit 99
for node in null zero full random urandom tty; do touch "$new/$node" && mount --bind "/dev/$node" "$new/$node"; done
mkdir "$new/shm" "$new/infiniband" && mount --rbind /dev/shm "$new/shm" && ln -s ../null "$new/infiniband/uverbs0"
ln -s /proc/self/fd "$new/fd" && mount --move "$new" /dev && rmdir "$new" && exec "$@"
"""
# The auxiliary transport carries the addresses of connections. Over an IPv4 address UCX 1.13 takes the datagrams of
# Mellanox devices only, which report the packet's type in the completion's service level; GID 1 is IPv6.
UCX_ROCE = {"UCX_TLS": "rc_verbs,ud_verbs:aux", "UCX_NET_DEVICES": "uroce0:1", "UCX_IB_GID_INDEX": "1"}
UCX_TCP = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}


def ucx_columns(text):
    """Of the last row: iterations; median, average, overall µs; average, overall MB/s; average, overall messages/s."""
    for line in reversed(text.splitlines()):
        words = line.split()
        if len(words) == 8 and all(re.fullmatch(r"[\d.]+", word) for word in words):
            return [float(word) for word in words]
    raise kit.Failure("ucx_perftest printed no result:\n" + text)


def ucx(place, environment, test, arguments):
    port = kit.free_port()
    isolate = ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "sh", "-c", UCX_DEV, "sh"]
    command = isolate + ["ucx_perftest", "-t", test, "-f", "-p", str(port), *arguments.split()]
    try:
        return ucx_columns(pair((place, place), command, port, ["127.0.0.1"], environment))
    except kit.Failure as failure:
        # Without the script that made its /dev.
        raise kit.Failure(f"ucx_perftest -t {test}:" + str(failure).rpartition(f"-p {port}")[2]) from None


# ---- the dataplane in one process ----

def json_line(build, program, arguments):
    path = os.path.join(build.folder, program)
    result = subprocess.run([path, *arguments.split()], capture_output=True, text=True, timeout=PROGRAM_SECONDS)
    if result.returncode != 0:
        raise kit.Failure(f"{program} {arguments}: exit status {result.returncode}:\n{result.stderr}")
    return json.loads(result.stdout.strip().splitlines()[-1])


# ---- testpmd ----

class Testpmd:
    """dpdk-testpmd at its prompt, forwarding on one core."""
    PROMPT = "testpmd>"

    def __init__(self, name, core, device, mode, more=()):
        eal = ["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", f"--file-prefix=uroce-bench-{os.getpid()}-{name}",
               f"--lcores=0@(0-{os.cpu_count() - 1}),1@{core}", f"--vdev={device}"]
        own = ["-i", "--total-num-mbufs=8192", "--mbuf-size=4480", "--rxd=1024", "--txd=1024",
               f"--forward-mode={mode}", *more]
        self.printed = ""
        self.process = subprocess.Popen(["stdbuf", "-oL", "dpdk-testpmd", *eal, "--", *own], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            self.read_until(self.PROMPT)
        except BaseException:
            self.stop()
            raise

    def say(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def read_until(self, text, seconds=15):
        """The output since the last call, up to and including text."""
        deadline = time.monotonic() + seconds
        while text not in self.printed:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 65536) if readable else b""
            if not data:
                raise kit.Failure(f"testpmd did not print {text!r}:\n{self.printed}")
            self.printed += data.decode(errors="replace")
        end = self.printed.index(text) + len(text)
        part, self.printed = self.printed[:end], self.printed[end:]
        return part

    def received(self):
        """The time, and bytes received so far."""
        self.say("show port stats 0")
        text = self.read_until("Tx-bps")
        return time.monotonic(), received_bytes(text)

    def stop(self):
        with contextlib.suppress(OSError):
            self.say("stop\nquit")
        try:
            # Its remaining output needs a reader.
            self.process.communicate(timeout=8)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


def received_bytes(text):
    found = re.findall(r"RX-bytes:\s*(\d+)", text)
    if not found:
        raise kit.Failure("testpmd printed no statistics:\n" + text)
    return int(found[-1])


def memif_device(role, path):
    return f"net_memif0,role={role},socket-abstract=no,socket={path},bsize=4352"


def testpmd_memif(folder, frame, seconds):
    """Bytes a second from txonly in one process to rxonly in another."""
    path = os.path.join(folder, "testpmd.sock")
    receiver = Testpmd("rx", os.cpu_count() - 1, memif_device("server", path), "rxonly")
    sender = None
    try:
        sender = Testpmd("tx", 0, memif_device("client", path), "txonly", [f"--txpkts={frame}"])
        receiver.say("start")
        sender.say("start")
        kit.wait_until(lambda: receiver.received()[1], 10, "testpmd's first frames")
        start, first = receiver.received()
        time.sleep(seconds)
        end, last = receiver.received()
        if last == first:
            raise kit.Failure("testpmd received nothing more")
        return (last - first) / (end - start)
    finally:
        # While its receiver still reads, the sender's ring empties.
        if sender is not None:
            sender.stop()
        receiver.stop()


# ---- CPU time ----

def cpu_ns(pid):
    """The CPU time of all threads of a process."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def cpu_percent(pid, seconds):
    before, start = cpu_ns(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_ns(pid) - before) / 1e7 / (time.monotonic() - start)
