#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""VLANs and priorities over a loopback device: what was configured is shown, asked about, and counted. TAP.

usage: run_qos.py --build DIR"""
import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

CONFIGURATION = """[port.0]
device = loopback
address.0 = link-local
address.1 = 127.0.0.1/8 vlan 7
address.2 = 127.0.0.1/8
sl_to_pcp = 7 6 5 4 3 2 1 0
dscp.3 = 46 26
priority_to_sl = 0 1 10 3 4 5 6 7
ets = 0:40 7:strict 3,4:60
"""
LINK_LOCAL = "fe80::ff:fe00:1"
TAGGED, UNTAGGED, TAGGED_V1 = 0, 1, 3


def show(build, daemon, *arguments):
    """Exit status and output of `uroce show`."""
    run = subprocess.run([build.uroce, "show", *arguments, "--socket", daemon.socket], capture_output=True, text=True,
                         timeout=20)
    return run.returncode, run.stdout


def expect(got, wanted):
    if got != wanted:
        raise kit.Failure(f"{got}, not {wanted}")


def shows_gids(daemon):
    expect([(row["index"], row["address"], row.get("vlan"), row["type"]) for row in daemon.show("gids")],
           [(0, "127.0.0.1", 7, "RoCE v2"), (1, "127.0.0.1", None, "RoCE v2"), (2, LINK_LOCAL, None, "RoCE v2"),
            (3, "127.0.0.1", 7, "RoCE v1"), (4, "127.0.0.1", None, "RoCE v1"), (5, LINK_LOCAL, None, "RoCE v1")])


def answers(build, daemon):
    """Service level to priority; type of service to the kernel's priority, service level and priority; code points."""
    wanted = {
        ("sl", 5): {"sl": 5, "pcp": 2},
        ("sl", 13): {"sl": 13, "pcp": 2},
        ("tos", 104): {"priority": 2, "sl": 10, "pcp": 5, "traffic_class": 104, "dscp": 26, "ecn": 0},
        ("tos", 184): {"priority": 4, "sl": 4, "pcp": 3, "traffic_class": 184, "dscp": 26, "ecn": 0},
        ("tos", 96): {"priority": 0, "sl": 0, "pcp": 7, "traffic_class": 96, "dscp": 24, "ecn": 0},
        ("tclass", 35): {"traffic_class": 35, "dscp": 8, "ecn": 0},
    }
    arguments = [word for what, number in wanted for word in ("--" + what, str(number))]
    status, text = show(build, daemon, "qos", "--json", *arguments)
    expect(status, 0)
    port, = json.loads(text)
    expect({(row.pop("asked"), row.pop("number")): row for row in port["answers"]}, wanted)
    status, text = show(build, daemon, "qos", "--tos", "104")
    expect(status, 0)
    lines = [line.split() for line in text.splitlines()]
    expect(lines, [["device", "port", "asked", "number", "priority", "sl", "pcp", "traffic_class", "dscp", "ecn"],
                   ["uroce0", "1", "tos", "104", "2", "10", "5", "104", "26", "0"]])


def shows_tables(build, daemon):
    port, = daemon.show("qos")
    expect(port["sl_to_pcp"], [7, 6, 5, 4, 3, 2, 1, 0] * 2)
    expect(port["priority_to_sl"], [0, 1, 10, 3, 4, 5, 6, 7] * 2)
    expect(port["dscp"], [26 if code_point == 46 else code_point for code_point in range(64)])
    expect(port["classes"], [{"class": 0, "selection": "strict", "priorities": [7]},
                             {"class": 1, "selection": "ets", "percent": 60, "priorities": [3, 4]},
                             {"class": 2, "selection": "ets", "percent": 40, "priorities": [0, 1, 2, 5, 6]}])
    status, text = show(build, daemon, "qos")
    expect(status, 0)
    lines = [line.split() for line in text.splitlines()]
    for line in ("uroce0 1 0 7 strict".split(), "uroce0 1 1 3,4 ets 60".split(), "uroce0 1 2 0,1,2,5,6 ets 40".split(),
                 ["uroce0", "1", "sl_to_pcp"] + "7 6 5 4 3 2 1 0 7 6 5 4 3 2 1 0".split(), ["uroce0", "1", "46", "26"]):
        if line not in lines:
            raise kit.Failure(f"no {line} in:\n{text}")


def refuses(build, daemon):
    for arguments in (("qos", "--sl", "16"), ("qos", "--tos", "256"), ("qos", "--tclass", "-1"), ("qos", "--sl", "x"),
                      ("qos", "--sl", ""), ("gids", "--sl", "1"), ("--tos", "8")):
        expect((arguments, show(build, daemon, *arguments)), (arguments, (2, "")))


def counts(daemon, command, priority):
    before = daemon.show("qos")[0]["priorities"]
    _, text = kit.run_pair(daemon, command.split())
    kit.check_perftest(text)
    after = daemon.show("qos")[0]["priorities"]
    for old, new in zip(before, after):
        for name in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes"):
            if (new[name] > old[name]) != (new["priority"] == priority):
                raise kit.Failure(f"priority {new['priority']}: {name} went from {old[name]} to {new[name]}")
    totals = {row["counter"]: row["value"] for row in daemon.show("counters")}
    for name in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes"):
        expect((name, totals[name]), (name, sum(row[name] for row in after)))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    arguments = options.parse_args()
    kit.die_on_signals()
    build = kit.Build(arguments.build)
    folder = kit.scratch_folder()
    commands = [(f"ib_write_lat -F -x {TAGGED} -S 2 -n 100", 5),
                (f"ib_write_lat -F -x {TAGGED_V1} -S 9 -n 100", 6),
                (f"ib_send_lat -F -x {TAGGED} -c UD -S 7 -n 100", 0),
                (f"ib_send_lat -F -x {TAGGED_V1} -c UD -S 0 -n 100", 7),
                (f"ib_send_lat -F -x {UNTAGGED} -S 1 --tclass 184 -n 100", 3)]
    tap = kit.Tap(5 + len(commands))
    daemon = kit.Daemon(build, folder, configuration=CONFIGURATION)
    try:
        tap.point("the GID table", lambda: shows_gids(daemon))
        tap.point("the tables", lambda: shows_tables(build, daemon))
        tap.point("what would become of it", lambda: answers(build, daemon))
        tap.point("questions without an answer", lambda: refuses(build, daemon))
        for command, priority in commands:
            tap.point(f"{command}: priority {priority}", lambda: counts(daemon, command, priority))
    finally:
        status = daemon.stop()
    tap.point("uroced ends with status 0 when told to", lambda: expect(status, 0))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
