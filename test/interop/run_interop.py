# SPDX-License-Identifier: BSD-3-Clause
"""uroced against the Linux kernel's rdma_rxe in a QEMU guest: the same programs on both sides, each side in both roles.
TAP, and a table at the end; skipped where there is no QEMU, or no package to make the guest of.

usage: run_interop.py --build DIR [--set small|core|all] [--port vhost-user|tap|socket]... [--match TEXT]
                      [--part K/N] [--kernel 6.1|6.12|PACKAGE] [--write PAGE]"""
import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
sys.path.insert(0, os.path.join(HERE, "..", "net"))
import connect
import faults
import frames
import image
import peer
import rdma_words
import rows
import run_net as wire
import uroce_kit as kit
import uroce_net as net

PORTS = {port.name: port for port in (peer.VhostUser, peer.Tap, peer.Socket)}
# What comes late to a queue pair that was destroyed, and the kernel's own frames.
EXPECTED_DROPS = ("not_roce", "unknown_qpn", "qp_state")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


class Table:
    """Results by row, our role and IP version."""
    COLUMNS = [(ours, version) for ours in rows.BOTH for version in (4, 6)]

    def __init__(self):
        self.cells = {}

    def note(self, row, ours, version, passed):
        self.cells.setdefault(row.name(), {})[ours, version] = "ok" if passed else "FAILED"

    def lines(self):
        yield "| programs | uroce client, IPv4 | IPv6 | uroce server, IPv4 | IPv6 |"
        yield "|---|---|---|---|---|"
        for name, cells in self.cells.items():
            yield f"| `{name}` | " + " | ".join(cells.get(column, "") for column in self.COLUMNS) + " |"


class Session:
    """One guest and one uroced, and the points of the test that use them. They start with the first point."""
    neighbours = (peer.VLAN_IPV4, peer.VLAN_IPV6)  # addresses that the guest looks for first

    def __init__(self, name, port, options, table):
        self.name, self.port, self.options, self.table = name, port, options, table
        self.link = self.failure = self.path = None
        self.lost = {"out": 0, "in": 0}
        self.rnr_naks = {"client": 0, "server": 0}

    def begin(self):
        try:
            self.link = peer.Link(self.options.build, self.options.image, kit.scratch_folder(), self.port)
        except (kit.Failure, net.Unavailable) as failure:
            self.failure = failure
            raise kit.Failure(str(failure))
        self.path = self.link.capture
        self.ping(*self.neighbours)

    def ping(self, *addresses):
        """rxe does not wait for neighbour discovery: its first queue pair to an address would not connect."""
        for address in addresses:
            self.link.guest.ping(address)

    def alive(self):
        if self.link is None:
            raise kit.Failure("there is no guest")
        if not self.link.daemon.alive():
            raise kit.Failure("uroced is gone:\n" + self.link.daemon.log())

    def points(self, chosen):
        yield f"{self.name}: the guest boots", self.begin
        if not self.options.match:
            yield f"{self.name}: requests without a listener are rejected", lambda: self.connections(connect.rejections)
            yield f"{self.name}: who is connected to a killed program is disconnected", lambda: self.connections(connect.killed)
        for row in chosen:
            for version in row.versions:
                for ours in row.ours:
                    yield (f"{self.name}: IPv{version}, uroce is {ours}: {row.name()}",
                           lambda row=row, version=version, ours=ours: self.row(row, version, ours))
        if any(row.loss for row in chosen):
            yield f"{self.name}: frames were lost both ways", self.both_lost
        if any(row.rnr for row in chosen):
            yield f"{self.name}: RNR NAKs went both ways", self.both_not_ready
        yield from self.more_points()
        yield f"{self.name}: no frame was dropped for its contents", self.no_bad_frame
        yield f"{self.name}: the guest's kernel complains of nothing", self.kernel_is_well
        yield f"{self.name}: uroced ends well", self.end
        yield from self.last_points()

    def more_points(self):
        return ()

    def last_points(self):
        """When the daemon has ended, and written its last frame."""
        return ()

    def look(self, function):
        """At the capture."""
        if self.path is None:
            raise kit.Failure("there is no capture")
        function(self.path)

    # ---- points ----

    def row(self, row, version, ours):
        self.alive()
        passed = False
        try:
            self.pair(row, version, ours)
            passed = True
        finally:
            self.table.note(row, ours, version, passed)
        self.alive()

    def pair(self, row, version, ours):
        guest = self.link.guest
        before = guest.counters() if row.rnr else None
        if row.loss:
            guest.lose(*row.loss)
        try:
            if row.results is rows.CONNECT:
                connect.pair(self.link, row.command, ours, peer.addresses(version, row.vlan), row.seconds)
                return
            our_text, their_text = self.link.pair(row.command, ours, version, row.seconds, row.vlan)
        finally:
            if row.loss:
                self.lost[row.loss[0]] += guest.lost(row.loss[0])
                guest.lose(row.loss[0], 0)
        if row.results is rows.PINGPONG:
            kit.check_pingpong(our_text)
            kit.check_pingpong(their_text)
        elif row.results is rows.VERIFY:
            check_verified(our_text)
            check_verified(their_text)
        elif ours == "client":
            kit.check_perftest(our_text, row.results)
        else:
            check_count(their_text, row.results)
        if row.rnr:
            after = guest.counters()
            name = "send_rnr_err" if ours == "client" else "rcvd_rnr_err"
            self.rnr_naks[ours] += after[name] - before[name]

    def connections(self, function):
        self.alive()
        for version in (4, 6):
            function(self.link, peer.addresses(version, False))
        self.alive()

    def both_lost(self):
        self.alive()
        if not all(self.lost.values()):
            raise kit.Failure(f"lost to uroce {self.lost['out']}, from uroce {self.lost['in']}")

    def both_not_ready(self):
        self.alive()
        if not all(self.rnr_naks.values()):
            raise kit.Failure(f"RNR NAKs by uroce's role: {self.rnr_naks}")

    def no_bad_frame(self):
        self.alive()
        reasons = {drop["reason"]: drop["value"] for drop in self.link.daemon.show("drops")}
        unexpected = {reason: count for reason, count in reasons.items() if reason not in EXPECTED_DROPS}
        if unexpected:
            raise kit.Failure(f"dropped: {unexpected}")

    def kernel_is_well(self):
        self.alive()
        faults = self.link.guest.kernel_faults()
        if faults:
            raise kit.Failure("\n".join(faults))

    def end(self):
        self.alive()
        log = self.link.daemon.log
        status = self.link.close()
        self.link = None
        if status != 0:
            raise kit.Failure(f"exit status {status}:\n{log()}")

    def close(self):
        if self.link is not None:
            self.link.close()
            self.link = None


