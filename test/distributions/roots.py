# SPDX-License-Identifier: BSD-3-Clause
"""Systems of other distributions in folders: made by debootstrap, entered with namespaces of their own."""
import os
import pathlib
import shutil
import subprocess
import urllib.request

from uroce_kit import Failure, Skipped

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
MIRROR = os.environ.get("UROCE_TEST_MIRROR", "http://deb.debian.org/debian")
# What packages do to a machine that runs: nothing here.
NO_SERVICES = "#!/bin/sh\nexit 101\n"

# $1: the root, $2: yes for a user namespace, in which the kernel's binary formats can be chosen. The rest: the command.
ENTER = r"""
root=$1
shift
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
[ -z "$UROCE_TEST_FORMAT" ] || {
    mount -t binfmt_misc binfmt_misc "$root/proc/sys/fs/binfmt_misc" &&
        printf '%s' "$UROCE_TEST_FORMAT" >"$root/proc/sys/fs/binfmt_misc/register" || exit 77
}
ip link set lo up 2>/dev/null
# The kernel makes no user namespace for a process that chroot(2) has confined: the root becomes that of the mount namespace.
mkdir -p "$root/.host"
cd "$root" && pivot_root . .host && umount -l /.host || exit 77
exec "$@"
"""


def said(log, lines=40):
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def host_settings():
    """How this machine's apt reaches its mirrors: proxies, tolerance for old signatures."""
    out = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
    wanted = ("Acquire::http::", "Acquire::https::", "Acquire::Check-", "Acquire::Retries")
    return "".join(line + "\n" for line in out.splitlines() if line.startswith(wanted))


class Root:
    def __init__(self, folder, release):
        self.path, self.release = pathlib.Path(folder), release
        self.log = self.path.parent / f"{self.path.name}.log"

    def make(self):
        """A minimal system, or the one of an earlier run."""
        if (self.path / "made").exists():
            return
        try:
            urllib.request.urlopen(f"{MIRROR}/dists/{self.release}/InRelease", timeout=20).close()
        except OSError as problem:
            raise Skipped(f"{MIRROR}: {problem}") from None
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        with open(self.log, "w") as log:
            status = subprocess.call(["debootstrap", "--variant=minbase", self.release, self.path, MIRROR], stdout=log,
                                     stderr=log, stdin=subprocess.DEVNULL)
        if status:
            raise Failure(said(self.log))
        (self.path / "etc/apt/apt.conf.d/90host").write_text(host_settings())
        services = self.path / "usr/sbin/policy-rc.d"
        services.write_text(NO_SERVICES)
        services.chmod(0o755)
        (self.path / "made").write_text("")

    def run(self, command, seconds, network=False, user=False, environment=None):
        """A shell command in the root, as root, in /src. network: the machine's; else there is the loopback interface only. user:
        in a user namespace. Returns (status, output)."""
        if network:
            shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")
        spaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        spaces += [] if network else ["--net"]
        spaces += ["--user", "--map-root-user"] if user else []
        inside = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": "dumb",
                  "DEBIAN_FRONTEND": "noninteractive", **(environment or {})}
        with open(self.log, "w+", errors="replace") as log:
            try:
                status = subprocess.run(["unshare", *spaces, "sh", "-c", ENTER, "enter", str(self.path), "bash", "-c",
                                         f"cd /src && {command}"], env=inside, stdout=log, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, timeout=seconds).returncode
            except subprocess.TimeoutExpired:
                status = f"not finished after {seconds} s"
            log.seek(0)
            return status, log.read()

    def must(self, command, seconds, **options):
        status, output = self.run(command, seconds, **options)
        if status:
            raise Failure(f"{command}: {status}\n" + "\n".join(output.splitlines()[-50:]))
        return output

    def install(self, packages, before="true"):
        self.must(f"{before} && apt-get -q update && apt-get -q install -y --no-install-recommends {' '.join(packages)}", 600,
                  network=True)

    def copy_source(self):
        """The files of the source tree that git knows or would; in the root's /src, beside its build folders."""
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, text=True)
        if listed.returncode:
            raise Skipped("the source tree is not of git")
        target = self.path / "src"
        target.mkdir(exist_ok=True)
        for name in filter(None, listed.stdout.split("\0")):
            source = SOURCE / name
            if not source.exists():
                continue
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)

    def remove_source(self):
        shutil.rmtree(self.path / "src", ignore_errors=True)
