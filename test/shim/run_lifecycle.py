#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What happens around the programs: `uroce run` and the daemon it starts, programs that are killed, idleness. TAP.

usage: run_lifecycle.py --build DIR"""
import concurrent.futures
import errno
import fcntl
import glob
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

build = None


def clean_environment(folder):
    """No daemon but the one in folder is to be found. (A system daemon would be: then these points are about it.)"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "UROCE_"))}
    environment["XDG_RUNTIME_DIR"] = folder
    environment["UROCE_SOCKET"] = os.path.join(folder, "uroce.sock")
    return environment


def uroce(environment, *arguments, prefix=(), **more):
    return subprocess.run([*prefix, build.uroce, *arguments], env=environment, capture_output=True, text=True, timeout=60,
                          **more)


def daemons(folder):
    """Process ids of the daemons that serve in folder."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline") as words:
                    line = words.read().split("\0")
            except OSError:
                continue
            if line[0].endswith("uroced") and any(word.startswith(folder + "/") for word in line):
                found.append(int(name))
    return found


def run_passes_through():
    environment = clean_environment(kit.scratch_folder())
    result = uroce(environment, "run", "--", "sh", "-c", "read line; echo got $line; exit 7", input="this\n")
    if result.returncode != 7 or result.stdout != "got this\n":
        raise kit.Failure(f"status {result.returncode}, output {result.stdout!r}, {result.stderr!r}")
    result = uroce(environment, "run", "sh", "-c", "kill -INT $$")
    if result.returncode != -signal.SIGINT:
        raise kit.Failure(f"a signal became status {result.returncode}")
    for program, status in (("/no/such/program", 127), ("/etc/passwd", 126)):
        result = uroce(environment, "run", program)
        if result.returncode != status or program not in result.stderr:
            raise kit.Failure(f"{program}: status {result.returncode}, {result.stderr!r}")


def run_serves_a_device():
    result = uroce(clean_environment(kit.scratch_folder()), "run", "ibv_devices")
    if result.returncode != 0 or "uroce0" not in result.stdout:
        raise kit.Failure(f"status {result.returncode}: {result.stdout}{result.stderr}")


def run_with_few_descriptors():
    """The connection that is kept for the program has a number below the limit."""
    for most in (64, 200):
        result = uroce(clean_environment(kit.scratch_folder()), "run", "ibv_devinfo", prefix=("prlimit", f"--nofile={most}"))
        if result.returncode != 0 or "PORT_ACTIVE" not in result.stdout:
            raise kit.Failure(f"{most} descriptors: status {result.returncode}, {result.stdout!r}, {result.stderr!r}")


def run_where_a_signal_is_ignored():
    """SIGCHLD, as some leave it to what they start: a daemon starts, and the program has the signal as it was."""
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
    environment = clean_environment(kit.scratch_folder())
    result = uroce(environment, "run", "ibv_devices", **ignore)
    if result.returncode != 0 or "uroce0" not in result.stdout:
        raise kit.Failure(f"status {result.returncode}: {result.stdout}{result.stderr}")
    result = uroce(environment, "run", "grep", "SigIgn", "/proc/self/status", **ignore)
    if not int(result.stdout.split()[-1], 16) >> signal.SIGCHLD - 1 & 1:
        raise kit.Failure(f"the program does not ignore it: {result.stdout}")


def run_leaves_no_child():
    """The program has no child it did not make, and the daemon does not hold the terminal or pipes."""
    folder = kit.scratch_folder()
    result = uroce(clean_environment(folder), "run", "sh", "-c", "cat /proc/self/task/*/children /proc/$$/task/$$/children; wait")
    started = daemons(folder)
    if len(started) != 1:
        raise kit.Failure(f"daemons: {started}; {result.stderr}")
    if str(started[0]) in result.stdout.split():
        raise kit.Failure("the daemon is the program's child")
    with open(f"/proc/{started[0]}/environ") as variables:
        loader = [v for v in variables.read().split("\0") if v.startswith("LD_")]
    if loader:
        raise kit.Failure(f"the daemon has {loader}")


def run_in_a_service():
    """The daemon's messages to a service manager (sd_notify) would be taken for those of the program."""
    folder = kit.scratch_folder()
    path = os.path.join(folder, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.setblocking(False)
        environment = dict(clean_environment(folder), NOTIFY_SOCKET=path, WATCHDOG_USEC="40000")
        result = uroce(environment, "run", "sh", "-c", "echo $NOTIFY_SOCKET; sleep 0.1")
        try:
            raise kit.Failure(f"the daemon says {manager.recv(100)}")
        except BlockingIOError:
            pass
    if result.stdout != path + "\n":
        raise kit.Failure(f"the program has not the variable: {result.stdout}{result.stderr}")


def run_with_soft_limits():
    """A program's limits of processor time, files and memory are not those of the daemon, which serves others too."""
    folder = kit.scratch_folder()
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_DATA)
    hard = [resource.getrlimit(kind)[1] for kind in kinds]

    def limit():
        for kind, soft, most in zip(kinds, (3, 0, 1 << 30, 1 << 27), hard):
            resource.setrlimit(kind, (soft, most))

    result = uroce(clean_environment(folder), "run", "--sys=no", "sh", "-c", "ulimit -S -t", preexec_fn=limit)
    if result.stdout != "3\n":
        raise kit.Failure(f"the program has not its limit: {result.stdout}{result.stderr}")
    for pid in daemons(folder):
        found = [resource.prlimit(pid, kind)[0] for kind in kinds]
        if found != hard:
            raise kit.Failure(f"the daemon's limits are {found}, not {hard}")
    result = uroce(clean_environment(folder), "run", "ibv_devinfo")
    if result.returncode != 0 or "PORT_ACTIVE" not in result.stdout or len(daemons(folder)) != 1:
        raise kit.Failure(f"another program: status {result.returncode}, {result.stdout}{result.stderr}")


