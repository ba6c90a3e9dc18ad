#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A kernel interface has one uroced, which says what it does to it. TAP; needs root and is skipped without.
usage: run_claim.py --build DIR [--match TEXT]"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

STRANGER = "65534"


def claim(true, text):
    if not true:
        raise kit.Failure(text)


class Tests:
    """One point each; the first daemon stays for all of them."""

    def __init__(self, build, folder, wire):
        self.build, self.folder = build, folder
        self.one, self.two = wire.ends
        self.config = os.path.join(folder, "port.ini")
        with open(self.config, "w") as file:
            file.write(net.configuration(self.one, self.two, 1400))
        self.daemon = self.start("first")

    def start(self, name, config=None):
        return kit.Daemon(self.build, self.folder, name, ("-c", config or self.config), self.one.namespace)

    def mtu(self):
        text = subprocess.run(["ip", "-netns", self.one.namespace, "link", "show", self.one.interface], capture_output=True,
                              text=True, timeout=20, check=True).stdout
        return int(re.search(r" mtu (\d+)", text)[1])

    def mtu_is_told(self):
        """an MTU that uroced changes is told"""
        wanted = f"the MTU of {self.one.interface} is 1400 now, it was 1500"
        claim(wanted in self.daemon.log(), self.daemon.log())

    def serving_is_told(self):
        """uroced says where it serves, and what"""
        path = os.path.join(self.folder, "told.sock")
        with subprocess.Popen([self.build.uroced, "--loopback", "--socket", path], stderr=subprocess.PIPE, text=True) as told:
            line = told.stderr.readline()
            told.terminate()
        claim(line == f"uroced: serving at {path}: uroce0 on loopback\n", line)

    def second_is_refused(self):
        """a second uroced on the interface is refused, names the first, and changes nothing"""
        with open(self.config) as file:
            other = file.read().replace("mtu = 1400", "mtu = 1300")
        path = os.path.join(self.folder, "second.ini")
        with open(path, "w") as file:
            file.write(other)
        try:
            second = self.start("second", path)
        except kit.Failure as failure:
            pid = self.daemon.process.pid
            claim(re.search(rf"{self.one.interface} is in use by another uroced, process \d+", str(failure)),
                      f"not refused for the reason (the first is {pid}): {failure}")
            claim("mtu = 1300" in other and self.mtu() == 1400, f"the MTU is {self.mtu()}")
            return
        second.stop()
        raise kit.Failure("a second daemon started on the interface")

    def next_may_start(self):
        """when the first has ended, even by SIGKILL, the next one starts"""
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon = self.start("next")

    def stranger_is_ignored(self):
        """another user's claim keeps no daemon from starting"""
        self.daemon.stop()
        code = ("import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
                "print('', flush=True); sys.stdin.read()")
        name = "@uroced/" + self.one.interface
        with subprocess.Popen(["ip", "netns", "exec", self.one.namespace, "setpriv", "--reuid", STRANGER, "--clear-groups",
                               sys.executable, "-c", code.replace("sys.argv[1]", "'\\0' + sys.argv[1][1:]"), name],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
            stranger.stdout.readline()
            self.daemon = self.start("ignores")
            stranger.stdin.close()
        claim("is another user's; that is ignored" in self.daemon.log(), self.daemon.log())


def main():
    arguments = net.start("ip", "setpriv")
    names = ("mtu_is_told", "serving_is_told", "second_is_refused", "next_may_start", "stranger_is_ignored")
    points = [name for name in names if arguments.match in name]
    tap = kit.Tap(len(points))
    with net.Wire(1500) as wire:
        tests = Tests(kit.Build(arguments.build), kit.scratch_folder(), wire)
        try:
            for name in points:
                tap.point(getattr(Tests, name).__doc__, getattr(tests, name))
        finally:
            tests.daemon.stop()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
