#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of port: unmodified programs between its two ends, its link going down and up, what it does when the
other end leaves. TAP; needs root and is skipped without. usage: run_ports.py --build DIR [--match TEXT]

Programs exchange their addresses over TCP on the loopback interface of the namespace this runs in; only RoCE takes the
port. UROCE_SOCKET tells a program which daemon it is on."""
import argparse
import contextlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

# The kernel's own frames, and what comes late to a queue pair that was destroyed.
EXPECTED_DROPS = ("not_roce", "not_our_mac", "unknown_qpn", "qp_state")
PATH_MTU_BYTES = (256, 512, 1024, 2048, 4096)


class Side:
    """One end of a wire: what its daemon is told."""

    def __init__(self, number, device, mac, namespace=None):
        self.number = number
        self.device = device
        self.mac = mac
        self.namespace = namespace
        self.ipv4 = f"10.88.0.{number}"
        self.ipv6 = f"fd88::{number}"

    def configuration(self, peer, mtu, more=""):
        return f"""[port.0]
device = {self.device}
mtu = {mtu}
address.0 = {self.ipv4}/24
address.1 = {self.ipv6}/64
neighbour.0 = {peer.ipv4} {peer.mac}
neighbour.1 = {peer.ipv6} {peer.mac}
{more}"""


def start(build, folder, side, peer, mtu, more=""):
    path = os.path.join(folder, f"side{side.number}.ini")
    with open(path, "w") as file:
        file.write(side.configuration(peer, mtu, more))
    daemon = kit.Daemon(build, folder, name=f"side{side.number}", arguments=("-c", path), namespace=side.namespace)
    daemon.prefix = []  # programs stay where the loopback interface is
    return daemon


def port_of(daemon):
    return daemon.show("ports")[0]


def state(daemon):
    return port_of(daemon)["state"]


def counters(daemon):
    return {row["counter"]: row["value"] for row in daemon.show("counters")}


def no_bad_frame(daemons):
    for daemon in daemons:
        drops = {row["reason"]: row["value"] for row in daemon.show("drops")}
        bad = {reason: n for reason, n in drops.items() if reason not in EXPECTED_DROPS}
        count = counters(daemon)
        bad.update({name: count[name] for name in ("rx_unusable", "rx_bad_checksum") if count[name]})
        if bad:
            raise kit.Failure(f"{os.path.basename(daemon.socket)} dropped: {bad}")


def run_programs(daemons, commands):
    for command, table_rows in commands:
        _, text = kit.run_pair(daemons[0], command.split(), client_daemon=daemons[-1], seconds=40)
        if table_rows is None:
            kit.check_pingpong(text)
        else:
            kit.check_perftest(text, table_rows)


def some_programs(mtu, gid=0):
    """Every packet size from the smallest to the path MTU, in both directions."""
    path_mtu = max(size for size in PATH_MTU_BYTES if size + 104 <= mtu)
    return [(f"ibv_rc_pingpong -g {gid} -c -m {path_mtu} -n 100", None),
            (f"ib_write_bw -F -x {gid} -m {path_mtu} -s 65536 -n 50 -b", 1),
            (f"ib_send_lat -F -x {gid} -n 50", 1)]


def stop_all(daemons):
    """Ends them all and says which did not end well."""
    statuses = [(daemon, daemon.stop()) for daemon in daemons]
    for daemon, status in statuses:
        if status != 0:
            raise kit.Failure(f"exit status {status}:\n{daemon.log()}")


class Rig:
    """Two daemons and what is between them."""
    name = "?"
    mtus = (1500,)

    def __init__(self, build, mtu):
        self.build = build
        self.mtu = mtu
        self.folder = kit.scratch_folder()
        self.daemons = []
        self.more = ""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.stop()
        self.stack.close()

    def make(self):
        self.sides = self.make_sides()
        for side, peer in (self.sides, self.sides[::-1]):
            self.daemons.append(start(self.build, self.folder, side, peer, self.mtu, self.more))
            self.started(side)

    def make_sides(self):
        raise NotImplementedError

    def started(self, side):
        pass

    def restart_second(self):
        self.daemons[1] = start(self.build, self.folder, self.sides[1], self.sides[0], self.mtu, self.more)

    def link(self, up):
        """Takes the link down, or up again. Returns False if this kind has no such thing."""
        return False


class Veth(Rig):
    """Two namespaces and a veth pair."""
    driver = "?"

    def make_sides(self):
        self.wire = self.stack.enter_context(net.Wire(self.mtu))
        return [Side(end.number, f"{self.driver}{end.number},iface={end.interface}", end.mac, end.namespace)
                for end in self.wire.ends]

    def link(self, up):
        end = self.wire.ends[1]
        net.ip("-n", end.namespace, "link", "set", end.interface, "up" if up else "down")
        return True


class AfPacket(Veth):
    name = "net_af_packet"
    driver = "net_af_packet"
    mtus = (1500, 9000)


class AfXdp(Veth):
    name = "net_af_xdp"
    driver = "net_af_xdp"
    mtus = (1500, 3306)


class Tap(Rig):
    """A tap port, and a port on the kernel's end of it."""
    name = "net_tap"

    def make_sides(self):
        self.namespace = f"uroce-{os.getpid()}-tap"
        net.ip("netns", "add", self.namespace)
        self.stack.callback(subprocess.run, ["ip", "netns", "del", self.namespace], capture_output=True)
        # The kernel's end gets the MAC next to the port's.
        return [Side(1, "net_tap0,iface=utap0,mac=02:00:00:00:88:10", "02:00:00:00:88:10", self.namespace),
                Side(2, "net_af_packet0,iface=utap0", "02:00:00:00:88:11", self.namespace)]

    def link(self, up):
        net.ip("-n", self.namespace, "link", "set", "utap0", "up" if up else "down")
        return True


