#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The loopback device has the addresses of its host, as they change. The host is a network namespace. TAP; needs root
and is skipped without. usage: run_loopback.py --build DIR [--match TEXT]"""
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

FIXED = [(0, "127.0.0.1", "RoCE v2"), (1, "::1", "RoCE v2"), (2, "127.0.0.1", "RoCE v1"), (3, "::1", "RoCE v1")]
GIDS_MAX = 64
VERSIONS = ("RoCE v2", "RoCE v1")

# Runs the arguments after the first with sockets of this family refused: a classic BPF filter of system calls.
REFUSE_FAMILY = """
import ctypes, os, struct, sys
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 97  # EAFNOSUPPORT
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]  # socket
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, number), (LOAD, 0, 0, 16), (EQUAL, 0, 1, int(sys.argv[1])),
         (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Host:
    """A network namespace with two interfaces that lead nowhere; a context manager."""

    def __init__(self):
        self.name = f"uroce-{os.getpid()}-host"

    def ip(self, *arguments):
        return net.ip("-n", self.name, *arguments)

    def add(self, address, interface="one"):
        self.ip("address", "add", address, "dev", interface, *(("nodad",) if ":" in address else ()))

    def remove(self, address, interface="one"):
        self.ip("address", "del", address, "dev", interface)

    def index(self, interface):
        return json.loads(self.ip("-j", "link", "show", "dev", interface))[0]["ifindex"]

    def addresses(self):
        """Of each address its first interface's index, in the kernel's order."""
        found = {}
        for family in ("-4", "-6"):
            for link in json.loads(self.ip("-j", family, "address", "show")):
                for info in link.get("addr_info", ()):
                    found.setdefault(info["local"], link["ifindex"])
        return found

    def __enter__(self):
        if os.geteuid() != 0:
            raise net.Unavailable("making network namespaces takes root")
        net.ip("netns", "add", self.name)
        try:
            self.ip("link", "set", "lo", "up")
            for interface in ("one", "two"):
                peer = interface + "-peer"
                self.ip("link", "add", interface, "type", "veth", "peer", "name", peer)
                self.ip("link", "set", peer, "addrgenmode", "none", "up")
                self.ip("link", "set", interface, "up")
            self.add("192.0.2.7/24")
            self.add("fd77::7/64")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


def claim(true, text):
    if not true:
        raise kit.Failure(text)


class Tests:
    """One point each, in this order; they share the host and, where they start no other, the daemon."""

    def __init__(self, build, folder, host):
        self.build, self.folder, self.host = build, folder, host
        self.daemon = self.start("--loopback")

    def start(self, *arguments, name="uroced"):
        return kit.Daemon(self.build, self.folder, name=name, arguments=arguments, namespace=self.host.name)

    def configured(self, name, text):
        path = os.path.join(self.folder, name + ".ini")
        with open(path, "w") as file:
            file.write(text)
        return self.start("-c", path, name=name)

    def gids(self, daemon=None):
        return [(row["index"], row["address"], row["type"]) for row in (daemon or self.daemon).show("gids")]

    def indexes(self, address):
        return [index for index, own, _ in self.gids() if own == address]

    def interface(self, address):
        """The indexes of the interfaces that its GIDs name."""
        return {row["ifindex"] for row in self.daemon.show("gids") if row["address"] == address}

    def has(self, *addresses):
        return set(addresses) <= {address for _, address, _ in self.gids()}

    def await_gids(self, condition, what):
        kit.wait_until(condition, 10, what)

    def await_all(self):
        """Until the device has every address of the host and no other."""
        want = {(address, version) for address in self.host.addresses() for version in VERSIONS}
        self.await_gids(lambda: {(address, version) for _, address, version in self.gids()} == want,
                        f"the addresses {sorted(want)}")

    def starts_with_all(self):
        """at the start the fixed addresses come first, then those of the host, each with its interface"""
        claim(self.gids()[:4] == FIXED, f"{self.gids()}")
        self.await_all()
        for address, interface in self.host.addresses().items():
            claim(self.interface(address) == {interface}, f"{address}: {self.daemon.show('gids')}")
        claim(any(address.startswith("fe80:") for address in self.host.addresses()), "no link-local one was tested")

    def without_descriptors(self):
        """an address that comes while the daemon has no descriptor to read it by is there soon after"""
        kit.wait_until(lambda: not self.host.ip("-o", "address", "show", "tentative"), 20, "no other change")
        kind = resource.RLIMIT_NOFILE
        soft, hard = resource.prlimit(self.daemon.process.pid, kind)
        resource.prlimit(self.daemon.process.pid, kind, (1, hard))
        try:
            self.host.add("192.0.2.8/24")
            time.sleep(0.5)  # the daemon has had the notification
        finally:
            resource.prlimit(self.daemon.process.pid, kind, (soft, hard))
        self.await_gids(lambda: self.has("192.0.2.8"), "the address")
        self.host.remove("192.0.2.8/24")
        self.await_all()

    def programs_see_them(self):
        """ibv_devinfo lists them"""
        text = kit.Program(self.daemon, ["ibv_devinfo", "-v"]).finish(20)
        for word in ("::ffff:192.0.2.7, RoCE v2", "fd77::7, RoCE v2"):
            claim(word in text, f"no {word} in\n{text}")

    def every_gid_works(self):
        """a connection by every GID, of both versions"""
        for index, address, version in self.gids():
            server, client = kit.run_pair(self.daemon, ["ibv_rc_pingpong", "-c", "-n", "20", "-g", str(index)])
            kit.check_pingpong(client)
            _, text = kit.run_pair(self.daemon, ["ib_write_bw", "-F", "-n", "20", "-x", str(index)])
            kit.check_perftest(text)

    def follows(self):
        """an address that comes and goes does so on the device; programs get IBV_EVENT_GID_CHANGE"""
        watch = kit.Program(self.daemon, ["stdbuf", "-o0", "ibv_asyncwatch", "-d", "uroce0"])
        try:
            kit.wait_until(lambda: "async event FD" in watch.text(), 20, "ibv_asyncwatch waits")
            before = self.gids()
            events = 0
            for address in ("198.51.100.3", "fd77::3"):
                self.host.add(address + ("/64" if ":" in address else "/24"))
                self.await_gids(lambda: len(self.indexes(address)) == 2, f"{address} comes")
                events += 1
                kit.wait_until(lambda: watch.text().count("IBV_EVENT_GID_CHANGE") >= events, 10, "an event of the new GID")
                indexes = self.indexes(address)
                kit.check_pingpong(kit.run_pair(self.daemon, ["ibv_rc_pingpong", "-n", "20", "-g", str(indexes[0])])[1])
                self.host.remove(address + ("/64" if ":" in address else "/24"))
                self.await_gids(lambda: not self.has(address), f"{address} goes")
                events += 1
                kit.wait_until(lambda: watch.text().count("IBV_EVENT_GID_CHANGE") >= events, 10, "an event of the old GID")
                claim(self.gids() == before, f"{before} became {self.gids()}")
        finally:
            watch.kill()

    def meet(self, where, name):
        """A server at the wildcard address and a client at what `where` says, with `name` for the host's name in its /etc/hosts,
        which is bound over the machine's in the client's mount namespace."""
        hosts = os.path.join(self.folder, "hosts")
        with open(hosts, "w") as file:
            file.write(f"{name} {socket.gethostname()}\n")
        for server, client, text in (("rping -s -C 3 -v", f"rping -c -C 3 -v -a {where}", "rdma-ping-2"),
                                     ("ucmatose -c 3", f"ucmatose -c 3 -s {where}", "data transfers complete")):
            one = kit.Program(self.daemon, server.split())
            other = None
            try:
                kit.await_cm_listening(self.daemon, one, 20)
                other = kit.Program(self.daemon, ["sh", "-c", f"mount --bind {hosts} /etc/hosts && exec {client}"])
                claim(text in other.finish(20), "no data:\n" + other.text())
                claim(text in one.finish(20), "no data:\n" + one.text())
            except kit.Failure as failure:
                raise kit.Failure(f"{failure}\nserver's side:\n{one.text()}")
            finally:
                one.kill()
                if other:
                    other.kill()

    def programs_of_rdma_cm_meet(self):
        """programs of rdma_cm meet at an address that was added, and at what `hostname -i` says"""
        for address, prefix in (("198.51.100.8", 24), ("127.0.0.9", 8)):
            self.host.add(f"{address}/{prefix}")
            self.await_gids(lambda address=address: self.has(address), f"{address} comes")
            self.meet(address, address)
            self.meet("$(hostname -i)", address)
            self.host.remove(f"{address}/{prefix}")
        self.meet("127.0.0.1", "127.0.0.1")

    def indexes_stay(self):
        """entries keep their indexes when others go, and get them back"""
        for number in range(1, 4):
            self.host.add(f"198.51.100.{number}/24")
        self.await_gids(lambda: self.has("198.51.100.3"), "three addresses")
        before = self.gids()
        self.host.remove("198.51.100.1/24")
        self.host.add("198.51.100.1/32", "two")  # the others were its secondaries, and went with it
        self.await_all()
        self.host.remove("198.51.100.1/32", "two")
        for number in range(1, 4):
            self.host.add(f"198.51.100.{number}/32", "two")
        self.await_all()
        claim(self.gids() == before, f"{before} became {self.gids()}")
        self.host.ip("address", "flush", "dev", "two", "scope", "global")
        self.await_all()

    def one_address_of_two_interfaces(self):
        """an address of two interfaces has one entry, which stays until both have lost it"""
        one, two = self.host.index("one"), self.host.index("two")
        self.host.add("fe80::77/64", "one")
        self.host.add("fe80::77/64", "two")
        self.await_gids(lambda: self.interface("fe80::77") == {one}, "the first interface's")
        before = self.indexes("fe80::77")
        self.host.remove("fe80::77/64", "one")
        self.await_gids(lambda: self.interface("fe80::77") == {two}, "the second interface's")
        claim(self.indexes("fe80::77") == before, f"{before} became {self.gids()}")
        self.host.remove("fe80::77/64", "two")
        self.await_gids(lambda: not self.has("fe80::77"), "it goes")

    def interface_goes(self):
        """the addresses of an interface go with it"""
        self.host.ip("link", "add", "three", "type", "veth", "peer", "name", "three-peer")
        self.host.add("198.51.100.5/24", "three")
        self.await_gids(lambda: self.interface("198.51.100.5") == {self.host.index("three")}, "it comes")
        self.host.ip("link", "del", "three")
        self.await_gids(lambda: not self.has("198.51.100.5"), "it goes")

    def interface_of_a_vlan(self):
        """the address of an interface in a VLAN is untagged"""
        try:
            self.host.ip("link", "add", "link", "one", "name", "one.5", "type", "vlan", "id", "5")
        except net.Unavailable as reason:
            raise kit.Skipped(str(reason))
        self.host.ip("link", "set", "one.5", "up")
        self.host.add("198.51.100.5/24", "one.5")
        self.await_gids(lambda: self.has("198.51.100.5"), "it comes")
        claim(not any("vlan" in row for row in self.daemon.show("gids")), f"{self.daemon.show('gids')}")
        self.host.ip("link", "del", "one.5")
        self.await_all()

    def more_than_fit(self):
        """of more addresses than fit the first ones stay, the log says so once, and others follow when one goes"""
        claim(self.daemon.log() == "", self.daemon.log())
        before = self.gids()
        for number in range(1, GIDS_MAX):
            self.host.add(f"203.0.113.{number}/32")
        self.await_gids(lambda: len(self.gids()) == GIDS_MAX, "a full table")
        claim(self.gids()[:len(before)] == before, f"{before} became {self.gids()}")
        fit = (GIDS_MAX - len(before)) // 2
        claim(self.has(*(f"203.0.113.{number}" for number in range(1, fit + 1))), f"not the first: {self.gids()}")
        last = [index for index, _, _ in self.gids()][-2:]
        kit.check_pingpong(kit.run_pair(self.daemon, ["ibv_rc_pingpong", "-n", "20", "-g", str(last[0])])[1])
        self.host.remove("203.0.113.1/32")
        self.await_gids(lambda: self.has(f"203.0.113.{fit + 1}"), "the next one comes")
        claim(not self.has("203.0.113.1") and len(self.gids()) == GIDS_MAX, f"{self.gids()}")
        log = self.daemon.log()
        claim(log.count("more addresses than") == 1 and len(log.splitlines()) == 1, f"the log: {log}")
        # A daemon that starts now prefers routable addresses to link-local ones.
        late = self.start("--loopback", name="late")
        addresses = {address for _, address, _ in self.gids(late)}
        late.stop()
        claim(len(addresses) == GIDS_MAX // 2 and not any(a.startswith("fe80:") for a in addresses), f"{addresses}")
        self.host.ip("address", "flush", "dev", "one", "to", "203.0.113.0/24")
        self.await_all()

    def addresses_of_the_configuration(self):
        """a device with addresses of the configuration has only those; or the host's, too"""
        port = "[uroced]\nuser = daemon\n[port.0]\ndevice = loopback\naddress.0 = 10.9.9.1/24\n"
        only = self.configured("only", port)
        both = self.configured("both", port + "addresses = host\nroce = v2\n")
        option = self.start("--loopback=10.9.9.1/24,fd99::1", name="option")
        try:
            claim(self.gids(only) == [(0, "10.9.9.1", "RoCE v2"), (1, "10.9.9.1", "RoCE v1")], f"{self.gids(only)}")
            claim([row["address"] for row in option.show("gids")] == ["10.9.9.1", "fd99::1"] * 2, f"{self.gids(option)}")
            want = {"10.9.9.1", *self.host.addresses()}
            claim({address for _, address, _ in self.gids(both)} == want, f"{self.gids(both)}")
            claim(self.gids(both)[0] == (0, "10.9.9.1", "RoCE v2"), f"{self.gids(both)}")
            self.host.add("198.51.100.9/24")
            kit.wait_until(lambda: "198.51.100.9" in {address for _, address, _ in self.gids(both)}, 10,
                           "an address for the daemon without privileges")
            self.host.remove("198.51.100.9/24")
            claim(len(self.gids(only)) == 2, f"{self.gids(only)}")
        finally:
            statuses = [daemon.stop() for daemon in (only, both, option)]
        claim(statuses == [0, 0, 0], f"{statuses}")

    def without_netlink(self):
        """where the kernel does not name addresses, the device has the fixed ones"""
        program = os.path.join(self.folder, "refuse")
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\nexec {sys.executable} -c '{REFUSE_FAMILY}' 16 {self.build.uroced} \"$@\"\n")
        os.chmod(program, 0o755)
        build = kit.Build(self.build.folder)
        build.uroced = program
        daemon = kit.Daemon(build, self.folder, name="refused", namespace=self.host.name)
        try:
            claim(self.gids(daemon) == FIXED, f"{self.gids(daemon)}")
            claim(re.search("cannot follow the addresses of the host.*Address family", daemon.log()), daemon.log())
        finally:
            claim(daemon.stop() == 0, "the end")

    def ends(self):
        """nothing was dropped for its contents, and the daemon ends well"""
        reasons = {row["reason"] for row in self.daemon.show("drops")}
        claim(reasons <= {"unknown_qpn", "qp_state"}, f"{reasons}")
        claim(self.daemon.stop() == 0, self.daemon.log())

    POINTS = (starts_with_all, without_descriptors, programs_see_them, every_gid_works, follows, programs_of_rdma_cm_meet,
              indexes_stay, one_address_of_two_interfaces, interface_goes, interface_of_a_vlan, more_than_fit,
              addresses_of_the_configuration, without_netlink, ends)


def main():
    arguments = net.start("ip", "ibv_rc_pingpong", "ib_write_bw", "ibv_asyncwatch", "rping", "ucmatose")
    points = [point for point in Tests.POINTS if arguments.match in point.__name__]
    tap = kit.Tap(len(points))
    with Host() as host:
        tests = Tests(kit.Build(arguments.build), kit.scratch_folder(), host)
        try:
            for point in points:
                tap.point(re.sub(r"\s+", " ", point.__doc__), lambda: point(tests))
        finally:
            tests.daemon.stop()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
