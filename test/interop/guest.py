# SPDX-License-Identifier: BSD-3-Clause
"""A Linux guest in QEMU whose first NIC is the peer of a uroced, with rdma_rxe on it. Standard library only.

Every wait has an end; the guest ends with the object (it is a context manager) and is ended by its process id."""
import os
import re
import select
import shlex
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

BOOT_SECONDS = 180  # on a machine that is busy
QUEUE = 10000  # packets: rxe does not ask for room, and a message of 1 MiB is 4096 of them at a path MTU of 256
PORTS = 8  # commands at once; one more, the first, is for ending others
FORWARDED = 4  # TCP ports of this machine that lead to the guest
GUEST_TCP = 18515  # the first of the guest's ports that they lead to
HOST = "10.0.2.2"  # this machine's loopback interface as the guest sees it


class Job:
    """A command running in the guest."""

    def __init__(self, guest, channel, command):
        self.guest, self.channel, self.command = guest, channel, command
        self.result = None

    def finish(self, seconds):
        """Waits for the end. Returns (exit status, output)."""
        if self.result is None:
            self.result = self.channel.receive(time.monotonic() + seconds)
            if self.result is None:
                text = self.guest.control(f"cat /run/{self.channel.number}.out")[1]
                self.kill()
                raise kit.Failure(f"guest: {self.command}: not done after {seconds} s:\n{text}")
            self.guest.free.append(self.channel)
        return self.result

    def success(self, seconds):
        """Waits for success and returns the output."""
        status, text = self.finish(seconds)
        if status != 0:
            raise kit.Failure(f"guest: {self.command}: exit status {status}:\n{text}")
        return text

    def kill(self):
        """Ends the command, when it has not ended, with all that it started."""
        if self.result is not None:
            return
        deadline = time.monotonic() + 20
        while self.result is None:
            # Its number may not be there yet.
            text = self.guest.control(f"kill -s KILL -- -$(cat /run/{self.channel.number}.pid)")[1]
            self.result = self.channel.receive(time.monotonic() + 0.2)
            if self.result is None and time.monotonic() > deadline:
                raise kit.Failure(f"guest: {self.command}: cannot be ended: {text}")
        self.guest.free.append(self.channel)

    def await_listening(self, port, seconds):
        """Waits until a program in the guest listens on the TCP port."""
        deadline = time.monotonic() + seconds
        pattern = f":{port:04X} [0-9A-F]*:0000 0A"
        while self.guest.control(f"cat /proc/net/tcp /proc/net/tcp6 | grep -q '{pattern}'")[0] != 0:
            readable, _, _ = select.select([self.channel.socket], [], [], 0.05)
            if readable or time.monotonic() > deadline:
                status, text = self.finish(1)
                raise kit.Failure(f"guest: {self.command}: does not listen, exit status {status}:\n{text}")


class Channel:
    """A virtio-serial port: one command at a time."""

    def __init__(self, number):
        self.number = number
        self.socket, self.far = socket.socketpair()
        self.buffer = b""
        self.sent = 0

    def send(self, command):
        self.sent += 1
        self.socket.sendall(f"{self.sent} {command}\n".encode())

    def _more(self, deadline):
        readable, _, _ = select.select([self.socket], [], [], max(0, deadline - time.monotonic()))
        if not readable:
            return False
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            raise kit.Failure("the guest is gone")
        self.buffer += data
        return True

    def line(self, deadline):
        while b"\n" not in self.buffer:
            if not self._more(deadline):
                return None
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def receive(self, deadline):
        """(exit status, output), or None when there is no whole answer in time; ask again then."""
        while True:
            head = re.match(rb"(\d+) (\d+) (\d+)\n", self.buffer)
            if head and len(self.buffer) >= head.end() + int(head.group(3)):
                break
            if not self._more(deadline):
                return None
        number, status, size = (int(field) for field in head.groups())
        text = self.buffer[head.end():head.end() + size].decode(errors="replace")
        self.buffer = self.buffer[head.end() + size:]
        if number != self.sent:
            raise kit.Failure(f"guest: an answer to command {number}, not {self.sent}")
        return status, text