def run_with_little_time():
    """A program's CPU, class and nice value are not those of the daemon, which serves others too."""
    folder = kit.scratch_folder()
    cpus = os.sched_getaffinity(0)

    def limit():
        os.sched_setaffinity(0, {max(cpus)})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.nice(3)

    code = "import os; print(os.sched_getaffinity(0), os.sched_getscheduler(0), os.nice(0))"
    result = uroce(clean_environment(folder), "run", "--sys=no", sys.executable, "-c", code, preexec_fn=limit)
    if result.stdout != f"{ {max(cpus)} } {os.SCHED_BATCH} {os.nice(0) + 3}\n":
        raise kit.Failure(f"the program's are {result.stdout}{result.stderr}")
    for pid in daemons(folder):
        found = os.sched_getaffinity(pid), os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)
        if not found[0] >= cpus or found[1] != os.SCHED_OTHER or found[2] and os.geteuid() == 0:
            raise kit.Failure(f"the daemon's are {found}")


def runs_share_a_daemon():
    """Eight at once, and one later, end up with one daemon; it goes when it has been idle."""
    folder = kit.scratch_folder()
    environment = clean_environment(folder)
    at_once = [subprocess.Popen([build.uroce, "run", "ibv_devices"], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(8)]
    for process in at_once:
        out, err = process.communicate(timeout=60)
        if process.returncode != 0 or "uroce0" not in out:
            raise kit.Failure(f"status {process.returncode}: {out}{err}")
    uroce(environment, "run", "ibv_devices")
    started = daemons(folder)
    if len(started) != 1:
        raise kit.Failure(f"daemons: {started}")
    kit.wait_until(lambda: not daemons(folder), 20, "the idle daemon's end")
    if os.path.exists(environment["UROCE_SOCKET"]):
        raise kit.Failure("its socket is still there")
    result = uroce(environment, "run", "ibv_devices")
    if result.returncode != 0:
        raise kit.Failure("the next run: " + result.stderr)


def starter_that_is_stopped():
    """Another process holds the lock: a run finds the daemon that serves nevertheless, or fails in bounded time."""
    folder = kit.scratch_folder()
    environment = clean_environment(folder)
    with open(environment["UROCE_SOCKET"] + ".start", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = time.monotonic()
        result = uroce(environment, "run", "ibv_devices")
        if result.returncode != 1 or "another uroce run has been starting a daemon for 30 seconds" not in result.stderr:
            raise kit.Failure(f"after {time.monotonic() - start:.0f} s: {result}")
        waits = subprocess.Popen([build.uroce, "run", "ibv_devices"], env=environment, stdout=subprocess.PIPE, text=True)
        kit.wait_until(lambda: lock.name in map(os.path.realpath, glob.glob(f"/proc/{waits.pid}/fd/*")), 10, "its lock")
        daemon = kit.Daemon(build, folder, name="uroce")
        try:
            if "uroce0" not in waits.communicate(timeout=20)[0]:
                raise kit.Failure("the daemon is not found")
        finally:
            daemon.stop()



def program_keeps_daemon():
    """A program that opens no device for longer than the daemon's idle time finds the daemon nevertheless."""
    result = uroce(clean_environment(kit.scratch_folder()), "run", "sh", "-c", "sleep 12; ibv_devices")
    if "uroce0" not in result.stdout:
        raise kit.Failure(result.stdout + result.stderr)


def stale_socket():
    """The socket of a daemon that was killed does not stand in the way."""
    folder = kit.scratch_folder()
    environment = clean_environment(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stale:
        stale.bind(environment["UROCE_SOCKET"])
    result = uroce(environment, "run", "ibv_devices")
    if result.returncode != 0 or "uroce0" not in result.stdout:
        raise kit.Failure(f"status {result.returncode}: {result.stderr}")


def silence_is_explained():
    """A program whose daemon does not answer finds no devices; the library says why, once."""
    environment = clean_environment(kit.scratch_folder())
    environment["LD_LIBRARY_PATH"] = build.libraries
    result = subprocess.run(["sh", "-c", "ibv_devices; ibv_devinfo"], env=environment, capture_output=True, text=True, timeout=60)
    line = f"uroce: no daemon answers at {environment['UROCE_SOCKET']} (UROCE_SOCKET): No such file or directory\n"
    if result.stderr.count(line) != 2 or "uroce0" in result.stdout:
        raise kit.Failure(f"{result.stdout!r}, {result.stderr!r}")


# The system's socket, in a mount namespace of its own: its owner alone may open it.
CLOSED_SOCKET = """
import os, socket, subprocess, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("/run/uroce.sock")
listener.listen()
os.chmod("/run/uroce.sock", 0o600)
sys.exit(subprocess.run(["setpriv", "--reuid", "65000", "--regid", "65000", "--clear-groups", "ibv_devices"]).returncode)
"""


def closed_socket_is_explained():
    """To a user whose runtime folder has no daemon, and to one without that folder."""
    namespace = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && exec /usr/bin/python3 -c \"$0\"", CLOSED_SOCKET]
    if os.geteuid() or subprocess.run([*namespace[:2], "mount", "-t", "tmpfs", "none", "/run"], capture_output=True).returncode:
        return
    line = "uroce: no daemon answers at /run/uroce.sock: Permission denied\n"
    for more in ({}, {"XDG_RUNTIME_DIR": "/no/such/folder"}):
        environment = without_runtime_folder(LD_LIBRARY_PATH=build.libraries, **more)
        result = subprocess.run(namespace, env=environment, capture_output=True, text=True, timeout=60)
        if result.stderr.count(line) != 1 or "uroce0" in result.stdout:
            raise kit.Failure(f"{more}: {result.stdout!r}, {result.stderr!r}")


def failures_are_explained():
    """No daemon can be started: status 1 and a line that says why."""
    folder = kit.scratch_folder()
    environment = clean_environment(folder)
    os.mkdir(os.path.join(folder, "taken"))
    for path, words in (("/no/such/folder/uroce.sock", "No such file or directory"), ("/" + "x" * 200, "longer than"),
                        (os.path.join(folder, "taken"), "is not a socket")):
        environment["UROCE_SOCKET"] = path
        result = uroce(environment, "run", "true")
        if result.returncode != 1 or words not in result.stderr:
            raise kit.Failure(f"{path}: status {result.returncode}, {result.stderr!r}")


def few_processes():
    """With each number of processes that is too small for the daemon, a line says so."""
    if os.geteuid() != 0:
        raise kit.Skipped("needs root, which is not limited itself")
    folder = kit.scratch_folder()
    os.chmod(folder, 0o777)

    def limit():
        user = 61000 + count  # without other processes: those that init has not yet waited for count, too
        resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
        os.setresuid(user, user, user)

    for count in range(1, 32):
        environment = clean_environment(folder)
        environment["UROCE_SOCKET"] = os.path.join(folder, f"{count}.sock")
        try:
            result = uroce(environment, "run", "--sys=no", "true", preexec_fn=limit)
        except PermissionError:
            raise kit.Skipped("other users cannot run the build")
        if result.returncode == 0:
            break
        if os.strerror(errno.EAGAIN) not in result.stderr:
            raise kit.Failure(f"{count} processes: status {result.returncode}, {result.stderr!r}")
    for pid in daemons(folder):
        os.kill(pid, signal.SIGKILL)
    if result.returncode != 0 or count < 5:
        raise kit.Failure(f"{count} processes: status {result.returncode}, {result.stderr!r}")


def without_runtime_folder(**more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "UROCE_", "XDG_"))}
    return {**environment, **more}


