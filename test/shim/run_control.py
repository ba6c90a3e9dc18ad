#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hostile, broken and dying programs on the control socket of uroced: they cannot harm others. TAP.

usage: run_control.py --build DIR"""
import argparse
import array
import errno
import fcntl
import grp
import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import silent_fuse
import uroce_kit as kit

SIZE, MAGIC, VERSION = kit.control_size(), 0x434F5255, kit.control_version()
(QUERY_DEVICE, QUERY_PORT, QUERY_GID, OPEN, ALLOC_PD, DEALLOC_PD, REG_MR, DEREG_MR, CREATE_CHANNEL, DESTROY_CHANNEL,
 CREATE_CQ, DESTROY_CQ, CREATE_QP, MODIFY_QP, QUERY_QP, DESTROY_QP, CREATE_AH, DESTROY_AH, CREATE_SRQ, MODIFY_SRQ,
 QUERY_SRQ, DESTROY_SRQ, OPEN_XRCD, CLOSE_XRCD, ALLOC_MW, DEALLOC_MW, ATTACH_MCAST, DETACH_MCAST, CREATE_WQ,
 MODIFY_WQ, DESTROY_WQ, CREATE_RWQ_IND, MODIFY_RWQ_IND, DESTROY_RWQ_IND, CREATE_FLOW, DESTROY_FLOW, SET_ENTROPY,
 SHOW, FREEZE_MRS, THAW_MRS, REMAP_MR, GET_UFFD, HOT_MRS) = range(1, 44)
RAISE_CQ = HOT_MRS + 21  # after 20 messages of rdma_cm
QUERY_FLOW = RAISE_CQ + 5
MODIFY_CQ = QUERY_FLOW + 1
JOIN, IMPORT, UNIMPORT, CM_WITH_QP, CREATE_QP_IN, INHERIT, FAULT, OPEN_QP = range(MODIFY_CQ + 1, MODIFY_CQ + 9)
CREATE_COUNTER, DESTROY_COUNTER, ATTACH_COUNTER, JUDGE, WATCH = range(OPEN_QP + 1, OPEN_QP + 6)
LAST = WATCH
RC, UC, UD, RAW, XRC_SEND, XRC_RECV = 2, 3, 4, 8, 9, 10
HUGE = (1 << 32) - 1

build = None


class Gone(kit.Failure):
    """The daemon closed the connection."""


def message(kind, body=b"", magic=MAGIC, version=VERSION, seq=1, size=SIZE):
    return (struct.pack("<IHHIi", magic, version, kind, seq, 0) + body).ljust(size, b"\0")[:size]


def srq_request(pd, kind=0, xrcd=0, cq=0, max_wr=16, max_sge=1):
    return struct.pack("<IIIIIII", pd, kind, xrcd, cq, max_wr, max_sge, 0)


def qp_request(pd, send_cq, recv_cq, kind, srq=0, xrcd=0, caps=(1, 1, 1, 1, 0), rx_hash=(0, 0, 0, 0)):
    """rx_hash: function, fields, table, length of the key."""
    return struct.pack("<8I4I40x4x5I", pd, send_cq, recv_cq, kind, 0, 0, srq, xrcd, *rx_hash, *caps)


class Client:
    """A connection that speaks the protocol byte by byte."""

    def __init__(self, daemon, opened=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Waits in the kernel while many others connect; with settimeout it would fail.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 20, 0))
        self.socket.connect(daemon.socket)
        self.socket.settimeout(20)
        self.fds = []
        if opened:
            self.must(OPEN)

    def send(self, data, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], rights)
        except (BrokenPipeError, ConnectionResetError):
            raise Gone()
        except PermissionError:  # Linux 6.16 and later: not before the connection is accepted
            if self.call(QUERY_DEVICE)[0]:
                raise Gone()
            self.socket.sendmsg([data], rights)

    def receive(self):
        """Status and body of the next reply; its descriptors replace self.fds."""
        self.drop_fds()
        try:
            data, control, _, _ = self.socket.recvmsg(SIZE, socket.CMSG_SPACE(16))
        except ConnectionResetError:
            raise Gone()
        for level, kind, bytes_ in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self.fds += array.array("i", bytes_)
        if not data:
            raise Gone()
        if len(data) != SIZE:
            raise kit.Failure(f"a reply of {len(data)} bytes")
        return struct.unpack_from("<i", data, 12)[0], data

    def call(self, kind, body=b"", fds=()):
        self.send(message(kind, body), fds)
        return self.receive()

    def must(self, kind, body=b"", fds=()):
        status, data = self.call(kind, body, fds)
        if status:
            raise kit.Failure(f"message {kind} failed with {status}")
        return data[16:]

    def handle(self, kind, body=b""):
        return struct.unpack_from("<I", self.must(kind, body))[0]

    def create_cq(self, channel=0, cqe=16):
        return struct.unpack_from("<I", self.must(CREATE_CQ, struct.pack("<III", cqe, channel, 0)), 12)[0]

    def create_qp(self, pd, cq, send_wr=16, kind=RC, srq=0):
        reply = self.must(CREATE_QP, qp_request(pd, cq, cq, kind, srq, caps=(send_wr, 16, 1, 1, 0)))
        return struct.unpack_from("<I", reply, 112)[0]

    def create_qp_at(self, pd, cq, send_wr=16):
        """Its number, slab, offset there and bytes."""
        reply = self.must(CREATE_QP, qp_request(pd, cq, cq, RC, caps=(send_wr, 16, 1, 1, 0)))
        bytes_, slab, offset = struct.unpack_from("<QQQ", reply, 160)
        return struct.unpack_from("<I", reply, 112)[0], slab, offset, bytes_

    def destroy_qp(self, qpn):
        """The slab that went with it, or 0."""
        return struct.unpack_from("<Q", self.must(DESTROY_QP, struct.pack("<IIQ", qpn, 0, HUGE)), 8)[0]

    def create_srq(self, pd, kind=0, xrcd=0, cq=0, max_wr=16, max_sge=1):
        return struct.unpack_from("<I", self.must(CREATE_SRQ, srq_request(pd, kind, xrcd, cq, max_wr, max_sge)), 32)[0]

    def reg_mr(self, pd, addr, length):
        body = struct.pack("<IIQQQ", pd, 1, addr, length, addr)
        return struct.unpack_from("<I", self.must(REG_MR, body), 48)[0]

    def drop_fds(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def close(self):
        self.drop_fds()
        self.socket.close()


def state(daemon):
    """The daemon's state as CTL_SHOW gives it."""
    client = Client(daemon, opened=False)
    data = client.must(SHOW)
    length = struct.unpack_from("<Q", data, 8)[0]
    text = os.pread(client.fds[0], length, 0)
    client.close()
    found = json.loads(text)
    found["clients"] = [c for c in found["clients"] if c.get("device")]
    return found


