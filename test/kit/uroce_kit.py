# SPDX-License-Identifier: BSD-3-Clause
"""Starting uroced and pairs of unmodified programs over it, and reporting in TAP. Standard library only.

The build tree is the folder named by --build (tests are run by meson, which passes it)."""
import argparse
import contextlib
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

READY_SECONDS = 40

# The loopback device has all addresses of the machine; for tests that more or fewer of them would disturb, it has these,
# which are its first ones anyway.
FIXED_LOOPBACK = "--loopback=127.0.0.1/8,::1/128"


def control_number(name):
    header = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib", "abi", "ctl_msg.h")
    with open(header) as file:
        return int(re.search(rf"#define {name}\s+(\d+)", file.read())[1])


def control_version():
    """Of the messages between programs and the daemon."""
    return control_number("CTL_VERSION")


def control_size():
    """Of each message, in bytes."""
    return control_number("CTL_MSG_SIZE")


class Failure(Exception):
    """A failed check of a test; the text goes into the report."""


class Skipped(Exception):
    """A test cannot run here; the text is the reason."""


class Build:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.uroce = os.path.join(self.folder, "app/uroce/uroce")
        self.uroced = os.environ.get("UROCE_TEST_DAEMON") or os.path.join(self.folder, "app/uroced/uroced")
        if not os.path.exists(self.uroce):  # the build has the libraries and their tests alone
            self.uroce = os.path.join(os.path.dirname(self.uroced), "../uroce/uroce")
        self.libraries = ":".join(os.path.join(self.folder, "lib", name) for name in ("verbs", "rdmacm", "mlx5"))


class Daemon:
    """A uroced on a control socket of its own. configuration: the text of its configuration file, in place of arguments.
    namespace: a network namespace to run it, and its programs, in; prefix: a command to run them by."""

    def __init__(self, build, folder, name="uroced", arguments=("--loopback",), namespace=None, configuration=None, prefix=()):
        if configuration is not None:
            path = os.path.join(folder, name + ".ini")
            with open(path, "w") as file:
                file.write(configuration)
            arguments = ("-c", path)
        self.build = build
        self.prefix = ["ip", "netns", "exec", namespace] if namespace else list(prefix)
        self.socket = os.path.join(folder, name + ".sock")
        self.log_name = os.path.join(folder, name + ".log")
        ready, ready_write = os.pipe()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
        environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")
        command = self.prefix + [build.uroced, "--socket", self.socket, "--ready-fd", str(ready_write), *arguments]
        with open(self.log_name, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            pass_fds=[ready_write], env=environment)
        os.close(ready_write)
        try:
            readable, _, _ = select.select([ready], [], [], READY_SECONDS)
            if not readable or not os.read(ready, 1):
                self.stop()
                raise Failure("uroced did not start:\n" + self.log())
        finally:
            os.close(ready)

    def environment(self, extra=None):
        return dict(os.environ, LD_LIBRARY_PATH=self.build.libraries, UROCE_SOCKET=self.socket, **(extra or {}))

    def log(self):
        with open(self.log_name) as log:
            return log.read()

    def show(self, *topic):
        """The topic's part of the daemon's state, or all of it."""
        out = subprocess.run([self.build.uroce, "show", *topic, "--json", "--socket", self.socket],
                             capture_output=True, text=True, timeout=20)
        if out.returncode != 0:
            raise Failure("uroce show: " + out.stderr)
        return json.loads(out.stdout)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        """Ends it; returns its exit status, or None when it had to be killed."""
        return end(self.process)


def end(process, seconds=10):
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


class Program:
    """A program run over a daemon, its output kept; fds: descriptors that it inherits."""

    def __init__(self, daemon, command, extra_environment=None, fds=()):
        self.command = command
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(daemon.prefix + command, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, env=daemon.environment(extra_environment),
                                        pass_fds=fds)

    def text(self):
        """What it has printed so far. The file's position is the program's too, and stays."""
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def finish(self, seconds):
        """Waits for success and returns the output."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{' '.join(self.command)}: not done after {seconds} s:\n{self.text()}")
        if status != 0:
            raise Failure(f"{' '.join(self.command)}: exit status {status}:\n{self.text()}")
        return self.text()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


# Below those that the kernel gives to connections: none can take the number before the program does that it is for.
PORTS = range(24000, 32000)


def free_port():
    """A TCP port that nothing has."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
                return port
            except OSError:
                continue