def places_of_the_daemon():
    """Without XDG_RUNTIME_DIR, or with another user's, the daemon is in /run/user/UID or in the home."""
    if os.path.exists(f"/run/user/{os.geteuid()}"):
        return
    home, foreign = kit.scratch_folder(), kit.scratch_folder()
    os.chmod(foreign, 0o777)
    os.makedirs(f"/tmp/uroce-{os.geteuid()}", 0o700, exist_ok=True)  # the last place, of an earlier daemon, is not chosen
    for more in ({}, {"XDG_RUNTIME_DIR": foreign}, {"XDG_RUNTIME_DIR": "/no/such"}):
        environment = without_runtime_folder(HOME=home, **more)
        result = uroce(environment, "run", "sh", "-c", "echo $UROCE_SOCKET")
        path = os.path.join(home, ".cache/uroce", socket.gethostname(), "uroce.sock")
        if result.stdout != path + "\n":
            raise kit.Failure(f"{more}: {result.stdout}{result.stderr}")
        if "uroce0" not in uroce(environment, "show", "devices").stdout:
            raise kit.Failure(f"{more}: uroce show does not find the daemon")
    for name in ("", ".cache/uroce", ".cache"):
        if os.stat(os.path.join(home, name)).st_mode & 0o077:
            raise kit.Failure(f"{name} is open to others")
    for pid in daemons(home):
        os.kill(pid, signal.SIGTERM)