class FullSession(Session):
    """With addresses that uroced speaks for itself, and a look at what comes of faults."""

    def points(self, chosen):
        points = super().points(chosen)
        yield next(points)
        yield f"{self.name}: each side finds the other", self.find_each_other
        yield from points

    def more_points(self):
        if not self.options.match:
            yield f"{self.name}: uroce rdma has the words of rdma in the guest", self.rdma_words
        if self.options.set == "all":
            yield f"{self.name}: what comes of faults is what rxe gives to rxe, or explained", self.faults

    def last_points(self):
        yield from capture_points(self)
        yield f"{self.name}: each side asked for the other and was answered", lambda: self.look(frames.resolved)

    def find_each_other(self):
        """First uroced has to ask, as a server is the first to connect its queue pair. Then the guest has to."""
        self.alive()
        guest = self.link.guest
        for version in (4, 6):
            self.link.pair("ibv_rc_pingpong -g {gid} -e -n 5", "server", version)
        for address, version in ((peer.IPV4, 4), (peer.IPV6, 6)):
            guest.ask_for(address)
            self.link.pair("ibv_rc_pingpong -g {gid} -e -n 5", "client", version)
        mac = self.link.daemon.show("ports")[0]["mac"]
        for address in (peer.IPV4, peer.IPV6):
            if mac not in guest.run(f"ip neigh show {address} dev eth0"):
                raise kit.Failure(f"the guest does not know {address}: {guest.run('ip neigh')}")
        known = {peer.plain(n["address"]): n.get("mac") for n in self.link.daemon.show("neighbours")}
        for address in (peer.GUEST_IPV4, peer.GUEST_IPV6):
            if known.get(address) != peer.GUEST_MAC:
                raise kit.Failure(f"uroced does not know {address}: {known}")

    def rdma_words(self):
        self.alive()
        rdma_words.compare(self.link, *peer.addresses(4, False))
        self.alive()

    def faults(self):
        self.alive()
        command = "verify -g {gid} --statuses"
        rxe = self.link.inside(command, 4, 180)[1]
        mixed = {ours: self.link.pair(command, ours, 4, 180)[0] for ours in rows.BOTH}
        explanations = faults.Explanations(os.path.join(HERE, "faults.txt"), self.options.image.name)
        wrong, compared = faults.compare(rxe, mixed, explanations)
        wrong += ["does not occur: " + line for line in explanations.stale()]
        if wrong or compared < 100:
            raise kit.Failure("\n".join([*wrong, f"{compared} compared"]))


class TapSession(Session):
    """What is looked at is what the kernel saw on the interface, not what uroced says."""

    def begin(self):
        super().begin()
        self.path = os.path.join(kit.scratch_folder(), "wire.pcap")
        # A filter would not find UDP behind a tag.
        self.capture = wire.Capture(self.link.port, self.path, "")
        self.ping(peer.IPV4, peer.IPV6)

    def more_points(self):
        yield f"{self.name}: the capture ends", self.end_capture

    def last_points(self):
        yield from capture_points(self)

    def end_capture(self):
        self.alive()
        self.capture.stop()

    def close(self):
        super().close()
        if self.link is None and self.failure is None and self.capture.process.poll() is None:
            self.capture.stop()


