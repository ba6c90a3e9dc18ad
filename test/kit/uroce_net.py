# SPDX-License-Identifier: BSD-3-Clause
"""Two network namespaces joined by a veth pair, and a uroced on each end of it. Needs root. Standard library only.

The kernel keeps its addresses on both interfaces, so that TCP goes over the same wires; uroced uses the same addresses
for RoCE. The kernel sees those frames too and would answer with ICMP "port unreachable": a socket that discards
everything keeps it quiet."""
import ctypes
import os
import socket
import struct
import subprocess

import uroce_kit as kit

ROCE_PORT = 4791


class Unavailable(Exception):
    """What is needed is not there; the text says what."""


def ip(*arguments):
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        raise Unavailable(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def discarding_socket(namespace):
    """A socket on the RoCE port in the namespace, with a filter that accepts nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open("/run/netns/" + namespace, os.O_RDONLY)
    try:
        if libc.setns(other, 0) != 0:
            raise Unavailable("entering a network namespace: " + os.strerror(ctypes.get_errno()))
        try:
            held = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        finally:
            libc.setns(own, 0)
    finally:
        os.close(own)
        os.close(other)
    program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # BPF: return 0
    held.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxP", 1, ctypes.addressof(program)))  # SO_ATTACH_FILTER
    held.bind(("::", ROCE_PORT))
    return held


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


class Wire:
    """The namespaces and the pair between them; a context manager, so that they do not stay behind."""

    def __init__(self, mtu, tag=None):
        tag = tag or str(os.getpid())
        self.mtu = mtu
        self.ends = End(1, tag), End(2, tag)
        self.quiet = []

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
            ip(*inside, "link", "set", end.interface, "mtu", str(self.mtu), "up")
            self.quiet.append(discarding_socket(end.namespace))

    def __exit__(self, *_):
        for held in self.quiet:
            held.close()
        for end in self.ends:
            subprocess.run(["ip", "netns", "del", end.namespace], capture_output=True)


def configuration(end, peer, mtu):
    """The text of a configuration file for uroced on this end."""
    frame = 2048
    while frame < mtu + 128:
        frame *= 2
    return f"""[port 0]
device = net_af_packet0,iface={end.interface},framesz={frame},blocksz=65536,framecnt=512
ipv4 = {end.ipv4}/24
ipv6 = {end.ipv6}/64
mtu = {mtu}

[neighbours]
{peer.ipv4} = {peer.mac}
{peer.ipv6} = {peer.mac}
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
