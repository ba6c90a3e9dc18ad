# SPDX-License-Identifier: BSD-3-Clause
"""The guest with programs of this tree that use DPDK, such as uroced, and DPDK's drivers for its PCI devices. DPDK is
this machine's, of the same Debian as the guest. Standard library only."""
import glob
import os
import shutil

import image as images

# Found by name in a folder of their own when the EAL starts.
DRIVERS = ("bus_pci", "bus_vdev", "mempool_ring", "net_virtio")
HERE_LIBRARIES = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"]


def driver_folder():
    found = sorted(glob.glob("/usr/lib/x86_64-linux-gnu/dpdk/pmds-*"))
    if not found:
        raise images.Unavailable("there is no DPDK with drivers in /usr/lib/x86_64-linux-gnu/dpdk")
    return found[-1]


def driver_files(folder):
    """The drivers by their names in the guest."""
    files = {}
    for name in DRIVERS:
        found = glob.glob(f"{folder}/librte_{name}.so.*")
        if not found:
            raise images.Unavailable(f"DPDK has no driver {name}")
        path = os.path.realpath(found[0])
        files[path] = path
    return files


def with_dpdk(image, programs, path):
    """Writes to path the image's archive with programs (name -> file) and all that they need."""
    folder = driver_folder()
    files = {}
    images.with_libraries({**programs, **driver_files(folder)},
                          images.library_folders(os.path.join(image.folder, "root")) + HERE_LIBRARIES, files)
    cpio = images.Cpio(path + ".more")
    # The EAL keeps its files where no other user can write, up to the root.
    cpio.folder(".")
    cpio.link("/var/run", "/run")
    for name, file in sorted(files.items()):
        real = os.path.realpath(file)
        # Drivers that others link with are there once, or they would be there twice in the process as well.
        if os.path.dirname(real) == folder and name != real:
            cpio.link(name, real)
        else:
            cpio.copy(name, real)
    cpio.close()
    with open(path, "wb") as out:
        for part in (image.archive, path + ".more"):
            with open(part, "rb") as file:
                shutil.copyfileobj(file, out)
    os.unlink(path + ".more")
    return path
