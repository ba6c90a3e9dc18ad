#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two uroced in two network namespaces, unmodified programs between them, and independent programs that read the wire.
TAP; needs root and is skipped without. usage: run_net.py --build DIR [--mtu MTU]... [--match TEXT]"""
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

MTUS = (1500, 9000)
IPV4, IPV6 = 0, 1
# The kernel's own frames in both directions, and late packets for a destroyed queue pair.
EXPECTED_DROPS = ("not_roce", "not_our_mac", "unknown_qpn", "qp_state")


def rows(mtu):
    """(name, command, check) of each pair of programs."""
    path_mtu = 4096 if mtu >= 4200 else 1024
    for gid in (IPV4, IPV6):
        yield f"ibv_rc_pingpong -g {gid} -c", None
        yield f"ibv_rc_pingpong -g {gid} -e -m {path_mtu} -s 65537 -n 200", None
        for verb in ("write", "read", "send"):
            yield f"ib_{verb}_bw -F -x {gid} -n 500", 1
            yield f"ib_{verb}_lat -F -x {gid} -n 200", 1
        yield f"ib_atomic_bw -F -x {gid} -n 500", 1
        yield f"ib_write_bw -F -x {gid} -m {path_mtu} -s 1048576 -n 50 -b", 1
        yield f"ibv_uc_pingpong -g {gid} -c -m {path_mtu} -s 65537 -n 200", None
        yield f"ibv_ud_pingpong -g {gid} -e -c -s 1024", None
        yield f"ibv_srq_pingpong -g {gid} -c -q 4 -n 200", None
        yield f"ib_send_lat -F -x {gid} -c UD -s 1024 -n 200", 1
        yield f"ib_write_lat -F -x {gid} -c UC -n 200", 1
        yield f"ib_send_bw -F -x {gid} -c XRC -n 200", 1
        yield f"ib_read_bw -F -x {gid} -c XRC -n 200", 1
        yield f"ib_send_bw -F -x {gid} --use-srq -q 4 -n 200", 1
    yield "ib_send_lat -F -x 1 -c UD -g -s 1024 -n 200", 1
    yield "ib_send_bw -F -x 0 -q 16 -n 100", 1
    yield "ib_read_bw -F -x 0 -a -n 20", 23


class Capture:
    """The frames at one end of the wire: everything for the RoCE port, or by another filter."""

    def __init__(self, end, path, pattern="udp dst port 4791"):
        self.path = path
        # -B: MiB of the kernel's buffer; a frame that is lost here is a frame the checks do not see, not an error.
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", end.namespace, "dumpcap", "-q", "-P", "-B", "64", "-i", end.interface, "-f",
             pattern, "-w", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        while True:
            line = self.process.stderr.readline()
            if line.startswith("File: "):
                return
            if not line:
                raise kit.Failure("dumpcap did not start")

    def frames(self):
        """Those in the file so far."""
        with open(self.path, "rb") as file:
            data = file.read()
        at = 24
        while at + 16 <= len(data):
            length = int.from_bytes(data[at + 8:at + 12], "little")
            yield data[at + 16:at + 16 + length]
            at += 16 + length

    def seen(self):
        """RoCE frames in the file so far: to UDP port 4791, or of ethertype 0x8915."""
        return sum(b"\x12\xb7" in frame[:80] or b"\x89\x15" in frame[:80] for frame in self.frames())

    def stop(self, at_least=20):
        """The last frames may still wait in the kernel and are lost when dumpcap ends: some must be in the file."""
        deadline = time.monotonic() + 5
        while self.seen() < at_least and time.monotonic() < deadline:
            time.sleep(0.05)  # dumpcap has no event for its writes
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        os.chmod(self.path, 0o644)


def tshark_reads(path, mtu):
    """Every frame is InfiniBand over UDP to tshark, fits the MTU, and no header of it is malformed."""
    result = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", "-e", "frame.number", "-e", "frame.len", "-e", "infiniband.bth.opcode",
         "-e", "infiniband.bth.destqp", "-o", "infiniband.try_heuristic_first:FALSE"],
        capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise kit.Failure("tshark: " + result.stderr)
    lines = result.stdout.splitlines()
    if len(lines) < 20:
        raise kit.Failure(f"only {len(lines)} frames")
    for line in lines:
        number, length, opcode, queue_pair = (line.split("\t") + [""] * 4)[:4]
        if not opcode or not queue_pair:
            raise kit.Failure(f"frame {number} is not RoCEv2 to tshark")
        if int(length) > mtu + 14:
            raise kit.Failure(f"frame {number} has {length} bytes, the MTU is {mtu}")


def checker_agrees(path):
    result = subprocess.run([sys.executable, os.path.join(HERE, "icrc_check.py"), path], capture_output=True,
                            text=True, timeout=300)
    if result.returncode != 0:
        raise kit.Failure(result.stdout + result.stderr)


def dissect_agrees(build, path):
    result = subprocess.run([build.uroce, "dissect", path], capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        raise kit.Failure("\n".join(result.stdout.splitlines()[-10:]) + result.stderr)


def both_alive(daemons):
    for daemon in daemons:
        if not daemon.alive():
            raise kit.Failure("uroced is gone:\n" + daemon.log())


def kernel_is_quiet(wire):
    """The kernel has the same addresses and no socket for RoCE that it knows of: it must not answer the peer."""
    for end in wire.ends:
        if end.unreachables() != 0:
            raise kit.Failure(f"end {end.number} sent {end.unreachables()} ICMP unreachables")


def warned_of_senders(daemons):
    """The kernel's sockets have the same addresses: uroced says that local users can forge packets."""
    for daemon in daemons:
        if daemon.log().count("every user of this host can forge packets") != 1:
            raise kit.Failure("no warning: " + daemon.log())


