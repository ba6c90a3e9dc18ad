#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The IP host against scapy, which builds the host's requests and parses its answers: net_scapy.py NET_ANSWERS

Each answer is also built again by scapy with all lengths and checksums left out, and must be the same."""
import pathlib
import socket
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kit"))
from uroce_kit import Failure, Tap

try:
    import logging
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
    from scapy.contrib.igmp import IGMP
    from scapy.contrib.igmpv3 import IGMPv3, IGMPv3gr, IGMPv3mr
    from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
    from scapy.layers.inet6 import (ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6MLDone, ICMPv6MLQuery, ICMPv6MLQuery2,
                                    ICMPv6MLReport, ICMPv6MLReport2, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr,
                                    ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig, IPv6, IPv6ExtHdrHopByHop, RouterAlert)
    from scapy.layers.l2 import ARP, Dot1Q, Ether
    from scapy.packet import Padding, Raw
    from scapy.utils import checksum
except ImportError as error:
    print(f"1..0 # SKIP no scapy ({error})")
    sys.exit(0)

US, PEER, BROADCAST = "02:00:00:00:00:01", "02:00:00:00:00:10", "ff:ff:ff:ff:ff:ff"
V4, PEER4, QUERIER4 = "10.0.0.1", "10.0.0.2", "10.0.0.254"
V6, PEER6, QUERIER6 = "fe80::1", "fe80::2", "fe80::ff"
NODE6, NODE_MAC = "ff02::1:ff00:1", "33:33:ff:00:00:01"
DERIVED = ("chksum", "cksum", "len", "plen", "ihl", "dlen")


def require(condition, what):
    if not condition:
        raise Failure(what)


def checked(data):
    """The frame, if scapy builds the same from the same values."""
    frame = Ether(data)
    again = frame.copy()
    layer = again
    while layer:
        for name in DERIVED:
            if name in layer.fields and not isinstance(layer, ARP):
                layer.delfieldval(name)
        layer = layer.payload
    require(bytes(again) == data,
            f"not as scapy builds it:\n{data.hex()}\n{bytes(again).hex()}\n{frame.show(dump=True)}")
    require(not frame.haslayer(Padding), "bytes behind the end:\n" + frame.show(dump=True))
    return frame


class Host:
    def __init__(self, *commands):
        self.process = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = []
        for command in commands:
            self.do(command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        status = self.process.wait(10)
        require(status == 0, f"net_answers ended with {status}")

    def do(self, command):
        """The frames that the command sends; other lines are in said."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        sent, self.said = [], []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line == "ok":
                return sent
            if line.startswith("tx "):
                sent.append(checked(bytes.fromhex(line[3:])))
            else:
                self.said.append(line)
        raise Failure(f"net_answers ended at '{command}'")

    def rx(self, frame):
        return self.do("rx " + bytes(frame).hex())

    def answer(self, frame):
        sent = self.rx(frame)
        require(len(sent) == 1, f"{len(sent)} answers to {frame.summary()}")
        return sent[0]

    def silent(self, frame):
        sent = self.rx(frame)
        require(not sent, f"an answer to {frame.summary()}: {sent and sent[0].summary()}")


def announced(*more):
    """A host whose announcements are over."""
    host = Host(f"address {V4} 24 0", f"address {V6} 64 0", *more)
    host.do("run 20000")
    return host


def same(packet, **fields):
    for name, value in fields.items():
        found = packet.getfieldval(name)
        require(found == value, f"{name} is {found!r}, not {value!r}:\n{packet.show(dump=True)}")


