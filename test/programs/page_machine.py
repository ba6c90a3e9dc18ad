# SPDX-License-Identifier: BSD-3-Clause
"""Where the pages' commands run: a folder that looks like the source tree, with a daemon's socket in UROCE_SOCKET, or a machine of
their own, whose network, processes and /run are not the host's. Standard library only."""
import os
import shlex
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import process_group
import uroce_kit as kit

SECONDS = 40
PROGRAMS = ("uroce", "uroced", "uroce-perf")

# What the pages' machine looks like: eth0 and eth1 are one wire, the other end is in the namespace `there`.
MACHINE = """set -e
mount -t tmpfs none /run && mkdir -p /run/netns /run/user/0
mount -t tmpfs none /var/lib && mkdir -p /var/lib/prometheus/node-exporter
ip link set lo up
"""
WIRE = """
ip netns add there
ip -n there link set lo up
ip link add eth1 type veth peer name eth1 netns there
ip address add {here}/24 dev eth1 && ip link set eth1 mtu 4200 up
ip -n there address add {there}/24 dev eth1 && ip -n there link set eth1 mtu 4200 up
until ip -o link show dev eth1 | grep -q 'state UP'; do :; done
"""
SETUPS = {"": "", "wire": WIRE.format(here="192.0.2.1", there="192.0.2.7"),
          "wire10": WIRE.format(here="10.0.0.2", there="10.0.0.1"),
          "wire0": WIRE.format(here="192.0.2.1", there="192.0.2.7").replace("eth1", "eth0")}


def tree(build, folder):
    """A folder with all that the source tree has, the build as `build`, and a folder of programs. Returns both."""
    place = os.path.join(folder, "tree")
    programs = os.path.join(folder, "bin")
    os.mkdir(place)
    os.mkdir(programs)
    for name in os.listdir(ROOT):
        if not name.startswith((".", "build")):
            os.symlink(os.path.join(ROOT, name), os.path.join(place, name))
    os.symlink(build.folder, os.path.join(place, "build"))
    for name in PROGRAMS:
        target = os.path.join(build.folder, "app", name, name)
        os.symlink(build.uroced if name == "uroced" else target, os.path.join(programs, name))
    os.symlink(os.path.join(build.folder, "examples", "verify"), os.path.join(programs, "verify"))
    return place, programs


class Here:
    """This machine, with a daemon in a folder of the test's own."""

    def __init__(self, place, programs, socket=None):
        self.place, self.socket, self.prefix = place, socket, []
        drop = ("LD_", "UCX_", "UROCE_", "XDG_")
        self.environment = dict({k: v for k, v in os.environ.items() if not k.startswith(drop)}, HOME=place, TMPDIR=place,
                                XDG_RUNTIME_DIR=place, PATH=f"{programs}:{os.environ['PATH']}:/usr/sbin:/sbin")
        if socket:
            self.environment["UROCE_SOCKET"] = socket

    def start(self, command, at=None):
        return Running(self, command, at)

    def quiet(self, command):
        """Whether the command succeeds."""
        return subprocess.run([*self.prefix, "bash", "-c", command], cwd=self.place, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS).returncode == 0

    def close(self):
        pass


class Private(Here):
    """A machine of its own: namespaces for mounts, networks and processes, which end with it. For root."""

    def __init__(self, place, programs, setup):
        if os.geteuid() != 0:
            raise kit.Skipped("only root makes namespaces")
        super().__init__(place, programs)
        del self.environment["XDG_RUNTIME_DIR"]
        ready, ready_write = os.pipe()
        script = MACHINE + SETUPS[setup] + f"echo >&{ready_write}; exec {ready_write}>&-; exec sleep 1000"
        self.holder = subprocess.Popen(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       pass_fds=[ready_write], env=self.environment, text=True)
        os.close(ready_write)
        with os.fdopen(ready, "rb") as pipe:
            if not pipe.read(1):
                raise kit.Skipped("no namespaces: " + self.holder.communicate()[1].strip())
        with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children") as children:
            first = children.read().split()[0]
        self.prefix = ["nsenter", "--target", first, "--mount", "--net", "--pid", f"--wd={place}"]

    def close(self):
        self.holder.kill()
        self.holder.communicate()


class Running:
    """A command line in a shell, with what it starts a session of its own."""

    def __init__(self, machine, command, at):
        self.command, self.machine = command, machine
        name = os.path.join(machine.place, ".output")
        self.output = open(name, "w+")
        os.unlink(name)
        inside = ["ip", "netns", "exec", at] if at else []
        self.process = subprocess.Popen([*machine.prefix, *inside, "bash", "-c", command], stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, cwd=machine.place, env=machine.environment, start_new_session=True)

    def text(self):
        return os.pread(self.output.fileno(), os.fstat(self.output.fileno()).st_size, 0).decode(errors="replace")

    def finish(self, seconds=SECONDS):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            text = self.text()
            self.end()
            raise kit.Failure(f"{self.command}: not done after {seconds} s:\n{text}")

    def wait_for(self, words):
        """Until it has printed these words."""
        deadline = time.monotonic() + SECONDS
        while words not in self.text():
            if self.process.poll() is not None and words not in self.text():
                raise kit.Failure(f"{self.command}: has ended without '{words}':\n{self.text()}")
            if time.monotonic() > deadline:
                raise kit.Failure(f"{self.command}: no '{words}' after {SECONDS} s:\n{self.text()}")
            time.sleep(0.05)  # a file has no event

    def end(self):
        """Ends what it started, first by request. The exit status."""
        return process_group.end(self.process)
