#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon as a process: the privileges that it keeps, its user, and what it tells a service manager. TAP.

usage: run_process.py --build DIR"""
import copy
import ctypes
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "isolation")]
import uroce_kit as kit
import uroce_net as net
from shared_daemon import SharedDaemon

DAC_OVERRIDE, SYS_PTRACE, SYS_NICE = 1, 19, 23
KEPT = 1 << DAC_OVERRIDE | 1 << SYS_PTRACE | 1 << SYS_NICE
OTHER_USER = 65532
build = None


def threads(daemon):
    """/proc/PID/task/TID/status of each thread, as a dictionary."""
    folder = f"/proc/{daemon.process.pid}/task"
    for name in os.listdir(folder):
        with open(os.path.join(folder, name, "status")) as lines:
            yield dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)


def own_capabilities():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff"))


def expect(daemon, **wanted):
    """Each thread has these fields; of those with two numbers or more, the first."""
    found = list(threads(daemon))
    if len(found) < 3:
        raise kit.Failure(f"{len(found)} threads")
    for status in found:
        for field, value in wanted.items():
            if status[field].split()[0] != value:
                raise kit.Failure(f"thread {status['Name']}: {field} is {status[field]}, not {value}")


def configured(text, **more):
    folder = kit.scratch_folder()
    path = os.path.join(folder, "uroced.conf")
    with open(path, "w") as file:
        file.write("[uroced]\nworkers = 2\n" + text + "\n[port.0]\ndevice = loopback\naddress = 127.0.0.1/8\n")
    return kit.Daemon(build, folder, arguments=("-c", path, *more.get("arguments", ())))


def capability_mask(mask):
    return f"{mask:016x}"


def pingpong(daemon, user=None):
    """ibv_rc_pingpong over the daemon; user: as another one."""
    command = ["ibv_rc_pingpong", "-g", "0", "-n", "200", "-c"]
    if user is not None:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    for text in kit.run_pair(daemon, command):
        kit.check_pingpong(text)


def usual():
    # A build with sanitizers has no filter unless it is asked for.
    daemon = configured("mode = 0666", arguments=("--seccomp=yes",))
    try:
        os.chmod(os.path.dirname(daemon.socket), 0o755)
        capabilities = capability_mask(own_capabilities() & KEPT)
        expect(daemon, CapPrm=capabilities, CapEff=capabilities, CapInh=capability_mask(0), NoNewPrivs="1", Seccomp="2")
        pingpong(daemon)
        if os.geteuid() == 0:
            pingpong(daemon, OTHER_USER)
    finally:
        status = daemon.stop()
    if status != 0:
        raise kit.Failure(f"exit status {status}: {daemon.log()}")


def descriptor_table():
    """It does not grow when programs come, for which the kernel would stop the control thread."""
    daemon = configured("")
    try:
        with open(f"/proc/{daemon.process.pid}/status") as status:
            room = int(re.search(r"FDSize:\t(\d+)", status.read())[1])
        most = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)[0]
    finally:
        daemon.stop()
    if room < min(most, 65536):
        raise kit.Failure(f"room for {room} descriptors of {most}")


def without_standard_descriptors():
    """No file of the daemon's gets the numbers of its messages."""
    for ready_fd, closed in ((None, "0<&- 1>&- 2>&-"), (2, "0<&- 1>&-")):
        ready, ready_write = os.pipe()
        command = [build.uroced, "--socket", os.path.join(kit.scratch_folder(), "uroce.sock"), "--ready-fd",
                   str(ready_fd or ready_write)]
        process = subprocess.Popen(["sh", "-c", f'exec "$@" {closed}', "sh", *command], pass_fds=[ready_write],
                                   stderr=ready_write if ready_fd else None)
        os.close(ready_write)
        try:
            os.read(ready, 1)
            folder = f"/proc/{process.pid}/fd"
            kit.wait_until(lambda: {"0", "1", "2"} <= set(os.listdir(folder)) and
                           {os.readlink(f"{folder}/{fd}") for fd in range(3)} == {"/dev/null"}, 10, "three times /dev/null")
        finally:
            status = kit.end(process)
            os.close(ready)
        if status != 0:
            raise kit.Failure(f"status {status}")


def turned_off():
    daemon = configured("capabilities = keep\nseccomp = no")
    try:
        capabilities = capability_mask(own_capabilities())
        expect(daemon, CapPrm=capabilities, CapEff=capabilities, NoNewPrivs="1", Seccomp="0")
        pingpong(daemon)
    finally:
        daemon.stop()
    daemon = configured("seccomp = yes", arguments=("--seccomp=no",))
    try:
        expect(daemon, Seccomp="0")
    finally:
        daemon.stop()