def listens(port, pid):
    """Whether TCP port is listened on in the network namespace of process pid."""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[3] == "0A" and fields[1].endswith(wanted):
                        return True
        except OSError:
            pass
    return False


def await_listening(program, port, seconds):
    deadline = time.monotonic() + seconds
    while not listens(port, program.process.pid):
        if program.process.poll() is not None or time.monotonic() > deadline:
            program.kill()
            raise Failure(f"{' '.join(program.command)}: the server does not listen:\n{program.text()}")
        time.sleep(0.01)  # the kernel has no event for a socket that begins to listen


def await_cm_listening(daemon, program, seconds):
    """Waits until the program listens by rdma_cm."""
    def look():
        if program.process.poll() is not None:
            raise Failure(f"{' '.join(program.command)}: has ended:\n{program.text()}")
        return any(row["pid"] == program.process.pid and row["state"] == "LISTEN" for row in daemon.show("cm_ids"))

    try:
        wait_until(look, seconds, f"{' '.join(program.command)} listens")
    except Failure:
        program.kill()
        raise


def run_pair(server_daemon, command, client_daemon=None, address="127.0.0.1", client_arguments=(),
             extra_environment=None, seconds=60, by_cm=False):
    """Runs command as server and, with the address appended, as client. Returns both outputs: server's, client's. by_cm: the server
    listens by rdma_cm, not by TCP."""
    port = free_port()
    command = command + ["-p", str(port)]
    server = Program(server_daemon, command, extra_environment)
    client = None
    try:
        if by_cm:
            await_cm_listening(server_daemon, server, 30)
        else:
            await_listening(server, port, 30)
        client = Program(client_daemon or server_daemon, command + list(client_arguments) + [address],
                         extra_environment)
        try:
            client_text = client.finish(seconds)
        except Failure as failure:
            server.kill()
            raise Failure(f"{failure}\nserver's side:\n{server.text()}")
        return server.finish(20), client_text
    finally:
        server.kill()
        if client is not None:
            client.kill()


# What the programs print.

def check_pingpong(text, size=None, iterations=None):
    bandwidth = re.search(r"(\d+) bytes in ([\d.]+) seconds", text)
    count = re.search(r"(\d+) iters in", text)
    if not bandwidth or not count:
        raise Failure("no result in:\n" + text)
    if size is not None and int(bandwidth.group(1)) != 2 * size * (iterations or int(count.group(1))):
        raise Failure("not the number of bytes that was asked for:\n" + text)


def perftest_rows(text):
    """The rows of numbers of perftest's result table."""
    rows = []
    in_table = False
    for line in text.splitlines():
        if line.lstrip().startswith("#bytes"):
            in_table = True
        elif in_table and re.match(r"\s*\d+\s+\d+\s", line):
            # On a busy machine a warning about the clock follows the numbers, without a space.
            words = re.match(r"(?:[\d.\s-]|inf|nan)+", line).group().split()
            rows.append([float(word) if word[-1].isdigit() else 0.0 for word in words])
        elif line.startswith("---"):
            in_table = False
    return rows


def check_perftest(text, rows=1):
    """Every row has as its average bandwidth, message rate, or latency a number above zero; unless perftest says that it could
    not measure the CPU's clock, as on a machine with too much other work: then it prints zeros, or infinite
    latencies, which count as zeros here, whatever it has moved."""
    no_clock = "Correlation coefficient r^2:" in text
    found = perftest_rows(text)
    if len(found) != rows:
        raise Failure(f"{len(found)} rows of results, {rows} were due:\n{text}")
    for row in found:
        # Of a few small messages on a busy machine the bandwidth is 0.00; the rate has more digits.
        if len(row) < 5 or row[1] <= 0 or (max(row[3:5]) <= 0 and not no_clock):
            raise Failure("a result of nothing:\n" + text)
    return found


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def said_of_failure(lines):
    """The end of a long text, and of the rest what names a failure."""
    rest, end = lines[:-60], lines[-60:]
    return [line for line in rest if re.search(r"\bfailed\b", line, re.I)][:20] + end