def resources(daemon):
    """Descriptors and mappings of the daemon."""
    pid = daemon.process.pid
    with open(f"/proc/{pid}/maps") as maps:
        return len(os.listdir(f"/proc/{pid}/fd")), sum("uroce-" in line for line in maps)


def unused(daemon):
    """What it has without programs: the least seen in a while, since it closes what others closed a moment later."""
    least, deadline = resources(daemon), time.monotonic() + 0.3
    while time.monotonic() < deadline:
        least = min(least, resources(daemon))
        time.sleep(0.01)
    return least


def await_clean(daemon, seconds=1.0):
    """All programs' objects gone, and what they cost, within the time."""
    deadline = time.monotonic() + seconds
    while True:
        now = state(daemon)
        if not now["clients"] and not now["qps"] and resources(daemon) == daemon.unused:
            return
        if time.monotonic() > deadline:
            raise kit.Failure(f"after {seconds} s: {now['clients']}, {len(now['qps'])} qps, "
                              f"descriptors and mappings {resources(daemon)}, unused {daemon.unused}")
        time.sleep(0.01)


def serves(daemon):
    client = Client(daemon)
    pd = client.handle(ALLOC_PD)
    client.create_qp(pd, client.create_cq())
    client.close()


def expect_last_word(daemon, data, status, fds=()):
    client = Client(daemon, opened=False)
    client.send(data, fds)
    got, reply = client.receive()
    if got != status or struct.unpack_from("<IH", reply) != (MAGIC, VERSION):
        raise kit.Failure(f"answered {got} instead of {status}")
    try:
        client.receive()
    except Gone:
        client.close()
        return
    raise kit.Failure("the connection stays open")


def framing(daemon):
    for size in (1, 16, SIZE - 1, SIZE + 1, 4096):
        expect_last_word(daemon, message(QUERY_DEVICE, size=size), -errno.EPROTO)
    expect_last_word(daemon, message(QUERY_DEVICE, magic=1), -errno.EPROTO)
    expect_last_word(daemon, message(QUERY_DEVICE, version=VERSION - 1), -errno.EPROTONOSUPPORT)
    expect_last_word(daemon, message(QUERY_DEVICE, version=VERSION + 1), -errno.EPROTONOSUPPORT)
    for fds in (19, 250):
        expect_last_word(daemon, message(REG_MR), -errno.EPROTO, fds=[0] * fds)
        expect_last_word(daemon, message(QUERY_DEVICE, magic=1), -errno.EPROTO, fds=[0] * fds)
    client = Client(daemon, opened=False)
    for kind in (0, LAST + 1, 1000, 65535):
        if client.call(kind)[0] != -errno.EOPNOTSUPP:
            raise kit.Failure(f"message {kind} is not refused")
        if client.call(kind, fds=[0] * 250)[0] != -errno.EINVAL:
            raise kit.Failure(f"message {kind} with descriptors is not refused")
    client.must(QUERY_DEVICE)
    client.close()
    await_clean(daemon)


def garbage(daemon):
    """Any type, any body, any descriptors: an answer each time, and in the end nothing is left."""
    source = random.Random(1)
    small = list(range(8)) + [1 << 31, (1 << 32) - 1]
    with open("/dev/null") as null:
        for _ in range(40):
            client = Client(daemon, opened=source.random() < 0.9)
            for _ in range(400):
                words = [source.choice(small) if source.random() < 0.8 else source.getrandbits(32) for _ in range(60)]
                fds = [null.fileno()] * source.choice((0, 0, 0, 1, 4))
                client.call(source.randrange(LAST + 2), struct.pack("<60I", *words), fds)
            client.close()
    await_clean(daemon)
    serves(daemon)


