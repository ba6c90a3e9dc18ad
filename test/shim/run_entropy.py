#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Source ports of a running daemon: `uroce entropy --running` has the flows that its queue pairs have, and a policy of
a queue pair's own is what its packets have on the wire. TAP.

usage: run_entropy.py --build DIR TEST_VERBS"""
import argparse
import json
import os
import re
import struct
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

FOREVER = "100000000"  # iterations; the programs are ended


def entropy(build, daemon, *arguments):
    return subprocess.run([build.uroce, "entropy", "--running", "--socket", daemon.socket, *arguments],
                          capture_output=True, text=True, timeout=20)


def without_flows(build, daemon):
    run = entropy(build, daemon)
    if run.returncode != 1 or "no flows" not in run.stderr or run.stdout:
        raise kit.Failure(f"status {run.returncode}: {run.stdout}{run.stderr}")


def connected(daemon):
    return [qp for qp in daemon.show("qps") if qp["state"] == "RTS"]


def compare(build, daemon, folder):
    """What it says of the running queue pairs is what it says of the same ones in a file."""
    qps = connected(daemon)
    if len(qps) != 2 or {qp["qpn"] for qp in qps} != {qp["dest_qpn"] for qp in qps}:
        raise kit.Failure(f"not a pair of queue pairs: {qps}")
    name = os.path.join(folder, "flows")
    with open(name, "w") as file:
        for qp in qps:
            print(qp["qpn"], qp["dest_qpn"], qp["sgid"], qp["dgid"], file=file)
    running = entropy(build, daemon, "--json")
    listed = subprocess.run([build.uroce, "entropy", "--file", name, "--json"], capture_output=True, text=True,
                            timeout=20)
    if running.returncode or listed.returncode or running.stdout != listed.stdout:
        raise kit.Failure(f"{running.stderr}{listed.stderr}not the same:\n{running.stdout}\n{listed.stdout}")
    for spread in json.loads(running.stdout)["spreads"]:
        # Both ends are on one host and agree on the port: nothing tells the directions apart.
        if spread["same_port"] != 2 or spread["ports"] != 1:
            raise kit.Failure(f"two ports: {spread}")


def of_programs(build, daemon, folder):
    port = kit.free_port()
    command = ["ibv_rc_pingpong", "-g", "0", "-n", FOREVER, "-p", str(port)]
    server = kit.Program(daemon, command)
    client = None
    try:
        kit.await_listening(server, port, 30)
        client = kit.Program(daemon, command + ["127.0.0.1"])
        kit.wait_until(lambda: len(connected(daemon)) == 2, 30, "both queue pairs connected")
        compare(build, daemon, folder)
    finally:
        server.kill()
        if client:
            client.kill()


# ---- policies of single queue pairs ----

def port_kernel(a, b):
    product = a * b
    product ^= product >> 20
    product ^= product >> 40
    label = product & 0xFFFFF
    return (label & 0x3FFF) ^ (label >> 14) | 0xC000


def port_rfc(a, b):
    a, b = (n & 0xFFFF ^ n >> 16 for n in (a, b))
    return (a if a == b else a ^ b) | 0xC000


def icrc(frame):
    """Of a RoCEv2 frame over IPv4, as it is on the wire."""
    masked = bytearray(b"\xff" * 8 + frame[14:-4])
    for at in (9, 16, 18, 19, 34, 35, 40):  # behind the ones: TOS, TTL, both checksums, the BTH's reserved byte
        masked[at] = 0xFF
    return struct.pack("<I", zlib.crc32(masked))


def frames(name):
    """Of a capture's frames, whose ICRC is right although they were on no wire: source port, destination queue pair, transport opcode, and payload (of SENDs)."""
    with open(name, "rb") as file:
        data = file.read()
    at = 24
    while at < len(data):
        length, = struct.unpack_from("<I", data, at + 8)
        frame = data[at + 16:at + 16 + length]
        at += 16 + length
        sport, dport = struct.unpack_from(">HH", frame, 34)
        if frame[12:14] != b"\x08\0" or frame[23] != 17 or dport != 4791:
            raise kit.Failure(f"what is that? {frame.hex()}")
        if icrc(frame) != frame[-4:]:
            raise kit.Failure(f"its ICRC should be {icrc(frame).hex()}: {frame.hex()}")
        yield sport, int.from_bytes(frame[47:50], "big"), frame[42], frame[62 if frame[42] == UD_SEND else 54:]


