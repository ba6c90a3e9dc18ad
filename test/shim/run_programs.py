#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified Debian programs over one uroced with a loopback device. TAP; a point per row and GID.

usage: run_programs.py --build DIR [--workers N] [--group GROUP]... [--match TEXT] [--list]"""
import argparse
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

# GID indices of the loopback device
IPV4, IPV6 = 0, 1
IPV4_V1, IPV6_V1 = 2, 3
SIZES_TO_8M = 23   # rows of perftest -a: 2 to 2^23

ROWS = []


def row(group, command, check, gids=(IPV4, IPV6), environment=None, name=None, seconds=60):
    """One pair of programs. {gid} in the command is replaced by the GID's index."""
    for gid in gids:
        words = command.format(gid=gid).split()
        ROWS.append({"group": group, "name": name or f"{command.format(gid=gid)}", "command": words, "check": check,
                     "environment": environment, "seconds": seconds})


def pingpong(group, options, size=4096, iterations=1000, service="rc", **more):
    row(group, f"ibv_{service}_pingpong -g {{gid}} {options}".strip(),
        lambda text: kit.check_pingpong(text, size, iterations), **more)


def check_xsrq(text):
    if "success" not in text.splitlines():
        raise kit.Failure("no success in:\n" + text)


def xsrq(group, options, **more):
    row(group, f"ibv_xsrq_pingpong -g {{gid}} {options}".strip(), check_xsrq, **more)


def perftest(group, program, options="", rows=1, **more):
    row(group, f"{program} -F -x {{gid}} {options}".strip(), lambda text: kit.check_perftest(text, rows), **more)


pingpong("pingpong", "")
pingpong("pingpong", "-c")
pingpong("pingpong", "-e")
pingpong("pingpong", "-N")
pingpong("pingpong", "-N -e -c")
pingpong("pingpong", "-c -s 1048576 -n 200", size=1048576, iterations=200)
pingpong("pingpong", "-c -s 1", size=1)
for mtu in (256, 512, 1024, 2048, 4096):
    pingpong("pingpong", f"-c -m {mtu} -s 65537 -n 200", size=65537, iterations=200)
pingpong("pingpong", "-c -r 1 -n 200", iterations=200)

# The other services, and shared receive queues.
for service, size in (("uc", 4096), ("ud", 1024)):
    pingpong("services", "", service=service, size=size)
    pingpong("services", "-c", service=service, size=size)
    pingpong("services", "-e -c -l 3", service=service, size=size)
    pingpong("services", "-c -s 1", service=service, size=1)
    pingpong("services", "-c -r 1 -n 200", service=service, size=size, iterations=200)
    pingpong("services", "-d uroce0 -i 1 -c -n 5000", service=service, size=size, iterations=5000)
pingpong("services", "-c -s 4096 -n 200", service="ud", size=4096, iterations=200)
for mtu in (256, 4096):
    pingpong("services", f"-c -m {mtu} -s 65537 -n 200", service="uc", size=65537, iterations=200)
pingpong("services", "", service="srq")
pingpong("services", "-e -c -l 3", service="srq")
pingpong("services", "-c -q 1", service="srq")
pingpong("services", "-c -q 32 -n 200", service="srq", iterations=200)
pingpong("services", "-c -q 4 -r 8 -m 256 -s 65537 -n 50", service="srq", size=65537, iterations=50)
xsrq("services", "")
xsrq("services", "-e -n 100")
xsrq("services", "-m 1024 -s 65537 -n 100 -l 3")

for service, verbs in (("UC", ("write", "send")), ("UD", ("send",)), ("XRC", ("write", "read", "send"))):
    for verb in verbs:
        perftest("services", f"ib_{verb}_bw", f"-c {service} -n 1000")
        perftest("services", f"ib_{verb}_bw", f"-c {service} -b -q 4 -n 200", gids=(IPV4,))
        perftest("services", f"ib_{verb}_lat", f"-c {service} -n 500", gids=(IPV6,))
        if verb == "send":
            perftest("services", "ib_send_bw", f"-c {service} -e -n 1000", gids=(IPV6,))
            perftest("services", "ib_send_lat", f"-c {service} -e -n 500", gids=(IPV4,))
        if service != "UD":
            perftest("services", f"ib_{verb}_bw", f"-c {service} -m 256 -s 65537 -n 100", gids=(IPV4,))
for test in ("bw", "lat"):
    perftest("services", f"ib_atomic_{test}", "-c XRC -n 500")
perftest("services", "ib_send_bw", "-c UD -s 4096 -n 1000", gids=(IPV4,))
for options in ("", "-q 8", "-e", "-q 8 -e", "-r 64 -t 16"):
    perftest("services", "ib_send_bw", f"--use-srq -n 500 {options}".strip())