def services(daemon):
    """Handles that are wrong, of the wrong kind, another client's or destroyed, and huge values: each is refused, without harm."""
    client, other = Client(daemon), Client(daemon)
    memory = mmap.mmap(-1, 4096)
    with open("/dev/null") as file:
        pd, cq = client.handle(ALLOC_PD), client.create_cq()
        xrcd = struct.unpack_from("<I", client.must(OPEN_XRCD, struct.pack("<I", os.O_CREAT), [file.fileno()]), 4)[0]
    srq, xrc_srq = client.create_srq(pd), client.create_srq(pd, 1, xrcd, cq)
    window = struct.unpack_from("<I", client.must(ALLOC_MW, struct.pack("<II", pd, 2)), 8)[0]
    qp, mr = client.create_qp(pd, cq), client.reg_mr(pd, memory_address(memory), 4096)
    theirs = other.handle(ALLOC_PD), other.create_cq()
    handles = {0, 1, HUGE, HUGE - 1, 1 << 31, pd, cq, xrcd, srq, xrc_srq, window, qp, mr, *theirs}
    kept = {MODIFY_SRQ: {srq, xrc_srq}, QUERY_SRQ: {srq, xrc_srq}, DESTROY_SRQ: {srq, xrc_srq}, CLOSE_XRCD: {xrcd},
            DEALLOC_MW: {window}, ATTACH_MCAST: {qp}, DETACH_MCAST: {qp}, SET_ENTROPY: {qp}}

    def refused(who, kind, body, fds=()):
        status = who.call(kind, body, fds)[0]
        if status >= 0:
            raise kit.Failure(f"message {kind}: {body[:32].hex()} is accepted")

    for kind, own in kept.items():
        for handle in handles:
            refused(other, kind, struct.pack("<III", handle, 1, 64) + b"\xff\2" + bytes(14))
            if handle not in own:
                refused(client, kind, struct.pack("<III", handle, 1, 64) + b"\xff\2" + bytes(14))
    for handle in handles:
        if handle != pd:
            refused(client, CREATE_SRQ, srq_request(handle))
            refused(client, ALLOC_MW, struct.pack("<II", handle, 1))
        refused(client, CREATE_SRQ, srq_request(pd, 1, handle if handle != xrcd else 0, cq))
        refused(client, CREATE_SRQ, srq_request(pd, 1, xrcd, handle if handle != cq else 0))
        refused(client, CREATE_QP, qp_request(pd, cq, cq, XRC_RECV, xrcd=handle if handle != xrcd else 0))
        refused(client, CREATE_QP, qp_request(pd, cq, cq, UD, handle if handle not in (0, srq) else xrc_srq))
    for body in (srq_request(pd, max_wr=0), srq_request(pd, max_wr=HUGE), srq_request(pd, max_sge=HUGE),
                 srq_request(pd, 2), srq_request(pd, HUGE)):
        refused(client, CREATE_SRQ, body)
    for mask, max_wr, limit in ((1, 0, 0), (1, HUGE, 0), (2, 0, HUGE), (3, 16, 17), (4, 16, 0), (HUGE, 16, 0)):
        refused(client, MODIFY_SRQ, struct.pack("<IIII", srq, mask, max_wr, limit))
    for kind in (0, 3, HUGE):
        refused(client, ALLOC_MW, struct.pack("<II", pd, kind))
    refused(client, OPEN_XRCD, struct.pack("<I", HUGE))
    refused(client, ATTACH_MCAST, struct.pack("<I", qp) + b"\xff\2" + bytes(14))  # not UD
    for kind in (CREATE_SRQ, ALLOC_MW, ATTACH_MCAST, CLOSE_XRCD):
        refused(client, kind, struct.pack("<II", pd, 1), [client.socket.fileno()])
    refused(client, CLOSE_XRCD, struct.pack("<I", xrcd))  # the SRQ is in it
    serves(daemon)
    client.close()
    other.close()
    await_clean(daemon)


