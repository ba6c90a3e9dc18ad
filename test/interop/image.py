# SPDX-License-Identifier: BSD-3-Clause
"""A small Linux that has RDMA: Debian's kernel with the modules of rdma_rxe, and programs, as a kernel and an initial RAM
filesystem for QEMU. Everything comes from Debian packages, which are unpacked and never installed: those of one release,
kernel and programs, whatever the release of this machine. Standard library only.

usage: image.py FOLDER [--kernel 6.1|6.12|PACKAGE]   makes the image and says where it is"""
import argparse
import fcntl
import glob
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))

# The kernels, and the releases of Debian that have them.
KERNELS = {"6.1": "bookworm", "6.12": "trixie"}
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Programs, and the packages with the libraries that they need.
PACKAGES = """busybox-static dash iproute2 perftest qperf ibverbs-utils ibverbs-providers rdmacm-utils
    libc6 libibverbs1 librdmacm1 libibumad3 libpci3 libnl-3-200 libnl-route-3-200 libbpf1 libelf1 libmnl0 libcap2
    libbsd0 libmd0 zlib1g libudev1 libselinux1 libpcre2-8-0 libtirpc3 libdb5.3 libxtables12 libgssapi-krb5-2 libkrb5-3
    libk5crypto3 libcom-err2 libkrb5support0 libkeyutils1 libssl3 libgcc-s1""".split()
PROGRAMS = """busybox dash ip tc rdma ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong ibv_devinfo
    ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat
    rping ucmatose udaddy mckey cmtime rdma_client rdma_server rdma_xclient rdma_xserver rstream riostream
    rcopy qperf""".split()
# Whose names changed with the 64-bit time of 32-bit machines; and what the same programs need besides.
RENAMED = {name: name + "t64" for name in "librdmacm1 libelf1 libtirpc3 libdb5.3 libssl3".split()}
TRIXIE = ["libzstd1"]
# Opened by name while running: the RDMA core's driver for rxe, and what ends rping's threads.
PLUGINS = ("lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so", "etc/libibverbs.d/rxe.driver",
           "lib/x86_64-linux-gnu/libgcc_s.so.1")
# What comes first is needed to be heard of at all.
MODULES = """virtio_pci virtio_console virtio_net virtio_blk crc32_generic ib_uverbs rdma_ucm rdma_rxe
    sch_netem sch_ingress ifb cls_matchall act_mirred 8021q uio_pci_generic
    vfio_iommu_type1 vfio_pci""".split()
APPLETS = """mount mkdir ln cat sleep usleep insmod setsid ping ping6 grep sed head tail wc dmesg poweroff kill ls stat rm
    killall ps md5sum ifconfig""".split()


class Unavailable(Exception):
    """The image cannot be made here; the text says why."""


def run(*command, folder=None, data=None):
    """The output of a command: text, or bytes for one that is given bytes."""
    try:
        result = subprocess.run(command, capture_output=True, input=data, timeout=600, cwd=folder)
    except FileNotFoundError:
        raise Unavailable(f"there is no {command[0]}")
    if result.returncode != 0:
        raise Unavailable(f"{' '.join(command[:3])} ...: {result.stderr.decode(errors='replace').strip()[-500:]}")
    return result.stdout.decode() if data is None else result.stdout


# ---- packages ----

def this_release():
    """The name of this machine's release."""
    try:
        with open("/etc/os-release") as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line).get("VERSION_CODENAME", "")
    except FileNotFoundError:
        return ""


def default_kernel():
    """That of this machine's release, whose packages are at hand."""
    return {release: kernel for kernel, release in KERNELS.items()}.get(this_release(), "6.1")


class Apt:
    """Packages of this machine's release, by its own lists, or of another one, by lists in a folder: apt then reads and
    writes nothing of this machine's but the keys of Debian."""

    def __init__(self, release, folder):
        self.options = ["-o", "APT::Sandbox::User=root"]
        self.own = release != this_release()
        if self.own:
            self._make(release, os.path.join(folder, "apt"))

    def _make(self, release, folder):
        shutil.rmtree(folder, True)
        for name in ("lists/partial", "cache/archives/partial", "none"):
            os.makedirs(os.path.join(folder, name))
        for name, text in (("sources.list", f"deb [signed-by={KEYRING}] {MIRROR} {release} main\n"), ("status", "")):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        for key, value in (("Dir::Etc::SourceList", "sources.list"), ("Dir::Etc::SourceParts", "none"),
                           ("Dir::Etc::Preferences", "none/none"), ("Dir::Etc::PreferencesParts", "none"),
                           ("Dir::State", "."), ("Dir::State::Lists", "lists"), ("Dir::State::Status", "status"),
                           ("Dir::Cache", "cache")):
            self.options += ["-o", f"{key}={os.path.normpath(os.path.join(folder, value))}"]
        self.options += ["-o", "Acquire::Languages=none", "-o", "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=0"]
        run("apt-get", *self.options, "-q", "update")

    def kernel(self):
        """The package behind the name that always means the newest one."""
        depends = re.search(r"Depends: (linux-image-\d\S+)", run("apt-cache", *self.options, "depends", "linux-image-amd64"))
        if not depends:
            raise Unavailable("there is no package linux-image-amd64")
        return depends.group(1)

    def download(self, packages, folder):
        command = ["apt-get", *self.options, "-q", "download", *packages]
        try:
            run(*command, folder=folder)
        except Unavailable:
            # The lists of packages may be old, or not be there.
            if self.own or os.geteuid() != 0:
                raise
            run("apt-get", "-q", "update")
            run(*command, folder=folder)


