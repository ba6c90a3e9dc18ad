# SPDX-License-Identifier: BSD-3-Clause
"""A uroced that programs of several users share. For root."""
import contextlib
import os
import shutil

import uroce_kit as kit
import uroce_net as net

VICTIM, OTHER = 65534, 4242  # users
CONFIGURATION = """[uroced]
mode = 0666
[quota]
user.qps = 120000
user.connections = 1200
user.memory = 4G
user.mapped_memory = 4G
user.mappings = 20000
user.descriptors = 8000
"""
LOOPBACK = "[port.0]\ndevice = loopback\n"


def as_user(uid, *command):
    """The command as another user's."""
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *command]


class Readable:
    """The build, its libraries where every user can read them."""

    def __init__(self, build, folder):
        self.__dict__.update(vars(build))
        for path in build.libraries.split(":"):
            shutil.copytree(path, os.path.join(folder, os.path.basename(path)), ignore=shutil.ignore_patterns("*.p"))
        self.libraries = ":".join(os.path.join(folder, os.path.basename(path)) for path in build.libraries.split(":"))


class SharedDaemon(kit.Daemon):
    """wire: its port is not loopback but `near`, one end of a veth pair; `far` is the other one. more: of its
    configuration."""

    def __init__(self, build, wire=False, arguments=(), more=""):
        folder = kit.scratch_folder()
        os.chmod(folder, 0o755)
        self.exits = contextlib.ExitStack()
        text, namespace = LOOPBACK, None
        if wire:
            self.near, self.far = self.exits.enter_context(net.Wire(4200)).ends
            namespace = self.near.namespace
            text = net.configuration(self.near, self.far, 4200)
        name = os.path.join(folder, "uroced.ini")
        with open(name, "w") as file:
            file.write(CONFIGURATION + more + text)
        super().__init__(Readable(build, folder), folder, arguments=("--config", name, *arguments), namespace=namespace)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.exits.close()
