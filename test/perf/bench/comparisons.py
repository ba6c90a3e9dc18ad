# SPDX-License-Identifier: BSD-3-Clause
"""The comparisons and their targets."""
import contextlib
import os
import shutil
import sys

import programs
from figures import Result, Target

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kit"))
import uroce_kit as kit
import uroce_net as net

# Ethernet, IPv4, UDP, BTH, ICRC; the first packet of a message has an RETH of 16 bytes as well.
ROCE_OVERHEAD = 14 + 20 + 8 + 12 + 4
BUDGETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "budgets.py")
MEMIF_MTU = 1500
MEMIF_PATH_MTU = 1024
MEMIF_FRAME = MEMIF_PATH_MTU + ROCE_OVERHEAD


class Settings:
    """The command line's settings for all measurements."""

    def __init__(self, build, folder, quick):
        self.build = build
        self.folder = folder
        self.quick = quick
        self.seconds = 1 if quick else 2
        # For perftest: -D does not count a part of the time at both ends.
        self.long = "-n 3000" if quick else "-D 2"
        self.round_trips = 2000 if quick else 5000
        self.perf_seconds = 0.1 if quick else 1


class Comparison:
    """ours and theirs are (command, function of the rig, which returns a number), theirs None without another side."""

    def __init__(self, name, title, unit, ours, theirs=None, other="", targets=(), needs=(), once=False):
        self.name = name
        self.title = title
        self.unit = unit
        self.ours = ours
        self.theirs = theirs
        self.other = other
        self.targets = targets
        self.needs = needs
        self.once = once  # every round gives the same value

    def result(self):
        commands = [self.ours[0], self.theirs[0] if self.theirs else ""]
        return Result(self.name, self.title, self.unit, self.other, self.targets, commands=commands)

    def missing(self):
        absent = [program for program in self.needs if shutil.which(program) is None]
        return "there is no " + ", no ".join(absent) if absent else None

    def measure(self, rig):
        """A pair; a program that measures both sides at the same time returns the pair itself."""
        ours = self.ours[1](rig)
        return ours if isinstance(ours, tuple) else (ours, self.theirs[1](rig) if self.theirs else None)


class Group:
    """Comparisons that share a rig. rig: returns a context manager."""

    def __init__(self, name, title, rig, comparisons):
        self.name = name
        self.title = title
        self.rig = rig
        self.comparisons = comparisons


class Rig:
    """Daemons for a server and a client, namespaces for TCP programs, and the server's address."""

    def __init__(self, daemons=(None, None), places=(programs.Place(), programs.Place()), address="127.0.0.1",
                 tcp_address="127.0.0.1"):
        self.daemons = daemons
        self.places = places
        self.address = address
        self.tcp_address = tcp_address


# ---- rigs ----

@contextlib.contextmanager
def nothing():
    yield Rig()


@contextlib.contextmanager
def loopback(s):
    daemon = kit.Daemon(s.build, s.folder)
    try:
        yield Rig((daemon, daemon))
    finally:
        daemon.stop()


@contextlib.contextmanager
def two_daemons(s, ends):
    """ends: (device, address, peer's address, peer's MAC, namespace, MTU) of each."""
    started = []
    with contextlib.ExitStack() as cleanup:
        for number, (device, address, peer, mac, namespace, mtu) in enumerate(ends):
            path = os.path.join(s.folder, f"end{number}.ini")
            with open(path, "w") as file:
                file.write(f"[port.0]\ndevice = {device}\nmtu = {mtu}\naddress.0 = {address}/24\n"
                           f"neighbour.0 = {peer} {mac}\n")
            started.append(kit.Daemon(s.build, s.folder, name=f"end{number}", arguments=("-c", path),
                                      namespace=namespace))
            cleanup.callback(started[-1].stop)
        for daemon in started:
            kit.wait_until(lambda: daemon.show("ports")[0]["state"] == "active", 10, "the link is up")
            daemon.prefix = []  # programs exchange addresses on the loopback interface
        yield started


@contextlib.contextmanager
def memif(s):
    common = f"socket-abstract=no,socket={os.path.join(s.folder, 'memif.sock')}"
    macs, addresses = ("02:00:00:00:99:01", "02:00:00:00:99:02"), ("10.99.0.1", "10.99.0.2")
    ends = [(f"net_memif0,role={role},{common},mac={macs[i]}", addresses[i], addresses[1 - i], macs[1 - i],
             None, MEMIF_MTU) for i, role in enumerate(("server", "client"))]
    with two_daemons(s, ends) as daemons:
        yield Rig(daemons)


