#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long a program waits for the daemon while another one does its worst. TAP.

usage: run_isolation.py --build DIR [--full] [--only NAME]...

Beside each attack a victim connects, opens the device and allocates a protection domain, again and again. The point fails when
the victim waits longer than LIMIT_MS at the 99th percentile, or longer than MOST_MS once, beyond what the scheduler takes: a
process beside answers a byte by a byte, and is measured after each visit. The daemon, the victim and that process have priority over
others. --full takes the numbers of doc/isolation.md."""
import argparse
import fcntl
import gc
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import run_control as control
import silent_fuse
import uroce_kit as kit
from run_control import Client

LIMIT_MS = 10
MOST_MS = 50  # once
# A visit is a chain of threads that wake each other, and each may wait for a processor. As many wake-ups as this, each as long as
# those of a process beside, are the scheduler's and not the daemon's.
HOPS = 4
# Interruptions of a worker in a second: a user's credit is for 1000 and, once, for 1000 more; the victim needs some.
MOST_STOPS = 4000
SETTLE_SECONDS = 0.3
SHOWN_KIB = 4096  # what a daemon that has answered `show` once may grow by further answers
WINDOW = 32  # requests that an attacker sends before it reads the replies
USER = 65534

full = False


def number(short, long):
    return long if full else short


# ---- the victim ----


def visit(daemon):
    """Milliseconds for the connection and the device, and for the protection domain."""
    start = time.perf_counter()
    client = Client(daemon)
    opened = time.perf_counter()
    client.handle(control.ALLOC_PD)
    done = time.perf_counter()
    client.close()
    return (opened - start) * 1000, (done - opened) * 1000


class Echo:
    """A process that answers each byte by one: what two wake-ups take."""

    def __init__(self):
        self.near, far = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            self.near.close()
            try:
                while byte := far.recv(1):
                    far.send(byte)
            finally:
                os._exit(0)
        far.close()

    def measure(self):
        """Milliseconds."""
        start = time.perf_counter()
        self.near.send(b"x")
        self.near.recv(1)
        return (time.perf_counter() - start) * 1000

    def end(self):
        self.near.close()
        os.waitpid(self.pid, 0)


def at(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def measure(daemon, attack_ends, seconds):
    """Waits while the attack lasts, and for SETTLE_SECONDS after, but at most for these seconds."""
    opens, calls, echoes, ended, echo = [], [], [], None, Echo()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        opened, called = visit(daemon)
        opens.append(opened)
        calls.append(called)
        echoes.append(echo.measure())
        if ended is None and attack_ends():
            ended = time.monotonic()
        if ended is not None and time.monotonic() > ended + SETTLE_SECONDS:
            break
        time.sleep(0.002)
    echo.end()
    return opens, calls, echoes


def interruptions(daemon):
    return sum(worker["calls"] for worker in daemon.show("workers"))


# ---- attackers: each runs in a process of its own, until it returns or is killed ----


def pipelined(client, messages):
    waiting = 0
    for data in messages:
        client.send(data)
        waiting += 1
        if waiting == WINDOW:
            client.receive()
            waiting -= 1
    while waiting:
        client.receive()
        waiting -= 1


def windows(daemon):
    """ends with very many memory windows"""
    client = Client(daemon)
    pd = client.handle(control.ALLOC_PD)
    one = control.message(control.ALLOC_MW, struct.pack("<II", pd, 2))
    pipelined(client, (one for _ in range(number(10000, 300000))))


def connections(daemon):
    """makes very many connections, and ends"""
    clients = [Client(daemon) for _ in range(number(300, 2000))]
    return clients


def show(daemon):
    """asks for the state of very many queue pairs, again and again"""
    client = Client(daemon)
    pd, cq = client.handle(control.ALLOC_PD), client.create_cq()
    one = control.message(control.CREATE_QP, control.qp_request(pd, cq, cq, control.RC, caps=(1, 1, 1, 1, 0)))
    pipelined(client, (one for _ in range(number(3000, 100000))))
    for _ in range(number(3, 5)):
        client.must(control.SHOW)


def regions(daemon):
    """registers and deregisters a large memfd again and again"""
    length = number(64 << 20, 1 << 30)
    fd = os.memfd_create("large", os.MFD_ALLOW_SEALING)
    os.truncate(fd, length)
    memory = mmap.mmap(fd, length)
    for offset in range(0, length, 4096):
        memory[offset] = 1
    fcntl.fcntl(fd, 1033, 2)  # F_ADD_SEALS: F_SEAL_SHRINK
    client = Client(daemon)
    pd = client.handle(control.ALLOC_PD)
    body = struct.pack("<IIQQQIIQ", pd, 1, 1 << 30, length, 1 << 30, 1, 1, 0)
    end = time.monotonic() + number(1, 5)
    while time.monotonic() < end:
        reply = client.must(control.REG_MR, body, [fd])
        handle, mapped = struct.unpack_from("<I8xI", reply, 48)
        if not mapped:
            raise kit.Failure("it is not mapped")
        client.must(control.DEREG_MR, struct.pack("<I", handle))


def freezes(daemon):
    """freezes its memory by ten connections, again and again"""
    clients = [Client(daemon) for _ in range(10)]
    end = time.monotonic() + number(1, 5)
    while time.monotonic() < end:
        for client in clients:
            client.send(control.message(control.FREEZE_MRS, struct.pack("<I", 0)))
        for client in clients:
            client.receive()


def unmaps(daemon):
    """unmaps its memory again and again, as fork() does, and has regions that stay mapped"""
    fd = os.memfd_create("mapped", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 1 << 20)
    os.pwrite(fd, bytes(1 << 20), 0)
    fcntl.fcntl(fd, 1033, 2)  # F_ADD_SEALS: F_SEAL_SHRINK
    client = Client(daemon)
    pd = client.handle(control.ALLOC_PD)
    for i in range(number(1000, 10000)):
        body = struct.pack("<IIQQQIIQ", pd, 1, 1 << 30, 4096, 1 << 30, 1, 1, i % 256 * 4096)
        client.must(control.REG_MR, body, [fd])
    end = time.monotonic() + number(1, 5)
    while time.monotonic() < end:
        pipelined(client, (control.message(control.FREEZE_MRS, struct.pack("<I", 1)) for _ in range(1000)))


system = None


def silent_memory(daemon):
    """registers memory of a file system that does not answer"""
    client = Client(daemon)
    client.reg_mr(client.handle(control.ALLOC_PD), silent_fuse.map_file(system.open(), 4096), 4096)
    time.sleep(number(0.5, 3))


def silent_descriptors(daemon):
    """passes descriptors of a file system that does not answer"""
    fd = system.open()
    region = struct.pack("<IIQQQIIQ", 1, 0, 4096, 4096, 4096, 1, 0, 0)
    for kind, body, count in ((control.REG_MR, region, 1), (control.OPEN_XRCD, struct.pack("<I", os.O_CREAT), 1),
                              (control.REG_MR, region, 5), (control.QUERY_DEVICE, b"", 200)) * 4:
        Client(daemon, opened=False).send(control.message(kind, body), [fd] * count)
    time.sleep(number(0.5, 3))


def held_queues(daemon):
    """holds the lock of a queue's memory while it destroys the queue"""
    client = Client(daemon)
    reply = client.must(control.CREATE_CQ, struct.pack("<III", 65536, 0, 0))
    slab = os.dup(client.fds[0])
    silent = silent_fuse.map_file(system.open(), 4096)
    write = silent_fuse.libc.write
    write.argtypes = (silent_fuse.ctypes.c_int, silent_fuse.ctypes.c_void_p, silent_fuse.ctypes.c_size_t)
    threading.Thread(target=lambda: write(slab, silent, 4096), daemon=True).start()
    time.sleep(0.1)
    client.must(control.DESTROY_CQ, struct.pack("<IIQ", struct.unpack_from("<I", reply, 12)[0], 0, 0))
    time.sleep(number(0.5, 3))


