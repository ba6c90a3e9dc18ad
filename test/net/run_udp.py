#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The port over UDP sockets: without privileges, against another one and against a packet socket, which sees
what is on the wire. TAP; needs root to make the network and is skipped without.
usage: run_udp.py --build DIR [--match TEXT] VERIFY"""
import contextlib
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

NOTHING = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
BAD_COUNTERS = ("rx_unusable", "rx_bad_checksum")


class Unprivileged:
    """A build whose daemon has no capability."""

    def __init__(self, build, folder):
        self.__dict__.update(vars(build))
        self.uroced = os.path.join(folder, "uroced.sh")
        with open(self.uroced, "w") as script:
            script.write(f'#!/bin/sh\nexec {" ".join(NOTHING)} {build.uroced} "$@"\n')
        os.chmod(self.uroced, 0o755)


@contextlib.contextmanager
def daemons(build, folder, wire, *arguments):
    """A daemon on each end, with these arguments; one end's may differ: a list for each."""
    started = []
    try:
        for end, mine in zip(wire.ends, arguments):
            started.append(kit.Daemon(build, folder, f"uroced{end.number}", mine, end.namespace))
        yield started
        for daemon in started:
            if daemon.stop() != 0:
                raise kit.Failure("exit status:\n" + daemon.log())
    finally:
        for daemon in started:
            daemon.stop()


def counters(daemon):
    return {row["counter"]: row["value"] for row in daemon.show("counters")}


def no_bad_frame(pair):
    for daemon in pair:
        drops = {row["reason"]: row["value"] for row in daemon.show("drops")}
        bad = {name: drops[name] for name in ("bad_icrc", "truncated", "bad_ip_header", "udp_length") if drops.get(name)}
        bad.update({name: n for name, n in counters(daemon).items() if name in BAD_COUNTERS and n})
        if bad:
            raise kit.Failure(f"dropped: {bad}")


def verified(pair, address, *options):
    _, text = kit.run_pair(pair[0], [VERIFY, *options], client_daemon=pair[1], address=address, seconds=100)
    counts = re.search(r"^(\d+) passed, (\d+) skipped, (\d+) failed$", text, re.M)
    if not counts or int(counts[1]) < 5 or counts[3] != "0":
        raise kit.Failure("not verified:\n" + text[-2000:])