@contextlib.contextmanager
def veth(s, driver, mtu):
    """TCP has a second wire of the same kind, since net_af_xdp takes all frames of its wire from the kernel."""
    with net.Wire(mtu) as wire, net.Wire(mtu, f"{os.getpid()}-tcp") as other:
        ends = [(f"{driver}{end.number if driver.startswith('net_') else ''},iface={end.interface}", end.ipv4, peer.ipv4, peer.mac, end.namespace, mtu)
                for end, peer in (wire.ends, wire.ends[::-1])]
        with two_daemons(s, ends) as daemons:
            yield Rig(daemons, [programs.Place(end.namespace) for end in other.ends], "127.0.0.1", other.ends[0].ipv4)


@contextlib.contextmanager
def udp(s, mtu):
    """TCP and bare datagrams have a second wire, as above."""
    with net.Wire(mtu) as wire, net.Wire(mtu, f"{os.getpid()}-tcp") as other, contextlib.ExitStack() as cleanup:
        daemons = []
        for end in wire.ends:
            daemons.append(kit.Daemon(s.build, s.folder, f"end{end.number}", (f"--udp={end.ipv4}",), end.namespace))
            cleanup.callback(daemons[-1].stop)
        for daemon in daemons:
            kit.wait_until(lambda: daemon.show("ports")[0]["state"] == "active", 10, "the link is up")
            daemon.prefix = []  # programs exchange addresses on the loopback interface
        yield Rig(daemons, [programs.Place(end.namespace) for end in other.ends], "127.0.0.1", other.ends[0].ipv4)


# ---- one side of a comparison: the command for the page, and the function ----

def perftest(command, read):
    return command, lambda rig: read(programs.perftest(rig.daemons, rig.address, command))


def qperf_rate(s, size=65536):
    """GB/s."""
    return (f"qperf -t {s.seconds} -m {size} SERVER tcp_bw",
            lambda rig: programs.qperf(rig.places, rig.tcp_address, "tcp_bw", size, s.seconds, "bw") / 1e9)


def qperf_latency(s):
    """µs, half a round trip."""
    return (f"qperf -t {s.seconds} -m 8 SERVER tcp_lat",
            lambda rig: programs.qperf(rig.places, rig.tcp_address, "tcp_lat", 8, s.seconds, "latency") * 1e6)


def iperf3_rate(s):
    return (f"iperf3 -c SERVER -l 64K -t {s.seconds}",
            lambda rig: programs.iperf3(rig.places, rig.tcp_address, s.seconds) / 1e9)


def ucx_side(environment, test, arguments, column, factor):
    shown = " ".join(f"{key}={value}" for key, value in environment.items())

    def run(rig):
        place = rig.daemons[0] if environment is programs.UCX_ROCE else programs.Place()
        return programs.ucx(place, environment, test, arguments)[column] * factor

    return f"{shown} ucx_perftest -t {test} {arguments}", run


def perf(s, arguments, read):
    """uroce-perf reports CPU time, which other programs on the machine hardly disturb."""
    arguments = f"-- {arguments} --duration {s.perf_seconds} --format json"
    return (f"build/app/uroce-perf/uroce-perf {arguments}",
            lambda rig: read(programs.json_line(s.build, "app/uroce-perf/uroce-perf", arguments)))


def of_the_floor(result):
    """GB/s, and the floor's GB/s, as the program compared them from slice to slice."""
    ours = result["config"]["size"] / result["ns_per_message"]
    return ours, ours / result["floor"]["ratio"]


def million_a_second(result):
    return 1e3 / result["ns_per_message"]


def nanoseconds(s, pairs):
    """The same depth for every number of queue pairs: the most that 10,000 may have."""
    return perf(s, f"--mode write --size 8 --qps {pairs} --depth 4 --floor off", lambda r: r["ns_per_message"])


def instructions(s, message):
    return (f"test/perf/budgets.py --build build --json --only {message}",
            lambda rig: programs.json_line(s.build, BUDGETS, f"--build {s.build.folder} --json --only {message}")[message])


# ---- the groups ----

