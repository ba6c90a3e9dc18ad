# SPDX-License-Identifier: BSD-3-Clause
"""A file of a FUSE file system that does not answer: reading it, asking for its attributes and closing it wait until
the server ends. For root."""
import ctypes
import errno
import mmap
import os
import signal
import struct
import tempfile

import uroce_kit as kit

INIT, LOOKUP, GETATTR, OPEN, READ, FLUSH, FORGET = 26, 1, 3, 14, 15, 25, 2
LIMIT_SECONDS = 20 # then the server ends, whatever waits for it
SILENT = (READ, FLUSH, GETATTR)
SIZE = 1 << 20
CLONE_NEWNS, MS_PRIVATE_REC = 0x20000, 0x44000

libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags, data):
    if libc.mount(source, target.encode(), kind, flags, data):
        raise OSError(ctypes.get_errno(), "mount " + target)


def attributes():
    return struct.pack("<6Q10I", 2, SIZE, SIZE // 512, 0, 0, 0, 0, 0, 0, 0o100666, 1, 0, 0, 0, 4096, 0)


def answer(opcode):
    """What follows the header, or None: no answer."""
    if opcode == INIT:
        return struct.pack("<IIIIHHIIHH32x", 7, 31, 65536, 0, 12, 9, 65536, 1, 16, 0)
    if opcode == LOOKUP:
        return struct.pack("<4QII", 2, 1, 3600, 0, 0, 0) + attributes()
    if opcode == OPEN:
        return struct.pack("<QII", 1, 0, 0)
    return None


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError as e:
            if e.errno in (errno.EINTR, errno.ENOENT):
                continue
            return
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        body = answer(opcode)
        if opcode in SILENT or opcode == FORGET:
            continue
        error = 0 if body is not None else -errno.ENOSYS
        os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))


def start():
    """A SilentSystem; the point is skipped where there can be none."""
    if os.geteuid() or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise kit.Skipped("a FUSE file system needs root and /dev/fuse")
    try:
        return SilentSystem()
    except OSError as error:
        raise kit.Skipped(error.strerror)


def map_file(fd, length):
    """The address of a mapping to read the file, which nothing has touched."""
    libc.mmap.restype = ctypes.c_void_p
    return libc.mmap(None, ctypes.c_size_t(length), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))


class SilentSystem:
    """The processes that open its file wait when they close it, so let them be others than the caller."""

    def __init__(self):
        ready, told = os.pipe()
        self.folder = tempfile.mkdtemp(prefix="silent-")
        self.server = os.fork()
        if not self.server:
            self.run(told)
        os.close(told)
        if os.read(ready, 1) != b"y":
            raise OSError(errno.ENOSYS, "FUSE does not work here")
        os.close(ready)

    def run(self, told):
        try:
            if libc.unshare(CLONE_NEWNS):
                raise OSError(ctypes.get_errno(), "unshare")
            mount(b"none", "/", None, MS_PRIVATE_REC, None)
            device = os.open("/dev/fuse", os.O_RDWR)
            options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
            mount(b"silent", self.folder, b"fuse", 0, options.encode())
            os.write(told, b"y")
            signal.alarm(LIMIT_SECONDS)
            serve(device)
        finally:
            os._exit(0)

    def open(self):
        """Its file, for reading. The mount is in the server's namespace."""
        return os.open(f"/proc/{self.server}/root{self.folder}/file", os.O_RDONLY)

    def end(self):
        """Whatever waits for it goes on."""
        os.kill(self.server, signal.SIGKILL)
        os.waitpid(self.server, 0)
        os.rmdir(self.folder)
