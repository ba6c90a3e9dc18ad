#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of port: unmodified programs between its two ends, its link going down and up, what it does when the
other end leaves. TAP; needs root and is skipped without. usage: run_ports.py --build DIR [--match TEXT]

Programs exchange their addresses over TCP on the loopback interface of the namespace this runs in; only RoCE takes the
port. UROCE_SOCKET tells a program which daemon it is on."""
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

# The kernel's own frames, what comes late to a queue pair that was destroyed, and too much at once for another worker.
EXPECTED_DROPS = ("not_roce", "not_our_mac", "unknown_qpn", "qp_state", "forward_full")
VLAN = 5
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
        self.tagged = f"10.89.0.{number}"

    def configuration(self, peer, mtu, more=""):
        return f"""[port.0]
device = {self.device}
mtu = {mtu}
address.0 = {self.ipv4}/24
address.1 = {self.ipv6}/64
address.2 = {self.tagged}/24 vlan {VLAN}
neighbour.0 = {peer.ipv4} {peer.mac}
neighbour.1 = {peer.ipv6} {peer.mac}
neighbour.2 = {peer.tagged} {peer.mac}
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


def drops_of(daemon):
    return {row["reason"]: row["value"] for row in daemon.show("drops")}


def roce_received(daemon):
    """Without frames for the IP host, and unwanted ones."""
    count = counters(daemon)
    return count["rx_packets"] - count["rx_punted"] - drops_of(daemon).get("not_roce", 0)


def no_bad_frame(daemons):
    for daemon in daemons:
        drops = drops_of(daemon)
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


def gid_index(daemon, address, version="RoCE v2"):
    for row in daemon.show("gids"):
        if row["address"] == address and row["type"] == version:
            return row["index"]
    raise kit.Failure(f"{address} is in no GID of {version}: {daemon.show('gids')}")


def pingpong(mtu, gid):
    path_mtu = max(size for size in PATH_MTU_BYTES if size + 104 <= mtu)
    return f"ibv_rc_pingpong -g {gid} -c -m {path_mtu} -n 100", None


def programs(rig):
    """Packets from the smallest to the path MTU in both directions; IPv6, tagged frames, and RoCEv1."""
    daemon, side, mtu = rig.daemons[0], rig.sides[0], rig.mtu
    path_mtu = max(size for size in PATH_MTU_BYTES if size + 104 <= mtu)
    gid = gid_index(daemon, side.ipv4)
    run_programs(rig.daemons, [
        pingpong(mtu, gid),
        pingpong(mtu, gid_index(daemon, side.ipv6)),
        pingpong(mtu, gid_index(daemon, side.tagged)),
        pingpong(mtu, gid_index(daemon, side.ipv4, "RoCE v1")),
        (f"ib_write_bw -F -x {gid} -m {path_mtu} -s 65536 -n 50 -b", 1),
        (f"ib_send_lat -F -x {gid} -n 50", 1),
        # Many at a time.
        (f"ib_write_bw -F -x {gid} -m {path_mtu} -s 16384 -n 20 -q 16 -b", 1)])
    rig.check()


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
    queues = 1

    def __init__(self, build, mtu):
        self.build = build
        self.mtu = mtu
        self.folder = kit.scratch_folder()
        self.daemons = []
        self.more = f"[uroced]\nworkers = {self.queues}\n" if self.queues > 1 else ""

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

    def stop_second(self):
        stop_all([self.daemons.pop()])

    def restart_second(self):
        self.daemons[1] = start(self.build, self.folder, self.sides[1], self.sides[0], self.mtu, self.more)

    def check(self):
        pass

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


class Packet(Veth):
    """Packet sockets, without DPDK: a device's name has no number."""
    name = "packet"
    mtus = (1500, 9000)

    def make_sides(self):
        sides = super().make_sides()
        for side, end in zip(sides, self.wire.ends):
            side.device = f"packet,iface={end.interface}"
        return sides


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


SPREAD_WORKERS = 3
SPREAD = f"spread = software\n[uroced]\nworkers = {SPREAD_WORKERS}\n"


