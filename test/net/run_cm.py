#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections by rdma_cm between two uroced in two network namespaces, which have two ports each: one on a veth pair, one
over a relay that can lose messages. TAP; needs root and is skipped without.

usage: run_cm.py --build DIR [--match TEXT] [--long]"""
import contextlib
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import relay
import uroce_kit as kit
import uroce_net as net
from run_net import Capture, both_alive, checker_agrees, dissect_agrees, no_bad_frame

MTU = 1500
VLAN = 5
READY_SECONDS = 20
RUN_SECONDS = 20
# On the relay's wire, of no host.
ABSENT = "10.76.0.99"
KERNELS = "10.77.0.99"
PORT, UNUSED_PORT = 7471, 7999
TCP_PORTS = 0x1060000  # service IDs of RDMA_PS_TCP
NAMES = {0x10: "REQ", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ", 0x18: "SIDR_REP"}
REQ, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP = NAMES
# Not REQ or REP with RTU: after a lost REP both ends repeat their message at once, the client may answer one of them by an MRA,
# and a lost RTU is then missed only when the time is over that the MRA asked for, 69 s.
LOST = (REQ, RTU, SIDR_REQ), (REP,)
# How long a request without an answer takes: 16 of them, with 4.1 s and twice the packet life time of 1 s after each.
UNREACHABLE_SECONDS = 16 * 6.144


class Relayed:
    """A second pair of interfaces between the ends of a wire, with the relay in a namespace of its own between them."""

    def __init__(self, wire, tag=None):
        self.wire = wire
        self.namespace = f"uroce-{tag or os.getpid()}-relay"
        self.process = None

    def __enter__(self):
        net.ip("netns", "add", self.namespace)
        try:
            for end in self.wire.ends:
                inside = ("-n", end.namespace)
                net.ip("link", "add", self.interface(end), "netns", end.namespace, "address", self.mac(end), "type", "veth",
                       "peer", "name", self.interface(end), "netns", self.namespace)
                net.ip("-n", self.namespace, "link", "set", self.interface(end), "addrgenmode", "none", "mtu", str(MTU), "up")
                net.ip(*inside, "link", "set", self.interface(end), "mtu", str(MTU), "up")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        subprocess.run(["ip", "netns", "del", self.namespace], capture_output=True)

    def start(self, *lose):
        """It loses the first message that each end sends with one of the attribute IDs."""
        self.stop()
        command = ["ip", "netns", "exec", self.namespace, sys.executable, os.path.join(HERE, "relay.py"),
                   *(self.interface(end) for end in self.wire.ends)]
        if lose:
            command.append(",".join(map(str, lose)))
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise kit.Failure("the relay does not start")

    def stop(self):
        """Returns the names of the lost messages."""
        if self.process is None:
            return []
        kit.end(self.process)
        lost = self.process.stdout.read().split()[1::2]
        self.process = None
        return sorted(int(name, 16) for name in lost)

    @staticmethod
    def interface(end):
        return f"relayed{end.number}"

    @staticmethod
    def mac(end):
        return f"02:00:00:00:76:0{end.number}"

    @staticmethod
    def address(end):
        return f"10.76.0.{end.number}"


def tagged(end, version):
    return f"10.78.0.{end.number}" if version == 4 else f"fd78::{end.number}"


def link_local(end):
    return f"fe80::77:{end.number}"


# dumpcap and the relay are packet sockets, which see long frames before they are cut.
WHOLE = "segmentation = no"


def configuration(end, peer):
    addresses = (end.ipv4 + "/24", end.ipv6 + "/64", link_local(end) + "/64",
                 f"{tagged(end, 4)}/24 vlan {VLAN}", f"{tagged(end, 6)}/64 vlan {VLAN}")
    neighbours = (peer.ipv4, peer.ipv6, link_local(peer), tagged(peer, 4), tagged(peer, 6))
    lines = ["[port.0]", f"device = packet,iface={end.interface}", WHOLE, f"mtu = {MTU}", "dad = no"]
    lines += [f"address.{n} = {address}" for n, address in enumerate(addresses)]
    lines += [f"neighbour.{n} = {address} {peer.mac}" for n, address in enumerate(neighbours)]
    lines += ["[port.1]", f"device = packet,iface={Relayed.interface(end)}", WHOLE, f"mtu = {MTU}",
              f"address.0 = {Relayed.address(end)}/24"]
    return "\n".join(lines) + "\n"


class Network:
    """Both uroced, and the wires; a context manager."""

    def __init__(self, build):
        self.build = build
        self.folder = kit.scratch_folder()
        self.stack = contextlib.ExitStack()
        self.daemons = []

    def __enter__(self):
        try:
            self.wire = self.stack.enter_context(net.Wire(MTU))
            self.relay = self.stack.enter_context(Relayed(self.wire))
            for end, peer in (self.wire.ends, self.wire.ends[::-1]):
                path = os.path.join(self.folder, f"uroced{end.number}.ini")
                with open(path, "w") as file:
                    file.write(configuration(end, peer))
                self.daemons.append(kit.Daemon(self.build, self.folder, name=f"uroced{end.number}", arguments=("-c", path),
                                               namespace=end.namespace))
        except BaseException:
            self.__exit__()
            raise
        self.server_end, self.client_end = self.wire.ends
        return self

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.stop()
        self.stack.close()

    def server(self, command):
        program = kit.Program(self.daemons[0], command.split())
        kit.await_cm_listening(self.daemons[0], program, READY_SECONDS)
        return program

    def client(self, command):
        return kit.Program(self.daemons[1], command.split())

    def run(self, server, *clients, seconds=RUN_SECONDS):
        """A server, and its clients one after the other, which all end well. All outputs."""
        programs = [self.server(server)]
        try:
            for client in clients:
                programs.append(self.client(client))
                programs[-1].finish(seconds)
            return [program.finish(seconds) for program in programs]
        except kit.Failure as failure:
            raise kit.Failure("\n".join([str(failure), *(program.text() for program in programs)]))
        finally:
            for program in programs:
                program.kill()

    def status(self, command, seconds):
        """Of a client: its exit status, output and time."""
        program = self.client(command)
        began = time.monotonic()
        try:
            return program.process.wait(seconds), program.text(), time.monotonic() - began
        except subprocess.TimeoutExpired:
            raise kit.Failure(f"{command}: not done after {seconds} s:\n{program.text()}")
        finally:
            program.kill()


# ---- programs that connect ----

def programs(network, own, peer):
    """rping, ucmatose and udaddy, the server at the address own, as its clients call it peer."""
    for text in network.run(f"rping -s -a {own} -C 5 -v", f"rping -c -a {peer} -C 5 -v"):
        if re.findall(r"rdma-ping-(\d+):", text) != list("01234"):
            raise kit.Failure("other pings than were due:\n" + text)
    for program in ("ucmatose", "udaddy"):
        for text in network.run(f"{program} -c 5 -b {own}", f"{program} -c 5 -s {peer}"):
            if "data transfers complete" not in text:
                raise kit.Failure(f"{program}: no data:\n{text}")


def two_ports(network):
    """A listener at a wildcard address hears both ports, and each connection is on the port that it came by."""
    ends = network.server_end
    server = network.server("rping -s -P -a 0.0.0.0")
    try:
        for address in (ends.ipv4, Relayed.address(ends)):
            client = network.client(f"rping -c -a {address} -C 5 -v")
            try:
                client.finish(RUN_SECONDS)
            except kit.Failure as failure:
                raise kit.Failure(f"{failure}\n{server.text()}")
            finally:
                client.kill()
    finally:
        server.kill()


def one_host(network):
    """Two programs of one host find each other by each of its addresses, of both ports."""
    end, daemon = network.server_end, network.daemons[0]
    addresses = [end.ipv4, end.ipv6, f"{link_local(end)}%{end.interface}", tagged(end, 4), tagged(end, 6), Relayed.address(end)]
    for address in addresses:
        for at in dict.fromkeys((address, "::" if ":" in address else "0.0.0.0")):
            server = network.server(f"rping -s -a {at} -C 5 -v")
            client = kit.Program(daemon, f"rping -c -a {address} -C 5 -v".split())
            try:
                for program in (client, server):
                    if re.findall(r"rdma-ping-(\d+):", program.finish(RUN_SECONDS)) != list("01234"):
                        raise kit.Failure("other pings than were due:\n" + program.text())
            except kit.Failure as failure:
                raise kit.Failure(f"{address}, the server at {at}: {failure}\nserver's side:\n{server.text()}")
            finally:
                server.kill()
                client.kill()


# ---- what goes wrong ----

def expect(network, command, seconds, status, text):
    found, said, took = network.status(command, seconds)
    if found != status or text not in said:
        raise kit.Failure(f"{command}: exit status {found} after {took:.1f} s, not {status} and \"{text}\":\n{said}")
    return took


def no_listener(network):
    address = network.server_end.ipv4
    expect(network, f"ucmatose -s {address} -p {UNUSED_PORT}", 2, 8, "RDMA_CM_EVENT_REJECTED, error: 8")
    expect(network, f"udaddy -s {address}", 2, 1, "RDMA_CM_EVENT_UNREACHABLE, error: 1")


def no_host(network):
    """ucmatose waits for 2 s for an address to be resolved."""
    expect(network, f"ucmatose -s {ABSENT}", 5, 256 - 110, "RDMA_CM_EVENT_ADDR_ERROR, error: -110")


def unreachable(network):
    """An address that the kernel answers for, and no uroced."""
    end = network.server_end
    net.ip("-n", end.namespace, "address", "add", KERNELS + "/32", "dev", end.interface)
    took = expect(network, f"ucmatose -s {KERNELS}", UNREACHABLE_SECONDS + 20, 256 - 110,
                  "RDMA_CM_EVENT_UNREACHABLE, error: -110")
    if not UNREACHABLE_SECONDS - 1 <= took <= UNREACHABLE_SECONDS + 5:
        raise kit.Failure(f"after {took:.1f} s, not {UNREACHABLE_SECONDS}")


def disconnects(daemon):
    """How many messages it got of the end of a connection: who ends it answers the other."""
    received = daemon.show()["cm"]["rx"]
    return received["DREQ"] + received["DREP"]


def killed(network, victim):
    """The program at the other end is told at once, though the killed one said nothing. rping may first hear of it by the
    RDMA READ or WRITE that it was at."""
    address = network.server_end.ipv4
    server = network.server(f"rping -s -a {address}")
    client = network.client(f"rping -c -a {address}")
    try:
        for daemon, program in zip(network.daemons, (server, client)):
            kit.wait_until(lambda d=daemon, p=program: any(
                row["pid"] == p.process.pid and row["state"] == "ESTABLISHED" for row in d.show("cm_ids")), READY_SECONDS,
                "connected")
        dies, stays = (server, client) if victim == "server" else (client, server)
        other = network.daemons[1 if victim == "server" else 0]
        before = disconnects(other)
        dies.kill()
        try:
            stays.process.wait(2)
        except subprocess.TimeoutExpired:
            raise kit.Failure("the other one still runs:\n" + stays.text())
        if "DISCONNECT EVENT" not in stays.text() and "cq completion failed" not in stays.text():
            raise kit.Failure("the other one was not disconnected:\n" + stays.text())
        kit.wait_until(lambda: disconnects(other) > before, 2, "the message that ends the connection")
    finally:
        server.kill()
        client.kill()


def losses(network, messages):
    """Of each kind the first is lost: the connections take longer, and are made. The answer to a SIDR_REQ is not repeated: to
    udaddy's server the next request is one too many."""
    address = Relayed.address(network.server_end)
    network.relay.start(*messages)
    servers, clients = [], []
    try:
        for program in ("ucmatose", "udaddy"):
            servers.append(network.server(f"{program} -b {address}"))
            clients.append(network.client(f"{program} -s {address}"))
        for program in clients + servers:
            program.finish(RUN_SECONDS)
        lost = network.relay.stop()
    finally:
        for program in clients + servers:
            program.kill()
        network.relay.start()
    if lost != sorted(messages):
        raise kit.Failure(f"lost {lost}, not {messages}")