class Tests:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def data(self):
        """two of them: every service, IPv4 and IPv6, each byte compared"""
        with net.Wire(1500) as wire, daemons(self.build, self.folder, wire, ["--udp"], ["--udp"]) as pair:
            one, _ = wire.ends
            for gid in ("0", "1"):
                verified(pair, one.ipv4, "-g", gid, "--types", "rc,uc,ud", "-s", "1,1024,4097,65536")
            no_bad_frame(pair)

    def jumbo(self):
        """path MTU 4096, one system call for many packets"""
        with net.Wire(9000) as wire, daemons(self.build, self.folder, wire, ["--udp"], ["--udp"]) as pair:
            one, two = wire.ends
            _, text = kit.run_pair(pair[0], "ib_write_bw -F -s 65536 -n 500 -m 4096".split(), client_daemon=pair[1],
                                   address=one.ipv4, seconds=60)
            kit.check_perftest(text)
            no_bad_frame(pair)

    def connected(self):
        """rdma_cm over it: rping in both directions, by both IP versions"""
        with net.Wire(1500) as wire, daemons(self.build, self.folder, wire, ["--udp"], ["--udp"]) as pair:
            for server, client, end in ((pair[0], pair[1], wire.ends[0]), (pair[1], pair[0], wire.ends[1])):
                for address in (end.ipv4, end.ipv6):
                    program = kit.Program(server, ["rping", "-s", "-a", address, "-C", "10"])
                    kit.await_cm_listening(server, program, 20)
                    result = kit.Program(client, ["rping", "-c", "-a", address, "-C", "10", "-v"])
                    text = result.finish(30)
                    program.finish(30)
                    if "rdma-ping-9" not in str(text):
                        raise kit.Failure(f"rping to {address}: {text}")

    def measured(self):
        """uroce-perf at one end sends to the other one's, by both IP versions"""
        perf = os.path.join(self.build.folder, "app/uroce-perf/uroce-perf")
        with net.Wire(1500) as wire, daemons(self.build, self.folder, wire, ["--udp"], ["--udp"]) as pair:
            server = kit.Program(pair[0], [perf, "--", "--server", "--port", "18701"])
            try:
                kit.await_cm_listening(pair[0], server, 20)
                for address in (wire.ends[0].ipv4, wire.ends[0].ipv6):
                    for mode in ("write", "send", "read"):
                        command = [perf, "--", "--client", address, "--port", "18701", "--mode", mode, "--size", "5000",
                                   "--messages", "300", "--rate", "20000", "--format", "json"]
                        result = json.loads(kit.Program(pair[1], command).finish(60).splitlines()[-1])
                        if result["messages"] != 300 or result["error"]:
                            raise kit.Failure(f"{mode} to {address}: {result}")
                server.process.terminate()
                server.finish(20)
            finally:
                server.kill()
            no_bad_frame(pair)

    def own(self):
        """programs of one host meet on it, too"""
        with net.Wire(1500) as wire, daemons(self.build, self.folder, wire, ["--udp"], ["--udp"]) as pair:
            _, text = kit.run_pair(pair[0], "ibv_rc_pingpong -g 0 -c".split(), address=wire.ends[0].ipv4, seconds=30)
            kit.check_pingpong(text)
            if not counters(pair[0])["local"]:
                raise kit.Failure("no frame was local")

    def unprivileged(self):
        """daemons and programs without any capability"""
        build = Unprivileged(self.build, self.folder)
        with net.Wire(1500) as wire, daemons(build, self.folder, wire, ["--udp"], ["--udp"]) as pair:
            with open(f"/proc/{pair[0].process.pid}/status") as status:
                held = re.findall(r"^Cap(?:Prm|Eff|Bnd):\s*(\w+)$", status.read(), re.M)
            if len(held) != 3 or any(int(mask, 16) for mask in held):
                raise kit.Failure(f"it has capabilities: {held}")
            for daemon in pair:
                daemon.prefix = daemon.prefix + NOTHING
            verified(pair, wire.ends[0].ipv4, "--types", "rc", "-s", "1,4097,65536")

    def one_word(self):
        """uroce run --udp starts a daemon for each network namespace, and shares it within"""
        home = os.path.join(self.folder, "home")
        os.mkdir(home, 0o700)
        environment = dict(os.environ, XDG_RUNTIME_DIR=home)
        environment.pop("UROCE_SOCKET", None)
        with net.Wire(1500) as wire:
            one, two = wire.ends

            def start(end, *words):
                return subprocess.Popen(["ip", "netns", "exec", end.namespace, self.build.uroce, "run", "--udp", "--", *words], text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)

            # The client comes again until the server listens.
            again = f"for i in $(seq 50); do ib_write_bw -F -x 0 -n 200 {one.ipv4} && exit; sleep 0.1; done; exit 1"
            server, client = start(one, "ib_write_bw", "-F", "-x", "0", "-n", "200"), start(two, "sh", "-c", again)
            for program in (client, server):
                text, _ = program.communicate(timeout=60)
                if program.returncode:
                    raise kit.Failure(f"{program.args}: {program.returncode}\n{text}")
            sockets = [name for name in os.listdir(home) if name.startswith("uroce-udp-") and name.endswith(".sock")]
            if len(sockets) != 2:
                raise kit.Failure(f"not two daemons: {os.listdir(home)}")
            refused = subprocess.run(
                [self.build.uroce, "run", "--udp", "--socket", "x", "true"], capture_output=True, text=True, timeout=20)
            if refused.returncode != 2 or "--socket names a daemon" not in refused.stderr:
                raise kit.Failure(f"{refused.returncode}: {refused.stderr}")

    def addresses(self):
        """only some addresses, and a second daemon with the others, which have a label"""
        with net.Wire(1500) as wire:
            one, two = wire.ends
            net.ip("-n", one.namespace, "address", "add", "10.77.0.9/24", "dev", one.interface, "label", one.interface + ":1")
            with daemons(self.build, self.folder, wire, [f"--udp={one.ipv4}"], ["--udp"]) as pair:
                if [row["address"] for row in pair[0].show("gids")] != [one.ipv4]:
                    raise kit.Failure(f"GIDs: {pair[0].show('gids')}")
                other = kit.Daemon(self.build, self.folder, "other", ["--udp=10.77.0.9"], one.namespace)
                try:
                    for server, address in ((pair[0], one.ipv4), (other, "10.77.0.9")):
                        verified((server, pair[1]), address, "--types", "rc", "-s", "4097")
                        if [row["netdev"] for row in server.show("ports")] != [one.interface]:
                            raise kit.Failure(f"ports: {server.show('ports')}")
                    self.refused(one)
                finally:
                    other.stop()

    def refused(self, end):
        try:
            kit.Daemon(self.build, self.folder, "third", ["--udp"], end.namespace).stop()
        except kit.Failure as failure:
            if "another program has UDP port 4791" not in str(failure):
                raise
            return
        raise kit.Failure("a daemon for all addresses started beside two others")

    def wire_is_right(self):
        """a packet socket at the other end: identification, hop limit, ICRC, and what it sends itself"""
        path = os.path.join(self.folder, "packet.ini")
        capture = os.path.join(self.folder, "wire.pcap")
        with net.Wire(1500) as wire:
            one, two = wire.ends
            # The kernel cuts datagrams before they reach the packet socket, as for a NIC that cannot.
            net.ip("-n", one.namespace, "link", "set", "dev", one.interface, "gso_max_segs", "1")
            with open(path, "w") as file:
                file.write(net.configuration(two, one, 1500) + f"capture = {capture}\n")
            with daemons(self.build, self.folder, wire, ["--udp"], ["-c", path]) as pair:
                for gid in ("0", "1"):
                    server = pair[0].show("gids")[int(gid)]["address"]
                    client = next(row["index"] for row in pair[1].show("gids")
                                  if row["type"] == "RoCE v2" and (":" in row["address"]) == (":" in server))
                    for verb in ("write", "read"):
                        _, text = kit.run_pair(pair[0], f"ib_{verb}_bw -F -x {gid} -s 65536 -n 100".split(),
                                               client_daemon=pair[1], address=one.ipv4, seconds=60,
                                               client_arguments=["-x", str(client)])
                        kit.check_perftest(text)
                no_bad_frame(pair)
            self.look(capture, one)

    def look(self, capture, one):
        """tshark says what the kernel wrote; zlib computes the ICRCs."""
        fields = ["tshark", "-r", capture, "-Y", f"ip.src == {one.ipv4} && udp.dstport == 4791", "-T", "fields", "-e", "ip.id",
                  "-e", "ip.flags.df", "-e", "udp.length"]
        lines = subprocess.run(fields, capture_output=True, text=True, check=True, timeout=100).stdout.splitlines()
        found = {line.split("\t")[0] for line in lines}
        if len(lines) < 1000 or not {"0x0000", "0x0001", "0x001f"} <= found:
            raise kit.Failure(f"{len(lines)} frames, identifications {sorted(found)}")
        if {line.split("\t")[1] for line in lines} - {"1", "True"}:
            raise kit.Failure("a packet may be fragmented")
        limits = subprocess.run(["tshark", "-r", capture, "-Y", f"(ip.src == {one.ipv4} || ipv6.src == {one.ipv6}) && infiniband.bth.destqp > 1",
                                 "-T", "fields", "-e", "ip.ttl", "-e", "ipv6.hlim"],
                                capture_output=True, text=True, check=True, timeout=100).stdout.splitlines()
        if set(limits) != {"255\t", "\t255"}:
            raise kit.Failure(f"perftest's hop limit is 255; found {sorted(set(limits))}")
        checked = subprocess.run([sys.executable, os.path.join(HERE, "icrc_check.py"), capture], capture_output=True, text=True)
        if checked.returncode:
            raise kit.Failure("zlib: " + checked.stdout + checked.stderr)

    def too_big(self):
        """the kernel's path MTU becomes the device's"""
        with net.Wire(1500) as wire, daemons(self.build, self.folder, wire, ["--udp"], ["--udp"]) as pair:
            one, two = wire.ends
            net.ip("-n", two.namespace, "route", "add", one.ipv4 + "/32", "dev", two.interface, "mtu", "900")
            with contextlib.suppress(kit.Failure):
                kit.run_pair(pair[0], "ib_send_bw -F -n 50 -u 8".split(), client_daemon=pair[1], address=one.ipv4, seconds=30)
            why = kit.Program(pair[1], [self.build.uroce, "why", "--socket", pair[1].socket]).finish(20)
            if not re.search("The port here has not taken [1-9][0-9]* packets", why):
                raise kit.Failure("uroce why: " + why)
            learned = {row["to"]: row["mtu"] for row in pair[1].show("path_mtus")}
            if learned != {one.ipv4: 900}:
                raise kit.Failure(f"learned: {learned}")
            _, text = kit.run_pair(pair[0], "ib_send_bw -F -n 50 -m 512".split(), client_daemon=pair[1], address=one.ipv4,
                                   seconds=30)
            kit.check_perftest(text)

    def points(self):
        for function in (self.data, self.jumbo, self.connected, self.measured, self.own,
                         self.unprivileged, self.one_word, self.addresses,
                         self.wire_is_right, self.too_big):
            yield function.__doc__, function


def main():
    global VERIFY
    arguments = net.start("tshark", "setpriv", "rping", "ib_write_bw", more=[("verify", {})])
    VERIFY = arguments.verify
    return kit.run_points(Tests(kit.Build(arguments.build), kit.scratch_folder()).points(), arguments.match)


if __name__ == "__main__":
    sys.exit(main())