def raw_packets(daemon):
    """The same for work queues, indirection tables, flow rules, and the queue pairs that use them."""
    client, other = Client(daemon), Client(daemon)
    pd, cq = client.handle(ALLOC_PD), client.create_cq()
    srq, rc = client.create_srq(pd), client.create_qp(pd, cq)

    def wq_request(pd, cq, kind=0, srq=0, max_wr=16, max_sge=1):
        return struct.pack("<7I", pd, cq, kind, srq, max_wr, max_sge, 0)

    def create_wq(*what):
        return struct.unpack_from("<I", client.must(CREATE_WQ, wq_request(pd, cq, *what)), 28)[0]

    def table_request(number, *entries):
        return struct.pack(f"<2I{len(entries)}H", number, len(entries), *(e & 0xffff for e in entries))

    def rss_request(number, function=1, fields=3, key=40):
        return qp_request(pd, 0, 0, RAW, caps=(0,) * 5, rx_hash=(function, fields, number, key))

    def flow_request(qpn, kind=0, priority=0, port=1, headers=16):
        return struct.pack("<8I", qpn, kind, priority, port, 0, 0, 0, headers) + bytes(120)

    def refused(who, kind, body):
        if who.call(kind, body)[0] >= 0:
            raise kit.Failure(f"message {kind}: {body[:32].hex()} is accepted")

    wqs = create_wq(), create_wq(1, srq)
    table = client.handle(CREATE_RWQ_IND, table_request(0, *wqs))
    spread = struct.unpack_from("<I", client.must(CREATE_QP, rss_request(table)), 112)[0]
    raw = client.create_qp(pd, cq, kind=RAW)
    flow = struct.unpack_from("<I", client.must(CREATE_FLOW, flow_request(spread)), 152)[0]
    handles = {0, 1, 77, 0xffff, HUGE, 1 << 31, pd, cq, srq, *wqs, table, spread, raw, rc, flow}
    kept = {MODIFY_WQ: set(wqs), DESTROY_WQ: set(wqs), DESTROY_RWQ_IND: {table}, DESTROY_FLOW: {flow},
            QUERY_FLOW: {flow}}
    for kind, own in kept.items():
        for handle in handles:
            refused(other, kind, struct.pack("<II", handle, 1))
            if handle not in own:
                refused(client, kind, struct.pack("<II", handle, 1))
    for handle in handles:
        if handle != pd:
            refused(client, CREATE_WQ, wq_request(handle, cq))
        if handle != cq:
            refused(client, CREATE_WQ, wq_request(pd, handle))
        if handle != srq:
            refused(client, CREATE_WQ, wq_request(pd, cq, 1, handle))
        if handle & 0xffff not in wqs:
            refused(client, CREATE_RWQ_IND, table_request(0, wqs[0], handle))
            refused(client, MODIFY_RWQ_IND, table_request(table, handle))
        if handle != table:
            refused(client, MODIFY_RWQ_IND, table_request(handle, *wqs))
        if handle not in (0, table):
            refused(client, CREATE_QP, rss_request(handle))
        if handle not in (raw, spread):
            refused(client, CREATE_FLOW, flow_request(handle))
    for body in (wq_request(pd, cq, 2), wq_request(pd, cq, 0, 0, 0), wq_request(pd, cq, 0, 0, HUGE),
                 wq_request(pd, cq, 0, 0, 1, HUGE)):
        refused(client, CREATE_WQ, body)
    for body in (rss_request(table, 0), rss_request(table, 3), rss_request(table, 1, 15), rss_request(table, 1, HUGE),
                 rss_request(table, 1, 3, HUGE)):
        refused(client, CREATE_QP, body)
    for body in (flow_request(raw, 4), flow_request(raw, HUGE), flow_request(raw, 0, HUGE), flow_request(raw, 0, 0, 2),
                 flow_request(raw, 0, 0, 1, HUGE), flow_request(raw, 1)):
        refused(client, CREATE_FLOW, body)
    for size in (0, 3, 129, HUGE):
        refused(client, CREATE_RWQ_IND, struct.pack("<II", 0, size) + struct.pack("<H", wqs[0]) * 128)
    for kind, handle in ((DESTROY_WQ, wqs[0]), (DESTROY_RWQ_IND, table), (DESTROY_QP, spread), (DESTROY_SRQ, srq)):
        refused(client, kind, struct.pack("<I", handle))  # in use
    serves(daemon)
    client.close()
    other.close()
    await_clean(daemon)


def counters(daemon):
    """The same for completion counters, and what queue pairs have them for."""
    client, other = Client(daemon), Client(daemon)
    pd, cq = client.handle(ALLOC_PD), client.create_cq()
    qp = client.create_qp(pd, cq)

    def create(kind):
        return struct.unpack_from("<I", client.must(CREATE_COUNTER, struct.pack("<I", kind)), 4)[0]

    def refused(who, kind, *words):
        if who.call(kind, struct.pack(f"<{len(words)}I", *words))[0] >= 0:
            raise kit.Failure(f"message {kind}: {words} is accepted")

    made = create(0), create(1)
    for handle in {0, 1, 77, HUGE, 1 << 31, pd, cq, qp} - set(made):
        refused(client, DESTROY_COUNTER, handle)
        refused(client, ATTACH_COUNTER, qp, handle, 1)
        if handle != qp:
            refused(client, ATTACH_COUNTER, handle, made[0], 1)
    for handle in made:
        refused(other, DESTROY_COUNTER, handle)
        refused(other, ATTACH_COUNTER, qp, handle, 1)
    for what in (0, 64, HUGE):
        refused(client, ATTACH_COUNTER, qp, made[0], what)
    for kind in (2, HUGE):
        refused(client, CREATE_COUNTER, kind)
    client.must(ATTACH_COUNTER, struct.pack("<3I", qp, made[0], 1))
    refused(client, ATTACH_COUNTER, qp, made[1], 3)
    refused(client, DESTROY_COUNTER, made[0])
    client.must(DESTROY_COUNTER, struct.pack("<I", made[1]))
    serves(daemon)
    client.close()
    other.close()
    await_clean(daemon)


