# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of unmodified programs that find each other by librdmacm, and what they must print: over one daemon, or between two.
Standard library only.

In commands PORT is a port number of the pair's own, ADDRESS the server's address and OWN the client's. A point is a function of
the Pairs that it runs on."""
import os
import re
import select
import shutil
import subprocess

import uroce_kit as kit

LISTEN_SECONDS = 20
PRELOAD = "/usr/lib/{}-linux-gnu/rsocket/librspreload.so.1".format(os.uname().machine)
IPERF3_BYTES = 200000000
PERFTEST = [f"ib_{verb}_{program}" for verb in ("send", "write", "read", "atomic") for program in ("bw", "lat")]


class Server(kit.Program):
    """A server; the constructor returns when it listens, or ends, or LISTEN_SECONDS are over."""

    def __init__(self, pairs, command):
        listens, open_until_then = os.pipe()
        try:
            super().__init__(pairs.daemon, command, fds=(open_until_then,), extra_environment={
                "LD_PRELOAD": pairs.listening, "UROCE_TEST_LISTENING_FD": str(open_until_then)})
            os.close(open_until_then)
            select.select([listens], [], [], LISTEN_SECONDS)
        finally:
            os.close(listens)


class Pairs:
    """Pairs of programs, each at a port number of its own: the daemons, and so their port numbers, are the test's."""

    def __init__(self, daemon, listening, client_daemon=None, address="127.0.0.1", own=None):
        self.daemon, self.client_daemon = daemon, client_daemon or daemon
        self.listening = listening
        self.address, self.own = address, own or address
        self.port = 20000

    def words(self, command):
        for name, value in (("PORT", str(self.port)), ("ADDRESS", self.address), ("OWN", self.own)):
            command = re.sub(rf"\b{name}\b", value, command)
        return command.split()

    def run(self, server, client, seconds=20, ends=True, listens=True):
        """Both outputs, the server's first."""
        program = server.split()[0]
        if not shutil.which(program):
            raise kit.Skipped(program + " is not installed")
        self.port += 1
        server = Server(self, self.words(server)) if listens else kit.Program(self.daemon, self.words(server))
        client = self.client(client)
        try:
            try:
                text = client.finish(seconds)
            except kit.Failure as failure:
                server.kill()
                raise kit.Failure(f"{failure}\nserver's side:\n{server.text()}")
            return (server.finish(seconds) if ends else server.text()), text
        finally:
            server.kill()
            client.kill()

    def client(self, command, environment=None):
        return kit.Program(self.client_daemon, self.words(command), environment)

    def received(self):
        """The bytes that went over the wire, both ways."""
        return sum(row["value"] for daemon in {self.daemon, self.client_daemon} for row in daemon.show("counters")
                   if row["counter"] == "rx_bytes")


def simple(server, client, **options):
    return lambda pairs: pairs.run(server, client, **options)


def both(command, server, client, **options):
    """Of a command whose two sides differ in what is added."""
    return simple(f"{command} {server}", f"{command} {client}", **options)


# ---- programs of rdma_cm ----

def rping(options):
    return both(f"rping -p PORT -V {options}", "-s -a ADDRESS", "-c -a ADDRESS", seconds=60)


def ucmatose(options):
    def point(pairs):
        for text in pairs.run(f"ucmatose -b ADDRESS -p PORT {options}", f"ucmatose -s ADDRESS -p PORT {options}", seconds=60):
            if "data transfers complete" not in text or "return status 0" not in text:
                raise kit.Failure("no data:\n" + text)
    return point


def perftest(command, seconds=30):
    """The server of UD listens again for the client's second connection, after the client may have asked for it: see
    again()."""
    def point(pairs):
        _, text = pairs.run(f"{command} -R -F -p PORT", f"{command} -R -F -p PORT ADDRESS", seconds=seconds)
        kit.check_perftest(text)
    return again(point) if "-c UD" in command else point


def again(point):
    """perftest's clients connect twice. All but those of ib_write_bw do so at once, and do not wait until the server listens
    again: what they then get, on any device, is a rejection."""
    def patient(pairs):
        for left in range(4, -1, -1):
            try:
                return point(pairs)
            except kit.Failure as failure:
                if not left or not re.search("RDMA_CM_EVENT_REJECTED|RDMA_CM_EVENT_UNREACHABLE|Event rejected|exit status -11", str(failure)):
                    raise
    return patient


