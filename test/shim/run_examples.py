#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The example programs over one uroced with a loopback device, and verify with a device that lies. TAP.

usage: run_examples.py --build DIR --liar LIBRARY --raw-send PROGRAM [--quick]"""
import argparse
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import run_rss
import uroce_kit as kit

IPV4, IPV6, IPV4_OF_V1 = 0, 1, 2  # GID indices of the loopback device
SMALL = ("hello_rc", "hello_ud_multicast", "rss_server")
NO_NAME = "x" * 64  # no label of a name is that long, and no server is asked for it

# What the liar says, with which test, and how verify calls it.
LIES = (
    ("imm", "rc_send_imm", "imm_data is"),
    ("flags", "rc_send", "wc_flags is"),
    ("byte_len", "uc_send", "byte_len is"),
    ("opcode", "rc_write_imm", "the completion's opcode is"),
    ("wr_id", "ud_send", "wr_id is"),
    ("qp_num", "rc_send", "the completion's qp_num is"),
    ("status", "rc_srq_write_imm", "a receive completed with IBV_WC_LOC_LEN_ERR"),
    ("data", "rc_send", "is not the one that was sent"),
    ("before", "uc_send_imm", "was overwritten"),
    ("behind", "rc_send", "was overwritten"),
)


def require(condition, text):
    if not condition:
        raise kit.Failure(text)


class Examples:
    def __init__(self, build, daemon, liar, raw_send):
        self.build, self.daemon, self.liar, self.raw_send = build, daemon, liar, raw_send
        self.folder = os.path.join(build.folder, "examples")
        self.names = subprocess.run([self.program("verify"), "--list"], capture_output=True, text=True, check=True,
                                    timeout=20, env=daemon.environment()).stdout.split()

    def program(self, name):
        return os.path.join(self.folder, name)

    def verify(self, *options):
        """Every test passes, at both ends."""
        for text in kit.run_pair(self.daemon, [self.program("verify"), "--json", *options], seconds=120):
            results = json.loads(text)
            require([row["test"] for row in results] == self.names, f"not all of the tests, or others:\n{text}")
            for row in results:
                require(row["result"] == "passed" and row["messages"] > 0, f"{row}")

    def no_size(self):
        """What sends nothing is skipped: datagrams longer than a packet, and windows on no bytes."""
        for size, name in (("4097", "ud_send"), ("0", "rc_mw2_write")):
            for text in kit.run_pair(self.daemon, [self.program("verify"), "--json", "-s", size, "--only", name]):
                row, = json.loads(text)
                require(row["result"] == "skipped" and "none of the sizes" in row["why"], f"{row}")

    def statuses(self):
        """What faults do is the same at both ends and in every run."""
        outputs = []
        for _ in range(2):
            outputs += kit.run_pair(self.daemon, [self.program("verify"), "--statuses", "-g", str(IPV4)])
        lines = outputs[0].splitlines()
        faults = sum(name.startswith("fault_") for name in self.names)
        require(len(lines) == 2 * faults, f"{len(lines)} lines of {faults} faults:\n{outputs[0]}")
        for line in lines:
            names = [word.split("=")[0] for word in line.split()]
            require(names == ["fault", "requester", "client", "server", "client_qp", "server_qp"], line)
        for output in outputs[1:]:
            require(output == outputs[0], f"not the same lines:\n{outputs[0]}\n{output}")

    def hello_rc(self, gid):
        server, client = kit.run_pair(self.daemon, [self.program("hello_rc"), "-g", str(gid)])
        require(server == "received 12 bytes: Hello, RDMA\n", server)
        require(client == "sent: Hello, RDMA\n", client)

    def hello_rc_early(self):
        """The client is there before its server listens, and without one it gives up."""
        port = ["-p", str(kit.free_port())]
        client = kit.Program(self.daemon, [self.program("hello_rc"), *port, "127.0.0.1"])
        server = None
        try:
            kit.wait_until(lambda: any(row["pid"] == client.process.pid for row in self.daemon.show("clients")), 10, "the client's device")
            server = kit.Program(self.daemon, [self.program("hello_rc"), *port])
            require(client.finish(20) == "sent: Hello, RDMA\n", client.text())
            require(server.finish(20) == "received 12 bytes: Hello, RDMA\n", server.text())
        finally:
            client.kill()
            if server is not None:
                server.kill()
        alone = subprocess.run([self.program("hello_rc"), *port, "127.0.0.1"], capture_output=True, text=True, timeout=20,
                               env=self.daemon.environment())
        require(alone.returncode == 1 and alone.stderr == "hello_rc: connect: Connection refused\n", f"{alone}")

    def hello_ud_multicast(self, gid):
        command = [self.program("hello_ud_multicast"), "-g", str(gid)]
        members = [kit.Program(self.daemon, command) for _ in range(2)]
        try:
            for member in members:
                kit.wait_until(lambda: member.text().startswith("joined"), 30, "joining the group")
            require(kit.Program(self.daemon, command + ["to all"]).finish(30).startswith("sent to"), "not sent")
            for member in members:
                text = member.finish(30)
                require("received 7 bytes from queue pair" in text and "to all" in text, text)
        finally:
            for member in members:
                member.kill()

    def rss_server(self):
        run_rss.on_loopback(self.build, self.daemon, self.raw_send, 0)

    def with_liar(self, lie, test, due):
        """The server's device lies. Both ends must end with status due; returns what they print."""
        port = str(kit.free_port())
        command = [self.program("verify"), "--only", test, "-s", "64,65,66,2000", "-n", "10", "-p", port]
        server = kit.Program(self.daemon, command, {"LD_PRELOAD": self.liar, "LIE": lie})
        client = None
        try:
            kit.await_listening(server, int(port), 30)
            client = kit.Program(self.daemon, command + ["127.0.0.1"])
            for side in (client, server):
                status = side.process.wait(60)
                require(status == due, f"exit status {status}:\n{side.text()}")
            return client.text(), server.text()
        finally:
            server.kill()
            if client is not None:
                client.kill()

    def notices(self, lie, test, complaint):
        for text in self.with_liar(lie, test, 1):
            require(complaint in text, text)

    def tries_again(self):
        for text in self.with_liar("lose", "uc_send", 0):
            require("(1 lost)" in text and "1 passed" in text, text)

    def peer_vanishes(self):
        """The one that is left says so and ends, soon."""
        port = str(kit.free_port())
        command = [self.program("verify"), "--only", "rc_write", "-s", "65536", "-n", "1000000", "-p", port]
        server = kit.Program(self.daemon, command)
        client = None
        try:
            kit.await_listening(server, int(port), 30)
            client = kit.Program(self.daemon, command + ["127.0.0.1"])
            kit.wait_until(lambda: "path MTU" in server.text(), 30, "the test's beginning")
            client.kill()
            status = server.process.wait(15)
            require(status == 1 and "peer" in server.text(), f"exit status {status}:\n{server.text()}")
        finally:
            server.kill()
            if client is not None:
                client.kill()

    def by_hand(self):
        """As a reader compiles them: without options."""
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
        folder = kit.scratch_folder()
        for name in SMALL:
            self.compile(os.path.join(folder, name), [os.path.join(source, name + ".c")])
        self.compile(os.path.join(folder, "verify"), sorted(glob.glob(os.path.join(source, "verify", "*.c"))))

    @staticmethod
    def compile(program, files):
        done = subprocess.run(["gcc", "-Wall", "-Werror", "-o", program, *files, "-libverbs"], capture_output=True, text=True, timeout=100)
        require(done.returncode == 0, f"{program}: {done.stderr}")

    def wrong_usage_of_small_ones(self):
        for name in SMALL:
            for options, status, text in ((["-x"], 2, f"usage: {name} "), (["-d", "none"], 1, f"{name}: there is no RDMA device none\n"),
                                          (["1", "2", "3"], 2, f"usage: {name} "),
                                          (["-n" if name == "rss_server" else "-g", "2x"], 2, f"usage: {name} "),
                                          (["-M" if name == "hello_ud_multicast" else "-p", "70000"], 2, name)):
                out = subprocess.run([self.program(name), *options], capture_output=True, text=True, timeout=20, env=self.daemon.environment())
                require(out.returncode == status and text in out.stderr, f"{name} {options}: exit status {out.returncode}: {out.stderr}")
        out = subprocess.run([self.program("hello_rc"), NO_NAME], capture_output=True, text=True, timeout=20, env=self.daemon.environment())
        require(out.returncode == 1 and f"hello_rc: {NO_NAME}: " in out.stderr, f"a host that there is not: {out}")

    def wrong_usage(self):
        for options, status in ((["--types", "rd"], 2), (["-m", "1000"], 2), (["-s", "1,x"], 2), (["a", "b"], 2),
                                (["--nothing"], 2), (["-d", "none"], 1), (["-g", "4000"], 1), (["--help"], 0)):
            out = subprocess.run([self.program("verify"), *options], capture_output=True, text=True, timeout=20,
                                 env=self.daemon.environment())
            require(out.returncode == status and (out.stdout if status == 0 else out.stderr),
                    f"{options}: exit status {out.returncode}: {out.stderr}")


