#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adopted memory: tortures without a daemon, and programs over one. TAP.

usage: run_adopt.py --build DIR [--seconds S] [--match TEXT]"""
import glob
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

SKIP = 77
OTHER_USER = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]


class Skip(Exception):
    """The text says why."""


def run(command, environment, seconds):
    try:
        out = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        raise kit.Failure(f"{' '.join(command)}: not done after {seconds} s:\n{(late.stdout or b'')!r}")
    return out.returncode, out.stdout


def torture(arguments=(), environment=None, library=None):
    def point():
        more = dict(environment or {})
        if library:
            found = glob.glob(f"/usr/lib/*/{library}")
            if not found:
                raise Skip(f"no {library}")
            more["LD_PRELOAD"] = found[0]
        status, text = run([program("adopt_torture"), str(options.seconds), *arguments], dict(os.environ, **more),
                           options.seconds + 60)
        if status == SKIP:
            raise Skip(text.strip())
        if status:
            raise kit.Failure(f"exit status {status}:\n{text}")
    return point


PYTHON = """
import hashlib, multiprocessing, os, subprocess, sys, threading
def digest(n):
    return hashlib.sha256(bytes(bytearray(range(256)) * n)).hexdigest()
def thread(found, i):
    found[i] = [digest(200 + i + k) for k in range(20)]
found = [None] * 3
threads = [threading.Thread(target=thread, args=(found, i)) for i in range(3)]
[t.start() for t in threads]
with multiprocessing.get_context("fork").Pool(2) as pool:
    children = pool.map(digest, range(1, 2000, 100))
