#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""VLANs, priorities, RoCEv1 and source ports between two uroced in two network namespaces: programs ask for service
levels and traffic classes, and tshark reads the tags and headers. TAP; needs root and is skipped without. usage: run_qos.py --build DIR"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net
from run_net import Capture, both_alive, checker_agrees, dissect_agrees, no_bad_frame

MTU = 1500
VLAN = 100
SL_TO_PCP = (7, 6, 5, 4, 3, 2, 1, 0)
DSCP_FROM, DSCP_TO = 46, 26
IGMP_PRIORITY = 6
# Indices of the GID table: RoCEv2's untagged address, and the two of the VLAN; then RoCEv1's.
PLAIN, TAGGED_V4, TAGGED_V6, PLAIN_V1, TAGGED_V4_V1, TAGGED_V6_V1 = range(6)
ROCE_V1 = 0x8915


def configuration(end, peer, vlan=VLAN, more=""):
    return f"""[port.0]
device = packet,iface={end.interface}
segmentation = no
mtu = {MTU}
dad = no
address.0 = {end.ipv4}/24
address.1 = 10.78.0.{end.number}/24 vlan {vlan}
address.2 = fd78::{end.number}/64 vlan {vlan}
neighbour.0 = {peer.ipv4} {peer.mac}
neighbour.1 = 10.78.0.{peer.number} {peer.mac}
neighbour.2 = fd78::{peer.number} {peer.mac}
sl_to_pcp = {" ".join(map(str, SL_TO_PCP))}
dscp.0 = {DSCP_FROM} {DSCP_TO}
priority_to_sl = 0 1 3 3 4 5 6 7
{more}"""


def start(build, folder, wire, vlans, more=("", "")):
    daemons = []
    try:
        for end, peer, vlan, keys in zip(wire.ends, wire.ends[::-1], vlans, more):
            path = os.path.join(folder, f"uroced{end.number}.ini")
            with open(path, "w") as file:
                file.write(configuration(end, peer, vlan, keys))
            daemons.append(kit.Daemon(build, folder, name=f"uroced{end.number}-{vlan}", arguments=("-c", path),
                                      namespace=end.namespace))
    except BaseException:
        for daemon in daemons:
            daemon.stop()
        raise
    return daemons


FIELDS = ("frame.number", "eth.type", "vlan.id", "vlan.priority", "vlan.etype", "ip.dsfield.dscp", "ip.dsfield.ecn",
          "ipv6.tclass.dscp", "ipv6.tclass.ecn", "infiniband.grh.tclass", "infiniband.bth.opcode")