class Spread:
    """One queue, and more workers: of a port with a descriptor that tells of frames, and of one that has none."""

    def __init__(self, build, mtu):
        super().__init__(build, mtu)
        self.more = SPREAD

    def check(self):
        """Workers have shared it, and nearly no packet was forwarded: RC packets arrive at their owners."""
        for daemon in self.daemons:
            parts = daemon.show()["devices"][0]["ports"][0]["steering"]["workers"]
            received = [part["rx_packets"] for part in parts]
            if len(parts) != SPREAD_WORKERS or sum(map(bool, received)) < 2:
                raise kit.Failure(f"packets received by queue: {received}")
            if sum(part["rx_forwarded_out"] for part in parts) > sum(received) // 10:
                raise kit.Failure(f"forwarded: {parts}")


class SpreadAfPacket(Spread, AfPacket):
    name = "net_af_packet, spread"
    mtus = (1500,)

    def make_sides(self):
        sides = super().make_sides()
        for side in sides:
            side.device += ",qpairs=1"
        return sides


class SpreadMemif(Spread, Memif):
    name = "net_memif, spread"
    mtus = (9000,)


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
    run_programs(rig.daemons, [pingpong(rig.mtu, 0)])


class AfPacketQueues(AfPacket):
    name = "net_af_packet with queues"
    mtus = (1500,)
    queues = 2


class PacketQueues(Packet):
    name = "packet with queues"
    mtus = (1500,)
    queues = 2


class TapQueues(Tap):
    name = "net_tap with queues"
    queues = 2


class VhostQueues(Vhost):
    name = "net_vhost with queues"
    mtus = (4200,)
    queues = 2

    def make_sides(self):
        sides = super().make_sides()
        for side in sides:
            side.device += ",queues=2"
        return sides


class VhostFewerQueues(Vhost):
    """A guest that uses one of two queues: the other worker's packets go by that."""
    name = "net_vhost with queues that the other end does not use"
    mtus = (4200,)
    queues = 2

    def make_sides(self):
        sides = super().make_sides()
        sides[0].device += ",queues=2"
        return sides


def shared(rig):
    """Each queue is a worker's, and each worker sends and receives for some of many connections."""
    run_programs(rig.daemons, [("ib_write_bw -F -x 0 -q 16 -s 4096 -n 40 -b", 1)])
    for daemon in rig.daemons:
        text = subprocess.run([rig.build.uroce, "show", "--json", "--socket", daemon.socket], capture_output=True,
                              text=True, timeout=20).stdout
        parts = json.loads(text)["devices"][0]["ports"][0]["steering"]["workers"]
        if isinstance(rig, VhostFewerQueues) and daemon == rig.daemons[1]:
            parts *= 2
        if len(parts) != rig.queues or not all(part["rx_delivered"] and part["tx_packets"] for part in parts):
            raise kit.Failure(f"{daemon.socket}: {json.dumps(parts, indent=1)}")
        asleep(daemon)


RIGS = (Packet, AfPacket, AfXdp, Tap, Memif, Vhost, SpreadAfPacket, PacketQueues, VhostQueues)
RIGS_LONG = (SpreadMemif, AfPacketQueues, TapQueues, VhostFewerQueues)


# ---- files of frames ----

def read_pcap(path):
    """The frames of a pcap file of ours: nanoseconds, Ethernet. None while its end is not written yet."""
    frames = []
    with open(path, "rb") as file:
        data = file.read()
    magic, _, _, _, _, _, linktype = struct.unpack_from("<IHHiIII", data)
    if magic not in (0xa1b23c4d, 0xa1b2c3d4) or linktype != 1:
        raise kit.Failure(f"{path}: magic {magic:x}, link type {linktype}")
    offset = 24
    while offset < len(data):
        if offset + 16 > len(data):
            return None
        _, _, caplen, length = struct.unpack_from("<IIII", data, offset)
        if offset + 16 + caplen > len(data):
            return None
        if caplen != length:
            raise kit.Failure(f"{path}: a frame of {length} bytes was cut to {caplen}")
        frames.append(data[offset + 16:offset + 16 + caplen])
        offset += 16 + caplen
    return frames


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def mac_bytes(text):
    return bytes(int(byte, 16) for byte in text.split(":"))


def is_tagged(frame):
    return frame[12:14] == b"\x81\x00" and int.from_bytes(frame[14:16], "big") & 0xfff == VLAN


def is_roce(frame):
    """RoCEv2 over IPv4, with or without a tag."""
    if is_tagged(frame):
        frame = frame[:12] + frame[16:]
    return len(frame) >= 42 and frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\x12\xb7"