def own_user():
    """The daemon changes its user, serves root and others as before, and ends in order."""
    daemon = configured("user = daemon\nmode = 0666")
    try:
        os.chmod(os.path.dirname(daemon.socket), 0o755)
        capabilities = capability_mask(own_capabilities() & KEPT)
        expect(daemon, Uid="1", Gid="1", CapPrm=capabilities, CapEff=capabilities, NoNewPrivs="1")
        pingpong(daemon)
        pingpong(daemon, OTHER_USER)
    finally:
        status = daemon.stop()
    if status != 0:
        raise kit.Failure(f"exit status {status}: {daemon.log()}")


def user_option():
    """--user, which overrides the configuration."""
    daemon = configured("user = no-such-user", arguments=("--user", "daemon"))
    try:
        expect(daemon, Uid="1", Gid="1", NoNewPrivs="1")
        pingpong(daemon)
    finally:
        daemon.stop()


def unknown_user():
    try:
        configured("user = no-such-user").stop()
    except kit.Failure as failure:
        if "there is no user no-such-user" in str(failure):
            return
        raise
    raise kit.Failure("the daemon started")


def bad_option():
    result = subprocess.run([build.uroced, "--seccomp=maybe"], capture_output=True, text=True, timeout=20)
    if result.returncode != 2 or 'bad value "maybe"' not in result.stderr:
        raise kit.Failure(f"{result.returncode}: {result.stderr}")


class Manager:
    """A service manager's socket. With `abstract` it has no file."""

    def __init__(self, folder, abstract):
        name = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name if abstract else name)
        self.name = "@" + name if abstract else name

    def hear(self, seconds):
        """The next datagram, or None."""
        readable, _, _ = select.select([self.socket], [], [], seconds)
        return self.socket.recv(256).decode() if readable else None


def under_manager(abstract, watchdog):
    """watchdog: WATCHDOG_USEC or None."""
    folder = kit.scratch_folder()
    manager = Manager(folder, abstract)
    os.environ["NOTIFY_SOCKET"] = manager.name
    if watchdog:
        os.environ["WATCHDOG_USEC"] = str(watchdog)
    try:
        return manager, kit.Daemon(build, folder)
    finally:
        os.environ.pop("NOTIFY_SOCKET")
        os.environ.pop("WATCHDOG_USEC", None)


def drain(manager):
    while manager.hear(0):
        pass


def watched():
    """WATCHDOG=1 comes for as long as the control thread runs, and not while it does not."""
    manager, daemon = under_manager(False, 200000)
    try:
        heard = [manager.hear(5) for _ in range(5)]
        if "READY=1" not in heard[:2] or heard.count("WATCHDOG=1") < 4:
            raise kit.Failure(f"heard {heard}")
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        drain(manager)
        silence = manager.hear(0.5)
        daemon.process.send_signal(signal.SIGCONT)
        if silence or manager.hear(5) != "WATCHDOG=1":
            raise kit.Failure(f"a stopped daemon says {silence}")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        daemon.stop()
    heard = []
    while word := manager.hear(0):
        heard.append(word)
    if heard[-1:] != ["STOPPING=1"]:
        raise kit.Failure(f"at the end: {heard}")