def cmtime_text(pairs, connections):
    """What cmtime's client prints. Since rdma-core 50 it also connects queue pairs that do not exist, with numbers that it chooses:
    both sides may be one device, which has each number once."""
    usage = subprocess.run(["cmtime", "-?"], capture_output=True, text=True)
    server, client = ("-q 10000", "-q 20000") if "-q base_qpn" in usage.stdout + usage.stderr else ("", "")
    return pairs.run(f"cmtime -b ADDRESS -p PORT -c {connections} {server}",
                     f"cmtime -s ADDRESS -p PORT -c {connections} {client}", ends=False, seconds=60)[1]


def cmtime(connections):
    """Each step has a time."""
    def point(pairs):
        text = cmtime_text(pairs, connections)
        steps = re.findall(r"^(?:connect|full connect|disconnect|resolve addr)\s*:?\s+([\d.]+)", text, re.M)
        if len(steps) < 3 or not any(float(time) > 0 for time in steps):
            raise kit.Failure("no result in:\n" + text)
    return point


def group(address="239.1.2.3"):
    """The sender waits for 3 s, and at its end not for its datagrams: some may be flushed."""
    return simple(f"mckey -m {address} -b ADDRESS -C 1", f"mckey -m {address} -b OWN -s -C 50", listens=False)


def qperf(tests):
    """qperf's server listens by TCP at 19765, and its data connections by rdma_cm at numbers that the server chooses."""
    def point(pairs):
        if not shutil.which("qperf"):
            raise kit.Skipped("qperf is not installed")
        pairs.port += 1
        server = kit.Program(pairs.daemon, pairs.words("qperf -lp PORT"))
        try:
            kit.await_listening(server, pairs.port, 20)
            # It sends and waits without end when the first of its connections has failed.
            client = pairs.client(f"qperf -lp PORT -cm1 -t 1 ADDRESS {tests}")
            try:
                text = client.finish(10 + 5 * len(tests.split()))
            finally:
                client.kill()
        finally:
            server.kill()
        for test in tests.split():
            if not re.search(rf"^{test}:$", text, re.M):
                raise kit.Failure(f"no result of {test}:\n" + text)
        if re.search(r"=\s+0 ", text) or len(re.findall(r"(?:bw|latency|msg_rate|rate)\s+=", text)) < len(tests.split()):
            raise kit.Failure("a result of nothing:\n" + text)
    return point


# ---- rsockets ----

def finished(text, program):
    """The last line of a table of results has a bandwidth and a time above zero."""
    row = text.split("\n")[1].split() if text.startswith("name") else []
    if len(row) != 8 or float(row[7]) <= 0:
        raise kit.Failure(f"no result of {program} in:\n{text}")
    print(f"# {program}: {row[6]} Gb/s, {row[7]} us")


def stream(program, options):
    """A pair that exchanges messages and ends."""
    def point(pairs):
        _, text = pairs.run(f"{program} -b ADDRESS -p PORT {options}", f"{program} -s ADDRESS -p PORT {options}")
        finished(text, f"{program} {options}")
    return point


def copies(pairs):
    folder = kit.scratch_folder()
    source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
    with open(source, "wb") as file:
        file.write(os.urandom(5000001))
    address = f"[{pairs.address}]" if ":" in pairs.address else pairs.address
    pairs.run("rcopy -p PORT", f"rcopy {source} {address}:{target} -p PORT", ends=False)
    with open(source, "rb") as one, open(target, "rb") as other:
        if one.read() != other.read():
            raise kit.Failure("the copy differs")


def datagrams(options):
    """The server goes on without end, and is no listener of rdma_cm."""
    def point(pairs):
        _, text = pairs.run(f"udpong -b ADDRESS -p PORT {options}", f"udpong -s ADDRESS -p PORT {options}",
                            ends=False, listens=False)
        row = text.split("\n")[1].split() if text.startswith("name") else []
        if len(row) != 7 or float(row[6]) <= 0:
            raise kit.Failure("no result in:\n" + text)
    return point


# ---- programs of sockets, by librspreload ----

class Preloaded(Pairs):
    """Pairs of programs that use sockets, with librspreload in between."""

    def __init__(self, pairs):
        if not os.path.exists(PRELOAD):
            raise kit.Skipped("librspreload is not installed")
        super().__init__(pairs.daemon, f"{PRELOAD} {pairs.listening}", pairs.client_daemon, pairs.address, pairs.own)
        self.of = pairs
        pairs.port += 1
        self.port = pairs.port

    def client(self, command, environment=None):
        return super().client(command, {"LD_PRELOAD": PRELOAD, **(environment or {})})


def went_by_us(before, pairs, due, text):
    got = pairs.received() - before
    if got < due:
        raise kit.Failure(f"the bytes went elsewhere: {got} of {due}:\n{text}")