for options in ("", "-e"):
    perftest("services", "ib_send_lat", f"--use-srq -n 500 {options}".strip(), gids=(IPV4,))
# Multicast, without a subnet manager: the group is perftest's own, an IPv6 one, or is named.
for test in ("bw", "lat"):
    perftest("services", f"ib_send_{test}", "-c UD -g -n 500", gids=(IPV6,))
    perftest("services", f"ib_send_{test}", "-c UD -g -M 0:0:0:0:0:0:0:0:0:0:255:255:224:0:0:9 -n 500", gids=(IPV4,))

for verb in ("write", "read", "send"):
    perftest("bandwidth", f"ib_{verb}_bw", "-n 1000")
    perftest("bandwidth", f"ib_{verb}_bw", "-a -n 64", rows=SIZES_TO_8M, gids=(IPV4,), seconds=120)
    perftest("bandwidth", f"ib_{verb}_bw", "-b -n 1000")
    perftest("bandwidth", f"ib_{verb}_bw", "-q 16 -n 200")
    if verb != "write":  # perftest has no event mode for it
        perftest("bandwidth", f"ib_{verb}_bw", "-e -n 1000", gids=(IPV4,))
    perftest("bandwidth", f"ib_{verb}_bw", "-m 256 -s 4097 -n 500", gids=(IPV4,))
    perftest("bandwidth", f"ib_{verb}_bw", "-m 4096 -s 1048577 -n 100", gids=(IPV6,))
    perftest("bandwidth", f"ib_{verb}_bw", "-Q 1 -t 1 -n 200", gids=(IPV4,))
for verb in ("write", "send"):
    perftest("bandwidth", f"ib_{verb}_bw", "-I 64 -s 64 -n 1000")
perftest("bandwidth", "ib_send_bw", "-r 8 -t 64 -n 1000", gids=(IPV4,))
for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
    perftest("bandwidth", "ib_atomic_bw", f"-A {kind} -n 1000")
perftest("bandwidth", "ib_atomic_bw", "-b -n 1000", gids=(IPV4,))
perftest("bandwidth", "ib_atomic_bw", "-q 16 -n 200", gids=(IPV4,))
perftest("bandwidth", "ib_atomic_bw", "-e -n 1000", gids=(IPV4,))

for verb in ("write", "read", "send"):
    perftest("latency", f"ib_{verb}_lat", "-n 1000")
    perftest("latency", f"ib_{verb}_lat", "-s 1048577 -n 20", gids=(IPV4,))
# For each size perftest measures its processor's clock, twice.
perftest("latency", "ib_write_lat", "-a -n 20", rows=SIZES_TO_8M, gids=(IPV4,), seconds=120)
for verb in ("read", "send"):
    perftest("latency", f"ib_{verb}_lat", "-e -n 500")
for verb in ("write", "send"):
    perftest("latency", f"ib_{verb}_lat", "-I 32 -s 32 -n 1000")
for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
    perftest("latency", "ib_atomic_lat", f"-A {kind} -n 1000")
perftest("latency", "ib_atomic_lat", "-e -n 500", gids=(IPV4,))

# With a device id that perftest knows, the one of Debian 12 posts through ibv_wr_* instead of ibv_post_send.
PART_ID = "UROCE_VENDOR_PART_ID"
for program, options in (("ib_write_bw", ""), ("ib_read_bw", ""), ("ib_send_bw", ""), ("ib_atomic_bw", ""),
                         ("ib_write_lat", ""), ("ib_read_lat", ""), ("ib_send_lat", ""), ("ib_atomic_lat", ""),
                         ("ib_write_bw", "-q 16"), ("ib_write_bw", "-I 64 -s 64"), ("ib_send_lat", "-I 64 -s 64"),
                         ("ib_write_bw", "-c UC"), ("ib_send_bw", "-c UC"), ("ib_write_lat", "-c UC -I 64 -s 64"),
                         ("ib_send_bw", "-c UD"), ("ib_send_lat", "-c UD -I 64 -s 64"), ("ib_send_bw", "-c UD -q 4"),
                         ("ib_write_bw", "-c XRC"), ("ib_read_bw", "-c XRC"), ("ib_send_bw", "-c XRC"),
                         ("ib_atomic_bw", "-c XRC"), ("ib_send_lat", "-c XRC -I 64 -s 64"),
                         ("ib_send_bw", "--use-srq -q 4")):
    perftest("work-requests", program, (options + " -n 500").strip(), gids=(IPV4,),
             environment={PART_ID: "4119"})