def no_variables():
    """A program that has lost all variables finds the daemon in /run/user/UID, if that is the user's alone."""
    user = 61235
    folder = f"/run/user/{user}"
    command = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
    if os.geteuid() or not shutil.which("setpriv") or os.path.exists(folder) or \
            subprocess.run([*command, "test", "-x", build.uroced], check=False).returncode:
        return
    os.makedirs(folder, 0o700)
    os.chown(folder, user, user)
    path = os.path.join(folder, "uroce.sock")
    devices = [*command, "env", "-i", f"LD_LIBRARY_PATH={build.libraries}", "/usr/bin/ibv_devices"]
    daemon = None
    try:
        daemon = subprocess.Popen([*command, build.uroced, "--loopback", "--socket", path], stderr=subprocess.DEVNULL)
        kit.wait_until(lambda: os.path.exists(path), 20, "the daemon serves")
        for mode, found in ((0o700, True), (0o777, False)):
            os.chmod(folder, mode)
            result = subprocess.run(devices, capture_output=True, text=True, timeout=60)
            if ("uroce0" in result.stdout) != found:
                raise kit.Failure(f"{mode:o}: {result.stdout}{result.stderr}")
    finally:
        if daemon:
            daemon.terminate()
            daemon.wait()
        shutil.rmtree(folder)


def foreign_folder():
    """The folder in /tmp is another user's: the next place serves, or a line says whose it is and what helps."""
    user = 61234
    taken, home = f"/tmp/uroce-{user}", kit.scratch_folder()
    command = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", build.uroce]
    if os.geteuid() or not shutil.which("setpriv") or os.path.exists(taken) or \
            subprocess.run([*command[:-1], "test", "-x", build.uroced], check=False).returncode:
        return
    os.chown(home, user, user)
    os.mkdir(taken, 0o700)
    try:
        result = subprocess.run([*command, "run", "true"], env=without_runtime_folder(HOME="/"), capture_output=True, text=True,
                                timeout=60)
        if result.returncode != 1 or "belongs to root" not in result.stderr or "XDG_RUNTIME_DIR" not in result.stderr:
            raise kit.Failure(f"status {result.returncode}: {result.stderr}")
        result = subprocess.run([*command, "run", "ibv_devices"], env=without_runtime_folder(HOME=home), capture_output=True,
                                text=True, timeout=60)
        if result.returncode != 0 or "uroce0" not in result.stdout:
            raise kit.Failure(f"status {result.returncode}: {result.stdout}{result.stderr}")
    finally:
        os.rmdir(taken)
        for pid in daemons(home):
            os.kill(pid, signal.SIGTERM)