def is_management(frame):
    """Of RoCEv2 over IPv4 without a tag: to QP1, which the connection manager serves."""
    return frame[47:50] == b"\0\0\1"


def management(daemon, direction):
    """The connection manager counts its own packets, which include the questions about selective repeat."""
    return sum(row[direction] for row in daemon.show("cm") if row["counter"] == "packets")


def captured(build, path):
    """A port writes down what it sends and receives, neither more nor less than it counts. Leaves the file in path."""
    with AfPacket(build, 4200) as rig:
        rig.stop_second()
        rig.sides = rig.sides[::-1]
        rig.daemons = [start(build, rig.folder, rig.sides[0], rig.sides[1], 4200, f"capture = {path} 100000\n"),
                       rig.daemons[0]]
        tagged = gid_index(rig.daemons[0], rig.sides[0].tagged)
        run_programs(rig.daemons, [("ibv_rc_pingpong -g 0 -c -m 4096 -n 20", None),
                                   (f"ibv_rc_pingpong -g {tagged} -c -m 4096 -n 20", None),
                                   ("ib_write_bw -F -x 0 -m 4096 -s 8191 -n 20 -b", 1)])
        own = mac_bytes(rig.sides[0].mac)

        def complete():
            frames = [frame for frame in read_pcap(path) or () if is_roce(frame)]
            sent = sum(frame[6:12] == own for frame in frames)
            daemon = rig.daemons[0]
            return (sent > 20 and sent == counters(daemon)["tx_packets"] + management(daemon, "sent") and
                    len(frames) - sent == roce_received(daemon) + management(daemon, "received"))

        kit.wait_until(complete, 10, "the file holds what was counted")
        # The kernel's packet sockets take tags off, and net_af_packet tells of them beside the frame.
        for own_tagged in (True, False):
            if not any(is_tagged(frame) and (frame[6:12] == own) == own_tagged for frame in read_pcap(path)):
                raise kit.Failure("no tag in frames " + ("sent" if own_tagged else "received"))
        result = subprocess.run([build.uroce, "dissect", path], capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            raise kit.Failure(result.stdout[-2000:] + result.stderr)
        no_bad_frame(rig.daemons)
        stop_all(rig.daemons)


PCAP_MAC = "02:70:63:61:70:00"  # of the driver's first device


def replayed(build, path):
    """A port that reads a file takes every frame of it, and is idle then; what it sends goes to another file."""
    folder = kit.scratch_folder()
    frames = [mac_bytes(PCAP_MAC) + frame[6:] for frame in read_pcap(path)
              if is_roce(frame) and not is_tagged(frame) and not is_management(frame)]
    to_us = sum(frame[30:34] == bytes((10, 88, 0, 2)) for frame in frames)
    source, sent = os.path.join(folder, "in.pcap"), os.path.join(folder, "out.pcap")
    write_pcap(source, frames)
    side = Side(2, f"net_pcap0,rx_pcap={source},tx_pcap={sent}", PCAP_MAC)
    daemon = start(build, folder, side, Side(1, "", "02:00:00:00:88:01"), 4200)
    try:
        kit.wait_until(lambda: roce_received(daemon) == len(frames), 10, "every frame is received")
        drops = {reason: count for reason, count in drops_of(daemon).items() if reason != "not_roce"}
        # They have no receiver.
        if drops != {"unknown_qpn": to_us, "wrong_destination": len(frames) - to_us}:
            raise kit.Failure(f"{to_us} of {len(frames)} frames are for us: {drops}")
        asleep(daemon)
        gid = gid_index(daemon, side.ipv6)
        run_programs([daemon], [(f"ib_send_lat -F -x {gid} -c UD -g -s 1024 -n 50", 1)])
        stop_all([daemon])
        if not any(frame[:2] == b"\x33\x33" and len(frame) > 1024 for frame in read_pcap(sent)):
            raise kit.Failure("what was sent is not in its file")
    finally:
        daemon.stop()


def asleep(daemon):
    kit.wait_until(lambda: all(worker["mode"] == "asleep" for worker in daemon.show("workers")), 10,
                   "with nothing to do the workers sleep")


def alone(build, device, expected):
    """A port without a peer."""
    folder = kit.scratch_folder()
    side, absent = Side(1, device.format(folder=folder), ""), Side(2, "", "02:00:00:00:88:77")
    daemon = start(build, folder, side, absent, 1500)
    try:
        if state(daemon) != expected:
            raise kit.Failure(f"the port is {state(daemon)}, not {expected}")
        # Inside the daemon there is always a peer.
        run_programs([daemon], [("ibv_rc_pingpong -g 0 -c -n 20", None)])
        asleep(daemon)
        stop_all([daemon])
    finally:
        daemon.stop()


ALONE = (("net_ring0", "active"),
         ("net_vhost0,iface={folder}/v.sock", "down"),
         ("net_memif0,role=server,socket-abstract=no,socket={folder}/m.sock", "down"),
         ("net_memif0,role=client,socket-abstract=no,socket={folder}/m.sock", "down"))


def refused(build):
    """What cannot be opened ends the daemon with one line that names the port, the device and the reason."""
    folder = kit.scratch_folder()
    for device, mtu, reason in (("packet,iface=nosuch0", 1500, "there is no interface"),
                                ("packet,iface=lo", 1500, "no Ethernet interface"),
                                ("lo", 1500, "say packet,iface=lo"),
                                ("net_af_packet0,iface=nosuch0", 1500, "there is no interface"),
                                ("net_tap0,iface=utap9", 9000, "takes 1504"),
                                ("net_memif0,role=server,socket-abstract=no,socket=/nosuch/s", 1500, "cannot listen"),
                                ("net_pcap0,rx_pcap=/nosuch/file", 1500, "net_pcap0"),
                                ("0000:ff:1f.7", 1500, "0000:ff:1f.7")):
        try:
            daemon = start(build, folder, Side(1, device, ""), Side(2, "", "02:00:00:00:88:77"), mtu)
        except kit.Failure as failure:
            lines = [line for line in str(failure).splitlines() if line.startswith("uroced: port.0: ")]
            if len(lines) != 1 or reason not in lines[0]:
                raise kit.Failure(f"{device}: {failure}") from None
        else:
            daemon.stop()
            raise kit.Failure(f"{device}: was opened")


def file_tests(tap, build):
    path = os.path.join(kit.scratch_folder(), "port.pcap")
    tap.point("capture: what a port sends and receives is in its file", lambda: captured(build, path))
    tap.point("net_pcap: a file is received, another written", lambda: replayed(build, path))


def lone_tests(tap, build):
    for device, expected in ALONE:
        tap.point(f"{device.split(',socket-')[0]}: alone", lambda: alone(build, device, expected))
    tap.point("ports that cannot be opened", lambda: refused(build))

# (class, rounds, which of them are kills): what leaves here is the port's second end.
LEAVERS = ((Memif, 6, lambda number: number % 4 != 3), (Vhost, 2, lambda number: number == 0))


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
        tap.point(f"{name}: programs", lambda: shared(rig) if rig.queues > 1 else programs(rig))

        def link():
            if not rig.link(False):
                return
            for daemon in rig.daemons:
                kit.wait_until(lambda: state(daemon) == "down", 10, "the link goes down")
            rig.link(True)
            for daemon in rig.daemons:
                kit.wait_until(lambda: state(daemon) == "active", 10, "the link comes up")
            run_programs(rig.daemons, [pingpong(mtu, 0)])

        tap.point(f"{name}: the link goes down and up", link)

        def end():
            no_bad_frame(rig.daemons)
            stop_all(rig.daemons)

        tap.point(f"{name}: no bad frame, and both end well", end)


def main():
    arguments = net.start("ip", match="only the tests whose name contains this",
                          more=[("--long", {"action": "store_true", "help": "more kinds of queues, more leaving"})])
    build = kit.Build(arguments.build)
    rigs = [(rig, mtu) for rig in RIGS + RIGS_LONG * arguments.long for mtu in rig.mtus if arguments.match in rig.name]
    leavers = [(rig, rounds * (5 if arguments.long else 1), sudden) for rig, rounds, sudden in LEAVERS
               if arguments.match in rig.name]
    files, lone = arguments.match in "net_pcap capture", arguments.match in "alone"
    tap = kit.Tap(4 * len(rigs) + len(leavers) + 2 * files + (len(ALONE) + 1) * lone)
    for rig in rigs:
        test_rig(tap, build, *rig)
    for leaver in leavers:
        test_leaving(tap, build, *leaver)
    if files:
        file_tests(tap, build)
    if lone:
        lone_tests(tap, build)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
