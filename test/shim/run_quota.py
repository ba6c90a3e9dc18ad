#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that take all they get: what a user is refused, what others still get, and that the daemon lives on. TAP.

greedy takes objects, puncher pages. Points about several users need root, and two need a control group.

usage: run_quota.py --build DIR GREEDY PUNCHER"""
import fcntl
import os
import resource
import select
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import run_control as control
import uroce_kit as kit

SECONDS = 100
USER, OTHER = 65534, 4242
MIB = 1 << 20
GROUPS = "/sys/fs/cgroup"
build = None
greedy = None
puncher = None


class Start:
    """A build whose daemon is started by a shell command before it."""

    def __init__(self, folder, before):
        self.__dict__.update(vars(build))
        self.uroced = os.path.join(folder, "uroced.sh")
        with open(self.uroced, "w") as script:
            script.write(f'#!/bin/sh\n{before}\nexec {build.uroced} "$@"\n')
        os.chmod(self.uroced, 0o755)


def start(quota="", before=None):
    folder = kit.scratch_folder()
    os.chmod(folder, 0o755)
    name = os.path.join(folder, "uroced.ini")
    with open(name, "w") as file:
        file.write(f"[uroced]\nmode = 0666\n[quota]\n{quota}\n[port.0]\ndevice = loopback\n")
    return kit.Daemon(Start(folder, before) if before else build, folder, arguments=("--config", name))


class Greedy:
    """A greedy program, which keeps its objects until it is released. count: how many it got; error: then."""

    def __init__(self, daemon, kind, uid=0, count=None):
        command = [greedy, str(uid), kind] + ([str(count)] if count else [])
        self.start(daemon, kind, uid, command)

    def start(self, daemon, kind, uid, command):
        self.process = subprocess.Popen(command, env=daemon.environment(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        readable, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        said = self.process.stdout.readline().decode(errors="replace").strip() if readable else "nothing"
        try:
            self.count, self.error = int(said.split(" ", 1)[0]), said.split(" ", 1)[1]
        except (ValueError, IndexError):
            self.release()
            raise kit.Failure(f"{kind} of {uid}: {said}")

    def release(self):
        self.process.stdin.close()
        kit.end(self.process)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


class Puncher(Greedy):
    """A program whose regions of a MiB have lost their pages, before the daemon read and wrote all of them."""

    def __init__(self, daemon, uid, regions):
        self.start(daemon, "pages", uid, [puncher, str(uid), str(regions)])


def expect(what, got, wanted):
    if got != wanted:
        raise kit.Failure(f"{what}: {got}, not {wanted}")


def refused(program, count):
    expect("objects", program.count, count)
    expect("error", program.error, os.strerror(12))


def row(daemon, uid, kind):
    return next((one for one in daemon.show("quotas") if one["uid"] == uid and one["kind"] == kind), None)


def ended(daemon):
    if not daemon.alive():
        raise kit.Failure("the daemon has ended:\n" + daemon.log())
    expect("exit status", daemon.stop(), 0)


def limits_of_a_connection():
    """Each greedy program has one protection domain and completion queue before it begins."""
    daemon = start("client.pds = 6\nclient.cqs = 7\nclient.qps = 8\nclient.mrs = 9\nclient.mws = 12\nclient.channels = 10\n"
                   "client.srqs = 11\nclient.mapped_memory = 4K")
    for kind, count in (("pds", 5), ("cqs", 6), ("qps", 8), ("mrs", 9), ("mws", 12), ("channels", 10), ("srqs", 11)):
        with Greedy(daemon, kind) as first, Greedy(daemon, kind) as second:
            refused(first, count)
            refused(second, count)
            mine = [one for one in daemon.show("clients") if one.get("device")]
            expect("clients", [one["refused"] for one in mine], [1, 1])
    with Greedy(daemon, "pds", count=3) as modest:
        expect("objects", (modest.count, modest.error), (3, "-"))
    ended(daemon)


def limits_of_a_user():
    daemon = start("user.pds = 20\nuser.connections = 10")
    with Greedy(daemon, "pds", USER, 10), Greedy(daemon, "pds", USER) as second, Greedy(daemon, "pds", OTHER) as other, \
            Greedy(daemon, "pds", 0, 100) as root:
        refused(second, 8)
        refused(other, 19)
        expect("root's", (root.count, root.error), (100, "-"))
        mine = row(daemon, USER, "pds")
        expect("shown", (mine["used"], mine["limit"], mine["refused"]), (20, 20, 1))
    with Greedy(daemon, "connections", USER) as first, Greedy(daemon, "connections", 0, 30) as root:
        refused(first, 9)
        expect("root's", (root.count, root.error), (30, "-"))
        shown = subprocess.run([build.uroce, "show", "--socket", daemon.socket], user=USER, capture_output=True, text=True)
        expect("uroce show", shown.stderr.split(" at ")[0], "uroce: uroced")
        with Greedy(daemon, "connections", OTHER, 5) as other:
            expect("another user's", (other.count, other.error), (5, "-"))
    ended(daemon)


def mapped_memory():
    """Regions beyond the quota are copied."""
    daemon = start("user.mapped_memory = 8M")
    with Greedy(daemon, "mapped", USER, 5) as first, Greedy(daemon, "mapped", USER, 20) as second:
        expect("regions", (first.count, second.count), (5, 20))
        shown = row(daemon, USER, "mapped_memory")
        expect("shown", (shown["used"], shown["limit"], shown["refused"]), (8 * MIB, 8 * MIB, 17))
        mine = [(one["mrs_mapped"], one["mrs_copied"]) for one in daemon.show("clients") if one.get("device")]
        expect("mapped and copied", sorted(mine), [(3, 17), (5, 0)])
    kit.wait_until(lambda: not row(daemon, USER, "mapped_memory"), 10, "the end of all mappings")
    ended(daemon)


def mappings():
    """Without quotas, four such programs took all mappings that the daemon can have."""
    daemon = start("total.memory = 1000G")
    with Greedy(daemon, "large_cqs", USER) as first, Greedy(daemon, "large_cqs", OTHER, 2000) as other, \
            Greedy(daemon, "large_cqs", 0, 2000) as root:
        limit = row(daemon, USER, "mappings")["limit"]
        with open("/proc/sys/vm/max_map_count") as number:
            if limit > int(number.read()) / 8:
                raise kit.Failure(f"a user may have {limit} mappings")
        expect("error", first.error, os.strerror(12))
        if not limit / 2 < first.count < limit:
            raise kit.Failure(f"{first.count} of {limit} mappings")
        try:
            with Greedy(daemon, "large_cqs", USER):
                raise kit.Failure("another program of the user gets more")
        except kit.Failure as failure:
            if os.strerror(12) not in str(failure):
                raise
        expect("others", (other.count, root.count), (2000, 2000))
    ended(daemon)


def pieces():
    """A connection of an owner may have more than an eighth of the mappings in its regions."""
    daemon = start("total.memory = 1000G")
    with open("/proc/sys/vm/max_map_count") as number:
        regions = int(number.read()) // 8 // 16 + 10
    fd = os.memfd_create("pieces", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 16 * 4096)
    os.pwrite(fd, bytes(16 * 4096), 0)
    fcntl.fcntl(fd, 1033, 2)  # F_ADD_SEALS: F_SEAL_SHRINK
    client = control.Client(daemon)
    body = struct.pack("<IIQQQIIQ16xII", client.handle(control.ALLOC_PD), 1, 1 << 30, 16 * 4096, 1 << 30, 1, 1, 0, 16, 0)
    body += b"".join(struct.pack("<QQ", 4096 * (15 - i), 4096) for i in range(16))
    for i in range(regions):
        if not struct.unpack_from("<I", client.must(control.REG_MR, body, [fd]), 60)[0]:
            raise kit.Failure(f"{i} of {regions} regions of 16 pieces are mapped")
    used = row(daemon, os.geteuid(), "mappings")["used"]
    if used < 16 * regions:
        raise kit.Failure(f"{used} mappings are counted")
    client.close()
    os.close(fd)
    ended(daemon)


def small_memory():
    """The limit of the daemon's data becomes its quota."""
    daemon = start(before="ulimit -d 131072")
    with Greedy(daemon, "qps") as program:
        expect("error", program.error, os.strerror(12))
        uid = os.geteuid()
        expect("limit", row(daemon, uid, "memory")["limit"], 64 * MIB)
        used = row(daemon, uid, "memory")["used"]
        if used > 64 * MIB or used < 60 * MIB or program.count < 1000:
            raise kit.Failure(f"{program.count} queue pairs, {used} bytes")
    ended(daemon)


