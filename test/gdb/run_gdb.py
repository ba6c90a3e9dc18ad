#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""TAP: gdb prints the values of subject.c as scripts/gdb_uroce.py promises; skipped without gdb.

    run_gdb.py SOURCE_FOLDER PROGRAM"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from uroce_kit import Failure, Tap

WANTED = {
    "mapped": "10.0.0.1",
    "global": "2001:db8::1",
    "qp.req.una": "psn 16777215",
    "qp": "qp 0x000012 RC RTS to 0x000011, requester next 9 una 16777215 max 11, responder expects 5 msn 3",
    "pkt": "RC_WRITE_ONLY qp 0x000011 psn 7 ack va 0x7f00 rkey 0x3ab9 dma 64 len 64",
    "frame": "frame of 78 bytes, room for 2048, 02:00:00:00:00:01 to 02:00:00:00:00:02, VLAN 5 priority 3, "
             "IPv4 10.0.0.1 to 10.0.0.2, UDP 49152 to 4791, RC_WRITE_ONLY qp 0x000011 psn 7 ack",
}


def printed(gdb, root, program):
    command = [gdb, "-q", "-nx", "-batch", "-ex", f"source {root}/scripts/gdb_uroce.py", "-ex", "break stop", "-ex", "run"]
    for name in WANTED:
        command += ["-ex", f'printf "{name}: "', "-ex", f"output {name}", "-ex", 'printf "\\n"']
    command += ["-ex", "finish", program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    return done.stdout.splitlines(), done.stdout + done.stderr


def main():
    gdb = shutil.which("gdb")
    if not gdb:
        print("1..0 # SKIP there is no gdb")
        return 0
    lines, everything = printed(gdb, sys.argv[1], sys.argv[2])
    if not any(line.startswith("Breakpoint 1, ") for line in lines):
        print("1..0 # SKIP gdb cannot run programs here")
        print("# " + everything.replace("\n", "\n# "))
        return 0

    def compare(name, wanted):
        if f"{name}: {wanted}" not in lines:
            raise Failure(f"wanted: {name}: {wanted}\n" + everything)

    def same_as_program():
        if WANTED["pkt"] not in lines:
            raise Failure("pkt_format writes the packet in other words:\n" + everything)
    tap = Tap(len(WANTED) + 1)
    for name, wanted in WANTED.items():
        tap.point(name, lambda: compare(name, wanted))
    tap.point("a packet, as pkt_format writes it", same_as_program)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