def signals():
    """Those that end the daemon in order: it removes its socket. A hang-up does not, where it was ignored (nohup)."""
    for number, action, ends in ((signal.SIGTERM, "default", True), (signal.SIGINT, "default", True),
                                 (signal.SIGHUP, "default", True), (signal.SIGHUP, "ignore", False)):
        daemon = kit.Daemon(build, kit.scratch_folder(), prefix=("env", f"--{action}-signal={signal.Signals(number).name[3:]}"))
        try:
            daemon.process.send_signal(number)
            if not ends:
                daemon.show("devices")
            elif daemon.process.wait(10) != 0 or os.path.exists(daemon.socket):
                raise kit.Failure(f"{number!r}: status {daemon.process.returncode}, socket {os.path.exists(daemon.socket)}")
        finally:
            daemon.stop()


def log_is_kept():
    """What a daemon wrote that crashed is there when the next one has started."""
    folder = kit.scratch_folder()
    environment = clean_environment(folder)
    log = environment["UROCE_SOCKET"] + ".log"
    with open(log, "w") as file:
        file.write("it crashed\n")
    # On a host with no addresses, as a daemon writes a line when the host has too many.
    host = ("unshare", "-n") if os.geteuid() == 0 else ()
    for _ in range(2):  # an empty log replaces none
        uroce(environment, "run", "true", prefix=host)
        for pid in daemons(folder):
            os.kill(pid, signal.SIGKILL)
        kit.wait_until(lambda: not daemons(folder), 10, "the daemon's end")
    with open(log + ".1") as file:
        if file.read() != "it crashed\n" or os.path.getsize(log):
            raise kit.Failure("the log is lost")


def show_topics():
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder)
    environment = daemon.environment()
    try:
        for topic in ("devices", "ports", "gids", "qps", "counters", "drops", "workers", "clients", "mr",
                      "steering"):
            result = uroce(environment, "show", topic)
            if result.returncode != 0 or not result.stdout:
                raise kit.Failure(f"{topic}: {result.returncode} {result.stderr}")
            result = uroce(environment, "show", topic, "--json")
            if result.returncode != 0 or json.loads(result.stdout) is None:
                raise kit.Failure(f"{topic} --json: {result.returncode} {result.stderr}")
        if "uroce0" not in uroce(environment, "show").stdout:
            raise kit.Failure("no uroce0 in the overview")
        if uroce(environment, "show", "nothing").returncode != 2:
            raise kit.Failure("an unknown topic is not refused")
    finally:
        daemon.stop()
    result = uroce(environment, "show")
    if result.returncode != 1 or "no uroced serves" not in result.stderr:
        raise kit.Failure(f"without a daemon: {result.returncode} {result.stderr}")


def killed_program():
    """kill -9 of one program: its queue pairs are gone within a second, others go on. Two workers have them."""
    daemon = kit.Daemon(build, kit.scratch_folder(), arguments=("--loopback", "--workers", "2"))
    programs = []
    try:
        def start(duration, qps):
            port = kit.free_port()
            command = ["ib_write_bw", "-F", "-x", "0", "-D", str(duration), "-q", str(qps), "-p", str(port)]
            server = kit.Program(daemon, command)
            programs.append(server)
            kit.await_listening(server, port, 20)
            client = kit.Program(daemon, command + ["127.0.0.1"])
            programs.append(client)
            return server, client

        survivor_server, survivor = start(6, 1)
        victim_server, victim = start(60, 4)
        kit.wait_until(lambda: len(daemon.show("qps")) == 10, 20, "ten queue pairs")
        if {qp["worker"] for qp in daemon.show("qps")} != {0, 1}:
            raise kit.Failure(f"not on both workers: {daemon.show('qps')}")
        for program in (victim, victim_server):  # the server may have noticed and ended already
            program.process.kill()
            pid = program.process.pid
            kit.wait_until(lambda: all(qp["pid"] != pid for qp in daemon.show("qps")), 1,
                           "the end of a killed program's queue pairs")
        if len(daemon.show("qps")) != 2:
            raise kit.Failure("the other programs' queue pairs are not there")
        kit.check_perftest(survivor.finish(40))
        survivor_server.finish(20)
        kit.wait_until(lambda: daemon.show("qps") == [], 1, "no queue pair")
        if not daemon.alive():
            raise kit.Failure("uroced is gone:\n" + daemon.log())
    finally:
        for program in programs:
            program.kill()
        daemon.stop()