text = subprocess.run([sys.executable, "-c", "print('x' * 300000)"], capture_output=True, preexec_fn=os.getpid).stdout
[t.join() for t in threads]
print(found, children, hashlib.sha256(text).hexdigest())
"""


def unmodified(command, text=""):
    """A program that knows nothing of adoption: the same output with and without."""
    def point():
        if not may_adopt():
            raise Skip("nothing is adopted")
        report = os.path.join(kit.scratch_folder(), "report")
        got = []
        for more in ({}, {"LD_PRELOAD": program("libadopt_preload.so"), "ADOPT_REPORT": report}):
            done = subprocess.run(command, env=dict(os.environ, LC_ALL="C", **more), input=text.encode(),
                                  capture_output=True, timeout=100)
            got.append((done.returncode, done.stderr, done.stdout))
        if got[0] != got[1] or got[0][0]:
            raise kit.Failure(f"without: {got[0][:2]}, {len(got[0][2])} bytes; with: {got[1][:2]}, {len(got[1][2])} bytes")
        with open(report) as lines:
            adopted = sum(int(line.split()[0]) for line in lines)
        if adopted < 10:
            raise kit.Failure(f"adopted {adopted} times only")
    return point


def lines_to_sort():
    return "".join(f"{i * 7919 % 100003} {'x' * (i % 50)}\n" for i in range(200000))


def program(name):
    return os.path.join(build.folder, "test/adopt", name)


def may_adopt():
    """Whether programs of this user can: by the torture that says so."""
    status, _ = run([program("adopt_torture"), "0"], os.environ, 60)
    return status != SKIP


def verbs(mode, how, workers=1):
    def point():
        daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", "--workers", str(workers)))
        expected = how if may_adopt() else "copied"
        try:
            status, text = run([program("verbs_adopt"), expected, str(options.seconds)],
                               daemon.environment({"UROCE_MR": mode}), options.seconds + 100)
            if status or not daemon.alive():
                raise kit.Failure(f"exit status {status}:\n{text}\n{daemon.log()}")
            if daemon.show("mr"):
                raise kit.Failure("regions are left: " + str(daemon.show("mr")))
        finally:
            daemon.stop()
    return point


def hostile():
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        status, text = run([program("adopt_hostile")], daemon.environment(), 60)
        if status or not daemon.alive():
            raise kit.Failure(f"exit status {status}:\n{text}\n{daemon.log()}")
        rows_of(daemon, PINGPONG, {})
    finally:
        if daemon.stop() != 0:
            raise kit.Failure("uroced did not end well:\n" + daemon.log())


def silent_daemon():
    """Ten seconds long: for the long run."""
    if options.seconds < 10:
        raise Skip("takes ten seconds")
    if not may_adopt():
        raise Skip("nothing is adopted")
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        status, text = run([program("verbs_adopt"), "adopted", "0", str(daemon.process.pid)], daemon.environment(), 60)
        if status or not daemon.alive():
            raise kit.Failure(f"exit status {status}:\n{text}\n{daemon.log()}")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        daemon.stop()


def rows_of(daemon, command, environment, user=()):
    """What `uroce show mr` says of a server that waits for its client, and that both then succeed."""
    port = kit.free_port()
    command = [*user, *command, "-p", str(port)]
    server = kit.Program(daemon, command, environment)
    client = None
    try:
        kit.await_listening(server, port, 60)
        rows = daemon.show("mr")
        clients = daemon.show("clients")
        client = kit.Program(daemon, command + ["127.0.0.1"], environment)
        client.finish(100)
        server.finish(100)
        return rows, clients
    finally:
        server.kill()
        if client:
            client.kill()


def expect(rows, *wanted):
    if not rows or any((row["backend"], row["why"]) != wanted for row in rows):
        raise kit.Failure(f"not {wanted}: {rows}")


def becomes(daemon, command, first, wanted, user=()):
    """A server and its client, until all that each has registered is reached as wanted. first: how the server's is
    before; None: it registers later."""
    port = kit.free_port()
    command = [*user, *command, "-p", str(port)]
    server = kit.Program(daemon, command)
    client = None
    try:
        kit.await_listening(server, port, 60)
        if first:
            expect(daemon.show("mr"), *first)
        client = kit.Program(daemon, command + ["127.0.0.1"])
        end = time.monotonic() + 60
        rows = []
        while len(rows) < 2 or any((row["backend"], row["why"]) != wanted for row in rows):
            if server.process.poll() is not None or client.process.poll() is not None or time.monotonic() > end:
                raise kit.Failure(f"not {wanted}: {rows}\n{server.text()}\n{client.text()}")
            rows = daemon.show("mr")
    finally:
        server.kill()
        if client:
            client.kill()


def hot(command, first=("copy", "cold")):
    """Small regions, that become hot in programs, one of which does not call the library in between."""
    def point():
        if not may_adopt():
            raise Skip("nothing is adopted")
        daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", "--workers", "2"))
        try:
            becomes(daemon, command, first, ("mapped", "adopted"))
            reasons = {row["reason"]: row["times"] for row in daemon.show("mr_reasons")}
            if reasons != {"cold": 2, "adopted": 2}:
                raise kit.Failure(f"reasons: {reasons}")
        finally:
            daemon.stop()
    return point


PINGPONG = ["ibv_rc_pingpong", "-g", "0", "-c", "-s", "4096", "-n", "200"]
LARGE = ["ibv_rc_pingpong", "-g", "0", "-c", "-s", "65536", "-n", "100"]
FOR_EVER = ["-n", "100000000"]
SMALL = ["ibv_rc_pingpong", "-g", "0", "-s", "1000", *FOR_EVER]
EVENTS = SMALL + ["-e"]
PASSIVE = ["ib_write_bw", "-F", "-x", "0", "-s", "64", *FOR_EVER]


def shown():
    """Each way and reason, as `uroce show` has it."""
    daemon = kit.Daemon(build, kit.scratch_folder())
    adopted = ("mapped", "adopted") if may_adopt() else ("copy", "no_userfaultfd")
    try:
        cold, small = ((("copy", why) if may_adopt() else adopted) for why in ("cold", "small"))
        for mode, command, wanted in (("auto", PINGPONG, cold), ("auto", LARGE, adopted), ("copy", LARGE, ("copy", "off")),
                                      ("copy", PINGPONG, ("copy", "off")), ("big", PINGPONG, small),
                                      ("big", LARGE, adopted), ("", PINGPONG, cold)):
            rows, clients = rows_of(daemon, command, {"UROCE_MR": mode})
            expect(rows, *wanted)
            if clients[0]["mrs_why"] != {wanted[1]: 1}:
                raise kit.Failure(f"counted: {clients[0]}")
        out = subprocess.run([build.uroce, "show", "mr", "--socket", daemon.socket], capture_output=True, text=True)
        if out.returncode or out.stdout != "none\n":
            raise kit.Failure(f"uroce show mr: {out}")
    finally:
        daemon.stop()


def nonsense():
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        status, text = run(["ibv_rc_pingpong", "-g", "0"], daemon.environment({"UROCE_MR": "mapped"}), 30)
        if not status or "UROCE_MR=mapped is none of copy, big, auto" not in text:
            raise kit.Failure(f"status {status}: {text}")
    finally:
        daemon.stop()


def watched():
    """Under valgrind, which runs one thread at a time, nothing is moved."""
    if not os.path.exists("/usr/bin/valgrind"):
        raise Skip("no valgrind")
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        rows, _ = rows_of(daemon, ["valgrind", "-q", "--error-exitcode=9", "--undef-value-errors=no", *PINGPONG], {})
        expect(rows, "copy", "tool")
    finally:
        daemon.stop()


def watched_parts():
    """A region that is a part of a page: nothing beside it is read, or valgrind would tell."""
    if not os.path.exists("/usr/bin/valgrind"):
        raise Skip("no valgrind")
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        server = kit.Program(daemon, ["rping", "-s", "-a", "127.0.0.1", "-C", "3"])
        kit.await_cm_listening(daemon, server, 20)
        try:
            kit.Program(daemon, ["valgrind", "-q", "--error-exitcode=9", "--undef-value-errors=no", "rping", "-c", "-a", "127.0.0.1",
                                 "-C", "3"]).finish(100)
            server.finish(20)
        finally:
            server.kill()
    finally:
        daemon.stop()


def unprivileged(passes):
    def point():
        if os.getuid() or not may_adopt():
            raise Skip("needs root")
        with open("/proc/sys/vm/unprivileged_userfaultfd") as sysctl:
            if sysctl.read().strip() != "0":
                raise Skip("vm.unprivileged_userfaultfd is set")
        if passes and not os.path.exists("/dev/userfaultfd"):
            raise Skip("no /dev/userfaultfd")
        if run([*OTHER_USER, "test", "-r", build.libraries.split(":")[0]], os.environ, 20)[0]:
            raise Skip("other users cannot read the build")
        folder = kit.scratch_folder()
        os.chmod(folder, 0o755)
        name = os.path.join(folder, "uroced.ini")
        with open(name, "w") as config:
            config.write("[uroced]\nmode = 0666\n" + ("userfaultfd = pass\n" if passes else "") +
                         "[port.0]\ndevice = loopback\naddress.0 = 127.0.0.1/8\n")
        daemon = kit.Daemon(build, folder, arguments=("-c", name))
        try:
            rows, _ = rows_of(daemon, LARGE, {}, OTHER_USER)
            expect(rows, *(("mapped", "adopted") if passes else ("pinned", "no_userfaultfd")))
            if passes:
                becomes(daemon, SMALL, ("pinned", "cold"), ("mapped", "adopted"), OTHER_USER)
        finally:
            daemon.stop()
    return point


POINTS = (
    ("torture", torture()),
    ("torture, mappings read as text", torture(["text"])),
    ("torture, without looking for pins", torture(["nomove"])),
    ("torture, with nodes and large pages", torture(["place"])),
    ("torture, one arena", torture(environment={"MALLOC_ARENA_MAX": "1"})),
    ("torture, many small mappings", torture(environment={"MALLOC_MMAP_THRESHOLD_": "65536"})),
    ("torture, jemalloc", torture(["late"], {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}, "libjemalloc.so.2")),
    ("torture, tcmalloc", torture(library="libtcmalloc_minimal.so.4")),
    ("sort", unmodified(["sort", "-n", "--parallel=2", "-S", "2M"], lines_to_sort())),
    ("gzip", unmodified(["gzip", "-c"], lines_to_sort())),
    ("python, with threads and forks", unmodified(["/usr/bin/python3", "-c", PYTHON])),
    ("verbs, adopted", verbs("auto", "adopted")),
    ("verbs, adopted, three workers", verbs("auto", "adopted", 3)),
    ("verbs, large regions adopted", verbs("big", "adopted")),
    ("verbs, copied", verbs("copy", "copied")),
    ("a program that lies", hostile),
    ("a daemon that stands still while a program forks", silent_daemon),
    ("small regions become hot", hot(SMALL)),
    ("small regions become hot, the programs sleep", hot(EVENTS)),
    ("small regions become hot, a program is passive", hot(PASSIVE, None)),
    ("uroce show mr", shown),
    ("UROCE_MR that makes no sense", nonsense),
    ("valgrind", watched),
    ("valgrind, parts of pages", watched_parts),
    ("another user's program", unprivileged(False)),
    ("another user's program that is given the device", unprivileged(True)),
)


def main():
    global build, options
    options = kit.point_arguments(more=[("--seconds", {"type": int, "default": 1})])
    build = kit.Build(options.build)
    points = [p for p in POINTS if options.match in p[0]]
    tap = kit.Tap(len(points))
    for name, function in points:
        try:
            tap.point(name, function)
        except Skip as reason:
            print(f"ok {tap.number} - {name} # SKIP {re.sub(chr(10), ' ', str(reason))}", flush=True)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
