# SPDX-License-Identifier: BSD-3-Clause
"""Attacks that speak to the control socket byte by byte. Each function starts one as a process of its own, which says
"ready" and goes on until it is killed."""
import ctypes
import os
import struct
import time

import run_control as control
import silent_fuse
import uroce_kit as kit
import uroce_net as net
from run_control import Client
from run_isolation import pipelined

PR_SET_DUMPABLE, PR_SET_PDEATHSIG, SIGKILL = 4, 1, 9
SHOWN = 10000  # queue pairs
libc = ctypes.CDLL(None, use_errno=True)


def become(uid):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    libc.prctl(PR_SET_DUMPABLE, 1)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL)


class Forked:
    """What the harness needs of subprocess.Popen, of a function (daemon, say_ready) that runs in a process of its own."""

    def __init__(self, function, daemon, uid):
        ready, told = os.pipe()
        self.returncode = None
        self.stdout = os.fdopen(ready)
        self.pid = os.fork()
        if not self.pid:
            try:
                os.setpriority(os.PRIO_PROCESS, 0, -10)
                self.prepare()
                if uid is not None:
                    become(uid)
                function(daemon, lambda: os.write(told, b"ready\n"))
            except BaseException as failure:
                os.write(told, f"{failure!r}\n".encode())
            finally:
                os._exit(1)
        os.close(told)

    def prepare(self):
        """Before the process changes its user."""

    def poll(self):
        if self.returncode is None and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.wait()
        return self.returncode

    def kill(self):
        if self.returncode is None:
            os.kill(self.pid, SIGKILL)

    def wait(self):
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def freeze(daemon, say_ready):
    clients = [Client(daemon) for _ in range(10)]
    say_ready()
    while True:
        for client in clients:
            client.send(control.message(control.FREEZE_MRS, struct.pack("<I", 0)))
        for client in clients:
            client.receive()


def freezes(daemon, uid):
    return Forked(freeze, daemon, uid)


def show_loop(daemon, say_ready):
    client = Client(daemon)
    pd, cq = client.handle(control.ALLOC_PD), client.create_cq()
    one = control.message(control.CREATE_QP, control.qp_request(pd, cq, cq, control.RC, caps=(1, 1, 1, 1, 0)))
    pipelined(client, (one for _ in range(SHOWN)))
    say_ready()
    while True:
        client.must(control.SHOW)


def show(daemon, uid):
    return Forked(show_loop, daemon, uid)


class SilentMemory(Forked):
    """Connections that register memory of a file system that does not answer, one after the other."""

    def __init__(self, daemon, uid):
        self.system = silent_fuse.start()
        super().__init__(self.attack, daemon, uid)

    def prepare(self):
        self.memory = silent_fuse.map_file(self.system.open(), 4096)

    def attack(self, daemon, say_ready):
        memory, said = self.memory, False
        while True:
            client = Client(daemon)
            pd = client.handle(control.ALLOC_PD)
            client.send(control.message(control.REG_MR, struct.pack("<IIQQQ", pd, 1, memory, 4096, memory)))
            if not said:
                say_ready()
            said = True
            time.sleep(0.05)

    def wait(self):
        self.system.end()
        return super().wait()


def silent_memory(daemon, uid):
    try:
        return SilentMemory(daemon, uid)
    except kit.Skipped as reason:
        raise net.Unavailable(str(reason))


class SilentDescriptors(SilentMemory):
    """Connections that pass descriptors of a file system that does not answer."""

    def prepare(self):
        self.fd = self.system.open()

    def attack(self, daemon, say_ready):
        said = False
        while True:
            clients = [Client(daemon, opened=False) for _ in range(4)]
            for client in clients:
                client.send(control.message(control.QUERY_DEVICE), [self.fd] * 50)
            if not said:
                say_ready()
            said = True
            time.sleep(0.05)


def silent_descriptors(daemon, uid):
    try:
        return SilentDescriptors(daemon, uid)
    except kit.Skipped as reason:
        raise net.Unavailable(str(reason))


def wake_loop(daemon, say_ready):
    """Wakes the worker without work, and takes away what wakes it, by the descriptor that the daemon gave."""
    client = Client(daemon)
    eventfds = [fd for fd in client.fds if "eventfd" in os.readlink(f"/proc/self/fd/{fd}")]
    if not eventfds:
        raise kit.Failure("no descriptor for wake-ups")
    for fd in eventfds:
        os.set_blocking(fd, False)
    say_ready()
    while True:
        for fd in eventfds:
            os.eventfd_write(fd, 1)
            try:
                os.eventfd_read(fd)
            except BlockingIOError:
                pass


def wakes(daemon, uid):
    return Forked(wake_loop, daemon, uid)