def ended_connections(daemon):
    """ends connections with descriptors on their way, while all its errands wait"""
    fds = [system.open() for _ in range(4)]
    os.setgid(USER)
    os.setuid(USER)
    for fd in fds:
        Client(daemon, opened=False).send(control.message(control.REG_MR), [fd])
    for _ in range(number(5000, 30000)):
        try:
            client = Client(daemon, opened=False)
            client.send(control.message(control.QUERY_DEVICE), [0])
            client.close()
        except (OSError, control.Gone):
            pass


def shown_memory(daemon):
    """What `show` of very many queue pairs has needed is given back; not an attack beside a victim."""
    client = Client(daemon)
    pd, cq = client.handle(control.ALLOC_PD), client.create_cq()
    one = control.message(control.CREATE_QP, control.qp_request(pd, cq, cq, control.RC, caps=(1, 1, 1, 1, 0)))
    pipelined(client, (one for _ in range(number(3000, 100000))))
    client.must(control.SHOW)
    before = resident(daemon)
    for _ in range(number(20, 5)):
        client.must(control.SHOW)
    after = resident(daemon)
    client.close()
    print(f"# resident: {before} KiB, then {after}", flush=True)
    if after > before + SHOWN_KIB:
        raise kit.Failure(f"the daemon's memory grew from {before} to {after} KiB")


