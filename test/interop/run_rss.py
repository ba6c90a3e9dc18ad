#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A port with receive-side scaling: QEMU's virtio-net with two queues, whose hash QEMU computes, and uroced in the guest, over
DPDK's virtio driver. Do packets arrive on the queues that are foreseen? TAP; needs root and QEMU, skipped without.

usage: run_rss.py --build DIR [--match TEXT]"""
import argparse
import json
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
import uroce_net as net

QUEUES = 2
FLOWS = 300  # three packets each; a tap keeps as many frames as it may have to
ADDRESS = "0000:00:10.0"  # of the NIC among the guest's PCI devices
EAL = "--in-memory --no-telemetry -m 160 --log-level=warning '--lcores=0@(0,1)' --allow=" + ADDRESS
SOCKET = "/run/uroced.sock"
COMMANDS = ("ib_write_bw -F -x {gid} -u 18 -n 40 -q 8 -s 8191", "ib_send_bw -F -x {gid} -u 18 -e -n 40 -q 8 -s 8191",
            "ib_read_bw -F -x {gid} -u 18 -e -n 40 -q 8 -s 8191")


def nic(rss):
    # RSS is beyond what a device before version 1 can say at all. DPDK's driver takes the filter of VLANs on, and then lets
    # none through.
    return peer.NIC.replace("mq=off", f"mq=on,rss={rss},ctrl_vlan=off,disable-legacy=on,addr=0x10").replace(",vectors=0", "")


class RssTap(peer.Tap):
    """QEMU itself moves the frames (vhost=off), and so spreads them."""
    mode = ("mode", "tap", "multi_queue")
    rss = "on"
    iommu = False

    def qemu(self):
        return ["-netdev", f"tap,id=net0,ifname=tap0,queues={QUEUES},vhost=off,script=no,downscript=no",
                "-device", nic(self.rss)]


class IommuTap(RssTap):
    """The device goes through the guest's IOMMU."""
    iommu = True

    def qemu(self):
        return [word.replace("addr=0x10", "addr=0x10,iommu_platform=on") for word in super().qemu()]


class PlainTap(RssTap):
    """As many queues, and an unknown rule that spreads frames over them."""
    rss = "off"


class RssGuest:
    """A guest whose NIC belongs to DPDK."""

    def __init__(self, options, folder, port, prefix):
        build = options.build.folder
        programs = {"/bin/" + os.path.basename(path): os.path.join(build, path) for path in
                    ("app/uroced/uroced", "app/uroce/uroce", "test/interop/rss_probe", "examples/verify")}
        programs.update({"/uroce/" + os.path.basename(path): os.path.join(build, path) for path in
                         ("lib/verbs/libibverbs.so.1", "lib/rdmacm/librdmacm.so.1")})
        archive = dpdk_image.with_dpdk(options.image, programs, os.path.join(folder, "initrd"))
        self.vm = vm.Guest(options.image.kernel, archive, folder, port.qemu(), prefix, cpus=2, memory=768, cpu="Nehalem",
                           iommu=port.iommu)
        self.daemon = None
        try:
            self._set_up("vfio-pci" if port.iommu else "uio_pci_generic")
        except BaseException:
            self.vm.stop()
            raise

    def _set_up(self, driver):
        """Hugepages, because a device without an IOMMU has to be told physical addresses; and the NIC taken from the
        kernel."""
        self.vm.run("mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages && "
                    "echo 96 >/proc/sys/vm/nr_hugepages && grep -q 'HugePages_Free: *96' /proc/meminfo")
        device = "/sys/bus/pci/devices/" + ADDRESS
        # QEMU's IOMMU does not remap interrupts without KVM, and vfio would rather have that.
        self.vm.run(f"echo 1 >/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts && "
                    f"echo {ADDRESS} >{device}/driver/unbind && echo {driver} >{device}/driver_override && "
                    f"echo {ADDRESS} >/sys/bus/pci/drivers_probe && ls -d {device}/driver/module/drivers/pci:{driver}")
        self.vm.run("grep -q 02:00:00:00:78:fe /sys/class/net/eth0/address && ip link set lo up && "
                    "ip link set eth0 up && ip address add 10.0.2.15/24 dev eth0")

    def start_uroced(self, text):
        lines = " ".join("'" + line + "'" for line in text.strip().splitlines())
        self.vm.run(f"printf '%s\\n' {lines} >/run/uroced.ini && busybox mkfifo /run/ready")
        self.daemon = self.vm.start(f"uroced -c /run/uroced.ini --socket {SOCKET} --ready-fd 9 9>/run/ready -- {EAL}")
        if self.vm.control("head -c 1 /run/ready | wc -c", kit.READY_SECONDS)[1].strip() != "1":
            self.daemon.success(5)

    def show(self):
        """All of uroced's state."""
        return json.loads(self.vm.run(f"uroce show --json --socket {SOCKET}"))

    def stop_uroced(self):
        self.vm.run("killall -TERM uroced")
        self.daemon.success(20)


