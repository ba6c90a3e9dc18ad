#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroced on a machine of two NUMA nodes, which QEMU plays: its NIC and a CPU are on the second node. Do the daemon's threads
run there, and is its memory there? TAP; needs root and QEMU, skipped without.

usage: run_numa.py --build DIR"""
import argparse
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import dpdk_image
import guest as vm
import image
import peer
import uroce_kit as kit

NODE = 1  # of the NIC, and of CPU 1
BRIDGE = ["-device", f"pxb,id=far,bus_nr=128,numa_node={NODE}"]
NIC = ["-netdev", "hubport,id=net0,hubid=0", "-device", peer.NIC + ",bus=far,addr=1"]
SOCKET = "/run/uroced.sock"
EARLY = 600  # pages that the loader may have written elsewhere, before the daemon begins


class Machine:
    def __init__(self, options, folder):
        build = options.build.folder
        programs = {"/bin/" + os.path.basename(path): os.path.join(build, path)
                    for path in ("app/uroced/uroced", "app/uroce/uroce")}
        programs.update({"/uroce/" + os.path.basename(path): os.path.join(build, path)
                         for path in ("lib/verbs/libibverbs.so.1", "lib/rdmacm/librdmacm.so.1")})
        archive = dpdk_image.with_dpdk(options.image, programs, os.path.join(folder, "initrd"))
        self.vm = vm.Guest(options.image.kernel, archive, folder, BRIDGE + NIC, cpus=2, memory=768, cpu="Nehalem", nodes=2)
        self.daemon = None

    def start(self, device):
        self.vm.run(f"printf '%s\\n' '[uroced]' '[port.0]' 'device = {device}' 'address.0 = 10.0.9.1/24' >/run/uroced.ini && "
                    "rm -f /run/ready && busybox mkfifo /run/ready")
        self.daemon = self.vm.start(f"uroced -c /run/uroced.ini --socket {SOCKET} --ready-fd 9 9>/run/ready")
        if self.vm.control("head -c 1 /run/ready | wc -c", kit.READY_SECONDS)[1].strip() != "1":
            self.daemon.success(5)

    def stop(self):
        self.vm.run("killall -TERM uroced")
        return self.daemon.success(20)

    def cpus(self):
        """Of each thread."""
        text = self.vm.run("grep -h Cpus_allowed_list /proc/$(busybox pidof uroced)/task/*/status")
        return [line.split()[1] for line in text.splitlines()]

    def pages(self):
        """The daemon's own pages by node."""
        counts = [0, 0]
        for line in self.vm.run("cat /proc/$(busybox pidof uroced)/numa_maps").splitlines():
            if " anon=" in line:
                for node, count in re.findall(r"\bN(\d)=(\d+)", line):
                    counts[int(node)] += int(count)
        return counts

    def has_pages(self):
        """Most are on the node of the port: a worker writes to its memory after the daemon is ready."""
        counts = self.pages()
        return counts[NODE] >= sum(counts) / 2


def interface(machine):
    """The kernel's name of the NIC on the second node."""
    found = machine.vm.run(f"grep -l {peer.GUEST_MAC} /sys/class/net/*/address").strip().split("/")[4]
    machine.vm.run(f"ip link set {found} up")
    return found


def on_the_node_of_its_port(machine):
    machine.start(f"packet,iface={interface(machine)}")
    try:
        kit.wait_until(machine.has_pages, 5, "most of the daemon's pages on the node")
        cpus, pages = machine.cpus(), machine.pages()
    finally:
        text = machine.stop()
    print(f"# threads: {len(cpus)} on CPUs {' '.join(sorted(set(cpus)))}; own pages: {pages[0]} on node 0, {pages[1]} on node 1",
          flush=True)
    if f"runs on node {NODE}, where its ports are" not in text:
        raise kit.Failure("it does not say where it runs:\n" + text)
    if len(cpus) < 3 or set(cpus) != {str(NODE)}:
        raise kit.Failure(f"threads run elsewhere: {cpus}")
    if pages[1 - NODE] > EARLY:
        raise kit.Failure(f"pages by node: {pages}")


def anywhere_without_a_node(machine):
    machine.start("loopback")
    cpus = machine.cpus()
    text = machine.stop()
    if "runs on node" in text or set(cpus) != {"0-1"}:
        raise kit.Failure(f"it chose CPUs {set(cpus)} for a port that is on no node:\n" + text)


def two_nodes(machine):
    nodes = machine.vm.run("ls -d /sys/devices/system/node/node[0-9]").split()
    cpus = machine.vm.run("cat /sys/devices/system/node/node[01]/cpulist").split()
    if len(nodes) != 2 or cpus != ["0", "1"]:
        raise kit.Failure(f"nodes {nodes}, with CPUs {cpus}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options = options.parse_args()
    try:
        if shutil.which("qemu-system-x86_64") is None:
            raise image.Unavailable("there is no qemu-system-x86_64")
        if os.geteuid() != 0:
            raise image.Unavailable("the guest's image takes root")
        options.image = image.Image(os.path.join(options.build, "interop"))
        dpdk_image.driver_files(dpdk_image.driver_folder())
    except image.Unavailable as reason:
        print("1..0 # SKIP " + " ".join(str(reason).split()))
        return 0
    kit.die_on_signals()
    options.build = kit.Build(options.build)
    points = [("the guest has two nodes with a CPU each", two_nodes),
              ("uroced runs, with its memory, on the node of its port", on_the_node_of_its_port),
              ("uroced runs anywhere when its port is on no node", anywhere_without_a_node)]
    machine = Machine(options, kit.scratch_folder())
    tap = kit.Tap(len(points))
    try:
        for name, function in points:
            tap.point(name, lambda function=function: function(machine))
    finally:
        machine.vm.stop()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