def arp():
    ask = ARP(op="who-has", hwsrc=PEER, psrc=PEER4, pdst=V4)
    with announced("address 10.9.0.1 24 7") as host:
        reply = host.answer(Ether(src=PEER, dst=BROADCAST) / ask)
        same(reply, dst=PEER, src=US)
        same(reply[ARP], op=2, hwtype=1, ptype=0x800, hwlen=6, plen=4, hwsrc=US, psrc=V4, hwdst=PEER, pdst=PEER4)
        reply = host.answer(Ether(src=PEER, dst=BROADCAST) / ARP(op="who-has", hwsrc=PEER, psrc="0.0.0.0", pdst=V4))
        same(reply[ARP], op=2, hwsrc=US, psrc=V4, hwdst=PEER, pdst="0.0.0.0")
        reply = host.answer(Ether(src=PEER, dst=BROADCAST) / Dot1Q(vlan=7, prio=5) /
                            ARP(op="who-has", hwsrc=PEER, psrc="10.9.0.2", pdst="10.9.0.1"))
        same(reply[Dot1Q], vlan=7)
        same(reply[ARP], op=2, psrc="10.9.0.1", pdst="10.9.0.2")
        reply = host.answer(Ether(src=PEER, dst=BROADCAST) / Dot1Q(vlan=0, prio=5) / ask)
        require(not reply.haslayer(Dot1Q), "a tag in answer to a priority")
        host.silent(Ether(src=PEER, dst=BROADCAST) / Dot1Q(vlan=8) / ask)
        host.silent(Ether(src=PEER, dst=BROADCAST) / ARP(op="who-has", hwsrc=PEER, psrc=PEER4, pdst=PEER4))
        host.silent(Ether(src=US, dst=BROADCAST) / ARP(op="who-has", hwsrc=US, psrc=PEER4, pdst=V4))


def arp_resolution():
    with announced() as host:
        sent = host.do(f"resolve {V4} {PEER4} 0")
        require(len(sent) == 1 and host.said == ["error 115"], "no question")
        same(sent[0], dst=BROADCAST, src=US)
        same(sent[0][ARP], op=1, hwsrc=US, psrc=V4, hwdst="00:00:00:00:00:00", pdst=PEER4)
        host.silent(Ether(src=PEER, dst=US) / ARP(op="is-at", hwsrc=PEER, psrc=PEER4, hwdst=US, pdst=V4))
        require(host.said == ["resolved"], host.said)
        host.do(f"resolve {V4} {PEER4} 0")
        require(host.said == [f"path {PEER} 1500"], host.said)


def detection():
    with Host(f"detect {V4} 24 0", f"detect {V6} 64 0") as host:
        sent = host.do("run 20000")
        require(sorted(host.said) == ["state 1", "state 1"], host.said)
        arps = [f[ARP] for f in sent if f.haslayer(ARP)]
        require([(a.op, a.psrc, a.pdst) for a in arps] == [(1, "0.0.0.0", V4)] * 3 + [(1, V4, V4)] * 2, "ARP")
        require(all(f.dst == BROADCAST for f in sent if f.haslayer(ARP)), "not broadcast")
        solicitations = [f for f in sent if f.haslayer(ICMPv6ND_NS)]
        require(len(solicitations) == 1, "NS")
        same(solicitations[0], dst=NODE_MAC)
        same(solicitations[0][IPv6], src="::", dst=NODE6, hlim=255)
        same(solicitations[0][ICMPv6ND_NS], tgt=V6, code=0)
        require(not solicitations[0].haslayer(ICMPv6NDOptSrcLLAddr), "with an option")
        for frame in [f for f in sent if f.haslayer(ICMPv6ND_NA)]:
            same(frame, dst="33:33:00:00:00:01")
            same(frame[IPv6], src=V6, dst="ff02::1", hlim=255)
            same(frame[ICMPv6ND_NA], tgt=V6, R=0, S=0, O=1)
            same(frame[ICMPv6NDOptDstLLAddr], lladdr=US)
    with Host(f"detect {V6} 64 0") as host:
        host.rx(Ether(src=PEER, dst="33:33:00:00:00:01") / IPv6(src=V6, dst="ff02::1", hlim=255) /
                ICMPv6ND_NA(tgt=V6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=PEER))
        require(host.said == ["state 2"], host.said)