def daemon_with_a_limit_of_files():
    """RLIMIT_FSIZE is for memfds, too: what needs one is refused, and SIGXFSZ does not end the daemon."""
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        for limit, status in ((0, 1), (resource.RLIM_INFINITY, 0)):
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            result = subprocess.run(["ibv_devinfo"], env=daemon.environment(), capture_output=True, text=True, timeout=20)
            if result.returncode != status or not daemon.alive():
                raise kit.Failure(f"limit {limit}: status {result.returncode}, {result.stdout}{result.stderr}{daemon.log()}")
    finally:
        daemon.stop()


def idle_processor_time():
    """An idle daemon: without programs, and with one that waits."""
    daemon = kit.Daemon(build, kit.scratch_folder())
    server = None
    try:
        for state in ("no program", "a waiting program"):
            if state != "no program":
                port = kit.free_port()
                server = kit.Program(daemon, ["ibv_rc_pingpong", "-g", "0", "-e", "-p", str(port)])
                kit.await_listening(server, port, 20)
            time.sleep(0.5)  # what a start leaves behind is over
            before, start = daemon.cpu_seconds(), time.monotonic()
            time.sleep(3)
            share = (daemon.cpu_seconds() - before) / (time.monotonic() - start)
            if share >= 0.02:
                raise kit.Failure(f"with {state} uroced takes {100 * share:.1f} % of a core")
    finally:
        if server is not None:
            server.kill()
        daemon.stop()


POINTS = (
    ("uroce run passes input, status and signals through", run_passes_through),
    ("uroce run starts a loopback device", run_serves_a_device),
    ("uroce run with few descriptors", run_with_few_descriptors),
    ("uroce run where SIGCHLD is ignored", run_where_a_signal_is_ignored),
    ("a daemon that does not answer is named", silence_is_explained),
    ("a system's socket that is closed to the user is named", closed_socket_is_explained),
    ("uroce run leaves the program no child and the daemon no loader variable", run_leaves_no_child),
    ("uroce run in a service: the daemon tells its manager nothing", run_in_a_service),
    ("uroce run of a program with soft limits", run_with_soft_limits),
    ("uroce run of a program with one CPU and little time", run_with_little_time),
    ("uroce runs at once share one daemon, which ends when idle", runs_share_a_daemon),
    ("uroce run beside another one that is stopped", starter_that_is_stopped),
    ("a running program keeps its daemon", program_keeps_daemon),
    ("a stale socket is replaced", stale_socket),
    ("uroce run says why it cannot start a daemon", failures_are_explained),
    ("uroce run with too few processes", few_processes),
    ("places of the private daemon", places_of_the_daemon),
    ("a folder of another user", foreign_folder),
    ("a program without variables", no_variables),
    ("signals that end the daemon", signals),
    ("the log of a crashed daemon", log_is_kept),
    ("uroce show, every topic, as tables and JSON", show_topics),
    ("kill -9 of one program", killed_program),
    ("a daemon that may make no large file", daemon_with_a_limit_of_files),
    ("an idle uroced takes less than 2 % of a core", idle_processor_time),
)


WAITS = (runs_share_a_daemon, starter_that_is_stopped, program_keeps_daemon)


def main():
    global build
    arguments = kit.point_arguments()
    build = kit.Build(arguments.build)
    points = [p for p in POINTS if arguments.match in p[0]]
    tap = kit.Tap(len(points))
    # What mostly waits for a daemon to be idle for long enough does so beside the others.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = {function: pool.submit(function) for _, function in points if function in WAITS}
        for name, function in points:
            tap.point(name, waiting[function].result if function in waiting else function)
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
