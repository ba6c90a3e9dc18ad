#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cmtime of rdmacm-utils in a guest, where both are emulated alike: between two rdma_cm of the kernel over rdma_rxe, and
between two programs of a uroced. A measurement, no test; doc/connections.md has its figures. Standard library only.

With --counted a microsecond of the guest is 500 instructions, whatever else the machine does.

usage: measure_cm.py --build DIR [--connections N] [--cpus N] [--rounds N] [--counted]"""
import argparse
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import dpdk_image
import guest as vm
import image
import peer
import uroce_kit as kit

SOCKET = "/run/uroced.sock"
PROGRAMS = {"/bin": ("app/uroced/uroced", "app/uroce/uroce"),
            "/uroce": ("lib/verbs/libibverbs.so.1", "lib/rdmacm/librdmacm.so.1")}
NIC = ["-netdev", "hubport,id=net0,hubid=0", "-device", f"virtio-net-pci,netdev=net0,mac={peer.GUEST_MAC},romfile=,"
       f"host_mtu={peer.MTU},vectors=0"]
SECONDS = 300
KERNEL = "6.1"  # the cmtime of later ones makes other series, and is rejected in one of them by the kernel as well


def measure(guest, who, prefix, address, listeners, options):
    """The table of each round: a line for each step."""
    for number in range(options.rounds):
        port = 7300 + number
        server = guest.start(f"{prefix}cmtime -b {address} -p {port} -c {options.connections}")
        try:
            kit.wait_until(lambda: "LISTEN" in guest.control(listeners)[1], 30, "cmtime listens")
            text = guest.run(f"{prefix}cmtime -s {address} -p {port} -c {options.connections}", SECONDS)
        finally:
            server.kill()
        print(f"{who}, round {number + 1}")
        print("\n".join(re.findall(r"^(?:step|[a-z ]+:) .*$", text, re.M)), flush=True)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--connections", type=int, default=300)
    options.add_argument("--cpus", type=int, default=1)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--counted", action="store_true")
    options = options.parse_args()
    kit.die_on_signals()
    folder = kit.scratch_folder()
    programs = {f"{where}/{os.path.basename(path)}": os.path.join(options.build, path)
                for where, paths in PROGRAMS.items() for path in paths}
    try:
        system = image.Image(os.path.join(options.build, "interop"), KERNEL)
        archive = dpdk_image.with_dpdk(system, programs, os.path.join(folder, "initrd"))
    except image.Unavailable as reason:
        sys.exit(str(reason))
    with vm.Guest(system.kernel, archive, folder, NIC, cpus=options.cpus, memory=1024, cpu="Nehalem",
                  counted=options.counted) as guest:
        guest.set_up(peer.GUEST_IPV4 + "/24", peer.GUEST_IPV6 + "/64", peer.MTU)
        measure(guest, "Linux " + system.name, "", peer.GUEST_IPV4, "rdma resource show cm_id", options)
        guest.run("rdma link del rxe0; busybox mkfifo /run/ready")
        daemon = guest.start(f"uroced --loopback --socket {SOCKET} --ready-fd 9 9>/run/ready")
        if guest.control("head -c 1 /run/ready | wc -c", kit.READY_SECONDS)[1].strip() != "1":
            daemon.success(5)
        measure(guest, "uroce", f"LD_LIBRARY_PATH=/uroce UROCE_SOCKET={SOCKET} ", "127.0.0.1",
                f"uroce show cm_ids --socket {SOCKET}", options)


if __name__ == "__main__":
    main()
