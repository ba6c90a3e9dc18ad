#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce fault` on ports that have a network behind them: packet sockets with one queue and with several, and UDP sockets. TAP;
needs root and is skipped without. usage: run_fault_rules.py --build DIR [--match TEXT]"""
import contextlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "shim")]
import run_fault_wire as shim
import uroce_kit as kit
import uroce_net as net

MTU = 4500
PINGPONG = "ibv_rc_pingpong -g 0 -c -n 300".split()
BANDWIDTH = "ib_write_bw -F -x 0 -n 300 -s 65536 -b".split()
RULES = [("drop rx opcode RC_SEND_* nth 20", PINGPONG, "fault_rule"), ("drop tx opcode RC_WRITE_* nth 200", BANDWIDTH, None),
         ("duplicate tx nth 5", BANDWIDTH, None), ("duplicate rx nth 5", BANDWIDTH, None),
         ("corrupt rx opcode RC_WRITE_* nth 200", BANDWIDTH, "bad_icrc"), ("corrupt tx opcode RC_SEND_* nth 20", PINGPONG, None),
         ("delay 1ms rx nth 50", PINGPONG, None), ("delay 1ms tx nth 50", PINGPONG, None),
         ("reorder 2 tx opcode RC_WRITE_* nth 200", BANDWIDTH, None), ("mark tx", BANDWIDTH, None)]


@contextlib.contextmanager
def packet_sockets(build, folder, workers):
    with net.Wire(MTU) as wire:
        started = []
        try:
            for end, peer in (wire.ends, wire.ends[::-1]):
                path = os.path.join(folder, f"end{end.number}.ini")
                with open(path, "w") as file:
                    file.write(net.configuration(end, peer, MTU))
                    if workers > 1:
                        file.write(f"spread = software\n[uroced]\nworkers = {workers}\n")
                started.append(kit.Daemon(build, folder, f"end{end.number}", ("-c", path), end.namespace))
            for daemon in started:
                daemon.prefix = []  # programs stay where the loopback interface is
            yield started
        finally:
            for daemon in started:
                daemon.stop()


@contextlib.contextmanager
def udp_sockets(build, folder):
    with net.Wire(MTU) as wire:
        started = []
        try:
            for end in wire.ends:
                started.append(kit.Daemon(build, folder, f"end{end.number}", (f"--udp={end.ipv4}",), end.namespace))
            for daemon in started:
                daemon.prefix = []
            yield started
        finally:
            for daemon in started:
                daemon.stop()


def main():
    arguments = net.start("ibv_rc_pingpong", "ib_write_bw")
    build = kit.Build(arguments.build)
    folder = kit.scratch_folder()
    ports = {"packet sockets": lambda: packet_sockets(build, folder, 1), "several workers": lambda: packet_sockets(build, folder, 2),
             "UDP sockets": lambda: udp_sockets(build, folder)}
    ports = {name: pair for name, pair in ports.items() if arguments.match in name}
    tap = kit.Tap(len(ports) * len(RULES))
    for name, pair in ports.items():
        with pair() as (server, client):
            for rule, command, reason in RULES:
                tap.point(f"{name}: {command[0]}, {rule}", lambda: shim.survives(server, rule, command, reason, client))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
