# SPDX-License-Identifier: BSD-3-Clause
"""The image of examples/containers/Containerfile, made from a Debian in a folder, and what doc/ci.md says of containers."""
import re
import shutil
import subprocess
import tempfile
import time

from uroce_kit import Failure, Skipped

LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
USER = ("--user", "1000:1000", "--cap-drop", "all")
UDP = ("--entrypoint", '["uroce","run","--udp","--"]')
SOCKET = "/run/uroce/uroce.sock"
SERVER, CLIENT = "10.1.0.1", "10.1.0.2"


class Containers:
    def __init__(self, root):
        self.root = root
        self.store = root.path.with_name(root.path.name + "-store")
        # podman refuses a runroot of more than 50 characters, and the checkout may be anywhere.
        self.state = tempfile.TemporaryDirectory(prefix="uroce-", dir="/run", ignore_cleanup_errors=True)

    def command(self, *words):
        return ["podman", "--root", str(self.store / "root"), "--runroot", self.state.name, "--storage-driver", "vfs",
                "--runtime", "runc", "--cgroup-manager", "cgroupfs", *words]

    def podman(self, *words, seconds=60):
        done = subprocess.run(self.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=seconds)
        if done.returncode:
            raise Failure(f"podman {' '.join(words)}: {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-40:]))
        return done.stdout

    def points(self):
        yield "the image is built", self.build
        yield "a pair in one container, as a user without any capability", self.pair
        yield "two containers with a NIC over UDP sockets each", self.two
        yield "a daemon for several containers", self.several

    def prepare(self):
        """The system in the folder becomes the image that the recipe begins with."""
        missing = [name for name in ("podman", "runc") if not shutil.which(name)]
        if missing:
            raise Skipped(f"there is no {missing[0]}")
        shutil.rmtree(self.store, ignore_errors=True)
        self.store.mkdir()
        with subprocess.Popen(["tar", "-C", str(self.root.path), "--exclude", "./src", "-c", "."], stdout=subprocess.PIPE) as tar:
            status = subprocess.run(self.command("import", "-", "uroce-base"), stdin=tar.stdout, capture_output=True, text=True)
        if status.returncode:
            raise Failure(status.stderr)

    def build(self):
        source = self.root.path / "src"
        self.podman("build", "--isolation", "chroot", "--network", "host", "--pull-never", "--build-arg", "BASE=localhost/uroce-base",
                    "-t", "uroce", "-f", str(source / "examples/containers/Containerfile"), str(source), seconds=1500)

    def run(self, *words):
        return self.podman("run", "--rm", *LIMITS, *words)

    def pair(self):
        text = self.run("--network", "none", *USER, "localhost/uroce", "sh", "-c",
                        "ib_write_bw -F -n 100 >/dev/null & for i in $(seq 50); do ib_write_bw -F -n 100 127.0.0.1 && break; sleep 0.1; "
                        "done; wait; grep CapEff /proc/self/status")
        if not re.search(r"^\s*65536\s+100\s", text, re.M) or not re.search(r"^CapEff:\s*0+$", text, re.M):
            raise Failure(text)

    def two(self):
        def ip(*words):
            subprocess.run(["ip", *words], check=True)

        names = ("uroce-left", "uroce-right")
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "veth0", "netns", names[0], "type", "veth", "peer", "name", "veth0", "netns", names[1])
            for name, address in zip(names, (SERVER, CLIENT)):
                ip("-n", name, "address", "add", address + "/24", "dev", "veth0")
                ip("-n", name, "link", "set", "veth0", "up")
            program = ("ib_write_bw", "-F", "-x", "0", "-n", "500")
            with subprocess.Popen(self.command("run", "--rm", *LIMITS, *USER, "--network", f"ns:/run/netns/{names[0]}", *UDP,
                                               "localhost/uroce", *program), stdout=subprocess.DEVNULL) as server:
                text = self.until_it_listens("--network", f"ns:/run/netns/{names[1]}", *USER, *UDP, "localhost/uroce", *program, SERVER)
                server.wait(30)
            if server.returncode or not re.search(r"^\s*65536\s+500\s", text, re.M):
                raise Failure(f"{server.returncode}\n{text}")
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)

    def until_it_listens(self, *words):
        """A client that comes before its server ends at once, and only the server knows when it listens."""
        end = time.monotonic() + 30
        while True:
            try:
                return self.run(*words)
            except Failure:
                if time.monotonic() > end:
                    raise

    def several(self):
        shared = ("-v", "nic:/run/uroce:U", *USER, "--network", "none")
        self.podman("run", "-d", "--name", "nic", *LIMITS, *shared, "--entrypoint", "uroced", "localhost/uroce", "--loopback",
                    "--socket", SOCKET)
        try:
            text = self.until_it_listens("--pid", "container:nic", *shared, "-e", f"UROCE_SOCKET={SOCKET}", "localhost/uroce", "sh", "-c",
                                         "ibv_rc_pingpong -g 0 & for i in $(seq 50); do ibv_rc_pingpong -g 0 -c localhost && break; "
                                         "sleep 0.1; done; wait")
            if len(re.findall(r"^1000 iters in ", text, re.M)) != 2:
                raise Failure(text)
        finally:
            self.podman("rm", "-f", "nic")
            self.podman("volume", "rm", "nic")