def racing(daemon):
    """Programs that come, create, destroy and go at the same time, some in the middle of a request."""
    failures = []

    def one(seed):
        source = random.Random(seed)
        memory = mmap.mmap(-1, 65536)
        address = memory_address(memory)
        try:
            for _ in range(15):
                client = Client(daemon)
                pd, cq = client.handle(ALLOC_PD), client.create_cq()
                for _ in range(source.randrange(20)):
                    qp = client.create_qp(pd, cq)
                    mr = client.reg_mr(pd, address, 4096)
                    if source.random() < 0.5:
                        client.must(DESTROY_QP, struct.pack("<I", qp))
                        client.must(DEREG_MR, struct.pack("<I", mr))
                if source.random() < 0.5:
                    client.send(message(ALLOC_PD))
                client.close()
        except Exception as e:
            failures.append(repr(e))

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise kit.Failure("; ".join(failures))
    await_clean(daemon)


def memory_address(memory):
    import ctypes
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def deaf(daemon):
    """A program that does not take its replies is disconnected; others do not notice."""
    client = Client(daemon)
    try:
        for _ in range(100000):
            client.send(message(SHOW))
    except Gone:
        pass
    else:
        raise kit.Failure("100000 replies were kept for a program that reads none")
    serves(daemon)
    client.close()
    await_clean(daemon)


def crowd(daemon, ready):
    """What killed() kills: many objects of every kind, in a process of its own."""
    client = Client(daemon)
    memory = mmap.mmap(-1, 65536)
    pd, channel = client.handle(ALLOC_PD), client.handle(CREATE_CHANNEL)
    cqs = [client.create_cq(channel) for _ in range(20)]
    xrcd = struct.unpack_from("<I", client.must(OPEN_XRCD), 4)[0]
    for i in range(300):
        client.create_qp(pd, cqs[i % 20])
        client.create_srq(pd, i % 2, xrcd, cqs[i % 20])
        client.must(ALLOC_MW, struct.pack("<II", pd, 1 + i % 2))
        client.reg_mr(pd, memory_address(memory), 65536)
    os.write(ready, b"x")
    while True:
        signal.pause()


def killed(daemon, grandchild=False):
    ready, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if grandchild:
                # The descriptors live on in it when its parent is killed.
                signal.signal(signal.SIGUSR1, lambda *_: os.fork() or signal.pause())
            crowd(daemon, ready_write)
        finally:
            os._exit(1)
    os.close(ready_write)
    os.read(ready, 1)
    os.close(ready)
    if len(state(daemon)["qps"]) != 300:
        raise kit.Failure("the program did not set up its queue pairs")
    left = []
    if grandchild:
        os.kill(pid, signal.SIGUSR1)
        while not left:
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                left = [int(child) for child in children.read().split()]
    os.kill(pid, signal.SIGKILL)
    try:
        await_clean(daemon)
    finally:
        for child in left:
            os.kill(child, signal.SIGKILL)
        os.waitpid(pid, 0)


def killed_with_child(daemon):
    killed(daemon, grandchild=True)


def shared_memory(daemon):
    """Segments cannot be resized, and arbitrary bytes written there harm no other client."""
    client = Client(daemon)
    segments = [os.dup(client.fds[0])]
    pd = client.handle(ALLOC_PD)
    cq = client.create_cq()
    segments.append(os.dup(client.fds[0]))
    for send_wr in (1, 16, 1024, 16384):  # of several size classes: a slab each
        client.create_qp(pd, cq, send_wr)
        segments.append(os.dup(client.fds[0]))
        client.create_qp(pd, cq, send_wr)
        if bool(client.fds) != (send_wr == 16384):
            raise kit.Failure(f"{send_wr} entries: {client.fds} came with the second queue pair")
    for fd in segments:
        for size in (0, os.fstat(fd).st_size + 4096):
            try:
                os.ftruncate(fd, size)
                raise kit.Failure("a segment can be resized")
            except PermissionError:
                pass
        if not fcntl.fcntl(fd, 1034) & 2:
            raise kit.Failure("a segment is not sealed against shrinking")
    source = random.Random(2)
    for _ in range(20):
        for fd in segments:
            size = os.fstat(fd).st_size
            os.pwrite(fd, source.choice((b"\xff", b"\0", b"\x55")) * min(size, 65536), 0)
            os.pwrite(fd, source.randbytes(1024), source.randrange(max(size - 1024, 1)))
        serves(daemon)
    for fd in segments:
        os.close(fd)
    client.close()
    await_clean(daemon)


def holes(daemon):
    """Holes punched into the shared segments read as zeroes: no signal in the daemon."""
    client = Client(daemon)
    context = os.dup(client.fds[0])
    pd = client.handle(ALLOC_PD)
    client.create_qp(pd, client.create_cq())
    for fd in (context, client.fds[0]):
        subprocess.run(["fallocate", "-p", "-o", "0", "-l", str(os.fstat(fd).st_size), f"/proc/self/fd/{fd}"],
                       pass_fds=[fd], check=True)
    serves(daemon)
    os.close(context)
    client.close()
    await_clean(daemon)