# Memory stays where it is, and the daemon copies.
for program, options in (("ib_write_bw", "-n 500"), ("ib_read_bw", "-s 1048577 -n 50"), ("ib_send_bw", "-q 16 -n 100"),
                         ("ib_send_bw", "-c UD -n 500"), ("ib_atomic_bw", "-n 500"), ("ib_write_lat", "-n 500"),
                         ("ib_send_lat", "-n 500"), ("ib_atomic_lat", "-n 500")):
    perftest("services", program, options, gids=(IPV4,), environment={"UROCE_MR": "copy"})

# RoCEv1: everything goes through the same packets, in another envelope.
for service, size in (("rc", 4096), ("uc", 4096), ("ud", 1024), ("srq", 4096)):
    pingpong("rocev1", "-c -n 200", service=service, size=size, iterations=200, gids=(IPV4_V1, IPV6_V1))
pingpong("rocev1", "-e -c -m 256 -s 65537 -n 50", size=65537, iterations=50, gids=(IPV4_V1,))
for program, options in (("ib_write_bw", ""), ("ib_read_bw", ""), ("ib_atomic_bw", ""),
                         ("ib_send_bw", "-c UC"), ("ib_write_bw", "-c XRC"), ("ib_send_bw", "-c UD"),
                         ("ib_send_lat", "-c UD")):
    perftest("rocev1", program, f"-n 500 {options}".strip(), gids=(IPV4_V1, IPV6_V1))
perftest("rocev1", "ib_send_lat", "-c UD -g -n 200", gids=(IPV4_V1, IPV6_V1))
perftest("rocev1", "ib_send_bw", "-c UD -g -M 0:0:0:0:0:0:0:0:0:0:255:255:224:0:0:9 -n 200", gids=(IPV4_V1,))

# Over a daemon with two workers (--workers 2): every service, both workers.
for command in ("rc -c", "ud -c", "srq -e -c -l 3"):
    service, options = command.split(" ", 1)
    pingpong("workers", options + " -n 500", service=service, size=1024 if service == "ud" else 4096, iterations=500,
             gids=(IPV4,))
xsrq("workers", "-n 100", gids=(IPV6,))
for program, options in (("ib_send_bw", "-q 8 -n 200"), ("ib_write_bw", "-q 8 -b -n 200"),
                         ("ib_read_bw", "-q 4 -n 200"), ("ib_atomic_bw", "-q 4 -n 200"),
                         ("ib_send_bw", "-c UD -n 1000"), ("ib_send_bw", "-c UD -g -n 200")):
    perftest("workers", program, options, gids=(IPV6,))

# The few that scripts/test runs over a daemon built with sanitizers.
for group_row in [r for r in ROWS if r["name"] in (
        "ibv_rc_pingpong -g 0 -c", "ibv_rc_pingpong -g 1 -e", "ib_write_bw -F -x 0 -n 1000",
        "ib_read_bw -F -x 1 -n 1000", "ib_send_bw -F -x 0 -q 16 -n 200", "ib_atomic_lat -F -x 0 -A CMP_AND_SWAP -n 1000",
        "ibv_uc_pingpong -g 0 -c", "ibv_ud_pingpong -g 1 -e -c -l 3", "ibv_srq_pingpong -g 0 -e -c -l 3",
        "ibv_xsrq_pingpong -g 1 -e -n 100")]:
    ROWS.append(dict(group_row, group="quick"))


# With XRC it waits for events of two completion queues by one channel, and takes the first for one of its send queue. Where two
# workers serve its two queue pairs, the answer's event may be the first.
ONE_ORDER = "ib_send_lat -F -x 0 -c XRC -e"


def lists_device(build, daemon):
    text = kit.Program(daemon, ["ibv_devices"]).finish(20)
    if "uroce0" not in text:
        raise kit.Failure("no uroce0 in:\n" + text)


def describes_device(build, daemon):
    text = kit.Program(daemon, ["ibv_devinfo", "-v"]).finish(20)
    for word in ("hca_id:", "uroce0", "PORT_ACTIVE", "link_layer:", "Ethernet", "GID["):
        if word not in text:
            raise kit.Failure(f"no {word} in:\n{text}")
    # 100 Gb/s: by this UCX chooses how to send.
    if not re.search(r"active_width:\s+4X", text) or not re.search(r"active_speed:\s+25\.0 Gbps", text):
        raise kit.Failure(f"not the speed:\n{text}")
    gids = re.findall(r"GID\[ *(\d+)\]:\s+(\S+), (.*\S)", text)
    wanted = [("0", "::ffff:127.0.0.1", "RoCE v2"), ("1", "::1", "RoCE v2"),
              ("2", "0000:0000:0000:0000:0000:ffff:7f00:0001", "RoCE v1"),
              ("3", "0000:0000:0000:0000:0000:0000:0000:0001", "RoCE v1")]
    if gids[:len(wanted)] != wanted:  # then those of the machine's other addresses
        raise kit.Failure(f"not these GIDs first, {wanted}:\n{text}")


