#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every unmodified program that connects by rdma_cm, between two uroced in two network namespaces, over IPv4 and IPv6. TAP; needs
root and is skipped without.

usage: run_cm_programs.py --build DIR --listening LIBRARY [--match TEXT]"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import cm_programs as cm
import uroce_kit as kit
import uroce_net as net
from run_net import both_alive, no_bad_frame

GROUPS = {4: "239.1.2.3", 6: "ff0e::123"}


def by_names():
    for program in cm.PERFTEST:
        yield f"{program} -R", cm.again(cm.perftest(f"{program} -n 200"))
    for program in ("ib_send_bw", "ib_send_lat"):
        yield f"{program} -R -c UD", cm.perftest(f"{program} -n 200 -c UD -s 1024")
    yield "ib_send_bw -R -q 4", cm.again(cm.perftest("ib_send_bw -n 100 -q 4"))
    yield "qperf", cm.again(cm.qperf("rc_bw rc_lat rc_rdma_read_bw rc_rdma_write_lat"))


def points(version):
    """(name, point of a Pairs)"""
    yield "rping -C 100", cm.rping("-C 100")
    yield "rping of 60000 bytes", cm.rping("-C 20 -S 60000")
    yield "ucmatose -c 100", cm.ucmatose("-c 100")
    yield "mckey", cm.group(GROUPS[version])
    yield "cmtime -c 100", cm.cmtime(100)
    yield "rdma_server, rdma_client", cm.simple("rdma_server -s ADDRESS -p PORT", "rdma_client -s ADDRESS -p PORT")
    for option in ("", "-c x") if version == 4 else ():  # rdma_xserver takes no address, and listens at IPv4's wildcard
        yield (f"rdma_xserver, rdma_xclient {option}".rstrip(),
               cm.simple(f"rdma_xserver -p PORT {option}", f"rdma_xclient -s ADDRESS -p PORT {option}"))
    for program, ways in (("rstream", "abnr"), ("riostream", "abn")):
        for way in ways:
            yield f"{program} -T {way}", cm.stream(program, f"-T {way} -T v -S 5000 -I 100 -C 10")
    yield "rstream -T f, by librspreload", cm.forks
    if version == 4:  # rcopy takes host:file, where an address of IPv6 would be a host of its first digits
        yield "rcopy", cm.copies
    for way in ("", "-T a", "-T b", "-T n", "-T e"):
        yield f"udpong {way}".rstrip(), cm.datagrams(f"{way} -C 200 -S 1000")
    if version == 4:  # with -R and -cm1 perftest and qperf take names and IPv4 addresses
        yield from by_names()
    yield "iperf3, by librspreload", cm.iperf3
    for program in cm.PIPES:
        if version == 4 or program == "ncat":  # the others take names and IPv4 addresses
            yield f"{program}, by librspreload", cm.pipe(program)


def main():
    arguments = net.start("ip", "rping", more=[("--listening", {"required": True})])
    build, folder = kit.Build(arguments.build), kit.scratch_folder()
    with net.Wire(1500, cut=True) as wire:
        daemons = net.daemons(build, folder, wire)
        try:
            server, client = wire.ends
            chosen = []
            for version in (4, 6):
                address, own = (server.ipv4, client.ipv4) if version == 4 else (server.ipv6, client.ipv6)
                pairs = cm.Pairs(daemons[0], os.path.abspath(arguments.listening), daemons[1], address, own)
                chosen += [(f"IPv{version}, {name}", lambda point=point, pairs=pairs: (point(pairs), both_alive(daemons)))
                           for name, point in points(version)]
            chosen.append(("no frame was dropped for its contents", lambda: no_bad_frame(daemons)))
            failed = kit.run_points(chosen, arguments.match)
        finally:
            statuses = [daemon.stop() for daemon in daemons]
    return failed or statuses != [0, 0]


if __name__ == "__main__":
    sys.exit(main())