def in_process(s):
    rate = Target("value", at_least=5)
    few = Target("value", at_most=450)
    return [
        Comparison("write-64k", "WRITE 64 KiB in one process", "GB/s",
                   perf(s, "--mode write --size 65536 --mtu 4096", of_the_floor), None, "the floor",
                   [Target("ratio", at_least=0.7)]),
        Comparison("write-8", "WRITE 8 B in one process", "million/s",
                   perf(s, "--mode write --size 8 --qps 8 --floor off", million_a_second), targets=[rate]),
        Comparison("send-8", "SEND 8 B in one process", "million/s",
                   perf(s, "--mode send --size 8 --qps 8 --floor off", million_a_second), targets=[rate]),
        Comparison("write-8-instructions", "WRITE 8 B, both ends", "instructions", instructions(s, "write-8"),
                   targets=[few], needs=["valgrind"], once=True),
        Comparison("send-8-instructions", "SEND 8 B, both ends", "instructions", instructions(s, "send-8"),
                   targets=[few], needs=["valgrind"], once=True),
        Comparison("latency", "SEND 8 B in one process, post to completion", "µs",
                   perf(s, "--mode send --size 8 --depth 1 --floor off", lambda r: r["latency_ns"]["p50"] / 1e3)),
        Comparison("qps-100", "WRITE 8 B, 100 queue pairs", "ns", nanoseconds(s, 100), nanoseconds(s, 1),
                   "1 queue pair", [Target("ratio", at_most=1.5)]),
        Comparison("qps-10000", "WRITE 8 B, 10,000 queue pairs", "ns", nanoseconds(s, 10000), nanoseconds(s, 1),
                   "1 queue pair", [Target("ratio", at_most=1.5)]),
    ]


def programs_in_loopback(s):
    long, trips = s.long, s.round_trips
    return [
        Comparison("write_bw", "`ib_write_bw` 64 KiB", "GB/s",
                   perftest(f"ib_write_bw -F -x 0 -s 65536 {long}", programs.gigabytes), qperf_rate(s), "`tcp_bw`",
                   [Target("value", at_least=8), Target("ratio", at_least=3)], ["ib_write_bw", "qperf"]),
        Comparison("write_bw-8", "`ib_write_bw` 8 B", "million/s",
                   perftest(f"ib_write_bw -F -x 0 -s 8 {long}", programs.million_messages),
                   targets=[Target("value", at_least=2)], needs=["ib_write_bw"]),
        Comparison("send_bw-64", "`ib_send_bw` 64 B", "million/s",
                   perftest(f"ib_send_bw -F -x 0 -s 64 {long}", programs.million_messages),
                   targets=[Target("value", at_least=2)], needs=["ib_send_bw"]),
        Comparison("send_lat", "`ib_send_lat` 8 B", "µs",
                   perftest(f"ib_send_lat -F -x 0 -s 8 -n {trips}", programs.median_us), qperf_latency(s), "`tcp_lat`",
                   [Target("ratio", at_most=0.25)], ["ib_send_lat", "qperf"]),
        Comparison("write_lat", "`ib_write_lat` 8 B", "µs",
                   perftest(f"ib_write_lat -F -x 0 -s 8 -n {trips}", programs.median_us),
                   targets=[Target("value", at_most=10)], needs=["ib_write_lat"]),
        Comparison("idle", "`uroced`, nothing to do", "% of a CPU",
                   ("", lambda rig: programs.cpu_percent(rig.daemons[0].process.pid, s.seconds)),
                   targets=[Target("value", at_most=1)]),
    ]


def ucx(s):
    many, trips = 500 if s.quick else 5000, s.round_trips
    bandwidth = f"-s 65536 -n {many} -w 200"
    latency = f"-s 8 -n {trips} -w 1000"
    rows = [("put_bw", "ucp_put_bw", bandwidth, 5, 1.048576e-3, "GB/s", Target("ratio", at_least=2)),
            ("tag_bw", "tag_bw", bandwidth, 5, 1.048576e-3, "GB/s", Target("ratio", at_least=2)),
            ("tag_lat", "tag_lat", latency, 1, 1, "µs", Target("ratio", at_most=0.6)),
            ("am_lat", "ucp_am_lat", latency, 1, 1, "µs", Target("ratio", at_most=0.6))]
    return [Comparison("ucx-" + name, f"UCX `{test}`", unit,
                       ucx_side(programs.UCX_ROCE, test, arguments, column, factor),
                       ucx_side(programs.UCX_TCP, test, arguments, column, factor), "UCX over TCP", [target],
                       ["ucx_perftest", "unshare"])
            for name, test, arguments, column, factor, unit, target in rows]