class Tap:
    """Runs named functions as the points of one TAP stream."""

    def __init__(self, count):
        self.number = 0
        self.failed = 0
        print(f"1..{count}", flush=True)

    def point(self, name, function):
        self.number += 1
        start = time.monotonic()
        try:
            function()
            print(f"ok {self.number} - {name} # {time.monotonic() - start:.1f} s", flush=True)
        except Skipped as reason:
            print(f"ok {self.number} - {name} # SKIP {reason}", flush=True)
        except (Failure, subprocess.TimeoutExpired) as failure:
            self.failed += 1
            print(f"not ok {self.number} - {name}")
            for line in said_of_failure(str(failure).splitlines()):
                print("# " + line)
            sys.stdout.flush()


def with_workers(build, numbers, points):
    """Points of points(daemon, label) over a loopback daemon of each number of workers."""
    results = []
    for workers in numbers:
        daemon = Daemon(Build(build), scratch_folder(), arguments=("--loopback", "--workers", str(workers)))
        try:
            results += points(daemon, f"workers: {workers}")
        finally:
            daemon.stop()
    return results


def point_arguments(*programs, more=(), match=True):
    """The command line of a runner of points: --build, --match, more options (flag, keywords), and the programs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    if match:
        parser.add_argument("--match", default="", help="only points whose name contains this")
    for flag, keywords in more:
        parser.add_argument(flag, **keywords)
    for program in programs:
        parser.add_argument(program)
    die_on_signals()
    return parser.parse_args()


def run_points(points, match=""):
    """Runs those of the (name, function) that match, one by one. The exit status."""
    chosen = [point for point in points if match in point[0]]
    tap = Tap(len(chosen))
    for name, function in chosen:
        tap.point(name, function)
    return 1 if tap.failed else 0


def cmocka_points(daemon, program, label, environment=None, seconds=100):
    """Runs a cmocka program over a daemon. Its points, as (good, name, details)."""
    out = subprocess.run([program], env=daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP", **(environment or {})}),
                         timeout=seconds, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    lines = out.stdout.splitlines()
    skipped = next((line for line in lines if line.startswith("1..0")), None)
    if skipped:
        return [(True, f"{label} {skipped[4:]}", [])]
    found = [(line.startswith("ok ") or "# SKIP" in line, f"{re.split(' - |(?=# SKIP)', line, maxsplit=1)[-1]}, {label}", lines)
             for line in lines if line.startswith(("ok ", "not ok "))]
    return found + [(out.returncode == 0, f"all points were reached, {label}", lines)]


def print_points(points):
    """Prints (good, name, details) as a TAP stream. The exit status."""
    print(f"1..{len(points)}")
    for number, (good, name, details) in enumerate(points, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        for line in [] if good else details:
            print("# " + line)
    return 0 if all(good for good, _, _ in points) else 1


def scratch_folder():
    """A short path: it holds unix sockets. Removed at exit."""
    import atexit
    folder = tempfile.mkdtemp(prefix="uroce-test.", dir="/tmp")
    atexit.register(shutil.rmtree, folder, True)
    return folder


@contextlib.contextmanager
def huge_pages(count):
    """At least `count` free huge pages of 2 MiB, if the user may reserve them and there is memory; whether there are."""
    name = "/sys/kernel/mm/hugepages/hugepages-2048kB"

    def read(what):
        with open(f"{name}/{what}") as file:
            return int(file.read())

    def write(number):
        with open(f"{name}/nr_hugepages", "w") as file:
            file.write(str(number))

    try:
        before, free = read("nr_hugepages"), read("free_hugepages")
        missing = max(count - free, 0)
        if missing:
            write(before + missing)
        enough = read("free_hugepages") >= count
    except OSError:
        yield False
        return
    try:
        yield enough
    finally:
        if missing:
            write(max(read("nr_hugepages") - missing, 0))


def rdma_program(folder):
    """The environment's PATH with a program `rdma` that lists the device, for rdma-core's tests since version 45: iproute2's
    asks the kernel."""
    port = {"ifname": "uroce0", "port": 1, "state": "ACTIVE", "physical_state": "LINK_UP", "netdev": "lo"}
    programs = os.path.join(folder, "bin")
    os.makedirs(programs)
    with open(os.path.join(programs, "rdma"), "w") as script:
        script.write(f"#!/bin/sh\necho '{json.dumps([port])}'\n")
        os.fchmod(script.fileno(), 0o755)
    return {"PATH": programs + ":" + os.environ.get("PATH", "/usr/bin:/bin")}


def die_on_signals():
    """So that finally clauses and exit handlers run."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