def many(daemon):
    """20000 queue pairs take few mappings and no descriptors, and slabs go when they are empty."""
    client, source = Client(daemon), random.Random(3)
    pd, cq = client.handle(ALLOC_PD), client.create_cq()
    before, known, gone, inodes = resources(daemon), set(), set(), set()
    qps = []

    def create():
        qpn, slab, _, _ = client.create_qp_at(pd, cq)
        if bool(client.fds) != (slab not in known) or slab in gone:
            raise kit.Failure(f"slab {slab} comes with descriptors {client.fds}")
        known.add(slab)
        inodes.update(os.fstat(fd).st_ino for fd in client.fds)
        qps.append(qpn)

    def destroy():
        slab = client.destroy_qp(qps.pop())
        if slab and (slab not in known or slab in gone):
            raise kit.Failure(f"slab {slab} is gone, though it never was there")
        gone.add(slab)

    for _ in range(20000):
        create()
    full = resources(daemon)
    if full[0] > before[0] or full[1] - before[1] > 60:
        raise kit.Failure(f"descriptors and mappings: {before} before, {full} with {len(qps)} queue pairs")
    source.shuffle(qps)
    for _ in range(15000):
        destroy()
    for _ in range(2000):
        create()
    if resources(daemon)[1] > full[1]:
        raise kit.Failure(f"{resources(daemon)[1]} mappings when half is made anew, after {full[1]}")
    while qps:
        destroy()
    deadline = time.monotonic() + 2  # slabs are unmapped a moment later
    while resources(daemon)[1] > before[1] + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    if resources(daemon)[1] > before[1] + 1 or len(gone - {0}) != len(known) - 1 or len(inodes) > len(known):
        raise kit.Failure(f"{len(gone - {0})} of {len(known)} slabs are gone, {resources(daemon)[1]} mappings are left")
    for _ in range(5000):
        create()
    client.close()
    await_clean(daemon, 5)
    serves(daemon)


def heap(daemon):
    """Private memory of the daemon, MiB."""
    with open(f"/proc/{daemon.process.pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def memory_goes(daemon):
    """What the objects of a program took is the system's again when it has ended, though other memory lies in between."""
    with open(f"/proc/{daemon.process.pid}/maps", encoding="ascii", errors="replace") as maps:
        if "libasan" in maps.read():
            raise kit.Skipped("a sanitizer's allocator keeps what was freed")
    before, client, later = heap(daemon), Client(daemon), Client(daemon)
    pd, cq = client.handle(ALLOC_PD), client.create_cq()
    for _ in range(8000):
        client.create_qp(pd, cq)
    used = heap(daemon) - before
    for _ in range(8):
        later.handle(ALLOC_PD)
    client.close()
    later.close()
    await_clean(daemon, 5)
    deadline = time.monotonic() + 10
    while heap(daemon) - before > used / 4:
        if time.monotonic() > deadline:
            raise kit.Failure(f"{used:.0f} MiB more with queue pairs, {heap(daemon) - before:.0f} MiB are left")
        time.sleep(0.1)
    serves(daemon)


def used_again(daemon):
    """Remains of a queue pair, and of writes to its slab, are not visible to the next one in its place."""
    client, other = Client(daemon), Client(daemon)
    pd, cq = client.handle(ALLOC_PD), client.create_cq()
    qpn, slab, offset, bytes_ = client.create_qp_at(pd, cq)
    memory = os.dup(client.fds[0])
    os.pwrite(memory, b"\xff" * os.fstat(memory).st_size, 0)
    for _ in range(3):
        client.destroy_qp(qpn)
        os.pwrite(memory, b"\xaa" * bytes_, offset)  # as late as can be
        qpn, *place = client.create_qp_at(pd, cq)
        if place != [slab, offset, bytes_] or client.fds:
            raise kit.Failure(f"{place} instead of {[slab, offset, bytes_]}")
        if any(os.pread(memory, bytes_, offset)):
            raise kit.Failure("a new queue pair has something in it")
    their_pd, their_cq = other.handle(ALLOC_PD), other.create_cq()
    other.create_qp_at(their_pd, their_cq)
    if not other.fds or os.fstat(other.fds[0]).st_ino == os.fstat(memory).st_ino:
        raise kit.Failure("two programs share memory")
    os.close(memory)
    client.close()
    other.close()
    await_clean(daemon)


def out_of_descriptors(daemon):
    """With its descriptors used up by one program, the daemon refuses, sleeps, and serves again afterwards."""
    pid = daemon.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (daemon.unused[0] + 12, limits[1]))
    client, refused = Client(daemon), None
    for _ in range(40):
        refused, _ = client.call(CREATE_CHANNEL)
        if refused:
            break
    others = []
    for _ in range(4):
        other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        other.connect(daemon.socket)
        others.append(other)
    used = daemon.cpu_seconds()
    time.sleep(0.5)
    used = daemon.cpu_seconds() - used
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    for other in others:
        other.close()
    client.close()
    if refused != -errno.EMFILE:
        raise kit.Failure(f"a channel too many: {refused}")
    if used > 0.25:
        raise kit.Failure(f"{used} s of processor time in half a second of waiting")
    await_clean(daemon)
    serves(daemon)