RC_SEND, RC_ACK, UD_SEND = 0x04, 0x11, 0x64
POLICIES = ("kernel", "rfc", "spray", "fixed", "port's")  # as policies_on_the_wire has them


class Wire:
    """What test_verbs sent with each policy."""

    def __init__(self, build, folder, program):
        self.capture = os.path.join(folder, "wire.pcap")
        configuration = os.path.join(folder, "wire.ini")
        with open(configuration, "w") as file:
            print(f"[port.0]\ndevice = loopback\ncapture = {self.capture}", file=file)
        self.daemon = kit.Daemon(build, folder, "wire", arguments=("-c", configuration))
        try:
            text = kit.Program(self.daemon, [program, "policies-on-the-wire"]).finish(30)
        finally:
            self.daemon.stop()
        self.a, self.b, self.ud, self.silent = map(int, text.split())
        self.ports = {}  # by policy and what was sent: the frames' source ports
        self.read()

    def read(self):
        number = None
        for sport, dest, opcode, payload in frames(self.capture):
            if opcode in (RC_SEND, UD_SEND):
                number = payload[0]
            source = {self.b: "a", self.a: "b", self.silent: "ud"}[dest]
            kind = {RC_SEND: " send", RC_ACK: " ack", UD_SEND: ""}[opcode]
            self.ports.setdefault((number, source + kind), []).append(sport)

    def of(self, policy, what):
        return self.ports[POLICIES.index(policy), what]

    def connection(self):
        kernel, rfc = port_kernel(self.a, self.b), port_rfc(self.a, self.b)
        if kernel == rfc:
            raise kit.Failure("numbers that show nothing")
        for what in ("a send", "a ack"):
            expect("before", set(self.ports[len(POLICIES), what]), {kernel})
            expect("by libmlx5", set(self.ports[len(POLICIES) + 1, what]), {50606})
        for policy, wanted in (("kernel", kernel), ("rfc", rfc), ("fixed", 50505), ("port's", kernel)):
            for what in ("a send", "a ack"):
                expect(f"{policy}, {what}", set(self.of(policy, what)), {wanted})
        sprayed, = {frozenset(self.of("spray", what)) for what in ("a send", "a ack")}
        if len(sprayed) != 1 or sprayed & {kernel, rfc, 50505} or min(sprayed) < 0xC000:
            raise kit.Failure(f"spray: {sprayed}")

    def peer(self):
        for policy in POLICIES:
            for what in ("b send", "b ack"):
                expect(f"{policy}, {what}", set(self.of(policy, what)), {port_kernel(self.a, self.b)})

    def datagrams(self):
        kernel, rfc = port_kernel(self.ud, self.silent), port_rfc(self.ud, self.silent)
        for policy, wanted in (("kernel", kernel), ("rfc", rfc), ("fixed", 50505), ("port's", kernel)):
            expect(policy, self.of(policy, "ud"), [wanted] * 8)
        expect("ports of `spray`", len(set(self.of("spray", "ud"))), 8)


def expect(what, got, wanted):
    if got != wanted:
        raise kit.Failure(f"{what}: {got}, not {wanted}")


# ---- the environment variable ----

def pingpong(daemon, name, policy):
    kit.run_pair(daemon, [name, "-g", "0", "-n", "50", "-s", "512"], extra_environment={"UROCE_ENTROPY": policy})