class StoppedThread:
    """A thread of the daemon that stands still for the length of a block, while the others run."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, daemon, name):
        folder = f"/proc/{daemon.process.pid}/task"
        found = [tid for tid in os.listdir(folder) if open(f"{folder}/{tid}/comm").read().strip() == name]
        self.tid, self.libc = int(found[0]), ctypes.CDLL(None, use_errno=True)

    def trace(self, request):
        if self.libc.ptrace(request, self.tid, None, None):
            raise kit.Skipped(f"ptrace: {os.strerror(ctypes.get_errno())}")

    def __enter__(self):
        self.trace(self.SEIZE)
        self.trace(self.INTERRUPT)
        os.waitpid(self.tid, 0x40000000)  # __WALL
        return self

    def __exit__(self, *_):
        self.trace(self.DETACH)


def stuck_worker():
    """WATCHDOG=1 comes while workers sleep, and not while one of them stands still; the log names it."""
    manager, daemon = under_manager(False, 200000)
    try:
        with StoppedThread(daemon, "uroce-w0"):
            kit.wait_until(lambda: "worker 0 stands still" in daemon.log(), 10, "a line about the worker")
            drain(manager)
            silence = manager.hear(0.5)
            if silence:
                raise kit.Failure(f"with a worker that stands still: {silence}")
        if manager.hear(5) != "WATCHDOG=1":
            raise kit.Failure("nothing comes after that")
        end = time.monotonic() + 3  # the worker sleeps
        heard = 0
        while time.monotonic() < end:
            heard += manager.hear(1) == "WATCHDOG=1"
        if heard < 30 or daemon.log().count("stands still") != 1:
            raise kit.Failure(f"heard {heard} in three seconds: {daemon.log()}")
    finally:
        daemon.stop()


def several_late():
    """Programs whose memory is late in the same second are all named; and none is in `uroce show late` when they have ended."""
    attacker = os.path.join(build.folder, "test/isolation/attacker")
    daemon = configured("mode = 0666")
    programs = []
    try:
        for _ in range(3):
            programs.append(subprocess.Popen([attacker, "0", "silent", "16"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             text=True, env=daemon.environment({"UROCE_MR": "copy"})))
        for said in [program.stdout.readline().strip() for program in programs]:
            if said != "ready":
                raise kit.Skipped(said)
        named = [f"the memory of process {program.pid} does not answer worker" for program in programs]
        kit.wait_until(lambda: all(line in daemon.log() for line in named), 20, f"all of {named}")
        if max(daemon.log().count(line) for line in named) > 1:
            raise kit.Failure("named more than once: " + daemon.log())
    finally:
        for program in programs:
            program.kill()
            program.wait()
        kit.wait_until(lambda: not daemon.show("late"), 20, "an end of what is shown")
        daemon.stop()


PATTERN = b"uroce bytes of A" * 2


def copies_in_core(daemon):
    """Mappings whose pages a core file has (no flag dd), and which have bytes of the program `attacker pattern`."""
    found, mapping = [], None
    with open(f"/proc/{daemon.process.pid}/smaps") as lines, open(f"/proc/{daemon.process.pid}/mem", "rb", 0) as memory:
        for line in lines:
            if not re.match(r"[A-Z]\w+:", line):
                mapping = line.split()
            elif line.startswith("VmFlags:") and "rd" in line.split() and "dd" not in line.split():
                start, end = (int(address, 16) for address in mapping[0].split("-"))
                try:
                    if PATTERN in os.pread(memory.fileno(), end - start, start):
                        found.append(" ".join(mapping))
                except OSError:  # pages that only the kernel has
                    pass
    return found


def in_cores(daemon):
    attacker = os.path.join(build.folder, "test/isolation/attacker")
    program = subprocess.Popen([attacker, "0", "pattern", "4"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               env=daemon.environment({"UROCE_MR": "copy"}))
    try:
        if program.stdout.readline().strip() != "ready":
            raise kit.Failure("the program does not begin")
        time.sleep(0.3)  # its bytes are everywhere where they can be
        daemon.process.send_signal(signal.SIGSTOP)
        found = copies_in_core(daemon)
        if found:
            raise kit.Failure("a core file has a program's bytes: " + "; ".join(found))
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        program.kill()
        program.wait()


def loopback_cores():
    daemon = configured("mode = 0666")
    try:
        in_cores(daemon)
    finally:
        daemon.stop()


def dpdk_cores():
    """Packets in DPDK's memory."""
    try:
        with SharedDaemon(build, wire=True) as daemon:
            in_cores(daemon)
    except net.Unavailable as reason:
        raise kit.Skipped(str(reason))


def not_watched():
    """No watchdog was asked for, and the name is abstract."""
    manager, daemon = under_manager(True, None)
    try:
        if manager.hear(5) != "READY=1":
            raise kit.Failure("not READY=1")
        silence = manager.hear(0.5)
        if silence:
            raise kit.Failure(f"says {silence}")
    finally:
        daemon.stop()
    if manager.hear(5) != "STOPPING=1":
        raise kit.Failure("not STOPPING=1")


def unit_text():
    unit = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "config", "uroced.service")
    with open(unit) as file:
        return file.read()


def unit_file():
    """systemd understands each line."""
    text = unit_text()
    if "seccomp" not in re.search(r"^SystemCallFilter=(.*)$", text, re.MULTILINE)[1].split():
        raise kit.Failure("the unit's filter refuses the daemon's own")
    for wanted in ("Type=notify", "WatchdogSec=", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "LimitCORE=0"):
        if wanted not in text:
            raise kit.Failure(f"no {wanted}")
    user = re.search(r"^ExecStart=.* --user (\S+)$", text, re.MULTILINE)[1]
    with open(os.path.join(HERE, "..", "..", "config", "uroced.sysusers")) as file:
        created = {tuple(line.split()[:2]) for line in file if line[:1] in "gu"}
    if created != {("u", user), ("g", "uroce")}:
        raise kit.Failure(f"the unit runs as {user}, and there is created: {created}")
    if not shutil.which("systemd-analyze"):
        return
    path = os.path.join(kit.scratch_folder(), "uroced.service")
    with open(path, "w") as file:  # the program is not installed
        file.write(text.replace("/usr/bin/uroced", "/bin/true"))
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=60)
    complaints = [line for line in result.stderr.splitlines() if "uroced.service" in line]
    if complaints:
        raise kit.Failure("\n".join(complaints))