def serves_soon(daemon, what):
    start = time.monotonic()
    serves(daemon)
    took = time.monotonic() - start
    if took > 0.5:
        raise kit.Failure(f"{what}: another program waits for {took:.1f} s")


def passing(daemon, system, kind, body, count):
    """A program that passes descriptors of the silent file; it cannot end before the file system does."""
    ready, told = os.pipe()
    pid = os.fork()
    if not pid:
        client, fd = Client(daemon), system.open()
        client.send(message(kind, body), [fd] * count)
        os.write(told, b"y")
        signal.pause()
    os.close(told)
    os.read(ready, 1)
    os.close(ready)
    return pid


def registering(daemon, system):
    """A program that registers the memory of a silent file, which nothing has touched."""
    ready, told = os.pipe()
    pid = os.fork()
    if not pid:
        client = Client(daemon)
        client.reg_mr(client.handle(ALLOC_PD), silent_fuse.map_file(system.open(), 4096), 4096)
        os.write(told, b"y")
        signal.pause()
    os.close(told)
    answered = os.read(ready, 1)
    os.close(ready)
    return pid, answered


def names_late(daemon, programs):
    """All that are waited for are in `uroce show late` and in the log, although they are late in the same second. Some of
    these programs have ended nothing but their own requests."""
    def in_log(pid):
        return re.search(rf"(descriptor|memory or a file) of process {pid} \(user 0\) does not answer", daemon.log())

    kit.wait_until(lambda: len({row["pid"] for row in daemon.show("late")}) > 1, 10, "several programs that are waited for")
    shown = daemon.show("late")
    kit.wait_until(lambda: all(in_log(row["pid"]) for row in shown), 5, f"a line for each of {shown}")
    if any(row["pid"] not in programs or row["uid"] or row["ms"] < 1000 or row["what"] != "descriptor" for row in shown):
        raise kit.Failure(f"shown: {shown}, of {programs}")


def silent_files(daemon):
    """Memory and descriptors of a FUSE file system that does not answer: only the program that passes them waits."""
    region = struct.pack("<IIQQQIIQ", 1, 0, 4096, 4096, 4096, 1, 0, 0)
    system = silent_fuse.start()
    programs = []
    try:
        pid, answered = registering(daemon, system)
        programs.append(pid)
        serves_soon(daemon, "memory")
        if not answered:
            raise kit.Failure("the memory of a file that does not answer is not registered")
        for kind, body, count in ((REG_MR, region, 1), (ALLOC_PD, b"", 1), (OPEN_XRCD, struct.pack("<I", os.O_CREAT), 1),
                                  (REG_MR, region, 5), (QUERY_DEVICE, b"", 250), (1000, b"", 1)):
            programs.append(passing(daemon, system, kind, body, count))
            serves_soon(daemon, f"{count} descriptors with message {kind}")
        names_late(daemon, programs)
    finally:
        for pid in programs:
            os.kill(pid, signal.SIGKILL)
        system.end()
        for pid in programs:
            os.waitpid(pid, 0)
    await_clean(daemon, 3)


def second_daemon(daemon):
    result = subprocess.run([build.uroced, "--socket", daemon.socket], capture_output=True, text=True, timeout=20)
    if result.returncode != 1 or "another uroced" not in result.stderr:
        raise kit.Failure(f"status {result.returncode}: {result.stderr}")
    name = daemon.socket + ".file"
    with open(name, "w") as file:
        file.write("precious")
    result = subprocess.run([build.uroced, "--socket", name], capture_output=True, text=True, timeout=20)
    if result.returncode != 1 or "not a socket" not in result.stderr or open(name).read() != "precious":
        raise kit.Failure(f"status {result.returncode}: {result.stderr}")
    left_by_another_user()
    serves(daemon)


def left_by_another_user():
    """The socket of a dead daemon that this user may not open: whether one serves there is not known."""
    if os.geteuid() or not shutil.which("setpriv"):
        return
    folder = kit.scratch_folder()
    os.chmod(folder, 0o755)
    path = os.path.join(folder, "uroce.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(path)
        os.chmod(path, 0o600)
    result = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", build.uroced, "--socket", path],
                            capture_output=True, text=True, timeout=20)
    if result.returncode != 1 or f"{path}: Permission denied" not in result.stderr:
        raise kit.Failure(f"status {result.returncode}: {result.stderr}")


def command_line(daemon):
    for arguments in (["--workers", "0"], ["--workers", "17"], ["--idle-exit", "x"],
                      ["--idle-exit", "0"], ["--no-such"], ["extra"], ["-c", "/no/such.ini"], ["--socket", "/" * 200],
                      ["--loopback", "-c", "x"], ["--ready-fd", "-1"], ["--mode", "999"], ["--mode", "0"],
                      ["--loopback=ten"], ["--loopback="], ["--group", "no such group"], ["--group", "0" * 64],
                      ["--user", "x" * 64]):
        result = subprocess.run([build.uroced, *arguments], capture_output=True, text=True, timeout=20)
        if result.returncode != 2 or result.stderr.count("uroced: ") != 1 or result.stdout:
            raise kit.Failure(f"{arguments}: status {result.returncode}: {result.stderr}{result.stdout}")
    for option, word in (("--version", "uroced"), ("--help", "usage")):
        result = subprocess.run([build.uroced, option], capture_output=True, text=True, timeout=20)
        if result.returncode or word not in result.stdout:
            raise kit.Failure(f"{option}: {result.stdout}{result.stderr}")