def no_bad_frame(daemons):
    """No frame was dropped because of its contents."""
    for daemon in daemons:
        reasons = {drop["reason"]: drop["value"] for drop in daemon.show("drops")}
        unexpected = {r: n for r, n in reasons.items() if r not in EXPECTED_DROPS}
        if unexpected:
            raise kit.Failure(f"dropped: {unexpected}")


def test_wire(tap, build, mtu, chosen):
    folder = kit.scratch_folder()
    with net.Wire(mtu, cut=True) as wire:
        daemons = net.daemons(build, folder, wire)
        try:
            def pair(command, table_rows):
                _, text = kit.run_pair(daemons[0], command.split(), client_daemon=daemons[1],
                                       address=wire.ends[0].ipv4, seconds=60)
                if table_rows is None:
                    kit.check_pingpong(text)
                else:
                    kit.check_perftest(text, table_rows)
                both_alive(daemons)

            for command, table_rows in chosen:
                tap.point(f"MTU {mtu}: {command}", lambda: pair(command, table_rows))

            def inside():
                for command in ("ibv_rc_pingpong -g 0 -c -n 100", "ib_send_lat -F -x 1 -c UD -g -s 1024 -n 100"):
                    _, text = kit.run_pair(daemons[0], command.split(), address=wire.ends[0].ipv4)
                    if command.startswith("ib_"):
                        kit.check_perftest(text)
                    both_alive(daemons)

            tap.point(f"MTU {mtu}: two programs of one uroced, also in a multicast group", inside)

            path = os.path.join(folder, "wire.pcap")

            def captured():
                capture = Capture(wire.ends[0], path)
                try:
                    for command, table_rows in (("ibv_rc_pingpong -g 0 -c -n 100", None),
                                                ("ibv_rc_pingpong -g 1 -c -s 65537 -n 20", None),
                                                ("ib_write_bw -F -x 0 -n 50 -s 8191", 1),
                                                ("ib_read_bw -F -x 1 -n 50 -s 8191", 1),
                                                ("ib_send_bw -F -x 1 -n 50 -s 3 -q 2", 1),
                                                ("ib_atomic_bw -F -x 0 -n 50", 1),
                                                ("ibv_uc_pingpong -g 0 -c -s 8191 -n 20", None),
                                                ("ibv_ud_pingpong -g 0 -c -s 1024 -n 20", None),
                                                ("ibv_ud_pingpong -g 1 -c -s 7 -n 20", None),
                                                ("ib_write_bw -F -x 1 -c XRC -n 50 -s 8191", 1)):
                        pair(command, table_rows)
                finally:
                    capture.stop()

            tap.point(f"MTU {mtu}: programs while dumpcap listens", captured)
            tap.point(f"MTU {mtu}: tshark reads every frame", lambda: tshark_reads(path, mtu))
            tap.point(f"MTU {mtu}: zlib computes the same ICRCs", lambda: checker_agrees(path))
            tap.point(f"MTU {mtu}: uroce dissect finds no fault", lambda: dissect_agrees(build, path))
            tap.point(f"MTU {mtu}: the kernel does not answer RoCE frames", lambda: kernel_is_quiet(wire))
            tap.point(f"MTU {mtu}: uroced warns of local senders", lambda: warned_of_senders(daemons))
            tap.point(f"MTU {mtu}: no frame was dropped for its contents", lambda: no_bad_frame(daemons))
        finally:
            statuses = [daemon.stop() for daemon in daemons]

        def ended():
            if statuses != [0, 0]:
                raise kit.Failure(f"exit statuses {statuses}:\n" + "\n".join(d.log() for d in daemons))
        tap.point(f"MTU {mtu}: both uroced end well", ended)


def main():
    arguments = net.start("ip", "dumpcap", "tshark", match="only the pairs whose command contains this",
                          more=[("--mtu", {"type": int, "action": "append"})])
    build = kit.Build(arguments.build)
    mtus = arguments.mtu or MTUS
    chosen = {mtu: [row for row in rows(mtu) if arguments.match in row[0]] for mtu in mtus}
    tap = kit.Tap(sum(len(chosen[mtu]) + 9 for mtu in mtus))
    for mtu in mtus:
        test_wire(tap, build, mtu, chosen[mtu])
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