def unpack(folder, kernel):
    """The packages' files in one tree. kernel: one of KERNELS, or the name of a package of this machine's release."""
    release = KERNELS.get(kernel, this_release())
    debs, root = os.path.join(folder, "debs"), os.path.join(folder, "root")
    for path in (debs, root):
        shutil.rmtree(path, True)
        os.makedirs(path)
    apt = Apt(release, folder)
    packages = [RENAMED.get(name, name) for name in PACKAGES] + TRIXIE if release == "trixie" else PACKAGES
    apt.download([apt.kernel() if kernel in KERNELS else kernel, *packages], debs)
    for deb in sorted(os.listdir(debs)):
        run("dpkg", "-x", os.path.join(debs, deb), root)
    return root


def in_root(root, pattern):
    """Files of the tree. What is below /lib is below /usr/lib in later releases."""
    return glob.glob(os.path.join(root, pattern), recursive=True) or \
        glob.glob(os.path.join(root, "usr", pattern), recursive=True)


def extract_kernel(path):
    """The ELF file that a bzImage holds in compressed form: with its PVH entry QEMU starts it at once."""
    with open(path, "rb") as file:
        image = file.read()
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    at = (setup_sectors + 1) * 512 + offset
    payload = image[at:at + length]
    if payload[:6] == b"\xfd7zXZ\0":
        elf = lzma.LZMADecompressor().decompress(payload)
    elif payload[:2] == b"\x1f\x8b":
        elf = zlib.decompressobj(31).decompress(payload)
    elif payload[:4] == b"\x28\xb5\x2f\xfd":
        # Behind it is its size.
        elf = run("zstd", "-d", "-c", data=payload[:-4])
    else:
        raise Unavailable(f"{path}: compressed in an unknown way ({payload[:4].hex()})")
    if elf[:4] != b"\x7fELF":
        raise Unavailable(f"{path}: holds no ELF file")
    return elf


# ---- modules ----

def read_module(path):
    with open(path, "rb") as file:
        data = file.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def modules(root):
    """(name, bytes) of the modules and all that they need, in an order in which they can be inserted. Modules say what
    they need themselves; the list that depmod makes of that is made when a kernel is installed."""
    paths = {}
    for path in in_root(root, "lib/modules/*/kernel/**/*.ko*"):
        paths[os.path.basename(path).split(".")[0].replace("-", "_")] = path
    with open(in_root(root, "lib/modules/*/modules.builtin")[0]) as lines:
        builtin = {os.path.basename(line.strip())[:-3].replace("-", "_") for line in lines}
    ordered = {}

    def add(name):
        if name in ordered or name in builtin:
            return
        if name not in paths:
            raise Unavailable(f"the kernel has no module {name}")
        data = read_module(paths[name])
        depends = re.search(rb"\0depends=([^\0]*)\0", data)
        for needed in depends.group(1).decode().split(",") if depends else ():
            if needed:
                add(needed.replace("-", "_"))
        ordered[name] = data

    for name in MODULES:
        add(name)
    return list(ordered.items())


# ---- programs and their libraries ----

def needed(path):
    """The names of the libraries that an ELF file names, and its interpreter."""
    text = run("readelf", "-d", "-l", "-W", path)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), re.findall(r"interpreter: (\S+)\]", text)


def with_libraries(paths, folders, into):
    """Adds each file of paths (name in the guest -> file), and the libraries it needs, to the dictionary into."""
    waiting = list(paths.items())
    while waiting:
        name, path = waiting.pop()
        if name in into:
            continue
        into[name] = path
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        for library in needed(path)[0]:
            found = [os.path.join(folder, library) for folder in folders if
                     os.path.exists(os.path.join(folder, library))]
            if not found:
                raise Unavailable(f"{path} needs {library}, which is in none of the packages")
            waiting.append(("/lib/x86_64-linux-gnu/" + library, found[0]))