# ---- the wire ----

FIELDS = ("ip.src", "infiniband.bth.destqp", "infiniband.deth.q_key", "infiniband.deth.srcqp", "infiniband.mad.attributeid",
          "infiniband.cm.req.serviceid", "infiniband.cm.req.ip_cm.sip4", "infiniband.cm.req.ip_cm.dip4",
          "infiniband.cm.rej.reason", "_ws.malformed")


CAPTURED = 11  # messages


def captured(network, path):
    capture = Capture(network.server_end, path)
    address = network.server_end.ipv4
    try:
        network.run(f"ucmatose -c 1 -p {PORT}", f"ucmatose -c 1 -s {address} -p {PORT}")
        network.run("udaddy -c 1", f"udaddy -c 1 -s {address}")
        no_listener(network)
        kit.wait_until(lambda: sum(relay.attribute(frame) is not None for frame in capture.frames()) == CAPTURED, 5,
                       "dumpcap has written the messages")
    finally:
        capture.stop()


def tshark_reads(network, path):
    """The messages are in order, to and from queue pair 1, and say their packets' addresses."""
    result = subprocess.run(["tshark", "-r", path, "-Y", "infiniband.mad.mgmtclass == 7", "-T", "fields",
                             "-o", "infiniband.try_heuristic_first:FALSE"] + [w for f in FIELDS for w in ("-e", f)],
                            capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise kit.Failure("tshark: " + result.stderr)
    server, client = network.server_end.ipv4, network.client_end.ipv4
    seen = []
    for line in result.stdout.splitlines():
        values = (line.split("\t") + [""] * len(FIELDS))[:len(FIELDS)]
        source, to, key, of, message, service, asker, asked, reason, bad = values
        kind = int(message, 16)
        seen.append((source, kind))
        if bad or int(to, 16) != 1 or int(of, 16) != 1 or int(key, 16) != 0x80010000:
            raise kit.Failure("not between queue pairs 1: " + line)
        if kind == REQ and ((asker, asked) != (client, server) or int(service, 16) - TCP_PORTS not in (PORT, UNUSED_PORT)):
            raise kit.Failure("another request: " + line)
        if kind == REJ and int(reason, 16) != 8:
            raise kit.Failure("another reason: " + line)
    due = [(client, REQ), (server, REP), (client, RTU), (server, DREQ), (client, DREP), (client, SIDR_REQ), (server, SIDR_REP),
           (client, REQ), (server, REJ), (client, SIDR_REQ), (server, SIDR_REP)]
    if seen != due or len(seen) != CAPTURED:
        raise kit.Failure(f"messages: {[(source, NAMES.get(kind, kind)) for source, kind in seen]}")


def points(network, build, long):
    server, client = network.server_end, network.client_end
    path = os.path.join(network.folder, "wire.pcap")
    yield "IPv4", lambda: programs(network, server.ipv4, server.ipv4)
    yield "IPv6", lambda: programs(network, server.ipv6, server.ipv6)
    yield "link-local addresses, with scopes", lambda: programs(network, f"{link_local(server)}%{server.interface}",
                                                               f"{link_local(server)}%{client.interface}")
    for version in (4, 6):
        yield f"IPv{version}, in a VLAN", lambda v=version: programs(network, tagged(server, v), tagged(server, v))
    yield "a wildcard address, two ports", lambda: two_ports(network)
    yield "two programs of one host, by each of its addresses", lambda: one_host(network)
    yield "no listener", lambda: no_listener(network)
    yield "no such host", lambda: no_host(network)
    for victim in ("server", "client"):
        yield f"the {victim} is killed", lambda v=victim: killed(network, v)
    for messages in LOST:
        names = ", ".join(NAMES[kind] for kind in messages)
        yield f"the first {names} is lost", lambda m=messages: losses(network, m)
    yield "programs while dumpcap listens", lambda: captured(network, path)
    yield "tshark reads the messages", lambda: tshark_reads(network, path)
    yield "zlib computes the same ICRCs", lambda: checker_agrees(path)
    yield "uroce dissect finds no fault", lambda: dissect_agrees(build, path)
    yield "no frame was dropped for its contents", lambda: no_bad_frame(network.daemons)
    if long:
        yield "a host without uroced", lambda: unreachable(network)


def main():
    arguments = net.start("ip", "dumpcap", "tshark", "rping", more=[("--long", {"action": "store_true"})])
    build = kit.Build(arguments.build)
    with Network(build) as network:
        chosen = [point for point in points(network, build, arguments.long) if arguments.match in point[0]]
        tap = kit.Tap(len(chosen) + 1)
        for name, function in chosen:
            def point(function=function):
                function()
                both_alive(network.daemons)
            tap.point(name, point)
        statuses = [daemon.stop() for daemon in network.daemons]

        def ended():
            if statuses != [0, 0]:
                raise kit.Failure(f"exit statuses {statuses}:\n" + "\n".join(d.log() for d in network.daemons))
        tap.point("both uroced end well", ended)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