def over_memif(s):
    def frames(row):
        """GB/s of whole frames, as testpmd counts them."""
        return programs.gigabytes(row) * (65536 + 64 * ROCE_OVERHEAD + 16) / 65536

    ours = perftest(f"ib_write_bw -F -x 0 -m {MEMIF_PATH_MTU} -s 65536 {s.long}", frames)
    testpmd = (f"dpdk-testpmd --vdev=net_memif0,... -- --forward-mode=txonly --txpkts={MEMIF_FRAME}, rxonly",
               lambda rig: programs.testpmd_memif(s.folder, MEMIF_FRAME, s.seconds) / 1e9)
    return [Comparison("memif", f"WRITE 64 KiB, net_memif, path MTU {MEMIF_PATH_MTU}", "GB/s of frames", ours, testpmd,
                       "testpmd, the same frames", [Target("ratio", at_least=0.5)],
                       ["ib_write_bw", "dpdk-testpmd", "stdbuf"])]


def over_veth(s, name, what, path_mtu, write=(), latency=()):
    """write, latency: targets."""
    return [
        Comparison(name + "-write", f"WRITE 64 KiB, {what}", "GB/s",
                   perftest(f"ib_write_bw -F -x 0 -m {path_mtu} -s 65536 {s.long}", programs.gigabytes), iperf3_rate(s),
                   "iperf3", list(write), ["ib_write_bw", "iperf3"]),
        Comparison(name + "-lat", f"SEND 8 B, half a round trip, {what}", "µs",
                   perftest(f"ib_send_lat -F -x 0 -s 8 -n {s.round_trips}", programs.median_us), qperf_latency(s),
                   "`tcp_lat`", list(latency), ["ib_send_lat", "qperf"]),
    ]


# Of a datagram's payload, beside the path MTU: BTH and ICRC.
UDP_OVERHEAD = 16


def over_udp(s, name, what, path_mtu):
    def bare(rig):
        datagrams = programs.udp_segments(rig.places, rig.tcp_address, path_mtu + UDP_OVERHEAD, s.seconds)
        return datagrams * path_mtu / (path_mtu + UDP_OVERHEAD) / 1e9

    return over_veth(s, name, what, path_mtu, [Target("ratio", at_least=0.6)], [Target("ratio", at_most=1)]) + [
        Comparison(name + "-bare", f"WRITE 64 KiB, {what}", "GB/s",
                   perftest(f"ib_write_bw -F -x 0 -m {path_mtu} -s 65536 {s.long}", programs.gigabytes),
                   (f"test/perf/bench/udp_segments.py send SERVER PORT {path_mtu + UDP_OVERHEAD} {s.seconds}", bare),
                   "the same datagrams, bare", [Target("ratio", at_least=0.7)], ["ib_write_bw"])]


def groups(s):
    return [
        Group("in-process", "The dataplane in one process", nothing, in_process(s)),
        Group("loopback", "Debian's programs over the loopback device", lambda: loopback(s), programs_in_loopback(s)),
        Group("ucx", "UCX over the loopback device", lambda: loopback(s), ucx(s)),
        Group("memif", "Two `uroced` joined by shared memory", lambda: memif(s), over_memif(s)),
        Group("udp", "Two `uroced` joined by veth, UDP sockets", lambda: udp(s, 1500),
              over_udp(s, "udp", "UDP sockets, MTU 1500", 1024)),
        Group("udp-9000", "The same with an MTU of 9000", lambda: udp(s, 9000),
              over_udp(s, "udp-9000", "UDP sockets, MTU 9000", 4096)),
        Group("packet", "Two `uroced` joined by veth, packet sockets", lambda: veth(s, "packet", 1500),
              over_veth(s, "packet", "packet sockets, MTU 1500", 1024)),
        Group("packet-9000", "The same with an MTU of 9000", lambda: veth(s, "packet", 9000),
              over_veth(s, "packet-9000", "packet sockets, MTU 9000", 4096)),
        Group("af_packet", "Two `uroced` joined by veth, net_af_packet", lambda: veth(s, "net_af_packet", 1500),
              over_veth(s, "af_packet", "net_af_packet, MTU 1500", 1024)),
        Group("af_packet-9000", "The same with long frames", lambda: veth(s, "net_af_packet", 9000),
              over_veth(s, "af_packet-9000", "net_af_packet, MTU 9000", 4096)),
        Group("af_xdp", "Two `uroced` joined by veth, net_af_xdp", lambda: veth(s, "net_af_xdp", 1500),
              over_veth(s, "af_xdp", "net_af_xdp, MTU 1500", 1024)),
    ]