class Memif(Rig):
    name = "net_memif"
    mtus = (1500, 9000)

    def make_sides(self):
        socket = os.path.join(self.folder, "m.sock")
        common = f"socket={socket},socket-abstract=no"
        return [Side(1, f"net_memif0,role=server,{common},mac=02:00:00:00:88:21", "02:00:00:00:88:21"),
                Side(2, f"net_memif0,role=client,{common},mac=02:00:00:00:88:22", "02:00:00:00:88:22")]

    def made(self):
        return all(state(daemon) == "active" for daemon in self.daemons)


class Vhost(Rig):
    """A vhost-user port, and a virtio-user port in the place of a guest."""
    name = "net_vhost"
    mtus = (1500, 4200)

    def make_sides(self):
        path = os.path.join(self.folder, "v.sock")
        # The driver's own MAC for its first device.
        return [Side(1, f"net_vhost0,iface={path}", "56:48:4f:53:54:00"),
                Side(2, f"net_virtio_user0,path={path},mac=02:00:00:00:88:32", "02:00:00:00:88:32")]


class Flood:
    """Programs that write to each other, in both directions, until they are killed."""

    def __init__(self, daemons):
        command = ["ib_write_bw", "-F", "-x", "0", "-b", "-s", "65536", "-D", "60", "-p", str(kit.free_port())]
        self.programs = [kit.Program(daemons[0], command)]
        kit.await_listening(self.programs[0], int(command[-1]), 30)
        self.programs.append(kit.Program(daemons[1], command + ["127.0.0.1"]))

    def stop(self):
        for program in self.programs:
            program.kill()


def leave_and_return(rig, rounds, sudden):
    """The second end's daemon is killed in the middle of traffic and started again; the first lives on."""
    first = rig.daemons[0]
    for number in range(rounds):
        seen = counters(first)["rx_packets"]
        flood = Flood(rig.daemons)
        try:
            kit.wait_until(lambda: counters(first)["rx_packets"] > seen + 500, 20, f"round {number}: packets flow")
            process = rig.daemons[1].process
            process.send_signal(signal.SIGKILL if sudden(number) else signal.SIGTERM)
            process.wait(10)
            kit.wait_until(lambda: state(first) == "down", 10, f"round {number}: the link goes down")
        finally:
            flood.stop()
        rig.restart_second()
        kit.wait_until(lambda: all(state(daemon) == "active" for daemon in rig.daemons), 10,
                       f"round {number}: the link comes up")
    run_programs(rig.daemons, some_programs(rig.mtu)[:1])


RIGS = (AfPacket, AfXdp, Tap, Memif, Vhost)

# (class, rounds, which of them are kills): what leaves here is the port's second end.
LEAVERS = ((Memif, 20, lambda number: number % 4 != 3), (Vhost, 4, lambda number: number % 2))


def test_leaving(tap, build, rig_class, rounds, sudden):
    def leave():
        with rig_class(build, 1500) as rig:
            for daemon in rig.daemons:
                kit.wait_until(lambda: state(daemon) == "active", 10, "the link is up")
            leave_and_return(rig, rounds, sudden)
            no_bad_frame(rig.daemons)
            stop_all(rig.daemons)

    tap.point(f"{rig_class.name}: the other end leaves {rounds} times in the middle of traffic", leave)


def test_rig(tap, build, rig_class, mtu):
    name = f"{rig_class.name}, MTU {mtu}"
    with contextlib.ExitStack() as stack:
        rig = rig_class(build, mtu)

        def open_it():
            stack.enter_context(rig)
            for daemon in rig.daemons:
                kit.wait_until(lambda: state(daemon) == "active", 10, f"the link is up\n{daemon.log()}")

        tap.point(f"{name}: both ends open", open_it)
        tap.point(f"{name}: programs", lambda: run_programs(rig.daemons, some_programs(mtu)))

        def link():
            if not rig.link(False):
                return
            for daemon in rig.daemons:
                kit.wait_until(lambda: state(daemon) == "down", 10, "the link goes down")
            rig.link(True)
            for daemon in rig.daemons:
                kit.wait_until(lambda: state(daemon) == "active", 10, "the link comes up")
            run_programs(rig.daemons, some_programs(mtu, gid=1)[:1])

        tap.point(f"{name}: the link goes down and up", link)

        def end():
            no_bad_frame(rig.daemons)
            stop_all(rig.daemons)

        tap.point(f"{name}: no bad frame, and both end well", end)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--match", default="", help="only the tests whose name contains this")
    arguments = options.parse_args()
    try:
        with net.Wire(1500):
            pass
    except net.Unavailable as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    kit.die_on_signals()
    build = kit.Build(arguments.build)
    rigs = [(rig, mtu) for rig in RIGS for mtu in rig.mtus if arguments.match in rig.name]
    leavers = [leaver for leaver in LEAVERS if arguments.match in leaver[0].name]
    tap = kit.Tap(4 * len(rigs) + len(leavers))
    for rig in rigs:
        test_rig(tap, build, *rig)
    for leaver in leavers:
        test_leaving(tap, build, *leaver)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
