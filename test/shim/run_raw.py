#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_raw over loopback daemons with one worker and with several, and by a user without the right to raw packets. TAP.

usage: run_raw.py --build DIR TEST_RAW"""
import errno
import os
import pwd
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

WORKERS = (1, 3)
KILLS = 20


def run(daemon, command, seconds=100):
    return subprocess.run(command, env=daemon.environment({"CMOCKA_MESSAGE_OUTPUT": "TAP"}), timeout=seconds, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def left_over(daemon):
    return {topic: rows for topic in ("wqs", "rwq_tables", "flows", "qps") if (rows := daemon.show(topic))}


def check_permission(daemon, program):
    """As another user, without capabilities. (With one, the process could not open the device.)"""
    what = "another user may not have raw packets"
    if os.geteuid() or not shutil.which("setpriv"):
        return [(True, what + " # SKIP needs root and setpriv", [])]
    user_entry = pwd.getpwnam("nobody")
    user = ["setpriv", "--reuid", str(user_entry.pw_uid), "--regid", str(user_entry.pw_gid), "--clear-groups"]
    if run(daemon, user + ["test", "-x", program]).returncode:
        return [(True, what + " # SKIP other users cannot reach the build", [])]
    out = run(daemon, user + [program, "denied"])
    return [(out.returncode == 0, what, out.stdout.splitlines())]


# Opens the device, and becomes another program; its child, who has the connection, asks for a work queue of nothing then.
# The file in /proc is root's when the rights have changed.
BORROW = f"""VERSION, SIZE = {kit.control_version()}, {kit.control_size()}""" + """
import os, signal, socket, struct, sys
OPEN, CREATE_WQ, OPENER = 4, 29, os.getpid()
daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
daemon.connect(os.environ["UROCE_SOCKET"])
def call(kind):
    daemon.send(struct.pack("=4sHHIi", b"UROC", VERSION, kind, 1, 0).ljust(SIZE, b"\\0"))
    return struct.unpack_from("=i", daemon.recv(SIZE), 12)[0]
if call(OPEN):
    sys.exit("not opened")
here, there = os.pipe()
if os.fork():
    os.execv(sys.argv[1], sys.argv[1:])
os.close(there)
os.read(here, 1)
while os.stat(f"/proc/{OPENER}/status").st_uid:
    pass
print(call(CREATE_WQ), flush=True)
os.kill(OPENER, signal.SIGKILL)
"""


def check_borrowed(daemon, folder):
    """The rights of a set-uid program do not extend to a process that executes it after opening the device."""
    what = "the rights of a program that is executed later do not count"
    if os.geteuid() or not shutil.which("setpriv") or os.statvfs(folder).f_flag & os.ST_NOSUID:
        return [(True, what + " # SKIP needs root, setpriv and set-uid programs", [])]
    sleep = shutil.copy(shutil.which("sleep"), os.path.join(folder, "sleep"))
    os.chmod(sleep, 0o4755)
    user_entry = pwd.getpwnam("nobody")
    out = run(daemon, ["setpriv", "--reuid", str(user_entry.pw_uid), "--regid", str(user_entry.pw_gid), "--clear-groups",
                       sys.executable, "-c", BORROW, sleep, "20"])
    return [(out.stdout == f"{-errno.EPERM}\n", what, out.stdout.splitlines())]


def check_vectors(daemon, program):
    """Work queues live on the worker that their completion vector names, except the first."""
    process = subprocess.Popen([program, "vectors"], env=daemon.environment(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        numbers = [int(line) for line in iter(process.stdout.readline, "end\n") if line]
        workers = {row["wqn"]: row["worker"] for row in daemon.show("wqs")}
        process.communicate("", timeout=20)
    finally:
        process.kill()
    good = len(numbers) > 1 and all(workers[n] == vector for vector, n in enumerate(numbers) if vector)
    return [(good, "work queues are where their completion vectors say", [str(numbers), str(workers)])]


def check_kills(daemon, program):
    """Programs that are killed while frames are on their way, at other points of the test each."""
    for lines in range(KILLS):
        process = subprocess.Popen([program], env=daemon.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for _ in range(lines + 1):
                process.stdout.readline()
        finally:
            process.kill()
            process.communicate()
    kit.wait_until(lambda: not left_over(daemon), 20, "nothing left of programs that were killed")
    return [(daemon.alive(), f"{KILLS} programs were killed", [])]


def main():
    arguments = kit.point_arguments("program", match=False)
    results = []
    for workers in WORKERS:
        folder = kit.scratch_folder()
        os.chmod(folder, 0o755)  # other users look for the socket there
        daemon = kit.Daemon(kit.Build(arguments.build), folder,
                            arguments=("--loopback", "--workers", str(workers), "--mode", "0666"))
        try:
            results += kit.cmocka_points(daemon, arguments.program, f"workers: {workers}")
            if workers == 1:
                results += check_permission(daemon, arguments.program)
                results += check_borrowed(daemon, folder)
            else:
                results += check_vectors(daemon, arguments.program)
            results += check_kills(daemon, arguments.program)
            left = left_over(daemon)
            results.append((not left, f"nothing is left of the programs, workers: {workers}", [str(left)]))
            results.append((daemon.alive(), f"uroced survives, workers: {workers}", [daemon.log()]))
        finally:
            daemon.stop()
    return kit.print_points(results)


if __name__ == "__main__":
    sys.exit(main())