def group_of(limit):
    """A control group with this limit, and how a process enters it; None: it cannot be made."""
    for folder, file in ((GROUPS + "/memory", "memory.limit_in_bytes"), (GROUPS, "memory.max")):
        group = os.path.join(folder, f"uroce-test-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(os.path.join(group, file), "w") as number:
                number.write(str(limit))
            return group
        except OSError:
            os.rmdir(group)
    return None


def small_group():
    group = group_of(64 * MIB)
    if not group:
        print("# skipped: no control group can be made here")
        return
    try:
        for uid in (0, USER):
            for kind in ("qps", "mws", "cqs", "channels"):
                daemon = start(before=f"echo $$ > {group}/cgroup.procs")
                with Greedy(daemon, kind, uid) as program:
                    expect("error", program.error, os.strerror(12))
                    print(f"# {program.count} {kind} of user {uid}")
                ended(daemon)
    finally:
        os.rmdir(group)


def charged(group):
    for name in ("memory.usage_in_bytes", "memory.current"):
        try:
            with open(os.path.join(group, name)) as number:
                return int(number.read())
        except FileNotFoundError:
            continue
    raise kit.Failure(f"{group} does not tell what it has")


def punched_pages():
    """The kernel charges a page to the process that touches it first. The daemon pays for as many as it may map."""
    group = group_of(1 << 30)
    if not group:
        print("# skipped: no control group can be made here")
        return
    daemon = start("user.mapped_memory = 8M", before=f"echo $$ > {group}/cgroup.procs")
    try:
        with Greedy(daemon, "pds", USER, 1):
            before = charged(group)
        with Puncher(daemon, USER, 40) as program:
            expect("regions", program.count, 40)
            paid = charged(group) - before
            if not 7 * MIB <= paid <= 11 * MIB:
                raise kit.Failure(f"the daemon pays for {paid / MIB:.1f} MiB where it may map 8")
        ended(daemon)
    finally:
        daemon.stop()
        os.rmdir(group)


def points():
    yield "limits of a connection", limits_of_a_connection
    yield "pieces of regions", pieces
    yield "a daemon with little memory", small_memory
    if os.geteuid():
        return
    yield "limits of a user", limits_of_a_user
    yield "mapped memory of a user", mapped_memory
    yield "one user takes all mappings", mappings
    yield "one user in a control group of 64 MiB", small_group
    yield "pages that a program has the daemon touch first", punched_pages


def main():
    global build, greedy, puncher
    arguments = kit.point_arguments("greedy", "puncher")
    build, greedy, puncher = kit.Build(arguments.build), arguments.greedy, arguments.puncher
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return kit.run_points(points(), arguments.match)


if __name__ == "__main__":
    sys.exit(main())
