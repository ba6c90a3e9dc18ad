# SPDX-License-Identifier: BSD-3-Clause
"""Two network namespaces joined by a veth pair, and a uroced on each end of it. Needs root. Standard library only.

The kernel keeps its addresses on both interfaces, so that TCP goes over the same wires; uroced uses the same addresses
for RoCE."""
import argparse
import os
import shutil
import subprocess
import sys

import uroce_kit as kit


class Unavailable(Exception):
    """A requirement is missing; the text names it."""


def ip(*arguments):
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        raise Unavailable(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


class End:
    """One end: its namespace, interface and addresses."""

    def __init__(self, number, tag):
        self.number = number
        self.namespace = f"uroce-{tag}-{number}"
        self.interface = f"veth{number}"
        self.mac = f"02:00:00:00:77:0{number}"
        self.ipv4 = f"10.77.0.{number}"
        self.ipv6 = f"fd77::{number}"

    def run(self, *command, **more):
        return subprocess.run(["ip", "netns", "exec", self.namespace, *command], capture_output=True, text=True,
                              timeout=60, **more)


    def unreachables(self):
        """How many ICMP "destination unreachable" the kernel has sent."""
        text = self.run("cat", "/proc/net/snmp", "/proc/net/snmp6").stdout
        lines = [line.split() for line in text.splitlines() if line.startswith(("Icmp:", "Icmp6OutDestUnreachs"))]
        return int(dict(zip(*lines[:2]))["OutDestUnreachs"]) + int(lines[2][1])

    def is_up(self):
        state = ip("-n", self.namespace, "-o", "link", "show", "dev", self.interface)
        return " state UP " in state


def cut_packets(namespace, interface):
    """The kernel cuts long frames before they leave by the interface, as for a NIC that cannot."""
    subprocess.run(["ip", "netns", "exec", namespace, "ethtool", "-K", interface, "tx-udp-segmentation", "off"], check=True,
                   capture_output=True)


class Wire:
    """The namespaces and the pair between them; a context manager, so that they do not stay behind. cut: the kernel cuts
    long frames before they leave, and captures see packets."""

    def __init__(self, mtu, tag=None, cut=False):
        tag = tag or str(os.getpid())
        self.mtu, self.cut = mtu, cut
        self.ends = End(1, tag), End(2, tag)

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable("making network namespaces takes root")
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        one, two = self.ends
        for end in self.ends:
            ip("netns", "add", end.namespace)
        ip("link", "add", one.interface, "netns", one.namespace, "address", one.mac, "type", "veth",
           "peer", "name", two.interface, "netns", two.namespace, "address", two.mac)
        for end in self.ends:
            inside = ("-n", end.namespace)
            ip(*inside, "link", "set", "lo", "up")
            ip(*inside, "address", "add", end.ipv4 + "/24", "dev", end.interface)
            ip(*inside, "address", "add", end.ipv6 + "/64", "dev", end.interface, "nodad")
            if self.cut:
                cut_packets(end.namespace, end.interface)
            ip(*inside, "link", "set", end.interface, "mtu", str(self.mtu), "up")
        # The kernel finds out about the carrier up to a second later.
        kit.wait_until(lambda: all(end.is_up() for end in self.ends), 10, "veth is up")

    def __exit__(self, *_):
        for end in self.ends:
            subprocess.run(["ip", "netns", "del", end.namespace], capture_output=True)


def start(*programs, match="only the points whose name contains this", more=()):
    """What the tests of this folder begin with: reads the options --build, --match and those of more (name, keywords of
    add_argument). Returns them, or says why the test is skipped and ends it: a program or a privilege is missing."""
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--match", default="", help=match)
    for name, keywords in more:
        options.add_argument(name, **keywords)
    arguments = options.parse_args()
    try:
        for program in programs:
            if shutil.which(program) is None:
                raise Unavailable(f"there is no {program}")
        with Wire(1500):
            pass
    except Unavailable as reason:
        print(f"1..0 # SKIP {reason}")
        sys.exit(0)
    kit.die_on_signals()
    return arguments


def configuration(end, peer, mtu):
    """The text of a configuration file for uroced on this end."""
    return f"""[port.0]
device = packet,iface={end.interface}
mtu = {mtu}
address.0 = {end.ipv4}/24
address.1 = {end.ipv6}/64
neighbour.0 = {peer.ipv4} {peer.mac}
neighbour.1 = {peer.ipv6} {peer.mac}
"""


def daemons(build, folder, wire):
    """A uroced on each end."""
    started = []
    try:
        for end, peer in (wire.ends, wire.ends[::-1]):
            path = os.path.join(folder, f"uroced{end.number}.ini")
            with open(path, "w") as file:
                file.write(configuration(end, peer, wire.mtu))
            started.append(kit.Daemon(build, folder, name=f"uroced{end.number}", arguments=("-c", path),
                                      namespace=end.namespace))
    except BaseException:
        for daemon in started:
            daemon.stop()
        raise
    return started