def may_connect(path, group):
    """Whether another user in this group may open the socket."""
    program = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])"
    result = subprocess.run(["setpriv", "--reuid", "65534", "--regid", str(group), "--clear-groups", "/usr/bin/python3", "-c",
                             program, path], capture_output=True, text=True, timeout=20)
    if result.returncode and "PermissionError" not in result.stderr:
        raise kit.Failure(result.stderr)
    return result.returncode == 0


def permissions(daemon):
    """The socket of root is for root and a group."""
    if os.geteuid():
        return
    try:
        default = grp.getgrnam("uroce").gr_gid
    except KeyError:
        default = 0
    for arguments, mode, group in (((), 0o660, default), (("--group", "65534"), 0o660, 65534),
                                   (("--group", grp.getgrgid(65534).gr_name), 0o660, 65534), (("--mode", "600"), 0o600, default),
                                   (("--mode", "0666"), 0o666, default)):
        folder = kit.scratch_folder()
        os.chmod(folder, 0o755)
        own = kit.Daemon(build, folder, arguments=("--loopback", *arguments))
        try:
            found = os.stat(own.socket)
            if (stat.S_IMODE(found.st_mode), found.st_gid, found.st_uid) != (mode, group, 0):
                raise kit.Failure(f"{arguments}: {stat.S_IMODE(found.st_mode):o}, group {found.st_gid}")
            for member in (65533, 65534):
                allowed = mode & 0o006 == 0o006 or member == group
                if may_connect(own.socket, member) != allowed:
                    raise kit.Failure(f"{arguments}: a user in group {member} may {'not ' * allowed}connect")
        finally:
            own.stop()


def group_without_rights(daemon):
    """Root that may not give files away: a group that was asked for is an error."""
    if os.geteuid() or not shutil.which("setpriv"):
        return
    path = os.path.join(kit.scratch_folder(), "uroce.sock")
    result = subprocess.run(["setpriv", "--inh-caps=-chown", "--bounding-set=-chown", "--clear-groups", build.uroced, "--socket",
                             path, "--group", "65534"], capture_output=True, text=True, timeout=20)
    if result.returncode != 1 or "CAP_CHOWN" not in result.stderr or os.path.exists(path):
        raise kit.Failure(f"status {result.returncode}: {result.stderr}")


def another_user(daemon):
    """Programs of an unprivileged user over a daemon of root: their memory is reached by a descriptor of it."""
    if os.geteuid():
        return
    os.chmod(os.path.dirname(daemon.socket), 0o755)
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "ibv_rc_pingpong", "-c", "-g", "0",
               "-p", str(kit.free_port())]
    server = kit.Program(daemon, command)
    client = None
    try:
        kit.await_listening(server, int(command[-1]), 30)
        copies = [c["copy"] for c in state(daemon)["clients"] if c["uid"] == 65534]
        if copies != ["pinned"]:
            raise kit.Failure(f"copied by {copies}")
        client = kit.Program(daemon, command + ["127.0.0.1"])
        kit.check_pingpong(client.finish(60))
        server.finish(20)
    finally:
        server.kill()
        if client is not None:
            client.kill()
    await_clean(daemon)


def asleep(daemon):
    """Idle, with a program connected: less than 2 % of a processor."""
    client = Client(daemon)
    client.create_qp(client.handle(ALLOC_PD), client.create_cq())
    time.sleep(0.2)
    used = daemon.cpu_seconds()
    time.sleep(3)
    used = daemon.cpu_seconds() - used
    client.close()
    if used > 0.06:
        raise kit.Failure(f"{used} s in 3 s")


def main():
    global build
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    kit.die_on_signals()
    build = kit.Build(parser.parse_args().build)
    tests = (framing, garbage, services, raw_packets, counters, racing, deaf, killed, killed_with_child, shared_memory, holes,
             memory_goes, many, used_again, out_of_descriptors, silent_files, second_daemon, command_line, permissions,
             group_without_rights, another_user, asleep)
    daemon = kit.Daemon(build, kit.scratch_folder(), arguments=(kit.FIXED_LOOPBACK, "--workers", "2", "--mode", "0666"))
    daemon.unused = unused(daemon)
    report = kit.Tap(len(tests) + 1)
    for test in tests:
        report.point(test.__name__.replace("_", "-"), lambda run=test: run(daemon))

    def ends_well():
        status = daemon.stop()
        said = [line for line in daemon.log().splitlines() if "does not answer" not in line]
        if status != 0 or os.path.exists(daemon.socket) or said:
            raise kit.Failure(f"status {status}, log: {said}")
    report.point("ends-well", ends_well)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
