# SPDX-License-Identifier: BSD-3-Clause
"""A uroced and a guest with rdma_rxe on the two ends of a link, and programs between them. Standard library only."""
import ipaddress
import os
import subprocess
import sys

import guest as vm

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

MTU = 4200  # with room for a path MTU of 4096
IPV4, IPV6 = "10.78.0.1", "fd78::1"  # uroced's
GUEST_IPV4, GUEST_IPV6 = "10.78.0.2", "fd78::2"
GUEST_MAC = "02:00:00:00:78:02"
VLAN = 79
VLAN_IPV4, VLAN_IPV6 = "10.79.0.1", "fd79::1"
GUEST_VLAN_IPV4, GUEST_VLAN_IPV6 = "10.79.0.2", "fd79::2"
CAPTURED_FRAMES = 50000  # those of the rows that are looked at in the capture
GUEST_PCP = 5  # of all that the guest sends in the VLAN

# Nothing but whole frames with checksums of their own: that is what a wire carries. Without vectors QEMU 7.2 uses no
# MSI-X, with which it crashes when an emulated CPU starts a vhost-user NIC.
NIC = (f"virtio-net-pci,netdev=net0,mac={GUEST_MAC},rx_queue_size=1024,romfile=,host_mtu={MTU},vectors=0,mrg_rxbuf=on,"
       "csum=off,guest_csum=off,gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,guest_tso4=off,"
       "guest_tso6=off,guest_ecn=off,guest_ufo=off,mq=off")


class VhostUser:
    """uroced's port is the NIC's other side, through shared memory."""
    name = "vhost-user"

    def __init__(self, folder):
        self.namespace = None
        self.path = os.path.join(folder, "vhost")

    def device(self):
        return f"net_vhost0,iface={self.path},queues=1"

    def qemu(self):
        return ["-chardev", f"socket,id=vhost0,path={self.path},reconnect=1",
                "-netdev", "vhost-user,id=net0,chardev=vhost0,queues=1", "-device", NIC]

    def close(self):
        pass


class Tap:
    """The NIC is a tap interface in a network namespace; uroced has it through packet sockets."""
    name = "tap"
    interface = "tap0"
    mode = ("mode", "tap")

    def __init__(self, _folder):
        self.namespace = f"uroce-vm-{os.getpid()}"
        net.ip("netns", "add", self.namespace)
        try:
            inside = ("-n", self.namespace)
            net.ip(*inside, "link", "set", "lo", "up")
            net.ip(*inside, "tuntap", "add", "dev", "tap0", *self.mode)
            net.ip(*inside, "link", "set", "tap0", "address", "02:00:00:00:78:01", "mtu", str(MTU),
                   "txqueuelen", str(vm.QUEUE), "up")
            net.ip(*inside, "address", "add", IPV4 + "/24", "dev", "tap0")
            net.ip(*inside, "address", "add", IPV6 + "/64", "dev", "tap0", "nodad")
        except BaseException:
            self.close()
            raise

    def device(self):
        # Otherwise dumpcap would not see what uroced sends.
        return "net_af_packet0,iface=tap0,qdisc_bypass=0"

    def qemu(self):
        return ["-netdev", "tap,id=net0,ifname=tap0,script=no,downscript=no", "-device", NIC]

    def close(self):
        subprocess.run(["ip", "netns", "del", self.namespace], capture_output=True)


class Socket(Tap):
    """The same interface; uroced has no more of it than the kernel's UDP sockets, and no VLAN."""
    name = "socket"

    def device(self):
        return "socket"


def addresses(version, vlan):
    """uroced's address and the guest's."""
    if vlan:
        return (VLAN_IPV4, GUEST_VLAN_IPV4) if version == 4 else (VLAN_IPV6, GUEST_VLAN_IPV6)
    return (IPV4, GUEST_IPV4) if version == 4 else (IPV6, GUEST_IPV6)


def plain(text):
    """An address in its usual notation, also an IPv4 address that is mapped into IPv6."""
    address = ipaddress.ip_address(text)
    return str(getattr(address, "ipv4_mapped", None) or address)