def resident(daemon):
    """KiB, pages of shared memory among them."""
    with open(f"/proc/{daemon.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


SILENT = (silent_memory, silent_descriptors, held_queues, ended_connections)
ATTACKS = (windows, connections, show, regions, freezes, unmaps) + SILENT
FREEZES = (freezes, unmaps)


def start(daemon, attack):
    """The attacker's process; it is killed where it stands when it is done, as the end is a part of some attacks."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            kept = attack(daemon)
            status = 0
            del kept
        except BaseException as failure:
            print(f"# {attack.__name__}: {failure!r}", flush=True)
        finally:
            if not status:
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(status)
    return pid


def run(daemon, attack):
    global system
    if attack in SILENT:
        system = silent_fuse.start()
    pid = start(daemon, attack) if attack else None
    end, status = time.monotonic() + 1, []

    def ended():
        if not pid:
            return time.monotonic() > end
        # A process that closes a silent file cannot end, but it has been killed.
        if not status and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            status.append(os.waitpid(pid, 0)[1])
        with open(f"/proc/{pid}/status") if not status else open(os.devnull) as file:
            state = file.read()
        return bool(status) or "ShdPnd:\t0000000000000100" in state or "State:\tZ" in state

    stops, begun = interruptions(daemon), time.monotonic()
    try:
        opens, calls, echoes = measure(daemon, ended, 120)
    finally:
        if attack in SILENT:
            system.end()
        if pid and not status:
            os.kill(pid, signal.SIGKILL)
            status.append(os.waitpid(pid, 0)[1])
    print(f"# {attack.__name__ if attack else 'nothing'}: {len(opens)} visits; open: median {at(opens, 0.5):.2f}, "
          f"p99 {at(opens, 0.99):.2f}, most {max(opens):.2f} ms; call: median {at(calls, 0.5):.3f}, "
          f"p99 {at(calls, 0.99):.2f}, most {max(calls):.2f} ms", flush=True)
    print(f"# a process beside: median {at(echoes, 0.5):.3f}, p99 {at(echoes, 0.99):.2f}, most {max(echoes):.2f} ms", flush=True)
    stops = (interruptions(daemon) - stops) / (time.monotonic() - begun)
    print(f"# {stops:.0f} interruptions of the worker in a second", flush=True)
    if attack in FREEZES and stops > MOST_STOPS:
        raise kit.Failure("the attacker stops the worker more often than a user may")
    if pid and status[0] != signal.SIGKILL:
        raise kit.Failure(f"the attack failed: status {status[0]}")
    if max(at(opens, 0.99), at(calls, 0.99)) > LIMIT_MS + HOPS * at(echoes, 0.99):
        raise kit.Failure(f"the victim waits for more than {LIMIT_MS} ms")
    if max(opens + calls) > MOST_MS + HOPS * max(echoes):
        raise kit.Failure(f"the victim waits for more than {MOST_MS} ms once")


def main():
    global full
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    full = options.full
    kit.die_on_signals()
    gc.disable()
    resource.setrlimit(resource.RLIMIT_NOFILE, (number(4096, 16384),) * 2)  # the daemon's, which it raises as far as it may
    folder = kit.scratch_folder()
    os.chmod(folder, 0o755)
    daemon = kit.Daemon(kit.Build(options.build), folder, arguments=("--loopback", "--mode", "0666"))
    if os.geteuid() == 0:
        for thread in os.listdir(f"/proc/{daemon.process.pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), -20)
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    attacks = [a for a in (None, *ATTACKS) if not options.only or (a and a.__name__ in options.only)]
    shown = not options.only or shown_memory.__name__ in options.only
    report = kit.Tap(len(attacks) + shown)
    for attack in attacks:
        report.point(attack.__name__.replace("_", "-") if attack else "nothing", lambda a=attack: run(daemon, a))
    if shown:
        report.point(shown_memory.__name__.replace("_", "-"), lambda: shown_memory(daemon))
    daemon.stop()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