def library_folders(root):
    return [os.path.join(root, name) for name in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")]


# ---- the archive ----

class Cpio:
    """An archive in the form the kernel unpacks ("newc"). Several, one behind the other, are one to it."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.inode = 0
        self.folders = set()

    def _entry(self, name, mode, data=b""):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        self.file.write(b"070701" + b"".join(b"%08X" % field for field in fields) + encoded)
        self._align()
        self.file.write(data)
        self._align()

    def _align(self):
        self.file.write(b"\0" * (-self.file.tell() % 4))

    def folder(self, name):
        parts = name.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            path = "/".join(parts[:count])
            if path and path not in self.folders:
                self.folders.add(path)
                self._entry(path, stat.S_IFDIR | 0o755)

    def add(self, name, data, mode=0o755):
        self.folder(os.path.dirname(name))
        self._entry(name.lstrip("/"), stat.S_IFREG | mode, data)

    def copy(self, name, path):
        with open(path, "rb") as file:
            self.add(name, file.read())

    def link(self, name, target):
        self.folder(os.path.dirname(name))
        self._entry(name.lstrip("/"), stat.S_IFLNK | 0o777, target.encode())

    def close(self):
        self._entry("TRAILER!!!", 0)
        self.file.write(b"\0" * (-self.file.tell() % 512))
        self.file.close()


def archive(root, path):
    cpio = Cpio(path)
    for name in ("/proc", "/sys", "/dev", "/run", "/tmp", "/modules"):
        cpio.folder(name)
    files = {}
    programs = {}
    for name in PROGRAMS:
        found = [path for path in glob.glob(os.path.join(root, "**/*bin", name), recursive=True) if
                 os.path.isfile(path) and not os.path.islink(path)]
        if not found:
            raise Unavailable(f"{name} is in none of the packages")
        programs["/bin/" + name] = found[0]
    for pattern in PLUGINS:
        found = in_root(root, pattern)
        if not found:
            raise Unavailable(f"{pattern} is in none of the packages")
        programs.update({file[len(root):]: file for file in found})
    with_libraries(programs, library_folders(root), files)
    interpreter = needed(programs["/bin/dash"])[1][0]
    files[interpreter] = in_root(root, "lib/x86_64-linux-gnu/" + os.path.basename(interpreter))[0]
    for name, file in sorted(files.items()):
        cpio.copy(name, file)
    cpio.link("/bin/sh", "dash")
    for name in APPLETS:
        cpio.link("/bin/" + name, "busybox")
    loaded = modules(root)
    for name, data in loaded:
        cpio.add(f"/modules/{name}.ko", data, 0o644)
    cpio.add("/modules/order", "".join(name + "\n" for name, _ in loaded).encode(), 0o644)
    cpio.copy("/init", os.path.join(HERE, "init"))
    cpio.close()


class Image:
    """The kernel and the archive, made anew when what they are made of has changed."""

    def __init__(self, folder, kernel=None):
        kernel = kernel or default_kernel()
        self.folder = os.path.join(os.path.abspath(folder), kernel)
        self.kernel = os.path.join(self.folder, "vmlinux")
        self.archive = os.path.join(self.folder, "initrd")
        self.name = kernel
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._bring_up_to_date(os.path.join(self.folder, "stamp"))

    def _bring_up_to_date(self, stamp):
        digest = self._digest()
        if os.path.exists(stamp):
            with open(stamp) as file:
                if file.read() == digest:
                    return
            os.unlink(stamp)
        self._make()
        with open(stamp, "w") as file:
            file.write(digest)

    @staticmethod
    def _digest():
        digest = hashlib.sha256()
        for name in ("image.py", "init"):
            with open(os.path.join(HERE, name), "rb") as file:
                digest.update(file.read())
        return digest.hexdigest()

    def _make(self):
        root = unpack(self.folder, self.name)
        with open(self.kernel, "wb") as file:
            file.write(extract_kernel(glob.glob(os.path.join(root, "boot/vmlinuz-*"))[0]))
        archive(root, self.archive)
        for name in ("debs", "apt"):
            shutil.rmtree(os.path.join(self.folder, name), True)

    def with_programs(self, programs, path):
        """Writes to path the archive with programs of this machine (name -> file), which may need no library that the
        image lacks."""
        root = os.path.join(self.folder, "root")
        cpio = Cpio(path + ".more")
        for name, file in programs.items():
            for library in needed(file)[0]:
                if not any(os.path.exists(os.path.join(folder, library)) for folder in library_folders(root)):
                    raise Unavailable(f"{file} needs {library}")
            cpio.copy(name, file)
        cpio.close()
        with open(path, "wb") as out:
            for part in (self.archive, path + ".more"):
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, out)
        os.unlink(path + ".more")
        return path


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--kernel", help=f"{', '.join(KERNELS)}, or a package of this machine's release")
    arguments = options.parse_args()
    try:
        image = Image(arguments.folder, arguments.kernel)
    except Unavailable as reason:
        sys.exit(str(reason))
    for path in (image.kernel, image.archive):
        print(f"{path} {os.path.getsize(path) >> 20} MiB")


if __name__ == "__main__":
    main()