def rows(examples, quick):
    sweeps = [(IPV4, 4096, 1)] if quick else [(IPV4, 4096, 2), (IPV4, 256, 1), (IPV4, 1024, 1), (IPV6, 512, 1),
                                              (IPV6, 2048, 1), (IPV4_OF_V1, 1024, 1)]
    for gid, mtu, rounds in sweeps:
        options = ["-g", str(gid), "-m", str(mtu), "-n", str(rounds), "--seed", str(mtu)]
        yield "verify " + " ".join(options), lambda options=options: examples.verify(*options)
    for gid in (IPV4, IPV6):
        yield f"hello_rc -g {gid}", lambda gid=gid: examples.hello_rc(gid)
        yield f"hello_ud_multicast -g {gid}", lambda gid=gid: examples.hello_ud_multicast(gid)
    if os.geteuid() == 0:  # raw packets take CAP_NET_RAW
        yield "rss_server", examples.rss_server
    if quick:
        return
    yield "hello_rc: the client first", examples.hello_rc_early
    yield "verify: sizes that suit no message", examples.no_size
    yield "verify --statuses: the same at both ends, twice", examples.statuses
    for lie in LIES:
        yield f"verify notices a lie about {lie[0]}", lambda lie=lie: examples.notices(*lie)
    yield "verify tries again what an unreliable service loses", examples.tries_again
    yield "verify without its peer", examples.peer_vanishes
    yield "verify: wrong usage", examples.wrong_usage
    yield "the others: wrong usage", examples.wrong_usage_of_small_ones
    yield "compiled by hand", examples.by_hand


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--liar", required=True)
    options.add_argument("--raw-send", required=True)
    options.add_argument("--quick", action="store_true", help="few, for a daemon built with sanitizers")
    arguments = options.parse_args()
    kit.die_on_signals()
    build = kit.Build(arguments.build)
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        examples = Examples(build, daemon, os.path.abspath(arguments.liar), os.path.abspath(arguments.raw_send))
        points = list(rows(examples, arguments.quick))
        tap = kit.Tap(len(points) + 2)
        for name, function in points:
            tap.point(name, function)
        tap.point("uroced is still there", lambda: require(daemon.alive(), "it is gone:\n" + daemon.log()))
    finally:
        status = daemon.stop()
    tap.point("uroced ends with status 0 when told to", lambda: require(status == 0, f"{status}:\n{daemon.log()}"))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