def forks(pairs):
    """A server that forks for each connection; librspreload connects in the child."""
    preloaded = Preloaded(pairs)
    command = "rstream -T f -T s -p PORT -S 5000 -I 100 -C 10"
    environment = {"RDMAV_FORK_SAFE": "1", "LD_PRELOAD": PRELOAD}
    before = pairs.received()
    server = kit.Program(pairs.daemon, preloaded.words(command + " -b ADDRESS"), environment)
    client = None
    try:
        kit.await_listening(server, preloaded.port, 10)
        client = preloaded.client(command + " -s ADDRESS", environment)
        text = client.finish(20)
    finally:
        server.kill()
        if client:
            client.kill()
    finished(text, "rstream that forks")
    went_by_us(before, pairs, 2 * 5000 * 1000, text)


DATAGRAM_ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
while True:
    s.sendto(*s.recvfrom(2000))
"""

DATAGRAM_CLIENT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
answers = 0
while answers < 50:
    message = b"datagram %d" % answers
    try:
        s.sendto(message, (sys.argv[1], int(sys.argv[2])))
        answers += s.recv(2000) == message
    except (TimeoutError, ConnectionRefusedError):
        pass
print(answers, "answers")
"""


def datagrams_by_preload(pairs):
    """A program with UDP sockets: the library's own sockets are not taken for the program's."""
    preloaded = Preloaded(pairs)
    environment = {"LD_PRELOAD": PRELOAD}
    end = preloaded.words("ADDRESS PORT")
    server = kit.Program(pairs.daemon, ["/usr/bin/python3", "-c", DATAGRAM_ECHO, *end], environment)
    client = kit.Program(pairs.daemon, ["/usr/bin/python3", "-c", DATAGRAM_CLIENT, *end], environment)
    try:
        text = client.finish(30)
    finally:
        server.kill()
        client.kill()
    if "50 answers" not in text:
        raise kit.Failure(f"datagrams by librspreload: {text}")


def iperf3(pairs):
    if not shutil.which("iperf3"):
        raise kit.Skipped("iperf3 is not installed")
    preloaded, before = Preloaded(pairs), pairs.received()
    server = Server(preloaded, preloaded.words("iperf3 -s -1 -p PORT"))
    client = preloaded.client(f"iperf3 -c ADDRESS -p PORT -n {IPERF3_BYTES}")
    try:
        text = client.finish(60)
        server.finish(10)
    finally:
        server.kill()
        client.kill()
    rate = re.search(r"([\d.]+ [GM])bits/sec.*receiver", text)
    if not rate or float(rate.group(1).split()[0]) <= 0:
        raise kit.Failure("no result in:\n" + text + server.text())
    went_by_us(before, pairs, IPERF3_BYTES, text)
    print(f"# iperf3: {rate.group(1)}b/s")


# How a program sends a file to the one that listens. Not nc.openbsd: it calls accept4(), which librspreload leaves to the kernel.
PIPES = {
    "ncat": ("ncat -l ADDRESS PORT", "ncat --send-only ADDRESS PORT"),
    "socat": ("socat -u TCP-LISTEN:PORT,bind=ADDRESS -", "socat -u - TCP:ADDRESS:PORT"),
    "nc.traditional": ("nc.traditional -l -s ADDRESS -p PORT", "nc.traditional -q 0 ADDRESS PORT"),
}


def pipe(program, size=3000001):
    """A file goes through a pair of programs like nc."""
    def point(pairs):
        if not shutil.which(program):
            raise kit.Skipped(program + " is not installed")
        preloaded, before, folder = Preloaded(pairs), pairs.received(), kit.scratch_folder()
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        with open(source, "wb") as file:
            file.write(os.urandom(size))
        listener, sender = PIPES[program]
        # The shell itself runs without librspreload.
        script = 'lib=$LD_PRELOAD; unset LD_PRELOAD; exec env LD_PRELOAD="$lib" '
        server = Server(preloaded, ["sh", "-c", script + " ".join(preloaded.words(listener)) + f" > {target}"])
        client = kit.Program(pairs.client_daemon, ["sh", "-c", f"exec env LD_PRELOAD={PRELOAD} " +
                                                   " ".join(preloaded.words(sender)) + f" < {source}"])
        try:
            client.finish(30)
            server.finish(30)
        except kit.Failure as failure:
            raise kit.Failure(f"{failure}\nserver's side:\n{server.text()}")
        finally:
            server.kill()
            client.kill()
        with open(source, "rb") as one, open(target, "rb") as other:
            if one.read() != other.read():
                raise kit.Failure("the copy differs")
        went_by_us(before, pairs, size, "")
    return point