class RssLink(peer.Link):
    """A uroced on this side of the tap, and one in the guest, each with two workers."""

    def __init__(self, options, folder):
        self.options = options
        super().__init__(options.build, options.image, folder, IommuTap)

    def _start(self, _image, folder):
        path = os.path.join(folder, "uroced.ini")
        with open(path, "w") as file:
            file.write(self.text(self.port.device(), peer.IPV4, peer.IPV6))
        self.daemon = kit.Daemon(self.build, folder, arguments=("-c", path), namespace=self.port.namespace)
        self.inner = RssGuest(self.options, folder, self.port, self.prefix)
        self.guest = self.inner.vm
        self.inner.start_uroced(self.text(ADDRESS, peer.GUEST_IPV4, peer.GUEST_IPV6))
        self.guest_prefix = f"LD_LIBRARY_PATH=/uroce UROCE_SOCKET={SOCKET} "
        self.gid = self.indices(self.daemon.show("gids"), peer.IPV4, peer.IPV6)
        gids = self.inner.show()["devices"][0]["ports"][0]["gids"]
        self.guest_gid = self.indices(gids, peer.GUEST_IPV4, peer.GUEST_IPV6)

    @staticmethod
    def text(device, ipv4, ipv6):
        return (f"[uroced]\nworkers = {QUEUES}\n[port.0]\ndevice = {device}\nmtu = {peer.MTU}\nroce = v2\n"
                f"address.0 = {ipv4}/24\naddress.1 = {ipv6}/64\n")

    @staticmethod
    def indices(gids, ipv4, ipv6):
        at = {peer.plain(gid["address"]): gid["index"] for gid in gids}
        return {(4, False): at[ipv4], (6, False): at[ipv6]}


# ---- packet by packet ----

def probe(options, port_class, told):
    """Sends packets of many flows to a port in the guest, and has each looked at."""
    folder = kit.scratch_folder()
    port = port_class(folder)
    try:
        inside = RssGuest(options, folder, port, ["ip", "netns", "exec", port.namespace])
        with inside.vm as guest:
            job = guest.start(f"rss_probe {ADDRESS} {QUEUES} {3 * FLOWS} 40 {EAL}")
            kit.wait_until(lambda: guest.control(f"grep ready /run/{job.channel.number}.out")[0] == 0, 40,
                           "the probe is ready")
            subprocess.run(["ip", "netns", "exec", port.namespace, sys.executable, os.path.join(HERE, "send_flows.py"),
                            port.interface, peer.GUEST_MAC, str(FLOWS)], check=True, timeout=60)
            check_probe(job.success(60), told)
            if told and "fallback to software RSS" not in guest.last_words():
                raise kit.Failure("it was not QEMU that spread:\n" + guest.last_words())
    finally:
        port.close()


def check_probe(text, told):
    word = "told" if told else "untold"
    if f"queues {QUEUES} ipv4 {word} ipv6 {word}\n" not in text:
        raise kit.Failure("not what the port should be:\n" + text)
    counts = re.search(r"ipv4 (\d+) right (\d+) wrong ipv6 (\d+) right (\d+) wrong untold (\d+) queues(.*)", text)
    if not counts:
        raise kit.Failure("no result:\n" + text)
    right4, wrong4, right6, wrong6, untold = (int(count) for count in counts.groups()[:5])
    shares = [int(count) for count in counts.group(6).split()]
    expected = (2 * FLOWS, 0, FLOWS, 0, 0) if told else (0, 0, 0, 0, 3 * FLOWS)
    if (right4, wrong4, right6, wrong6, untold) != expected:
        raise kit.Failure("not every packet where it was foreseen:\n" + text)
    if told and min(shares) < 3 * FLOWS / QUEUES / 2:
        raise kit.Failure("the queues do not share:\n" + text)