def neighbour_discovery():
    ns = ICMPv6ND_NS(tgt=V6) / ICMPv6NDOptSrcLLAddr(lladdr=PEER)
    with announced() as host:
        for dst, mac in ((NODE6, NODE_MAC), (V6, US)):
            na = host.answer(Ether(src=PEER, dst=mac) / IPv6(src=PEER6, dst=dst, hlim=255) / ns)
            same(na, dst=PEER, src=US)
            same(na[IPv6], src=V6, dst=PEER6, hlim=255, nh=58)
            same(na[ICMPv6ND_NA], type=136, code=0, tgt=V6, R=0, S=1, O=1, res=0)
            same(na[ICMPv6NDOptDstLLAddr], type=2, len=1, lladdr=US)
        na = host.answer(Ether(src=PEER, dst=NODE_MAC) / IPv6(src="::", dst=NODE6, hlim=255) / ICMPv6ND_NS(tgt=V6))
        same(na, dst="33:33:00:00:00:01")
        same(na[IPv6], src=V6, dst="ff02::1", hlim=255)
        same(na[ICMPv6ND_NA], S=0, O=1)
        wrong = Ether(src=PEER, dst=US) / IPv6(src=PEER6, dst=V6, hlim=255) / ICMPv6ND_NS(tgt=V6, cksum=0x1234)
        host.silent(wrong)
        host.silent(Ether(src=PEER, dst=US) / IPv6(src=PEER6, dst=V6, hlim=254) / ns)
        sent = host.do(f"resolve {V6} fe80::12:3456 0")
        same(sent[0], dst="33:33:ff:12:34:56")
        same(sent[0][IPv6], src=V6, dst="ff02::1:ff12:3456", hlim=255)
        same(sent[0][ICMPv6ND_NS], tgt="fe80::12:3456", res=0)
        same(sent[0][ICMPv6NDOptSrcLLAddr], lladdr=US)
        host.silent(Ether(src=PEER, dst=US) / IPv6(src="fe80::12:3456", dst=V6, hlim=255) /
                    ICMPv6ND_NA(tgt="fe80::12:3456", R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=PEER))
        require(host.said == ["resolved"], host.said)


def echo():
    with announced() as host:
        for size in (0, 1, 56, 1471, 1472):
            data = bytes(i & 255 for i in range(size))
            reply = host.answer(Ether(src=PEER, dst=US) / IP(src="10.7.0.2", dst=V4, tos=0x28) /
                                ICMP(id=0x1234, seq=7) / data)
            same(reply, dst=PEER, src=US)
            same(reply[IP], src=V4, dst="10.7.0.2", tos=0x28, proto=1, version=4)
            same(reply[ICMP], type=0, code=0, id=0x1234, seq=7)
            require(bytes(reply[ICMP].payload) == data, "other data")
        for size in (0, 1, 56, 1452):
            data = bytes(i & 255 for i in range(size))
            reply = host.answer(Ether(src=PEER, dst=US) / IPv6(src="fd07::2", dst=V6, tc=0x28) /
                                ICMPv6EchoRequest(id=0x1234, seq=7, data=data))
            same(reply[IPv6], src=V6, dst="fd07::2", tc=0x28, nh=58)
            same(reply[ICMPv6EchoReply], type=129, code=0, id=0x1234, seq=7, data=data)
        reply = host.answer(Ether(src=PEER, dst=US) / IP(src=PEER4, dst=V4, options=[IPOption_Router_Alert()]) /
                            ICMP() / b"with options")
        require(bytes(reply[ICMP].payload) == b"with options", "other data")
        host.silent(Ether(src=PEER, dst=US) / IP(src=PEER4, dst=V4) / ICMP() / bytes(2000))  # more than the MTU
        host.silent(Ether(src=PEER, dst=US) / IP(src=PEER4, dst=V4) / ICMP(chksum=0x1234) / b"bad")
        host.silent(Ether(src=PEER, dst=US) / IP(src=PEER4, dst=V4, chksum=0x1234) / ICMP() / b"bad")
        host.silent(Ether(src=PEER, dst=US) / IP(src=PEER4, dst=V4, flags="MF") / ICMP() / b"fragment")