class Guest:
    """link: QEMU's arguments for the first NIC. prefix: what to start QEMU with, as in a network namespace. memory: MiB.
    iommu: with one, for devices that are given to processes. counted: its clock counts instructions, 2 ns each. nodes: of
    NUMA, which have the CPUs in turn and a part of the memory each."""

    def __init__(self, kernel, archive, folder, link, prefix=(), cpus=1, memory=512, cpu="qemu64", iommu=False,
                 counted=False, nodes=1):
        self.nodes = nodes
        self.cpus, self.memory, self.cpu, self.iommu, self.counted = cpus, memory, cpu, iommu, counted
        self.console = os.path.join(folder, "console")
        self.log = os.path.join(folder, "qemu.log")
        self.prefix = list(prefix)
        self.channels = [Channel(number + 1) for number in range(PORTS + 1)]
        self.forwards = {GUEST_TCP + n: kit.free_port() for n in range(FORWARDED)}
        started = time.monotonic()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                self.prefix + self._command(kernel, archive, link), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, pass_fds=[channel.far.fileno() for channel in self.channels])
        for channel in self.channels:
            channel.far.close()
        try:
            for channel in self.channels:
                if channel.line(started + BOOT_SECONDS) != "ready":
                    raise kit.Failure("the guest did not start")
        except (kit.Failure, OSError) as failure:
            text = self.last_words()
            self.stop()
            raise kit.Failure(f"{failure}\n{text}")
        self.free = self.channels[1:]
        self.boot_seconds = time.monotonic() - started

    def _memory(self, machine):
        parts = [word for node in range(self.nodes) for word in
                 ("-object", f"memory-backend-memfd,id=mem{node},size={self.memory // self.nodes}M,share=on")]
        if self.nodes == 1:
            return ["-machine", machine + ",memory-backend=mem0", *parts]
        for node in range(self.nodes):
            parts += ["-numa", f"node,nodeid={node},memdev=mem{node}"]
        for cpu in range(self.cpus):
            parts += ["-numa", f"cpu,node-id={cpu % self.nodes},socket-id={cpu}"]
        return ["-machine", machine, *parts]

    def _command(self, kernel, archive, link):
        # Should this process be killed, the guest ends as well. The kernel's watchdogs are off: what they would find is that
        # this machine is busy.
        machine = "q35" if self.iommu else "pc"
        command = ["setpriv", "--pdeathsig", "TERM", "qemu-system-x86_64", "-accel", "tcg,tb-size=256", "-cpu", self.cpu,
                   "-smp", f"{self.cpus},sockets={self.cpus}", "-m", str(self.memory),
                   *self._memory(machine),
                   "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-kernel", kernel, "-initrd", archive,
                   "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check nowatchdog "
                   "rcupdate.rcu_cpu_stall_suppress=1" + (" intel_iommu=on" if self.iommu else ""),
                   "-serial", "file:" + self.console]
        if self.counted:
            command += ["-icount", "shift=1,sleep=off"]
        if self.iommu:
            command += ["-device", "intel-iommu,intremap=off,caching-mode=on"]
        command += link
        bus = ",bus=pci.0" if self.nodes > 1 else ""  # else QEMU may take a bridge of the link
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{guest}" for guest, host in self.forwards.items())
        command += ["-netdev", "user,id=user0,ipv6=off" + forwards,
                    "-device", "virtio-net-pci,netdev=user0,mac=02:00:00:00:78:fe,romfile=,vectors=0" + bus]
        command += ["-device", f"virtio-serial-pci,max_ports={PORTS + 2},vectors=0" + bus]
        for number, channel in enumerate(self.channels, 1):
            command += ["-chardev", f"socket,id=port{number},fd={channel.far.fileno()}",
                        "-device", f"virtserialport,chardev=port{number},nr={number}"]
        return command

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # ---- commands ----

    def control(self, command, seconds=30):
        """A short command while others run. Returns (exit status, output)."""
        self.channels[0].send(command)
        result = self.channels[0].receive(time.monotonic() + seconds)
        if result is None:
            raise kit.Failure(f"guest: {command}: no answer in {seconds} s\n{self.last_words()}")
        return result

    def start(self, command):
        """Starts a command, a line for the shell, and returns its Job."""
        if "\n" in command or not self.free:
            raise kit.Failure(f"guest: cannot start {command!r}")
        channel = self.free.pop(0)
        channel.send(command)
        return Job(self, channel, command)

    def run(self, command, seconds=30):
        """Runs a command to its success. Returns its output."""
        return self.start(command).success(seconds)

    # ---- the network ----

    def set_up(self, ipv4, ipv6, mtu):
        """The addresses of both NICs, and the RDMA device on the first. Returns the GID indices of ipv4 and ipv6."""
        self.run("ip link set lo up; "
                 "echo pfifo_fast >/proc/sys/net/core/default_qdisc; "
                 "echo 0 >/proc/sys/net/ipv6/conf/eth1/accept_ra; "
                 f"ip link set eth0 mtu {mtu} txqueuelen {QUEUE} up && ip link set eth1 up && ip address add 10.0.2.15/24 dev eth1 && "
                 f"ip address add {ipv4} dev eth0 && ip address add {ipv6} dev eth0 nodad && "
                 "rdma link add rxe0 type rxe netdev eth0")
        return self.gid_index(ipv4.split("/")[0]), self.gid_index(ipv6.split("/")[0])

    def gid_index(self, address):
        """The index of a RoCEv2 GID, which is there a moment after its address; one of the first 20."""
        if "." in address:
            gid = "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(int(b) for b in address.split("."))
        else:
            data = socket.inet_pton(socket.AF_INET6, address)
            gid = ":".join(data[i:i + 2].hex() for i in range(0, 16, 2))
        found = []

        def look():
            text = self.run("cd /sys/class/infiniband/rxe0/ports/1; "
                            "grep . gids/? gids/1? gid_attrs/types/? gid_attrs/types/1? 2>/dev/null; true")
            entries = dict(line.split(":", 1) for line in text.splitlines())
            found[:] = [n for n in range(20) if entries.get(f"gids/{n}") == gid and
                        entries.get(f"gid_attrs/types/{n}") == "RoCE v2"]
            return found

        kit.wait_until(look, 20, f"the guest has no GID for {address}")
        return found[0]

    def lose(self, direction, percent):
        """Loses frames of eth0, of those that it sends ("out") or of those that it gets ("in"). 0 ends that."""
        if direction == "out":
            device, sure = "eth0", ""
        else:
            device, sure = "ifb0", ("ip link set ifb0 up && (tc qdisc show dev eth0 | grep -q ingress || "
                                    "(tc qdisc add dev eth0 ingress && tc filter add dev eth0 parent ffff: protocol all "
                                    "matchall action mirred egress redirect dev ifb0)) && ")
        if percent == 0:
            self.run(f"tc qdisc del dev {device} root; tc qdisc del dev eth0 ingress; true")
        else:
            self.run(sure + f"tc qdisc replace dev {device} root netem limit 10000 loss {percent}%")

    def lost(self, direction):
        """How many frames were lost so far."""
        text = self.run(f"tc -s qdisc show dev {'eth0' if direction == 'out' else 'ifb0'} root")
        return int(re.search(r"dropped (\d+)", text).group(1))

    def add_vlan(self, vlan, ipv4, ipv6, pcp=0):
        """An interface for a VLAN; all of its traffic is sent with the priority code point. Returns the GID indices."""
        name = f"eth0.{vlan}"
        mapping = " ".join(f"{priority}:{pcp}" for priority in range(8))
        self.run(f"ip link add link eth0 name {name} type vlan id {vlan} egress-qos-map {mapping} && "
                 f"ip link set {name} up && ip address add {ipv4} dev {name} && "
                 f"ip address add {ipv6} dev {name} nodad")
        return self.gid_index(ipv4.split("/")[0]), self.gid_index(ipv6.split("/")[0])

    def ping(self, address, seconds=20):
        """Until the address answers, or does not."""
        self.run(f"ping -c 1 -W {seconds} {shlex.quote(address)}", seconds + 10)

    def ask_for(self, address, seconds=20):
        """The same of a guest that does not know the address: it forgets and asks in one command, as a question or a
        probe of the other side that came between would tell it what it is to ask for."""
        address = shlex.quote(address)
        self.run(f"ip neigh flush to {address} dev eth0; ping -c 1 -W {seconds} {address}", seconds + 10)

    def counters(self):
        """rxe's counters."""
        text = self.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters; for n in *; do echo $n $(cat $n); done")
        return {name: int(value) for name, value in (line.split() for line in text.splitlines())}

    # ---- its end ----

    def kernel_log(self):
        return self.run("dmesg")

    def kernel_faults(self):
        """Lines of the kernel's log that should never be there."""
        return [line for line in self.kernel_log().splitlines() if
                re.search(r"WARNING:|BUG:|Oops|general protection|Call Trace|cut here|cannot insert",
                          line)]

    def last_words(self):
        text = ""
        for path in (self.log, self.console):
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    text += file.read()[-3000:]
        return text

    def stop(self):
        """Ends the guest, in good order when it still obeys."""
        if self.process.poll() is None:
            try:
                self.channels[0].send("poweroff -f")
                self.process.wait(10)
            except (OSError, subprocess.TimeoutExpired):
                kit.end(self.process, 5)
        for channel in self.channels:
            channel.socket.close()
