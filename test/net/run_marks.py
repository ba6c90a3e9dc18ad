#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two uroced whose middle (lossy.c) marks frames "congestion experienced", or holds them back: the sender slows down, and
recovers. CNPs are counted on the wire by tshark. TAP; needs root and is skipped without.

usage: run_marks.py --build DIR"""
import contextlib
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net
from run_loss import Lossy, daemons, running
from run_net import Capture, both_alive

MARKED = 100000     # in 1/100000, while the middle marks: all
CNP_INTERVAL = 10   # microseconds: a slow machine gets few marks in the default's 50
FAR = 4000          # microseconds each way, while the middle holds frames back
NEAR = 1000         # microseconds that a peer whose CPU is busy may add: less than FAR adds
CNP = "udp dst port 4791 and udp[8] = 0x81"
SENDS = "ib_write_bw -F -x 0 -m 1024 -s 65536 -D 60"
# Of what was sent before: at most while the network is congested, at least afterwards.
SLOW, RECOVERED = 0.5, 0.7
RECOVERY = 10000    # microseconds between increases: on a busy machine CNPs come together, many milliseconds apart
LINE = 400          # Mb/s: max_rate of the ports, which a busy machine carries, too
SPAN = 1.0          # seconds over which a rate is measured
SECONDS = 20


def settings(control):
    return [f"ecn = yes\ncnp = {CNP_INTERVAL}\ncontrol = {control}\nmax_rate = {LINE}"] * 2


def connection(daemon):
    """The connection's row of `uroce show qps`; empty as long as there is none."""
    return next((row for row in daemon.show("qps") if row["state"] in ("RTR", "RTS")), {})


def sent(daemon):
    return connection(daemon).get("tx_bytes", 0)


def rate(daemon):
    """Bytes per second that the connection sends now."""
    begin, before = time.monotonic(), sent(daemon)
    time.sleep(SPAN)  # a rate has a span
    return (sent(daemon) - before) / (time.monotonic() - begin)


def slows_down_and_recovers(sender, congest, relieve, results):
    kit.wait_until(lambda: sent(sender) > 10 * 1024 * 1024, SECONDS, "the connection is busy")
    before = rate(sender)
    congest()
    kit.wait_until(lambda: rate(sender) < SLOW * before, SECONDS, f"it sends less than {SLOW} of {before:.0f} bytes a second")
    during = rate(sender)
    relieve()
    kit.wait_until(lambda: rate(sender) > RECOVERED * before, SECONDS, f"it sends {RECOVERED} of {before:.0f} again")
    results += (before, during)


def cnps_on_the_wire(path):
    """To tshark: (how many, their destination queue pairs)."""
    result = subprocess.run(["tshark", "-r", path, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp",
                             "-o", "infiniband.try_heuristic_first:FALSE"], capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise kit.Failure("tshark: " + result.stderr)
    rows = [line.split() for line in result.stdout.splitlines()]
    if any(row[0] != "129" for row in rows):
        raise kit.Failure(f"not only CNPs: {rows[:10]}")
    return len(rows), {int(row[1], 0) for row in rows}


def marks(build, wire, control):
    """The receiver answers marks by CNPs, or tells of them by none (control by delay): both ends' counters, the middle's and
    the capture's agree."""
    results, counts = [], []
    with contextlib.ExitStack() as stack:
        wire.start(0, 0, MARKED)
        stack.callback(lambda: wire.process and counts.extend(wire.stop()))
        ends = stack.enter_context(daemons(build, wire, settings(control)))
        sender, receiver = ends[1], ends[0]
        capture = Capture(wire.ends[1], os.path.join(kit.scratch_folder(), "cnp.pcap"),
                          f"{CNP} and dst host {wire.ends[1].ipv4}")
        try:
            with running(ends, SENDS):
                def toggle():
                    wire.process.send_signal(signal.SIGUSR1)
                slows_down_and_recovers(sender, toggle, toggle, results)
                kit.wait_until(lambda: connection(sender)["rp_cnp_handled"] ==
                               connection(receiver)["np_cnp_sent"], SECONDS, "all CNPs have arrived")
                handled = connection(sender)["rp_cnp_handled"]
                marked = connection(receiver)["np_ecn_marked_roce_packets"]
                number = connection(sender)["qpn"]
        finally:
            capture.stop()
        both_alive(ends)
        counts.extend(wire.stop())
    seen, numbers = cnps_on_the_wire(capture.path)
    if not handled or seen != handled or numbers != {number}:
        raise kit.Failure(f"{handled} CNPs handled, {seen} on the wire, for {numbers}, the connection is {number}")
    if marked != counts[1][3]:
        raise kit.Failure(f"the middle marked {counts[1][3]} frames, the receiver counted {marked}")
    return f"{results[0] / 1e6:.0f} MB/s, {results[1] / 1e6:.1f} with marks; {marked} marks, {handled} CNPs"


def delay(build, wire, control):
    """What waits in the network holds a sender back that works by the round trip."""
    results = []
    with contextlib.ExitStack() as stack:
        wire.start(0, 0)
        stack.callback(lambda: wire.process and wire.stop())

        def hold_back(microseconds):
            wire.stop()
            wire.start(0, microseconds)
        ends = stack.enter_context(daemons(build, wire, settings(control)))
        with running(ends, SENDS):
            slows_down_and_recovers(ends[1], lambda: hold_back(FAR), lambda: hold_back(0), results)
        both_alive(ends)
    return f"{results[0] / 1e6:.0f} MB/s, {results[1] / 1e6:.1f} while frames wait"


def main():
    arguments = net.start("ip", "tshark", "dumpcap")
    build = kit.Build(arguments.build)
    points = [("dcqcn: marks", lambda wire: marks(build, wire, f"dcqcn rpg_time_reset={RECOVERY}")),
              ("swift: frames that wait", lambda wire: delay(build, wire, f"swift endpoint_delay={NEAR}"))]
    tap = kit.Tap(len(points))
    with Lossy(os.path.join(build.folder, "test/net/lossy")) as wire:
        for name, function in points:
            tap.point(name, lambda f=function: print("#", f(wire)))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
