#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroced as a citizen of a network: what Linux kernels, a bridge that snoops on group membership and a router think of
it. Hosts are network namespaces. TAP; needs root and is skipped without. usage: run_host.py --build DIR [--match TEXT]"""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

MTU = 4200
GROUP = "239.7.7.7"
GROUP_MGID = "0:0:0:0:0:0:0:0:0:0:255:255:239:7:7:7"


class Lab:
    """A bridge with hosts on it, a router to a second network with one host, and a network of their own for the
    programs' TCP: uroced's interfaces have no kernel address."""

    def __init__(self):
        self.tag = str(os.getpid())
        self.names = []

    def name(self, host):
        return f"uroce-{self.tag}-{host}"

    def ip(self, host, *arguments):
        return net.ip("-n", self.name(host), *arguments)

    def run(self, host, *command, seconds=60):
        return subprocess.run(["ip", "netns", "exec", self.name(host), *command], capture_output=True, text=True,
                              timeout=seconds)

    def host(self, host):
        net.ip("netns", "add", self.name(host))
        self.names.append(self.name(host))
        self.ip(host, "link", "set", "lo", "up")

    def cable(self, host, interface, switch, mac=None, mtu=MTU):
        """Joins an interface of a host with a port of the switch."""
        port = f"{host}.{interface}"[:15]
        address = ("address", mac) if mac else ()
        net.ip("link", "add", interface, "netns", self.name(host), *address, "mtu", str(mtu), "type", "veth",
               "peer", "name", port, "netns", self.name("switch"), "mtu", str(mtu))
        self.ip(host, "link", "set", interface, "addrgenmode", "none")
        self.ip("switch", "link", "set", port, "addrgenmode", "none", "master", switch, "up")
        self.ip(host, "link", "set", interface, "up")

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        for host in ("switch", "one", "two", "three", "four", "peer", "router"):
            self.host(host)
        for bridge, snooping in (("lan", 1), ("far", 0), ("control", 0)):
            self.ip("switch", "link", "add", bridge, "type", "bridge", "mcast_snooping", str(snooping),
                    "mcast_querier", str(snooping))
            self.ip("switch", "link", "set", bridge, "addrgenmode", "none", "up")
        for number, host in enumerate(("one", "two", "three", "four"), 1):
            self.cable(host, "roce", "far" if host == "three" else "lan", mac=f"02:00:00:00:78:0{number}")
            self.cable(host, "tcp", "control")
            self.ip(host, "address", "add", f"10.79.0.{number}/24", "dev", "tcp")
        self.cable("peer", "eth", "lan", mac="02:00:00:00:78:09")
        self.cable("router", "lan", "lan")
        # The far network takes less: packets too big for it must be reported.
        self.cable("router", "far", "far", mtu=1500)
        for host, device, addresses in (("peer", "eth", ("10.78.0.9/24", "fd78::9/64")),
                                        ("router", "lan", ("10.78.0.254/24", "fd78::fe/64")),
                                        ("router", "far", ("10.80.0.254/24", "fd80::fe/64"))):
            for address in addresses:
                self.ip(host, "address", "add", address, "dev", device, *(("nodad",) if ":" in address else ()))
        self.run("router", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")

        def all_up():
            links = [link for host in ("one", "two", "three", "four", "peer", "router")
                     for link in json.loads(self.ip(host, "-j", "link", "show")) if link["ifname"] != "lo"]
            return all(link["operstate"] == "UP" for link in links)
        kit.wait_until(all_up, 10, "the links are up")

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def daemon(self, build, folder, host, text):
        path = os.path.join(folder, f"{host}.ini")
        with open(path, "w") as file:
            file.write("[port.0]\ndevice = packet,iface=roce\n" + text)
        return kit.Daemon(build, folder, name=host, arguments=("-c", path), namespace=self.name(host))


def claim(true, text):
    if not true:
        raise kit.Failure(text)


def gids(daemon):
    return [row["address"] for row in daemon.show("gids")]


def neighbour(daemon, address):
    states = [row["state"] for row in daemon.show("neighbours") if row["address"] == address]
    return states[0] if states else None


class Tests:
    """One point each, in this order; they share the lab and three daemons."""

    def __init__(self, build, folder, lab):
        self.build, self.folder, self.lab = build, folder, lab
        self.daemons = {}

    def start(self, host, text):
        self.daemons[host] = self.lab.daemon(self.build, self.folder, host, text)

    def start_all(self):
        routes = "route.0 = 10.80.0.0/24 via 10.78.0.254\nroute.1 = fd80::/64 via fd78::fe\n"
        self.start("one", "address.0 = 10.78.0.1/24\naddress.1 = fd78::1/64\n" + routes)
        self.start("two", "address.0 = 10.78.0.2/24\naddress.1 = fd78::2/64\naddress.2 = fd78::9/64\n")
        self.start("three", "address.0 = 10.80.0.3/24\naddress.1 = fd80::3/64\n"
                            "route.0 = default via 10.80.0.254\nroute.1 = default via fd80::fe\n")

    def preferred(self, host):
        """Waits until its addresses are preferred; duplicates are not among its GIDs."""
        kit.wait_until(lambda: {row.get("state") for row in self.daemons[host].show("gids")} == {"preferred"}, 15,
                       f"{host}'s addresses are preferred")

    def stop(self):
        statuses = {host: daemon.stop() for host, daemon in self.daemons.items()}
        if any(statuses.values()):
            raise kit.Failure(f"exit statuses {statuses}: " + "\n".join(d.log() for d in self.daemons.values()))

    def pair(self, server, client, command, number=1, client_arguments=()):
        _, text = kit.run_pair(self.daemons[server], command.split(), client_daemon=self.daemons[client],
                               address=f"10.79.0.{number}", client_arguments=client_arguments, seconds=60)
        return text

    def ping(self, *arguments):
        result = self.lab.run("peer", "ping", "-n", "-c", "2", "-i", "0.2", "-W", "5", *arguments)
        claim(result.returncode == 0, result.stdout + result.stderr)

    # ---- points ----

    def kernel_pings_ipv4(self):
        """a kernel resolves the IPv4 address and is answered"""
        self.ping("10.78.0.1")
        self.ping("-s", "4000", "10.78.0.1")

    def kernel_pings_ipv6(self):
        """a kernel resolves the IPv6 address and is answered"""
        self.ping("fd78::1")
        self.ping("-s", "4000", "fd78::1")

    def kernel_knows_the_mac(self):
        """the kernel's neighbour table has the port's MAC"""
        table = {row["dst"]: row for row in json.loads(self.lab.ip("peer", "-j", "neigh", "show", "dev", "eth"))}
        for address in ("10.78.0.1", "fd78::1"):
            claim(table.get(address, {}).get("lladdr") == "02:00:00:00:78:01", f"{address}: {table.get(address)}")

    def duplicate_is_given_up(self):
        """an address that a kernel has already is given up"""
        kit.wait_until(lambda: "fd78::9" not in gids(self.daemons["two"]), 15, "fd78::9 is gone")
        claim("fd78::2" in gids(self.daemons["two"]), "fd78::2 is gone, too")
        self.start("four", "address.0 = 10.78.0.9/24\naddress.1 = 10.78.0.4/24\n")
        kit.wait_until(lambda: gids(self.daemons["four"]) == ["10.78.0.4"] * 2, 15, "10.78.0.9 is gone")
        claim(self.daemons.pop("four").stop() == 0, "it does not end well")

    def kernel_gives_up_duplicate(self):
        """a kernel that takes an address of uroced detects it"""
        self.preferred("one")  # before that both would give up the address
        self.lab.ip("peer", "address", "add", "fd78::1/64", "dev", "eth")
        try:
            def failed():
                return any(a.get("dadfailed") and a["local"] == "fd78::1"
                           for link in json.loads(self.lab.ip("peer", "-j", "address", "show", "dev", "eth"))
                           for a in link["addr_info"])
            kit.wait_until(failed, 10, "the kernel finds the duplicate")
        finally:
            self.lab.ip("peer", "address", "del", "fd78::1/64", "dev", "eth")

    def programs_resolve(self):
        """programs on two hosts find each other without configured neighbours"""
        for gid in (0, 1):
            kit.check_pingpong(self.pair("one", "two", f"ibv_rc_pingpong -g {gid} -c -n 100"))
        kit.check_pingpong(self.pair("one", "two", "ibv_ud_pingpong -g 0 -e -c -s 1024"))
        claim(neighbour(self.daemons["two"], "10.78.0.1") in ("reachable", "stale", "probe"),
              str(self.daemons["two"].show("neighbours")))

    def nobody_there(self):
        """a peer that is not there is an error within seconds, and others are served at the same time"""
        environment = dict(self.daemons["one"].environment())
        script = ("import sys; from pyverbs.device import Context; from pyverbs.pd import PD; "
                  "from pyverbs.addr import AHAttr, GlobalRoute, AH, GID; from pyverbs.pyverbs_error import PyverbsRDMAError\n"
                  "c = Context(name='uroce0'); p = PD(c); "
                  "a = AHAttr(gr=GlobalRoute(dgid=GID('0000:0000:0000:0000:0000:ffff:0a4e:004d'), sgid_index=0), is_global=1, port_num=1)\n"
                  "try:\n AH(p, attr=a)\nexcept PyverbsRDMAError as e:\n print(e.error_code); sys.exit(0)\nsys.exit(1)")
        command = self.daemons["one"].prefix + ["/usr/bin/python3", "-c", script]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=environment)
        try:
            kit.wait_until(lambda: neighbour(self.daemons["one"], "10.78.0.77") == "incomplete", 10, "it is asked for")
            kit.check_pingpong(self.pair("one", "two", "ibv_rc_pingpong -g 0 -n 10"))
            text, _ = waiting.communicate(timeout=20)
        finally:
            waiting.kill()
        claim(waiting.returncode == 0 and text.split()[-1] in ("113", "-113"), f"{waiting.returncode}: {text}")

    def through_a_router(self):
        """a gateway leads to the other network"""
        for gid in (0, 1):
            kit.check_pingpong(self.pair("one", "three", f"ibv_rc_pingpong -g {gid} -c -m 1024 -n 100"))

    def too_big(self):
        """a router's report of a packet too big applies to the next connection"""
        def attempt():
            try:
                self.pair("three", "one", "ibv_rc_pingpong -g 0 -m 4096 -s 8192 -n 2", 3)
            except kit.Failure as failure:
                return str(failure)
            raise kit.Failure("4 KiB packets went through a network with an MTU of 1500")
        attempt()
        learned = {row["to"]: row["mtu"] for row in self.daemons["one"].show("path_mtus")}
        claim(learned.get("10.80.0.3") == 1500, f"learned: {learned}")
        claim("Failed to modify QP to RTR" in attempt(), "a path MTU above the learned one is accepted")
        kit.check_pingpong(self.pair("three", "one", "ibv_rc_pingpong -g 0 -m 1024 -s 8192 -n 2", 3))

    def group_membership(self):
        """a bridge that snoops learns of the members of a group"""
        def members():
            return {entry["port"] for table in json.loads(self.lab.run("switch", "bridge", "-j", "mdb", "show").stdout)
                    for entry in table["mdb"] if entry["grp"] == GROUP}
        port = kit.free_port()
        command = ["ib_send_lat", "-c", "UD", "-g", "-M", GROUP_MGID, "-x", "0", "-F", "-s", "512", "-n", "100",
                   "-p", str(port)]
        server = kit.Program(self.daemons["one"], command)
        try:
            kit.await_listening(server, port, 20)
            client = kit.Program(self.daemons["two"], command + ["10.79.0.1"])
            seen = set()

            def finished():
                seen.update(members())
                return client.process.poll() is not None
            try:
                kit.wait_until(finished, 60, "the client's end")
                kit.check_perftest(client.finish(5))
                server.finish(20)
            finally:
                client.kill()
        finally:
            server.kill()
        claim({"one.roce", "two.roce"} <= seen, f"{GROUP} had the members {seen}")

    def moved_peer(self):
        """a kernel whose MAC changed is answered at the new one"""
        self.ping("10.78.0.1")
        self.lab.ip("peer", "link", "set", "eth", "address", "02:00:00:00:78:19")
        try:
            self.lab.run("peer", "ping", "-n", "-c", "1", "-W", "5", "10.78.0.1")
            self.ping("10.78.0.1")
        finally:
            self.lab.ip("peer", "link", "set", "eth", "address", "02:00:00:00:78:09")
        self.ping("10.78.0.1")

    def link_events(self):
        """link down and up are seen, and the port works again"""
        self.lab.ip("switch", "link", "set", "one.roce", "down")
        state = lambda: self.daemons["one"].show("ports")[0]["state"]
        kit.wait_until(lambda: state() == "down", 10, "down")
        self.lab.ip("switch", "link", "set", "one.roce", "up")
        kit.wait_until(lambda: state() == "active", 10, "up")
        self.ping("10.78.0.1")
        kit.check_pingpong(self.pair("one", "two", "ibv_rc_pingpong -g 0 -n 10"))

    def renamed_interface(self):
        """programs and `uroce show` name the interface as the kernel does now"""
        named = lambda: self.daemons["two"].show("ports")[0]["netdev"]
        for name in ("lan0", "roce"):
            before = named()
            for change in (("set", before, "down"), ("set", before, "name", name), ("set", name, "up")):
                self.lab.ip("two", "link", *change)
            claim(named() == name, f"{named()}, not {name}")

    def follows_the_kernel(self):
        """addresses of the kernel interface below are added and removed"""
        lab = self.lab
        self.daemons.pop("two").stop()
        lab.ip("two", "address", "add", "10.78.0.21/24", "dev", "roce")
        self.start("two", "addresses = kernel\n")
        two = self.daemons["two"]
        claim("10.78.0.21" in gids(two), f"{gids(two)}")
        lab.ip("two", "address", "add", "10.78.0.22/24", "dev", "roce")
        lab.ip("two", "address", "add", "fd78::22/64", "dev", "roce", "nodad")
        lab.ip("two", "route", "add", "10.80.0.0/24", "via", "10.78.0.254")
        kit.wait_until(lambda: {"10.78.0.22", "fd78::22"} <= set(gids(two)), 10, "new addresses")
        lab.ip("two", "address", "del", "10.78.0.22/24", "dev", "roce")
        kit.wait_until(lambda: "10.78.0.22" not in gids(two), 10, "an address goes")
        claim(any(row.get("via") == "10.78.0.254" for row in two.show("routes")), f"{two.show('routes')}")

        def knows_mtu():
            lab.run("two", "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "2000", "10.80.0.3")
            return "10.80.0.3" in lab.ip("two", "route", "show", "cache")
        kit.wait_until(knows_mtu, 10, "the kernel learns the MTU of a path")
        lab.ip("two", "address", "add", "10.78.0.23/24", "dev", "roce")
        kit.wait_until(lambda: "10.78.0.23" in gids(two), 10, "another address")
        claim(all(row["to"] != "10.80.0.3/32" for row in two.show("routes")), f"the MTU of a path is a route: {two.show('routes')}")
        lab.ip("two", "address", "del", "10.78.0.23/24", "dev", "roce")
        kit.check_pingpong(self.pair("one", "two", "ibv_rc_pingpong -g 0 -c -n 100"))

    def routes_by_the_kernels_networks(self):
        """a configured route has its gateway on a network of the kernel's addresses, or waits for it"""
        lab = self.lab
        self.daemons.pop("two").stop()
        self.start("two", "addresses = kernel\nroute.0 = 10.80.0.0/24 via 10.78.0.253\nroute.1 = 10.84.0.0/16 via 10.85.0.254\n")
        two = self.daemons["two"]
        routes = lambda: {(row["to"], row.get("via")) for row in two.show("routes")}
        claim(("10.80.0.0/24", "10.78.0.253") in routes() and ("10.80.0.0/24", "10.78.0.254") not in routes(), f"{routes()}")
        claim("its gateway 10.85.0.254" in two.log() and "10.78.0.253" not in two.log(), two.log())
        lab.ip("two", "address", "add", "10.85.0.1/24", "dev", "roce")
        kit.wait_until(lambda: ("10.84.0.0/16", "10.85.0.254") in routes(), 10, "the route that has waited")
        lab.ip("two", "address", "del", "10.85.0.1/24", "dev", "roce")

    def follows_what_the_kernel_prefers(self):
        """of several routes, next hops and prefixes of the kernel interface the best is used, and the next when it is
        removed"""
        lab, two = self.lab, self.daemons["two"]

        def networks(to):
            return [(row["to"], row.get("via")) for row in two.show("routes") if row["to"].startswith(to)]
        for metric, gateway in ((300, "10.78.0.253"), (200, "10.78.0.252"), (400, "10.78.0.251")):
            lab.ip("two", "route", "add", "10.82.0.0/24", "via", gateway, "dev", "roce", "metric", str(metric))
        for gateway in ("10.78.0.252", "10.78.0.253", "10.78.0.251"):
            kit.wait_until(lambda: networks("10.82.") == [("10.82.0.0/24", gateway)], 10, f"the route via {gateway}")
            lab.ip("two", "route", "del", "10.82.0.0/24", "via", gateway)
        kit.wait_until(lambda: not networks("10.82."), 10, "no route is left")
        hops = [word for gateway in ("10.79.0.254", "10.78.0.252", "10.78.0.253") for word in ("nexthop", "via", gateway)]
        lab.ip("two", "route", "add", "10.82.0.0/24", *hops)
        kit.wait_until(lambda: networks("10.82.") == [("10.82.0.0/24", "10.78.0.252")], 10, "the first next hop of the interface")
        lab.ip("two", "route", "del", "10.82.0.0/24")
        kit.wait_until(lambda: not networks("10.82."), 10, "the next hops go")
        lab.ip("two", "address", "add", "10.83.0.1/24", "dev", "roce")
        lab.ip("two", "address", "add", "10.83.0.1/16", "dev", "roce")
        kit.wait_until(lambda: sorted(networks("10.83.")) == [("10.83.0.0/16", None), ("10.83.0.0/24", None)], 10, "both prefixes")
        index = [row["index"] for row in two.show("gids") if row["address"] == "10.83.0.1"]
        lab.ip("two", "address", "del", "10.83.0.1/24", "dev", "roce")
        kit.wait_until(lambda: networks("10.83.") == [("10.83.0.0/16", None)], 10, "the other prefix")
        claim([row["index"] for row in two.show("gids") if row["address"] == "10.83.0.1"] == index, "its GID moved")
        lab.ip("two", "address", "del", "10.83.0.1/16", "dev", "roce")
        kit.wait_until(lambda: "10.83.0.1" not in gids(two), 10, "it goes")

    def replaced_routes(self):
        """a kernel's route that one of another interface replaces is used no longer"""
        lab, two = self.lab, self.daemons["two"]
        for network, gateway, elsewhere in (("10.86.0.0/16", "10.78.0.253", "10.79.0.1"), ("fd86::/64", "fe80::253", "fe80::1")):
            has = lambda: network in [row["to"] for row in two.show("routes")]
            lab.ip("two", "route", "add", network, "via", gateway, "dev", "roce")
            kit.wait_until(has, 10, f"the route to {network}")
            lab.ip("two", "route", "replace", network, "via", elsewhere, "dev", "tcp")
            kit.wait_until(lambda: not has(), 10, f"no route to {network}")
            lab.ip("two", "route", "del", network)

    def routes_on_the_link(self):
        """an address without a network of its own gets out by a gateway that a route without a gateway has, or `onlink`"""
        lab, two = self.lab, self.daemons["two"]
        routes = lambda: {(row["to"], row.get("via")) for row in two.show("routes")}
        lab.ip("two", "address", "add", "10.87.0.1/32", "dev", "roce")
        lab.ip("two", "route", "add", "10.88.0.254", "dev", "roce")
        lab.ip("two", "route", "add", "10.80.0.0/25", "via", "10.88.0.254")
        kit.wait_until(lambda: {("10.88.0.254/32", None), ("10.80.0.0/25", "10.88.0.254")} <= routes(), 10, "both routes")
        lab.ip("router", "address", "add", "10.88.0.254/32", "dev", "lan")
        lab.ip("router", "route", "add", "10.87.0.1", "dev", "lan")
        index = next(row["index"] for row in two.show("gids") if row["address"] == "10.87.0.1")
        kit.check_pingpong(self.pair("three", "two", "ibv_rc_pingpong -g 0 -c -n 100", number=3, client_arguments=("-g", str(index))))
        lab.ip("two", "route", "del", "10.80.0.0/25")
        lab.ip("two", "route", "del", "10.88.0.254")
        kit.wait_until(lambda: not {network for network, _ in routes()} & {"10.80.0.0/25", "10.88.0.254/32"}, 10, "they go")
        lab.ip("two", "route", "add", "10.80.0.0/25", "via", "10.88.0.254", "dev", "roce", "onlink")
        kit.wait_until(lambda: {("10.88.0.254/32", None), ("10.80.0.0/25", "10.88.0.254")} <= routes(), 10, "both again")
        lab.ip("two", "route", "del", "10.80.0.0/25")
        lab.ip("two", "address", "del", "10.87.0.1/32", "dev", "roce")
        kit.wait_until(lambda: "10.87.0.1" not in gids(two) and ("10.88.0.254/32", None) not in routes(), 10, "nothing is left")

    def routes_by_rules(self):
        """tables that the kernel's rules name for the addresses of the interface are used, and no others"""
        lab, two = self.lab, self.daemons["two"]
        routes = lambda: {(row["to"], row.get("via")) for row in two.show("routes")}
        before = routes()
        for to in ("default", "10.80.0.0/25"):
            lab.ip("two", "route", "add", to, "via", "10.78.0.254", "dev", "roce", "table", "101")
        lab.ip("two", "-6", "route", "add", "fd80::/64", "via", "fd78::fe", "dev", "roce", "table", "101")
        lab.ip("two", "route", "add", "10.86.0.0/16", "via", "10.78.0.252", "dev", "roce")
        kit.wait_until(lambda: routes() == before | {("10.86.0.0/16", "10.78.0.252")}, 10, "the main table's route alone")
        table, ours = ("lookup", "101"), ("from", "10.78.0.21", "lookup", "101")
        others = (("from", "10.79.0.0/16", *table), ("not", "from", "10.77.0.0/16", *table), ("to", "10.80.0.0/24", *ours),
                  ("fwmark", "7", *ours), ("iif", "roce", *ours), ("ipproto", "tcp", *ours), ("dport", "1-4790", *ours))
        for other in others:
            lab.ip("two", "rule", "add", "priority", "200", *other)
        lab.ip("two", "rule", "add", "priority", "201", "from", "10.78.0.0/16", "lookup", "101", "suppress_prefixlength", "0")
        lab.ip("two", "-6", "rule", "add", "priority", "200", "from", "fd78::/16", "iif", "lo", "lookup", "101")
        kit.wait_until(lambda: {("10.80.0.0/25", "10.78.0.254"), ("fd80::/64", "fd78::fe")} <= routes(), 10, "two rules")
        claim(not [to for to, _ in routes() if to.startswith("0.0.0.0")], f"a rule that is not ours: {routes()}")
        lab.ip("two", "rule", "add", "priority", "300", "oif", "roce", "ipproto", "udp", "dport", "4791", *ours)
        kit.wait_until(lambda: ("0.0.0.0/0", "10.78.0.254") in routes(), 10, "our rule")
        claim(("10.86.0.0/16", "10.78.0.254") in routes(), f"the main table is asked after ours: {routes()}")
        by_source = lambda to: next(row.get("by_source", False) for row in two.show("routes") if row["to"] == to)
        claim(by_source("0.0.0.0/0") and not by_source("10.86.0.0/16"), f"{two.show('routes')}")
        lab.ip("two", "route", "add", "default", "via", "10.78.0.252", "dev", "roce")
        kit.wait_until(lambda: not by_source("0.0.0.0/0"), 10, "the main table has a default, too")
        claim(("0.0.0.0/0", "10.78.0.254") in routes(), f"{two.show('routes')}")
        lab.ip("two", "route", "del", "default", "via", "10.78.0.252")
        for number in ("200",) * len(others) + ("201",):
            lab.ip("two", "rule", "del", "priority", number)
        lab.ip("two", "-6", "rule", "del", "priority", "200")
        kit.wait_until(lambda: ("fd80::/64", "fd78::fe") not in routes(), 10, "the rule of IPv6 goes")
        kit.check_pingpong(self.pair("three", "two", "ibv_rc_pingpong -g 0 -c -n 100", number=3))
        lab.ip("two", "rule", "del", "priority", "300")
        kit.wait_until(lambda: ("10.86.0.0/16", "10.78.0.252") in routes(), 10, "the main table again")
        lab.ip("two", "route", "del", "10.86.0.0/16")
        kit.wait_until(lambda: routes() == before, 10, "as before")

    def exception_path(self):
        """a kernel behind the port keeps its network: echo, TCP and RoCE over one address"""
        lab = self.lab
        self.daemons.pop("two").stop()
        lab.ip("two", "address", "flush", "dev", "roce")
        lab.ip("two", "link", "set", "roce", "arp", "off")
        self.start("two", "exception = tap roce-tap\naddress.0 = 10.78.0.2/24\naddress.1 = fd78::2/64\n")
        two = self.daemons["two"]
        state = json.loads(lab.ip("two", "-j", "address", "show", "dev", "roce-tap"))[0]
        claim(state["address"] == "02:00:00:00:78:02" and state["mtu"] == MTU, str(state))
        claim({"10.78.0.2", "fd78::2"} <= {a["local"] for a in state["addr_info"]}, str(state))
        claim(two.show("ports")[0]["netdev"] == "roce-tap", "the port's interface is not the tap")
        self.ping("10.78.0.2")
        self.ping("fd78::2")
        # TCP of the programs over the same port: the kernel of host one has no address there, so from the peer's side.
        listener = subprocess.Popen(["ip", "netns", "exec", lab.name("two"), sys.executable, "-c",
                                     "import socket; s = socket.create_server(('10.78.0.2', 7777)); print(1, flush=True)\n"
                                     "c, _ = s.accept(); n = 0\n"
                                     "while True:\n d = c.recv(1 << 16)\n if not d: break\n n += len(d)\nprint(n)"],
                                    stdout=subprocess.PIPE, text=True)
        try:
            listener.stdout.readline()
            sender = lab.run("peer", sys.executable, "-c", "import socket; s = socket.create_connection(('10.78.0.2', "
                             "7777), 10); s.sendall(b'x' * 3000000); s.close()")
            claim(sender.returncode == 0, sender.stderr)
            received, _ = listener.communicate(timeout=20)
        finally:
            listener.kill()
        claim(received.strip() == "3000000", f"received {received}")
        kit.check_pingpong(self.pair("one", "two", "ibv_rc_pingpong -g 0 -c -n 100"))
        kit.check_pingpong(self.pair("one", "two", "ibv_rc_pingpong -g 1 -c -n 100"))

    def exception_path_is_deleted(self):
        """without its tap device a port speaks for its addresses itself"""
        two = self.daemons["two"]
        files = f"/proc/{two.process.pid}/fd"

        def has_tap():
            try:
                return any(os.readlink(os.path.join(files, fd)) == "/dev/net/tun" for fd in os.listdir(files))
            except FileNotFoundError:
                return True  # one was closed: try again
        self.lab.ip("two", "link", "del", "roce-tap")
        kit.wait_until(lambda: not has_tap(), 10, "the tap device is let go of")
        self.ping("10.78.0.2")
        self.ping("fd78::2")
        kit.check_pingpong(self.pair("one", "two", "ibv_rc_pingpong -g 0 -c -n 100"))

    def exception_without_a_kernel_interface(self):
        """ports that no kernel knows, joined by shared memory: the programs' TCP and RoCE over one port and address"""
        for number, host in ((5, "five"), (6, "six")):
            self.lab.host(host)
            path = os.path.join(self.folder, f"{host}.ini")
            role = "server" if number == 5 else "client"
            with open(path, "w") as file:
                file.write(f"[port.0]\ndevice = net_memif0,role={role},socket-abstract=no,socket={self.folder}/m.sock,"
                           f"mac=02:00:00:00:78:0{number}\nexception = tap roce0\n"
                           f"address.0 = 10.81.0.{number}/24\naddress.1 = fd81::{number}/64\n")
            self.daemons[host] = kit.Daemon(self.build, self.folder, name=host, arguments=("-c", path),
                                            namespace=self.lab.name(host))
        five, six = self.daemons["five"], self.daemons["six"]
        kit.wait_until(lambda: all(d.show("ports")[0]["state"] == "active" for d in (five, six)), 20, "memif is up")
        for command in ("ibv_rc_pingpong -g 0 -c -n 100", "ibv_rc_pingpong -g 1 -c -n 100"):
            _, text = kit.run_pair(five, command.split(), client_daemon=six, address="10.81.0.5")
            kit.check_pingpong(text)
        _, text = kit.run_pair(five, "ib_write_bw -F -x 0 -n 500".split(), client_daemon=six, address="10.81.0.5")
        kit.check_perftest(text)

    def nothing_bad(self):
        """all daemons live, dropped nothing for its contents and end well"""
        for host, daemon in self.daemons.items():
            claim(daemon.alive(), f"{host}: " + daemon.log())
            reasons = {row["reason"] for row in daemon.show("drops")}
            claim(reasons <= {"not_roce", "not_our_mac", "unknown_qpn", "qp_state", "ip_fragment"}, f"{host}: {reasons}")
        self.stop()

    POINTS = (kernel_pings_ipv4, kernel_pings_ipv6, kernel_knows_the_mac, duplicate_is_given_up,
              kernel_gives_up_duplicate, programs_resolve, nobody_there, through_a_router, too_big, group_membership,
              moved_peer, link_events, renamed_interface, follows_the_kernel, routes_by_the_kernels_networks,
              follows_what_the_kernel_prefers, replaced_routes, routes_on_the_link, routes_by_rules, exception_path,
              exception_path_is_deleted,
              exception_without_a_kernel_interface, nothing_bad)


def main():
    arguments = net.start("ip", "ping", "bridge")
    points = [point for point in Tests.POINTS if arguments.match in point.__name__]
    tap = kit.Tap(len(points))
    with Lab() as lab:
        tests = Tests(kit.Build(arguments.build), kit.scratch_folder(), lab)
        try:
            tests.start_all()
            for point in points:
                tap.point(re.sub(r"\s+", " ", point.__doc__), lambda: point(tests))
        finally:
            for daemon in tests.daemons.values():
                daemon.stop()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