class Link:
    """Both ends, ready; a context manager."""

    def __init__(self, build, image, folder, port=VhostUser):
        self.build = build
        self.capture = os.path.join(folder, "uroced.pcap")
        # Programs of this tree: name -> file here. In the guest they are in /bin.
        self.programs = {"verify": os.path.join(build.folder, "examples/verify")}
        self.daemon = self.guest = None
        self.guest_prefix = ""  # in front of the guest's commands
        self.port = port(folder)
        self.prefix = ["ip", "netns", "exec", self.port.namespace] if self.port.namespace else []
        try:
            self._start(image, folder)
        except BaseException:
            self.close()
            raise

    def _start(self, image, folder):
        path = os.path.join(folder, "uroced.ini")
        with open(path, "w") as file:
            file.write(self.configuration())
        self.daemon = kit.Daemon(self.build, folder, arguments=("-c", path), namespace=self.port.namespace)
        there = {"/bin/" + name: file for name, file in self.programs.items() if os.path.exists(file)}
        archive = image.with_programs(there, os.path.join(folder, "initrd"))
        self.guest = vm.Guest(image.kernel, archive, folder, self.port.qemu(), self.prefix)
        v4, v6 = self.guest.set_up(GUEST_IPV4 + "/24", GUEST_IPV6 + "/64", MTU)
        vlan_v4, vlan_v6 = self.guest.add_vlan(VLAN, GUEST_VLAN_IPV4 + "/24", GUEST_VLAN_IPV6 + "/64", GUEST_PCP)
        self.guest_gid = {(4, False): v4, (6, False): v6, (4, True): vlan_v4, (6, True): vlan_v6}
        here = {plain(gid["address"]): gid["index"] for gid in self.daemon.show("gids")}
        self.gid = {(4, False): here[IPV4], (6, False): here[IPV6], (4, True): here.get(VLAN_IPV4),
                    (6, True): here.get(VLAN_IPV6)}

    def configuration(self):
        if isinstance(self.port, Socket):
            return f"[port.0]\ndevice = {self.port.device()}\nmtu = {MTU}\naddress.0 = {IPV4}\naddress.1 = {IPV6}\n"
        # The kernel is asked whether it keeps packets behind a gap, and does not answer: nothing may come of it.
        asks = "yes" if isinstance(self.port, VhostUser) else "no"
        return f"""[port.0]
device = {self.port.device()}
mtu = {MTU}
roce = v2
selective_repeat = {asks}
address.0 = {IPV4}/24
address.1 = {IPV6}/64
address.2 = {VLAN_IPV4}/24 vlan {VLAN}
address.3 = {VLAN_IPV6}/64 vlan {VLAN}
capture = {self.capture} {CAPTURED_FRAMES}
"""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Returns uroced's exit status."""
        status = None
        if self.guest is not None:
            self.guest.stop()
            self.guest = None
        if self.daemon is not None:
            status = self.daemon.stop()
            self.daemon = None
        self.port.close()
        return status

    # ---- programs ----

    def pair(self, command, ours, version, seconds=60, vlan=False):
        """Runs a pair of programs, ours as "client" or as "server". In command, {gid} becomes each side's index of the
        address of the IP version, in the VLAN or not. Returns both outputs: uroce's, rxe's."""
        program, arguments = command.format(gid=self.gid[version, vlan]).split(" ", 1)
        here = f"{self.programs.get(program, program)} {arguments}"
        there = self.guest_prefix + command.format(gid=self.guest_gid[version, vlan])
        run = self._ours_client if ours == "client" else self._ours_server
        return run(here, there, seconds)

    def _ours_client(self, here, there, seconds):
        port = vm.GUEST_TCP
        server = self.guest.start(f"{there} -p {port}")
        client = None
        try:
            server.await_listening(port, 30)
            client = kit.Program(self.daemon, f"{here} -p {self.guest.forwards[port]} 127.0.0.1".split())
            try:
                ours = client.finish(seconds)
                return ours, server.success(20)
            except kit.Failure as failure:
                raise kit.Failure(f"{failure}\nuroce's side:\n{client.text()}\nrxe's side:\n{self._said(server)}")
        finally:
            server.kill()
            if client:
                client.kill()

    def _ours_server(self, here, there, seconds):
        port = kit.free_port()
        server = kit.Program(self.daemon, f"{here} -p {port}".split())
        client = None
        try:
            kit.await_listening(server, port, 30)
            client = self.guest.start(f"{there} -p {port} {vm.HOST}")
            try:
                theirs = client.success(seconds)
                return server.finish(20), theirs
            except kit.Failure as failure:
                raise kit.Failure(f"{failure}\nuroce's side:\n{server.text()}\nrxe's side:\n{self._said(client)}")
        finally:
            server.kill()
            if client:
                client.kill()

    @staticmethod
    def _said(job):
        job.kill()
        return job.result[1]

    def inside(self, command, version, seconds=60):
        """The same pair with rxe on both sides, inside the guest. Returns the outputs of server and client."""
        port = vm.GUEST_TCP
        command = command.format(gid=self.guest_gid[version, False])
        server = self.guest.start(f"{command} -p {port}")
        try:
            server.await_listening(port, 30)
            theirs = self.guest.run(f"{command} -p {port} 127.0.0.1", seconds)
            return server.success(20), theirs
        finally:
            server.kill()
