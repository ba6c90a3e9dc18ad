#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The firewall rule of doc/uroced.md: other users' packets do not reach a connection, those of uroced do. TAP; needs root, nft
and a kernel with nf_tables, and is skipped without.
usage: run_firewall.py --build DIR [--match TEXT]"""
import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

STRANGER = "65534"
PAGE = os.path.join(HERE, "..", "..", "doc", "uroced.md")
SEND = "import socket, sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x' * 64, (sys.argv[1], 4791))"


def rule():
    """The page's commands."""
    with open(PAGE) as page:
        commands = [shlex.split(line) for line in page if line.startswith("    nft ")]
    if not commands:
        raise kit.Failure("the page has no commands")
    return commands


class Tests:
    def __init__(self, build, folder, wire):
        self.build, self.wire = build, wire
        self.one, self.two = wire.ends
        self.daemons = net.daemons(build, folder, wire)

    def run(self, *command):
        return subprocess.run(["ip", "netns", "exec", self.one.namespace, *command], capture_output=True, text=True)

    def received(self):
        """Datagrams to port 4791 that the other uroced has looked at, and dropped."""
        return self.daemons[1].show("drops")

    def send_as(self, uid):
        """Whether the kernel sends a datagram of the user to the other end."""
        return self.run("setpriv", "--reuid", uid, "--clear-groups", sys.executable, "-c", SEND, self.two.ipv4).returncode == 0

    def without_it_they_arrive(self):
        """without the rule another user's packets reach the other uroced"""
        before = self.received()
        if not self.send_as(STRANGER):
            raise kit.Failure("the datagram is not sent")
        kit.wait_until(lambda: self.received() != before, 10, "the other uroced drops the datagram")

    def with_it_they_do_not(self):
        """with it the kernel refuses to send them"""
        for command in rule():
            done = self.run(*command)
            if done.returncode:
                raise kit.Failure(f"{shlex.join(command)}: {done.stderr}")
        if self.send_as(STRANGER):
            raise kit.Failure("the datagram is sent")

    def uroced_passes(self):
        """with it programs over uroced, connect and transfer"""
        _, text = kit.run_pair(self.daemons[1], ["ibv_rc_pingpong", "-g", "0", "-n", "100", "-c"],
                               client_daemon=self.daemons[0], address=self.two.ipv4, seconds=60)
        kit.check_pingpong(text)

    def end(self):
        for daemon in self.daemons:
            daemon.stop()


def main():
    arguments = net.start("ip", "setpriv", "nft", "ibv_rc_pingpong")
    if subprocess.run(["unshare", "-n", "nft", "add", "table", "inet", "uroce"], capture_output=True).returncode:
        print("1..0 # SKIP the kernel has no nf_tables")
        return 0
    names = ("without_it_they_arrive", "with_it_they_do_not", "uroced_passes")
    points = [name for name in names if arguments.match in name]
    tap = kit.Tap(len(points))
    with net.Wire(1500) as wire:
        tests = Tests(kit.Build(arguments.build), kit.scratch_folder(), wire)
        try:
            for name in points:
                tap.point(getattr(Tests, name).__doc__, getattr(tests, name))
        finally:
            tests.end()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