def chooses_gid(build, daemon):
    """perftest takes the best entry of the table when none is named: IPv4, the newer RoCE version."""
    _, text = kit.run_pair(daemon, ["ib_write_bw", "-F", "-n", "100"])
    kit.check_perftest(text)
    chosen = re.findall(r"GID index *: (\d+)", text)
    if chosen != ["0"]:
        raise kit.Failure(f"GID index {chosen}:\n{text}")


def counters_add_up(daemon):
    """Every frame that was received was delivered or dropped for a reason; here none was dropped for what is in it."""
    counters = {row["counter"]: row["value"] for row in daemon.show("counters")}
    drops = {row["reason"]: row["value"] for row in daemon.show("drops")}
    # A datagram to a group is delivered by each worker with a member of it.
    copies = sum(worker["rx_copies"] for port in daemon.show("steering") for worker in port["workers"])
    if counters["rx_packets"] == 0 or counters["rx_packets"] + copies != counters["rx_delivered"] + sum(drops.values()):
        raise kit.Failure(f"{counters}, {copies} copies and {drops}")
    # What comes late to a queue pair that was destroyed, or from one whose peer was; on a loaded machine also what
    # comes while a copy of its bytes sleeps.
    allowed = {"unknown_qpn", "qp_state", "sender_mismatch"}
    if any(worker["taken_away"] for worker in daemon.show("workers")):
        allowed.add("qp_suspended")
    if set(drops) - allowed:
        raise kit.Failure(f"dropped: {drops}")


def at_the_same_time(daemon):
    """Programs that know nothing of each other, side by side."""
    failures = []

    def one(command, check):
        try:
            check(kit.run_pair(daemon, command.split())[1])
        except kit.Failure as failure:
            failures.append(failure)

    pairs = [threading.Thread(target=one, args=pair) for pair in (
        ("ib_write_bw -F -x 0 -q 4 -n 500", kit.check_perftest), ("ib_send_bw -F -x 1 -q 4 -n 500", kit.check_perftest),
        ("ibv_rc_pingpong -g 0 -c -n 500", kit.check_pingpong))]
    for pair in pairs:
        pair.start()
    for pair in pairs:
        pair.join()
    if failures:
        raise failures[0]


def all_take_part(daemon):
    """Queue pairs were on every worker, and packets delivered there."""
    idle = [worker for port in daemon.show("steering") for worker in port["workers"] if not worker["rx_delivered"]]
    if idle:
        raise kit.Failure(f"nothing was delivered by {idle}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--group", action="append")
    options.add_argument("--match", help="only rows whose name contains this")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--list", action="store_true")
    arguments = options.parse_args()
    rows = [r for r in ROWS
            if (r["group"] in arguments.group if arguments.group else r["group"] not in ("quick", "workers"))
            and not (arguments.workers > 1 and r["name"].startswith(ONE_ORDER))
            and (arguments.match or "") in r["name"]] * arguments.rounds
    if arguments.list:
        for r in rows:
            print(f"{r['group']:14} {r['name']}")
        return 0

    kit.die_on_signals()
    build = kit.Build(arguments.build)
    daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", "--workers", str(arguments.workers)))
    several = arguments.workers > 1
    tap = kit.Tap(len(rows) + (7 if several else 5))
    try:
        tap.point("ibv_devices", lambda: lists_device(build, daemon))
        tap.point("ibv_devinfo -v", lambda: describes_device(build, daemon))
        tap.point("perftest without a GID index", lambda: chooses_gid(build, daemon))
        for r in rows:
            def one():
                try:
                    _, client_text = kit.run_pair(daemon, r["command"], extra_environment=r["environment"],
                                                  seconds=r["seconds"])
                except kit.Failure as failure:
                    if PART_ID in (r["environment"] or {}) and "Failed to query device capabilities" in str(failure):
                        raise kit.Skipped("this perftest asks libmlx5 for such a device's queue pairs") from None
                    raise
                r["check"](client_text)
                if not daemon.alive():
                    raise kit.Failure("uroced is gone:\n" + daemon.log())
            tap.point(r["name"] + "".join(f" ({name})" for name in r["environment"] or {}), one)
        if several:
            tap.point("programs at the same time", lambda: at_the_same_time(daemon))
            tap.point("every worker delivers", lambda: all_take_part(daemon))
        tap.point("delivered and dropped add up to received", lambda: counters_add_up(daemon))
    finally:
        status = daemon.stop()

    def ends_well():
        if status != 0:
            raise kit.Failure(f"exit status {status}:\n{daemon.log()}")
    tap.point("uroced ends with status 0 when told to", ends_well)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