def no_refusals():
    """Packets for ports that are not served get no answer: no port unreachable, no reset."""
    with announced() as host:
        for transport in (UDP(sport=9, dport=4791), UDP(sport=9, dport=53), TCP(dport=22, flags="S")):
            host.silent(Ether(src=PEER, dst=US) / IP(src=PEER4, dst=V4) / transport / b"anything")
            host.silent(Ether(src=PEER, dst=US) / IPv6(src=PEER6, dst=V6) / transport / b"anything")


def groups_v3(sent):
    """(type, group) of each record of the reports among the frames sent."""
    found = []
    for frame in sent:
        if not frame.haslayer(IGMPv3mr):
            continue
        same(frame, dst="01:00:5e:00:00:16", src=US)
        same(frame[IP], dst="224.0.0.22", src=V4, ttl=1, tos=0xC0, proto=2)
        require(bytes(frame[IP])[20:24] == b"\x94\x04\0\0", "no router alert")
        same(frame[IGMPv3], type=0x22)
        require(len(frame[IGMPv3mr].records) == frame[IGMPv3mr].numgrp, "number of records")
        found += [(r.rtype, r.maddr) for r in frame[IGMPv3mr].records]
        require(all(r.numsrc == 0 and r.auxdlen == 0 for r in frame[IGMPv3mr].records), "sources")
    return sorted(found)


def query_v3(code, group="0.0.0.0", sources=()):
    """A query of IGMPv3 (RFC 3376, 4.1), by bytes: the layers that scapy has for it differ between its versions."""
    body = socket.inet_aton(group) + struct.pack("!BBH", 0, 0, len(sources)) + b"".join(map(socket.inet_aton, sources))
    return Raw(struct.pack("!BBH", 0x11, code, checksum(struct.pack("!BBH", 0x11, code, 0) + body)) + body)


def igmp():
    ether, ip = Ether(src=PEER, dst="01:00:5e:00:00:01"), IP(src=QUERIER4, dst="224.0.0.1", ttl=1,
                                                            options=[IPOption_Router_Alert()])
    v3 = ip.copy()
    v3.proto = 2
    with announced() as host:
        host.do("join 239.1.1.1 0")
        host.do("join 239.1.1.2 0")
        both = ["239.1.1.1", "239.1.1.2"]
        require(groups_v3(host.do("run 0")) == [(4, g) for g in both], "joins")
        require(groups_v3(host.do("run 5000")) == [(4, g) for g in both], "joins, again")
        host.silent(ether / v3 / query_v3(100))
        require(groups_v3(host.do("run 10000")) == [(2, g) for g in both], "answers")
        host.silent(ether / v3 / query_v3(20, "239.1.1.2", ["1.2.3.4"]))
        require(groups_v3(host.do("run 2000")) == [(2, "239.1.1.2")], "answer")
        host.do("leave 239.1.1.1 0")
        require(groups_v3(host.do("run 5000")) == [(3, "239.1.1.1")] * 2, "leaves")
        host.silent(ether / ip / IGMP(type=0x11, mrcode=50))
        sent = host.do("run 5000")
        require(len(sent) == 1, "answer to version 2")
        same(sent[0], dst="01:00:5e:01:01:02")
        same(sent[0][IP], dst="239.1.1.2", ttl=1)
        require(bytes(sent[0][IP])[20:24] == b"\x94\x04\0\0", "no router alert")
        report = IGMP(bytes(sent[0][IP].payload))
        same(report, type=0x16, gaddr="239.1.1.2")
        host.do("leave 239.1.1.2 0")
        sent = host.do("run 5000")
        same(sent[0][IP], dst="224.0.0.2")
        same(IGMP(bytes(sent[0][IP].payload)), type=0x17, gaddr="239.1.1.2")


def groups_mld(sent):
    found = []
    for frame in sent:
        if not frame.haslayer(ICMPv6MLReport2):
            continue
        same(frame, dst="33:33:00:00:00:16", src=US)
        same(frame[IPv6], dst="ff02::16", src=V6, hlim=1, nh=0)
        same(frame[IPv6ExtHdrHopByHop], nh=58)
        same(frame[RouterAlert], value=0)
        records = list(frame[ICMPv6MLReport2].records)
        while isinstance(records[-1].payload, type(records[-1])):  # each is scapy's payload of the one before
            records.append(records[-1].payload)
        require(len(records) == frame[ICMPv6MLReport2].records_number, "number of records")
        found += [(r.rtype, r.dst) for r in records]
    return sorted(found)


