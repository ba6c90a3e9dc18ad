# SPDX-License-Identifier: BSD-3-Clause
"""What programs that share no code with uroce find in a capture of uroce and rxe. Standard library, tshark."""
import os
import subprocess
import sys

import peer
import rows

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

ROCE = "udp.dstport == 4791"
CM_MESSAGES = {0x10: "REQ", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ",
               0x18: "SIDR_REP"}


def fields(path, wanted, *names):
    """The named fields of the frames that the filter lets through, one tuple of texts for each."""
    command = ["tshark", "-r", path, "-Y", wanted, "-o", "infiniband.try_heuristic_first:FALSE", "-T", "fields",
               "-E", "occurrence=f"]
    for name in names:
        command += ["-e", name]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        raise kit.Failure("tshark: " + result.stderr)
    return [tuple((line.split("\t") + [""] * len(names))[:len(names)]) for line in result.stdout.splitlines()]


def readable(path):
    """Every frame to the RoCE port has the headers of InfiniBand to tshark, and fits the MTU; both sides sent many."""
    found = fields(path, ROCE, "frame.number", "frame.len", "infiniband.bth.opcode", "infiniband.bth.destqp", "eth.src",
                   "vlan.id")
    senders = {}
    for number, length, opcode, queue_pair, source, vlan in found:
        if not opcode or not queue_pair:
            raise kit.Failure(f"frame {number} is not RoCEv2 to tshark")
        if int(length) > peer.MTU + (18 if vlan else 14):
            raise kit.Failure(f"frame {number} has {length} bytes, the MTU is {peer.MTU}")
        senders[source] = senders.get(source, 0) + 1
    if len(senders) != 2 or min(senders.values()) < 100:
        raise kit.Failure(f"frames by sender: {senders}")


def sources(path, *names):
    """What RoCE frames have in the named fields, by the address they come from."""
    seen = {}
    for v4, v6, *values in fields(path, ROCE, "ip.src", "ipv6.src", *names):
        seen.setdefault(v4 or v6, set()).add(tuple(value for value in values if value))
    return seen


def traffic_class(path):
    """Frames of both sides and IP versions carry the code point that the programs asked for. The bits of ECN are not
    theirs: uroce clears them; rxe copies them, and so has them clear where ucmatose or a REQ of uroce asks."""
    seen = sources(path, "ip.dsfield", "ipv6.tclass")
    dscp = rows.TCLASS & ~3
    for source, wanted, allowed in ((peer.IPV4, dscp, ()), (peer.IPV6, dscp, ()), (peer.GUEST_IPV4, rows.TCLASS, (dscp,)),
                                    (peer.GUEST_IPV6, rows.TCLASS, (dscp,))):
        found = {int(text, 16) for text, in seen.get(source, ())}
        if found - set(allowed) != {0, wanted}:
            raise kit.Failure(f"{source} sent the traffic classes {found}, not 0 and {wanted}")


def tags(path):
    """Frames between the addresses in the VLAN have its tag, with each side's priority; the others have none. uroce has
    the priority of the service level: that of the programs; of connections none or, when the guest connects, the guest's."""
    seen = sources(path, "vlan.id", "vlan.priority")
    for source in (peer.IPV4, peer.IPV6, peer.GUEST_IPV4, peer.GUEST_IPV6):
        if seen.get(source) != {()}:
            raise kit.Failure(f"{source} sent tags: {seen.get(source)}")
    ours, theirs = {0, rows.SL, peer.GUEST_PCP}, {peer.GUEST_PCP}
    for source, pcps in ((peer.VLAN_IPV4, ours), (peer.VLAN_IPV6, ours), (peer.GUEST_VLAN_IPV4, theirs),
                         (peer.GUEST_VLAN_IPV6, theirs)):
        if seen.get(source) != {(str(peer.VLAN), str(pcp)) for pcp in pcps}:
            raise kit.Failure(f"{source} sent tags {seen.get(source)}, not {peer.VLAN} with priorities {pcps}")


def connected(path):
    """tshark knows each message of connections, from both sides, and finds none malformed."""
    seen = {}
    for source, method, status, bad in fields(path, "infiniband.mad.mgmtclass == 7", "eth.src", "infiniband.mad.attributeid",
                                              "infiniband.mad.status", "_ws.malformed"):
        if bad or int(status, 16) != 0:
            raise kit.Failure(f"{source} sent message {method} with status {status} {bad}")
        seen.setdefault(source, set()).add(CM_MESSAGES.get(int(method, 16), method))
    if len(seen) != 2 or any(names != set(CM_MESSAGES.values()) for names in seen.values()):
        raise kit.Failure(f"messages by sender: {seen}")


def resolved(path):
    """Each side asked for the other's addresses, and was answered by the other. A side is known by its MAC address: a
    solicitation that probes comes from the link-local address of Linux."""
    ours = {mac for mac, in fields(path, f"ip.src == {peer.IPV4}", "eth.src")}
    if len(ours) != 1:
        raise kit.Failure(f"uroced sent from {ours}")
    ours = (*ours, peer.IPV4, peer.IPV6)
    theirs = (peer.GUEST_MAC, peer.GUEST_IPV4, peer.GUEST_IPV6)
    for asker, answerer in ((ours, theirs), (theirs, ours)):
        for what, wanted in (
                ("ARP request", f"arp.opcode == 1 && arp.src.proto_ipv4 == {asker[1]} && "
                                f"arp.dst.proto_ipv4 == {answerer[1]}"),
                ("ARP reply", f"arp.opcode == 2 && arp.src.proto_ipv4 == {answerer[1]} && "
                              f"arp.dst.proto_ipv4 == {asker[1]}"),
                ("neighbour solicitation", f"icmpv6.type == 135 && eth.src == {asker[0]} && "
                                           f"icmpv6.nd.ns.target_address == {answerer[2]}"),
                ("neighbour advertisement", f"icmpv6.type == 136 && eth.src == {answerer[0]} && "
                                            f"eth.dst == {asker[0]} && icmpv6.nd.na.target_address == {answerer[2]}")):
            if not fields(path, wanted, "frame.number"):
                raise kit.Failure(f"no {what} between {asker} (who asks) and {answerer}")
