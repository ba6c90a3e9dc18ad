#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which kinds of shared memory the daemon maps: more of them for root and its own user than for other users. TAP.

usage: run_shared_memory.py --build DIR [--match TEXT] TEST_SHARED_MEMORY"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

SECONDS = 60
USER = "65000"
AS_USER = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
# What a user finds of its own shared memory: by a descriptor, or by a name. Root opens the others through their mappings.
FOUND = {"sealed_memfd", "memfd", "memfd_in_parts", "huge_memfd", "posix_by_name", "posix_without_name"}
OPENED = FOUND | {"closed_memfd", "system_v", "system_v_huge", "anonymous"}


def kinds(daemon, program, prefix):
    """{kind: (backend, why)} of those that the system has."""
    found = {}
    command = [*prefix, program, os.path.dirname(os.path.abspath(program))]
    process = subprocess.Popen(command, env=daemon.environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            kind, *address = line.split()
            if len(address) != 1 or not address[0].startswith("0x"):
                continue
            region = next(mr for mr in daemon.show("mr") if int(mr["address"], 0) == int(address[0], 0))
            found[kind] = region["backend"], region["why"]
            process.stdin.write("\n")
            process.stdin.flush()
        status = process.wait(SECONDS)
    finally:
        process.kill()
    if status or len(lines) != 12:
        raise kit.Failure(f"exit status {status}: {''.join(lines)}")
    return found


def expect(found, mapped):
    wrong = {kind: how for kind, how in found.items() if (how == ("mapped", "shared")) != (kind in mapped)}
    if wrong or "memfd" not in found:
        raise kit.Failure(f"wrong: {wrong}, of {found}")


def needs_root():
    if os.geteuid() or not shutil.which("setpriv"):
        raise kit.Skipped("needs root and setpriv")


def of_root(build, program):
    needs_root()
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        # The first System V memory of a namespace has the identifier 0, as on a machine that has just started.
        with kit.huge_pages(2):
            expect(kinds(daemon, program, ["unshare", "--ipc"]), OPENED)
    finally:
        daemon.stop()


def of_own_user(build, program):
    """The daemon and the program are one user's, who is not root."""
    prefix = [] if os.geteuid() else AS_USER
    folder = kit.scratch_folder()
    if prefix:
        needs_root()
        os.chown(folder, int(USER), int(USER))
    daemon = kit.Daemon(build, folder, prefix=prefix)
    try:
        with kit.huge_pages(2):
            expect(kinds(daemon, program, daemon.prefix), FOUND)
    finally:
        daemon.stop()


def of_other_user(build, program):
    needs_root()
    folder = kit.scratch_folder()
    os.chmod(folder, 0o755)
    daemon = kit.Daemon(build, folder, arguments=("--loopback", "--mode", "666"))
    try:
        with kit.huge_pages(2):
            expect(kinds(daemon, program, AS_USER), {"sealed_memfd"})
    finally:
        daemon.stop()


def truncated(build, program):
    """A file that becomes shorter ends its program's queue pair, and nothing else."""
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        with kit.huge_pages(1):
            text = kit.Program(daemon, [program, "truncated"]).finish(SECONDS)
        faults = sum(worker["memory_faults"] for worker in daemon.show()["workers"])
        if faults != len(text.split()) or not daemon.alive():
            raise kit.Failure(f"{faults} pages failed, of {text}: {daemon.log()}")
    finally:
        daemon.stop()


def alone(case):
    """The program judges this case itself."""
    def run(build, program):
        daemon = kit.Daemon(build, kit.scratch_folder())
        try:
            if "skipped" in kit.Program(daemon, [program, case]).finish(SECONDS):
                raise kit.Skipped("this kernel chooses the identifiers itself")
        finally:
            daemon.stop()
    return run


def main():
    arguments = kit.point_arguments("program")
    build = kit.Build(arguments.build)
    return kit.run_points([(name, lambda point=point: point(build, arguments.program)) for name, point in (
        ("root's shared memory", of_root), ("shared memory of the daemon's user", of_own_user),
        ("shared memory of another user", of_other_user), ("a file that becomes shorter", truncated),
        ("a number of two files", alone("number")), ("record locks", alone("locks")), ("the end of a file", alone("end")),
        ("a mapping that ends with its region", alone("gone")))], arguments.match)


if __name__ == "__main__":
    sys.exit(main())