def read_frames(path):
    """The RoCE frames of a capture, as tshark reads them: a dictionary each. Without those to queue pair 1, a question whether
    the peer tells what it keeps, and the answer, whose SL is that of its traffic class."""
    result = subprocess.run(["tshark", "-r", path, "-Y", "infiniband && infiniband.bth.destqp != 1", "-T", "fields", "-E", "occurrence=f"]
                            + [word for field in FIELDS for word in ("-e", field)],
                            capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise kit.Failure("tshark: " + result.stderr)
    return [dict(zip(FIELDS, line.split("\t"))) for line in result.stdout.splitlines()]


def number(text):
    return int(text, 0) if text else None


def check_frames(frames, gid, pcp, dscp):
    if len(frames) < 20:
        raise kit.Failure(f"only {len(frames)} frames")
    tagged = gid not in (PLAIN, PLAIN_V1)
    first = gid >= PLAIN_V1
    for frame in frames:
        outer = number(frame["vlan.etype"] if tagged else frame["eth.type"])
        wanted = ROCE_V1 if first else 0x86DD if gid == TAGGED_V6 else 0x0800
        if not frame["infiniband.bth.opcode"] or outer != wanted:
            raise kit.Failure(f"not the RoCE that was asked for: {frame}")
        if number(frame["vlan.id"]) != (VLAN if tagged else None):
            raise kit.Failure(f"wrong tag: {frame}")
        if number(frame["vlan.priority"]) != (pcp if tagged else None):
            raise kit.Failure(f"not priority {pcp}: {frame}")
        if first:
            sent, ecn = number(frame["infiniband.grh.tclass"]) >> 2, number(frame["infiniband.grh.tclass"]) & 3
        elif gid == TAGGED_V6:
            sent, ecn = number(frame["ipv6.tclass.dscp"]), number(frame["ipv6.tclass.ecn"])
        else:
            sent, ecn = number(frame["ip.dsfield.dscp"]), number(frame["ip.dsfield.ecn"])
        if (sent, ecn) != (dscp, 0):
            raise kit.Failure(f"not code point {dscp}: {frame}")


def counted(daemon):
    """{priority: (received, sent)} of the daemon's only port."""
    return {row["priority"]: (row["rx_packets"], row["tx_packets"]) for row in daemon.show("qos")[0]["priorities"]}


def check_counts(before, after, priority):
    for p in range(8):
        rx, tx = (now - then for now, then in zip(after[p], before[p]))
        if p == priority and (rx < 10 or tx < 10):
            raise kit.Failure(f"priority {p} counts {rx} received and {tx} sent")
        # The kernel's own frames come with priority 0, those of IGMP (DSCP 48) with 6. The answer to a question has the
        # SL of its traffic class.
        if p not in (priority, 0) and rx + tx > 1 and not (p == IGMP_PRIORITY and rx < 10 and not tx):
            raise kit.Failure(f"priority {p} counts {rx} received and {tx} sent, it was {priority}")


def rows():
    """(GID index, service level, traffic class, command)."""
    for gid in range(6):
        for sl, tclass in ((0, 0), (5, DSCP_FROM << 2), (10, 26 << 2 | 3)):
            # ib_write_lat polls memory on both ends: four who poll on two cores are slow.
            program = "ib_write_lat" if gid == 0 and sl == 5 else "ib_send_lat -e"
            yield gid, sl, tclass, f"{program} -F -x {gid} -S {sl} --tclass {tclass} -s 1024 -n 50"
        yield gid, 6, 8 << 2, f"ib_send_lat -F -x {gid} -c UD -S 6 --tclass {8 << 2} -s 1024 -n 50"
    for gid in (TAGGED_V6, TAGGED_V4_V1, TAGGED_V6_V1):
        # perftest's own group is an IPv6 one.
        yield gid, 3, 0, f"ib_send_lat -F -x {gid} -c UD -g -S 3 --tclass 0 -s 512 -n 50"
    yield TAGGED_V4, 2, 0, ("ib_send_lat -F -x 1 -c UD -g -M 0:0:0:0:0:0:0:0:0:0:255:255:224:0:0:9 -S 2 --tclass 0"
                            " -s 512 -n 50")


def test_row(build, wire, daemons, folder, gid, sl, tclass, command):
    capture = Capture(wire.ends[0], os.path.join(folder, "row.pcap"), "")
    before = [counted(daemon) for daemon in daemons]
    try:
        _, text = kit.run_pair(daemons[0], command.split(), client_daemon=daemons[1], address=wire.ends[0].ipv4,
                               seconds=60)
        kit.check_perftest(text)
        both_alive(daemons)
    finally:
        capture.stop()
    pcp = SL_TO_PCP[sl % 8]
    dscp = DSCP_TO if tclass >> 2 == DSCP_FROM else tclass >> 2
    check_frames(read_frames(capture.path), gid, pcp, dscp)
    checker_agrees(capture.path)
    dissect_agrees(build, capture.path)
    for daemon, then in zip(daemons, before):
        check_counts(then, counted(daemon), pcp if gid not in (PLAIN, PLAIN_V1) else dscp >> 3)


def test_wrong_vlan(build, wire, folder):
    """The same addresses in another VLAN: nothing arrives, and that is counted."""
    daemons = start(build, folder, wire, (VLAN, VLAN + 1))
    try:
        server = kit.Program(daemons[0], ["ibv_uc_pingpong", "-g", str(TAGGED_V4), "-n", "10"])
        kit.await_listening(server, 18515, 20)
        client = kit.Program(daemons[1], ["ibv_uc_pingpong", "-g", str(TAGGED_V4), "-n", "10", wire.ends[0].ipv4])

        def dropped():
            return {row["reason"]: row["value"] for row in daemons[0].show("drops")}.get("wrong_destination", 0)
        kit.wait_until(lambda: dropped() > 0, 20, "a frame of the wrong VLAN is dropped")
        if server.process.poll() is not None:
            raise kit.Failure("the server has ended: " + server.text())
        server.kill()
        client.kill()
        both_alive(daemons)
    finally:
        for daemon in daemons:
            daemon.stop()


FIXED = 50505


def xor_port(one, other):
    """The `rfc` rule's port of a connection, from the queue pair numbers in both directions' packets."""
    folded = {(number ^ number >> 16 & 0xFF) & 0xFFFF for number in (one, other)}
    return 0xC000 | (folded.pop() ^ (folded.pop() if folded else 0))


def received_ports(path, end):
    """{(source port, destination QPN)} of the packets that tshark sees coming in, without those to queue pair 1: questions."""
    wanted = f"infiniband && infiniband.bth.destqp != 1 && ip.dst == {end.ipv4}"
    result = subprocess.run(["tshark", "-r", path, "-Y", wanted, "-T", "fields", "-e", "udp.srcport",
                             "-e", "infiniband.bth.destqp"], capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise kit.Failure("tshark: " + result.stderr)
    return {(int(port), int(number, 0)) for port, number in map(str.split, result.stdout.splitlines())}


def shown_sports(daemon):
    """The source ports of the connections that have got some packets."""
    return {row.get("udp_sport") for row in daemon.show("qps") if row["rx_packets"] > 100}


def test_source_ports(build, wire, folder):
    """One end has a fixed port, the other the xor of the numbers; on the wire and in `uroce show`."""
    policies = (f"fixed:{FIXED}", "rfc")
    daemons = start(build, folder, wire, (VLAN, VLAN), [f"entropy = {policy}\nrepath = 7\n" for policy in policies])
    captures, programs = [], []
    try:
        for end in wire.ends:
            captures.append(Capture(end, os.path.join(folder, f"ports{end.number}.pcap")))
        for daemon, policy in zip(daemons, policies):
            row = daemon.show("ports")[0]
            if (row["entropy"], row["repath"]) != (policy, 7):
                raise kit.Failure(f"shown: {row}")
        command = ["ibv_rc_pingpong", "-e", "-g", str(PLAIN), "-s", "64", "-n", "1000000000"]
        programs.append(kit.Program(daemons[0], command))
        kit.await_listening(programs[0], 18515, 20)
        programs.append(kit.Program(daemons[1], command + [wire.ends[0].ipv4]))
        kit.wait_until(lambda: all(shown_sports(daemon) for daemon in daemons), 20, "packets went both ways")
        kit.wait_until(lambda: all(os.path.getsize(capture.path) > 20000 for capture in captures), 20,
                       "some of them are captured")
        shown = [shown_sports(daemon) for daemon in daemons]
        both_alive(daemons)
    finally:
        for capture in captures:  # before the programs: what is left alone repeats itself
            capture.stop()
        for program in programs:
            program.kill()
        for daemon in daemons:
            daemon.stop()
    found = [received_ports(capture.path, end) for capture, end in zip(captures, wire.ends)]
    if [len(ports) for ports in found] != [1, 1]:
        raise kit.Failure(f"not one port and connection each way: {found}")
    (there, near_number), (here, far_number) = found[0].pop(), found[1].pop()
    if (here, there) != (FIXED, xor_port(near_number, far_number)):
        raise kit.Failure(f"ports {here} and {there} of {near_number:#x} and {far_number:#x}")
    if shown != [{here}, {there}]:
        raise kit.Failure(f"shown: {shown}")


def main():
    arguments = net.start("ip", "dumpcap", "tshark", match="only the pairs whose command contains this")
    build = kit.Build(arguments.build)
    folder = kit.scratch_folder()
    chosen = [row for row in rows() if arguments.match in row[3]]
    tap = kit.Tap(len(chosen) + 4)
    with net.Wire(MTU) as wire:
        daemons = start(build, folder, wire, (VLAN, VLAN))
        try:
            for row in chosen:
                tap.point(row[3], lambda: test_row(build, wire, daemons, folder, *row))
            tap.point("no frame was dropped for its contents", lambda: no_bad_frame(daemons))
        finally:
            statuses = [daemon.stop() for daemon in daemons]

        def ended():
            if statuses != [0, 0]:
                raise kit.Failure(f"exit statuses {statuses}")
        tap.point("both uroced end well", ended)
        tap.point("another VLAN with the same addresses", lambda: test_wrong_vlan(build, wire, folder))
        tap.point("source ports by policy", lambda: test_source_ports(build, wire, folder))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
