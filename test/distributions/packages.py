# SPDX-License-Identifier: BSD-3-Clause
"""The Debian packages: built in one system, installed, used, upgraded and purged in another one that has seen nothing else."""
import shutil

import uroce_kit as kit
from roots import Root

BUILD = ["build-essential", "debhelper", "lintian"]
PROGRAMS = ["ibverbs-utils", "perftest", "rdmacm-utils"]
# What packages leave by Debian's rules: logs, caches, the user and group, and what systemd's have made.
LEFT = ("var/log", "var/lib/dpkg", "var/cache", "var/lib/apt", "var/lib/systemd", "var/lib/private", "etc/ld.so.cache", "tmp", "etc/passwd*",
        "etc/group*", "etc/shadow*", "etc/gshadow*", "etc/subuid*", "etc/subgid*", "etc/machine-id", "etc/mtab", "root", "src", "run",
        "etc/resolv.conf", "etc/.pwd.lock", "etc/default/locale", "etc/vconsole.conf", "usr/share/man/index.db")
PAIR = ("uroce run -- {0} > /tmp/server 2>&1 & server=$!; for i in $(seq 100); do uroce run -- {0} 127.0.0.1 && break; sleep 0.1; done; "
        "wait $server")


class Packages:
    def __init__(self, root, release):
        self.root = root
        self.fresh = Root(root.path.with_name(root.path.name + "-user"), release)

    def points(self):
        yield "the packages are built", self.build
        yield "lintian finds nothing", self.lintian
        yield "installed on a system without anything else, programs work", self.install
        yield "the daemon with the package's configuration", self.daemon
        yield "manual pages and completion", self.pages
        yield "an upgrade keeps the configuration", self.upgrade
        yield "purging leaves nothing", self.purge

    def prepare(self):
        """What the packages need to be built: what debian/control says."""
        self.root.install(BUILD)
        self.root.must("apt-get -q build-dep -y --no-install-recommends ./", 600, network=True)
        self.fresh.make()
        shutil.rmtree(self.fresh.path / "src", ignore_errors=True)
        (self.fresh.path / "src").mkdir()
        self.fresh.install(PROGRAMS)

    def build(self):
        self.root.must("rm -f ../*.deb ../*.changes; dpkg-buildpackage -b -us -uc", 1200)

    def lintian(self):
        output = self.root.must("lintian --profile debian --fail-on error,warning --allow-root ../*.changes", 300)
        print("".join(f"# {line}\n" for line in output.splitlines()), end="")

    def files(self):
        """Those of the fresh system outside of what every package leaves."""
        prune = " -o ".join(f"-path '/{name}'" for name in (*LEFT, "proc", "sys", "dev"))
        return set(self.fresh.must(f"find / \\( {prune} \\) -prune -o -print", 60).splitlines())

    def install(self):
        for package in self.root.path.glob("*.deb"):
            shutil.copy(package, self.fresh.path / "src")
        self.before = self.files()
        self.fresh.must("apt-get -q install -y --no-install-recommends ./uroce_*.deb ./uroce-doc_*.deb", 300, network=True)
        self.fresh.must(PAIR.format("ib_write_bw -F -n 100"), 60)
        self.fresh.must("uroce run -- ibv_devinfo | grep -q uroce0", 60)
        self.fresh.must("(uroce run -- rping -s -a 127.0.0.1 -C 3 & sleep 1; uroce run -- rping -c -a 127.0.0.1 -C 3 -v)", 60)

    def daemon(self):
        self.fresh.must("mkfifo /tmp/ready; (uroced --config /etc/uroce/uroced.conf --user uroced --ready-fd 3 3>/tmp/ready & "
                        "read line </tmp/ready; uroce show devices | grep -q uroce0; s=$?; ls -l /run/uroce.sock; kill $!; wait; exit $s); "
                        "s=$?; rm /tmp/ready; exit $s", 60)

    def pages(self):
        for page in ("man1/uroce.1", "man1/uroce-perf.1", "man8/uroced.8", "man5/uroced.conf.5"):
            self.fresh.must(f"test -s /usr/share/man/{page}.gz", 10)
        self.fresh.must("zcat /usr/share/man/man8/uroced.8.gz | grep -q CAP_SYS_ADMIN", 10)
        self.fresh.must("bash -c '. /usr/share/bash-completion/completions/uroce; COMP_WORDS=(uroce sh); COMP_CWORD=1; _uroce; "
                        "[ \"${COMPREPLY[*]}\" = show ]; COMP_WORDS=(uroce show drop); COMP_CWORD=2; _uroce; "
                        "[ \"${COMPREPLY[*]}\" = drops ]'", 30)

    def upgrade(self):
        self.fresh.must("echo '# mine' >> /etc/uroce/uroced.conf; apt-get -q install -y --reinstall ./uroce_*.deb; "
                        "grep -q '# mine' /etc/uroce/uroced.conf", 120, network=True)

    def purge(self):
        self.fresh.must("apt-get -q purge -y uroce uroce-doc && apt-get -q autoremove -y --purge", 120, network=True)
        left = sorted(self.files() - self.before)
        if left:
            raise kit.Failure("left: " + ", ".join(left[:20]))