def unit_capabilities():
    """With those of the unit the daemon starts, changes the group of its socket and its user, and serves."""
    names = re.search(r"^CapabilityBoundingSet=(.*)$", unit_text(), re.MULTILINE)[1].lower().split()
    folder = kit.scratch_folder()
    wrapper = os.path.join(folder, "uroced")
    with open(wrapper, "w") as file:
        bounds = ",".join(["-all", *("+" + name.removeprefix("cap_") for name in names)])
        file.write(f'#!/bin/sh\nexec setpriv --bounding-set={bounds} --inh-caps=-all "{build.uroced}" "$@"\n')
    os.chmod(wrapper, 0o755)
    bounded = copy.copy(build)
    bounded.uroced = wrapper
    path = os.path.join(folder, "uroced.conf")
    with open(path, "w") as file:
        file.write("[uroced]\nuser = daemon\ngroup = daemon\nworkers = 2\n[port.0]\ndevice = loopback\naddress = 127.0.0.1/8\n")
    daemon = kit.Daemon(bounded, folder, arguments=("-c", path))
    try:
        expect(daemon, Uid="1", CapPrm=capability_mask(own_capabilities() & KEPT))
        pingpong(daemon)
    finally:
        daemon.stop()


# Becomes uroced with the socket as descriptor 3, as a service manager starts it.
ACTIVATE = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.execve(sys.argv[3], sys.argv[3:], dict(os.environ, LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2]))
"""


def manager_socket(kind):
    path = os.path.join(kit.scratch_folder(), "manager.sock")
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(path)
    listener.listen()
    return path, listener


def activated(listener, fds=1):
    command = [sys.executable, "-c", ACTIVATE, str(listener.fileno()), str(fds), build.uroced, "--idle-exit", "1"]
    return subprocess.Popen(command, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, XDG_RUNTIME_DIR=kit.scratch_folder()))


def socket_of_manager():
    """The daemon serves there, ends without programs, and leaves the socket to the next."""
    path, listener = manager_socket(socket.SOCK_SEQPACKET)
    for number in range(2):
        process = activated(listener)
        try:
            shown = subprocess.run([build.uroce, "show", "devices", "--socket", path], capture_output=True, text=True, timeout=20)
            if "uroce0" not in shown.stdout:
                raise kit.Failure(f"daemon {number}: {shown.stdout}{shown.stderr}")
            if process.wait(20) != 0 or not os.path.exists(path):
                raise kit.Failure(f"daemon {number} ended with {process.returncode}: {process.stderr.read()}")
        finally:
            process.kill()
            process.communicate()
    listener.close()


def wrong_sockets_of_manager():
    for kind, fds in ((socket.SOCK_STREAM, 1), (socket.SOCK_SEQPACKET, 2)):
        _, listener = manager_socket(kind)
        process = activated(listener, fds)
        said = process.communicate(timeout=20)[1]
        listener.close()
        if process.returncode != 1 or "the service manager's socket" not in said:
            raise kit.Failure(f"{process.returncode}: {said}")


def points():
    yield "a socket that the service manager has opened", socket_of_manager
    yield "sockets that it should not have", wrong_sockets_of_manager
    yield "capabilities, no_new_privs and seccomp of all threads", usual
    yield "each can be turned off", turned_off
    yield "a table of descriptors that does not grow", descriptor_table
    yield "standard descriptors that are closed", without_standard_descriptors
    if os.geteuid() == 0:
        yield "a user of its own", own_user
        yield "a user by an option", user_option
        yield "several programs whose memory is late", several_late
        yield "the capabilities of the unit file", unit_capabilities
        yield "no bytes of programs in core files", loopback_cores
        yield "the same with DPDK", dpdk_cores
    yield "an unknown user", unknown_user
    yield "a bad option", bad_option
    yield "a service manager with a watchdog", watched
    yield "a watchdog, and a worker that stands still", stuck_worker
    yield "a service manager without one", not_watched
    yield "the unit file", unit_file


def main():
    global build
    arguments = kit.point_arguments()
    build = kit.Build(arguments.build)
    return kit.run_points(points(), arguments.match)


if __name__ == "__main__":
    sys.exit(main())
