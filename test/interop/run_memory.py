#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adopted memory on the kernel of a Debian release, in a guest: what it offers to move pages of a running program differs between
releases. The guest has two NUMA nodes, and swap. The tests of lib/adopt, its torture, also with a tenth of the memory that it
needs, and a program over uroced. Needs root and QEMU, skipped without.

usage: run_memory.py --build DIR [--kernel NAME] [--match TEXT]"""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import dpdk_image
import guest as vm
import image
import peer
import uroce_kit as kit

UNITS = ("leases", "hazards", "kernel")
FOLDER = "/adopt/"
PROGRAMS = ["test/adopt/test_adopt_" + unit for unit in UNITS] + ["test/adopt/adopt_torture", "test/adopt/verbs_adopt"]
DAEMON = ["app/uroced/uroced", "app/uroce/uroce"]
LIBRARIES = ["lib/verbs/libibverbs.so.1", "lib/rdmacm/librdmacm.so.1"]
NIC = ["-netdev", "hubport,id=net0,hubid=0", "-device", peer.NIC]
SOCKET = "/run/uroced.sock"
LIMIT = 4 << 20  # the torture needs 37 MiB
GROUP = "/sys/fs/cgroup/torture"
SECONDS = 10  # of tortures: the guest's processors are emulated, and a tenth as fast


class Machine:
    def __init__(self, options, folder):
        programs = {where + os.path.basename(path): os.path.join(options.build.folder, path)
                    for where, paths in ((FOLDER, PROGRAMS), ("/bin/", DAEMON), ("/uroce/", LIBRARIES)) for path in paths}
        archive = dpdk_image.with_dpdk(options.image, programs, os.path.join(folder, "initrd"))
        self.vm = vm.Guest(options.image.kernel, archive, folder, NIC + self.swap(os.path.join(folder, "swap")), cpus=2, memory=1536,
                           cpu="Nehalem", nodes=2)
        self.vm.run("busybox swapon /dev/vda")

    @staticmethod
    def swap(path):
        """QEMU's arguments for a disk of it."""
        with open(path, "wb") as file:
            file.truncate(512 << 20)
        subprocess.run(["/usr/sbin/mkswap", "-q", path], check=True)
        return ["-drive", f"file={path},format=raw,if=none,id=swap", "-device", "virtio-blk-pci,drive=swap,bus=pci.0"]

    def unit(self, name, how):
        """A test program of cmocka. how: `text` reads /proc/self/maps although the kernel may tell mappings otherwise."""
        text = self.vm.run(f"cd /tmp && CMOCKA_MESSAGE_OUTPUT=TAP {FOLDER}test_adopt_{name} {how} 2>&1 || true", 200)
        skipped = re.findall(r"^not ok \d+ # SKIP (\S+)", text, re.MULTILINE)
        passed = len(re.findall(r"^ok \d+ - ", text, re.MULTILINE))
        print(f"# {name} {how}: {passed} passed, {len(skipped)} skipped {' '.join(skipped)}", flush=True)
        if not passed or "\n# ok - " not in text:
            raise kit.Failure(text)

    def torture(self, *how):
        self.vm.run(f"{FOLDER}adopt_torture {SECONDS} {' '.join(how)}", SECONDS + 200)

    def swapped(self):
        self.vm.run("busybox mount -t cgroup2 none /sys/fs/cgroup && echo +memory >/sys/fs/cgroup/cgroup.subtree_control && "
                    f"mkdir {GROUP} && echo {LIMIT} >{GROUP}/memory.max")
        self.vm.run(f"sh -c 'echo $$ >{GROUP}/cgroup.procs; exec {FOLDER}adopt_torture {SECONDS}'", SECONDS + 300)
        out = int(re.search(r"pswpout (\d+)", self.vm.run("cat /proc/vmstat")).group(1))
        print(f"# {out} pages went to the disk", flush=True)
        if out < 1000:
            raise kit.Failure("nothing was swapped")

    def program(self):
        """Its regions are adopted, not copied."""
        self.vm.run("ip link set lo up; rm -f /run/ready; busybox mkfifo /run/ready")
        daemon = self.vm.start(f"uroced --loopback --socket {SOCKET} --ready-fd 9 9>/run/ready")
        if self.vm.control("head -c 1 /run/ready | wc -c", kit.READY_SECONDS)[1].strip() != "1":
            daemon.success(5)
        try:
            self.vm.run(f"UROCE_SOCKET={SOCKET} LD_LIBRARY_PATH=/uroce {FOLDER}verbs_adopt adopted {SECONDS}", SECONDS + 200)
        finally:
            self.vm.run("killall -TERM uroced")
            daemon.success(20)


def main():
    options = kit.point_arguments(more=[("--kernel", {"help": ", ".join(image.KERNELS) + ", or a package of this release"})])
    try:
        if shutil.which("qemu-system-x86_64") is None:
            raise image.Unavailable("there is no qemu-system-x86_64")
        if os.geteuid() != 0:
            raise image.Unavailable("the guest's image takes root")
        options.image = image.Image(os.path.join(options.build, "interop"), options.kernel)
        dpdk_image.driver_files(dpdk_image.driver_folder())
    except image.Unavailable as reason:
        print("1..0 # SKIP " + " ".join(str(reason).split()))
        return 0
    options.build = kit.Build(options.build)
    machine = Machine(options, kit.scratch_folder())
    points = [(f"{name}{', by text' * bool(how)}", lambda name=name, how=how: machine.unit(name, how))
              for name in UNITS for how in ("", "text")]
    points += [(f"torture {' '.join(how)}".rstrip(), lambda how=how: machine.torture(*how))
               for how in ((), ("text",), ("late",))]
    points += [("torture, swapped out", machine.swapped), ("a program over uroced", machine.program)]
    try:
        return kit.run_points(points, options.match)
    finally:
        machine.vm.stop()


if __name__ == "__main__":
    sys.exit(main())