class SocketSession(TapSession):
    """Over UDP sockets, without the VLAN."""
    neighbours = ()

    def last_points(self):
        yield f"{self.name}: tshark reads every frame", lambda: self.look(frames.readable)
        yield f"{self.name}: zlib computes the same ICRCs", lambda: self.look(wire.checker_agrees)


def capture_points(session):
    """Programs that share no code with uroce look at the frames."""
    yield f"{session.name}: tshark reads every frame", lambda: session.look(frames.readable)
    yield f"{session.name}: zlib computes the same ICRCs", lambda: session.look(wire.checker_agrees)
    if session.options.match or session.options.set == "small":
        return  # what is looked for may not have been sent
    yield f"{session.name}: the traffic class is on the wire", lambda: session.look(frames.traffic_class)
    yield f"{session.name}: tshark knows the messages of connections", lambda: session.look(frames.connected)
    yield f"{session.name}: tags are on the wire, with priorities", lambda: session.look(frames.tags)


def check_count(text, expected):
    """Rows of results with iterations. The figures of a client in the guest are nothing to go by: its clock is emulated."""
    found = kit.perftest_rows(text)
    if len(found) != expected or any(row[1] <= 0 for row in found):
        raise kit.Failure(f"{len(found)} rows of results, {expected} were due:\n{text}")


def check_verified(text):
    counts = re.search(r"^(\d+) passed, (\d+) skipped, (\d+) failed$", text, re.M)
    if not counts or int(counts.group(1)) == 0 or int(counts.group(3)) != 0:
        raise kit.Failure("not verified:\n" + text)


def sessions(options, table):
    """(session, its rows). What is captured comes first: captures are limited."""
    here = FullSession("vhost-user", PORTS["vhost-user"], options, table)
    if options.set == "small":
        yield here, list(rows.small())
        return
    everything = options.set == "all"
    first, step = options.part
    yield SocketSession("socket", PORTS["socket"], options, table), rows.untagged(everything)[first::step]
    chosen = [*(rows.everything() if everything else rows.core())][first::step]
    yield here, [*rows.captured(), *chosen]
    chosen = [*rows.beside_tcp(), *rows.pingpongs(), *rows.operations()][first::step] if everything else []
    yield TapSession("tap", PORTS["tap"], options, table), [*rows.captured(), *chosen]


def chosen_of(options, chosen):
    return [row for row in chosen if options.match in row.command and row.kernel in ("", options.image.name)]


def write_page(path, table):
    with open(path) as file:
        text = file.read()
    results = BEGIN + "\n" + "\n".join(table.lines()) + "\n" + END
    text = re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: results, text, flags=re.S)
    with open(path, "w") as file:
        file.write(text)


def part_of(text):
    """"2/3" is (1, 3): a slice begins at the second of three."""
    numbers = re.fullmatch(r"(\d+)/(\d+)", text)
    if not numbers or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise argparse.ArgumentTypeError(f"{text} is not K/N with K from 1 to N")
    return int(numbers[1]) - 1, int(numbers[2])


def parse():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--set", choices=("small", "core", "all"), default="all")
    options.add_argument("--port", choices=PORTS, action="append")
    options.add_argument("--match", default="", help="only the pairs whose command contains this")
    options.add_argument("--part", type=part_of, default=(0, 1), metavar="K/N",
                         help="every Nth pair, from the Kth on, and the captured ones")
    options.add_argument("--kernel", help="of the guest: " + ", ".join(image.KERNELS) + ", or a package of this machine's release")
    options.add_argument("--write", metavar="PAGE", help="write the table into this page")
    arguments = options.parse_args()
    if arguments.write and not os.path.exists(arguments.write):
        options.error(f"there is no page {arguments.write}")
    return arguments


def main():
    options = parse()
    for program in ("qemu-system-x86_64", "readelf", "dumpcap", "tshark"):
        if shutil.which(program) is None:
            print(f"1..0 # SKIP there is no {program}")
            return 0
    try:
        options.image = image.Image(os.path.join(options.build, "interop"), options.kernel)
    except image.Unavailable as reason:
        print("1..0 # SKIP " + " ".join(str(reason).split()))
        return 0
    if os.geteuid() != 0:
        options.port = ["vhost-user"]
    kit.die_on_signals()
    options.build = kit.Build(options.build)
    table = Table()
    plan = [(session, list(session.points(chosen_of(options, chosen))))
            for session, chosen in sessions(options, table) if session.name in (options.port or PORTS)]
    tap = kit.Tap(sum(len(points) for _, points in plan))
    for session, points in plan:
        try:
            for name, function in points:
                tap.point(name, function)
        finally:
            session.close()
    for line in table.lines():
        print("# " + line)
    if options.write:
        write_page(options.write, table)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