# ---- uroced on both sides ----

class Session:
    """The points that share one guest."""

    def __init__(self, options):
        self.options, self.link = options, None

    def begin(self):
        self.link = RssLink(self.options, kit.scratch_folder())
        steering = self.steering()
        if len(steering["workers"]) != QUEUES or not all(steering.get(name) for name in ("rss_ipv4", "rss_ipv6")):
            raise kit.Failure("not two queues with a known RSS:\n" + json.dumps(steering)[:2000])

    def port(self):
        if self.link is None:
            raise kit.Failure("there is no guest")
        return self.link.inner.show()["devices"][0]["ports"][0]

    def steering(self):
        return self.port()["steering"]

    def pair(self, command, ours, version):
        if self.link is None:
            raise kit.Failure("there is no guest")
        ours_text, _ = self.link.pair(command, ours, version, 120)
        if ours == "client":
            kit.check_perftest(ours_text)

    def placed(self):
        """What arrived was for queue pairs of the worker that it arrived at, though both workers had some."""
        port = self.port()
        parts = port["steering"]["workers"]
        text = json.dumps({"counters": port["counters"], "workers": parts}, indent=1)
        if sum(part["rx_forwarded_out"] for part in parts) or port["counters"]["rss_mismatch"]:
            raise kit.Failure("packets arrived elsewhere than foreseen:\n" + text)
        if min(part["rx_packets"] for part in parts) < 500:
            raise kit.Failure("the workers do not share:\n" + text)

    def woken(self):
        """The workers sleep, and each is woken by the packets of its own queue: vectors 1 and 2; 0 is the link's."""
        self.port()
        kit.wait_until(lambda: all(worker["mode"] == "asleep" for worker in self.link.inner.show()["workers"]), 20,
                       "the workers sleep")
        lines = self.link.guest.run("grep vfio-msix /proc/interrupts")
        counts = {int(vector): sum(int(count) for count in row.split()) for row, vector in
                  re.findall(r"\d+:([ \d]+)PCI-MSI.*vfio-msix\[(\d+)\]", lines)}
        if any(counts.get(1 + queue, 0) < 10 for queue in range(QUEUES)):
            raise kit.Failure("not every queue wakes:\n" + lines)

    def end(self):
        if self.link is None:
            raise kit.Failure("there is no guest")
        self.link.inner.stop_uroced()
        if self.link.guest.kernel_faults():
            raise kit.Failure("\n".join(self.link.guest.kernel_faults()))
        link, self.link = self.link, None
        if link.close() != 0:
            raise kit.Failure("uroced on this side did not end well")

    def points(self):
        yield "uroced in a guest has a port of two queues, and knows how it spreads", self.begin
        for command in COMMANDS:
            for version in (4, 6):
                for ours in ("client", "server"):
                    yield (f"IPv{version}, the client is {'here' if ours == 'client' else 'in the guest'}: {command}",
                           lambda command=command, ours=ours, version=version: self.pair(command, ours, version))
        yield "no packet had to be forwarded, and both workers had packets", self.placed
        yield "each queue has woken its worker", self.woken
        yield "both uroced end well", self.end

    def close(self):
        if self.link is not None:
            self.link.close()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--match", default="", help="only the points whose name contains this, and the first of each guest")
    options = options.parse_args()
    missing = [program for program in ("qemu-system-x86_64", "readelf", "ip") if shutil.which(program) is None]
    try:
        if missing:
            raise image.Unavailable(f"there is no {missing[0]}")
        if os.geteuid() != 0:
            raise image.Unavailable("making network namespaces takes root")
        options.image = image.Image(os.path.join(options.build, "interop"))
        dpdk_image.driver_files(dpdk_image.driver_folder())
        RssTap(None).close()
    except (image.Unavailable, net.Unavailable) as reason:
        print("1..0 # SKIP " + " ".join(str(reason).split()))
        return 0
    kit.die_on_signals()
    options.build = kit.Build(options.build)
    session = Session(options)
    points = [("every packet arrives where the port's RSS says", lambda: probe(options, RssTap, True)),
              ("a port with queues but without RSS foresees nothing", lambda: probe(options, PlainTap, False)),
              *session.points()]
    points = [point for point in points if options.match in point[0] or point[1] == session.begin]
    tap = kit.Tap(len(points))
    try:
        for name, function in points:
            tap.point(name, function)
    finally:
        session.close()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