def unmodified(build, folder):
    capture, configuration = os.path.join(folder, "unmodified.pcap"), os.path.join(folder, "unmodified.ini")
    with open(configuration, "w") as file:
        print(f"[port.0]\ndevice = loopback\nentropy = rfc\ncapture = {capture}", file=file)
    daemon = kit.Daemon(build, folder, "unmodified", arguments=("-c", configuration))
    try:
        pingpong(daemon, "ibv_rc_pingpong", "fixed:0xcafe")
        pingpong(daemon, "ibv_uc_pingpong", "fixed:0xcaff")
        pingpong(daemon, "ibv_ud_pingpong", "spray")
    finally:
        daemon.stop()
    ports = {}
    for sport, _, opcode, _ in frames(capture):
        ports.setdefault(opcode >> 5, set()).add(sport)
    expect("RC", ports[0], {0xCAFE})
    expect("UC", ports[1], {0xCAFF})
    if len(ports[3]) < 50:
        raise kit.Failure(f"UD: {len(ports[3])} ports")


def shown(build, daemon):
    """A queue pair's own policy is in `uroce show qps`, and the port's is not."""
    port = kit.free_port()
    command = ["ibv_rc_pingpong", "-g", "0", "-n", FOREVER, "-p", str(port)]
    server = kit.Program(daemon, command, {"UROCE_ENTROPY": "fixed:0xcafe"})
    client = None
    try:
        kit.await_listening(server, port, 30)
        client = kit.Program(daemon, command + ["127.0.0.1"])
        kit.wait_until(lambda: len(connected(daemon)) == 2, 30, "both queue pairs connected")
        rows = {qp["pid"]: (qp.get("entropy"), qp["udp_sport"] == 0xCAFE) for qp in connected(daemon)}
        expect("queue pairs", rows, {server.process.pid: ("fixed:51966", True), client.process.pid: (None, False)})
    finally:
        server.kill()
        if client:
            client.kill()


NONSENSE = (("UROCE_ENTROPY", "sprayed", "fixed:PORT"), ("UROCE_MR", "mapped", "none of copy, big, auto (the default)"),
            ("UROCE_PLACE", "here", "neither stay nor auto (the default)"),
            *(("UROCE_VENDOR_PART_ID", value, "no number of 32 bits (by default 0)") for value in ("foo", "4119x", "-1", "4294967296")))


def nonsense(daemon):
    """Of every variable one line says it, and what follows."""
    for variable, value, sentence in NONSENSE:
        run = subprocess.run(["ibv_rc_pingpong", "-g", "0"], capture_output=True, text=True, timeout=20,
                             env=daemon.environment({variable: value}))
        said = [line for line in run.stderr.splitlines() if line.startswith(f"uroce: {variable}={value} is ")]
        if run.returncode != 1 or len(said) != 1 or sentence not in said[0] or not said[0].endswith(": no device can be opened"):
            raise kit.Failure(f"{variable}={value}: status {run.returncode}: {run.stderr}")
    run = subprocess.run(["ibv_devinfo"], capture_output=True, text=True, timeout=20, env=daemon.environment({"UROCE_VENDOR_PART_ID": "0x1017"}))
    if run.returncode or not re.search(r"vendor_part_id:\s+4119\n", run.stdout):
        raise kit.Failure(f"a device id: {run}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("program")
    arguments = parser.parse_args()
    build = kit.Build(arguments.build)
    kit.die_on_signals()
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder)
    try:
        tap = kit.Tap(8)
        tap.point("a daemon without queue pairs has no flows", lambda: without_flows(build, daemon))
        tap.point("the flows of a daemon", lambda: of_programs(build, daemon, folder))
        wire = Wire(build, folder, arguments.program)
        tap.point("a connection's own policy, on the wire", wire.connection)
        tap.point("nothing changes for the peer", wire.peer)
        tap.point("a policy for datagrams, on the wire", wire.datagrams)
        tap.point("unmodified programs with UROCE_ENTROPY", lambda: unmodified(build, folder))
        tap.point("a queue pair's own policy is shown", lambda: shown(build, daemon))
        tap.point("variables that make no sense", lambda: nonsense(daemon))
    finally:
        daemon.stop()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