def mld():
    base = (Ether(src=PEER, dst="33:33:00:00:00:01") / IPv6(src=QUERIER6, dst="ff02::1", hlim=1) /
            IPv6ExtHdrHopByHop(options=[RouterAlert()]))
    with announced() as host:
        host.do("join ff0e::1 0")
        require(groups_mld(host.do("run 0")) == [(4, "ff0e::1")], "join")
        require(groups_mld(host.do("run 5000")) == [(4, "ff0e::1")], "join, again")
        host.silent(base / ICMPv6MLQuery2(mrd=3000))
        require(groups_mld(host.do("run 3000")) == [(2, NODE6), (2, "ff0e::1")], "answers")
        host.silent(base / ICMPv6MLQuery2(mrd=1000, mladdr="ff0e::1"))
        require(groups_mld(host.do("run 1000")) == [(2, "ff0e::1")], "answer")
        host.do("leave ff0e::1 0")
        require(groups_mld(host.do("run 5000")) == [(3, "ff0e::1")] * 2, "leave")
        host.do("join ff0e::2 0")
        host.do("run 5000")
        host.silent(base / ICMPv6MLQuery(mrd=1000, mladdr="ff0e::2"))
        sent = host.do("run 1000")
        require(len(sent) == 1, "answer to version 1")
        same(sent[0][IPv6], dst="ff0e::2", src=V6, hlim=1)
        same(sent[0][ICMPv6MLReport], mladdr="ff0e::2", mrd=0)
        host.do("leave ff0e::2 0")
        sent = host.do("run 5000")
        same(sent[0][IPv6], dst="ff02::2")
        same(sent[0][ICMPv6MLDone], mladdr="ff0e::2")


def path_mtu():
    with announced(f"route 0.0.0.0 0 {PEER4} 0", f"route :: 0 {PEER6} 0") as host:
        for src, dst, peer in ((V4, "10.7.0.2", PEER4), (V6, "fd07::2", PEER6)):
            host.do(f"resolve {src} {dst} 0")
        host.silent(Ether(src=PEER, dst=US) / ARP(op="is-at", hwsrc=PEER, psrc=PEER4, hwdst=US, pdst=V4))
        host.silent(Ether(src=PEER, dst=US) / IPv6(src=PEER6, dst=V6, hlim=255) /
                    ICMPv6ND_NA(tgt=PEER6, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=PEER))
        roce = UDP(sport=0xC123, dport=4791) / bytes(1100)
        host.silent(Ether(src=PEER, dst=US) / IP(src=PEER4, dst=V4) /
                    ICMP(type="dest-unreach", code="fragmentation-needed", nexthopmtu=1300) /
                    bytes(IP(src=V4, dst="10.7.0.2", flags="DF") / roce)[:28])
        host.do(f"resolve {V4} 10.7.0.2 0")
        require(host.said == [f"path {PEER} 1300"], host.said)
        host.silent(Ether(src=PEER, dst=US) / IPv6(src="fd99::1", dst=V6) / ICMPv6PacketTooBig(mtu=1280) /
                    bytes(IPv6(src=V6, dst="fd07::2") / roce))
        host.do(f"resolve {V6} fd07::2 0")
        require(host.said == [f"path {PEER} 1280"], host.said)


POINTS = (("ARP requests are answered", arp), ("ARP finds a neighbour", arp_resolution),
          ("duplicate address detection and announcements", detection),
          ("neighbour discovery in both directions", neighbour_discovery), ("echo", echo),
          ("nothing is refused", no_refusals), ("IGMP", igmp), ("MLD", mld), ("path MTUs", path_mtu))


def main():
    tap = Tap(len(POINTS))
    for name, function in POINTS:
        tap.point(name, function)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
