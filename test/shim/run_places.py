#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce run` where programs have less than usual: limits, containers, no /sys, other users. TAP; in each place RDMA works, or a
sentence on standard error names what is missing. doc/uroce.md, "Containers and limits", lists them.

usage: run_places.py --build DIR [--match TEXT]"""
import errno
import os
import resource
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

USER = 65532
PINGPONG = "ibv_rc_pingpong -g 0 -n 100 -c"
# A pair in one place; $! is the server.
PAIR = f"{PINGPONG} & server=$!; until ibv_devices >/dev/null; do sleep 0.1; done; " \
       f"until {PINGPONG} localhost >out 2>&1; do kill -0 $server || exit 1; done; wait $server && cat out"
# What Docker's default profile (2023) refuses that a program or uroced may call, with EPERM.
REFUSED = ("userfaultfd", "bpf", "perf_event_open", "mbind", "set_mempolicy", "move_pages", "get_mempolicy", "io_uring_setup",
           "io_uring_enter", "io_uring_register", "keyctl", "add_key", "mount", "umount2", "setns", "unshare", "pivot_root",
           "kcmp", "open_by_handle_at", "fanotify_init", "quotactl", "swapon", "swapoff", "reboot", "init_module")
FILTER = f"""
import os, sys
try:
    import seccomp
except ImportError:
    sys.exit(77)
f = seccomp.SyscallFilter(seccomp.ALLOW)
for name in {REFUSED!r}:
    try:
        f.add_rule(seccomp.ERRNO({errno.EPERM}), name)
    except RuntimeError:
        pass # this libseccomp does not know it
f.load()
os.execvp(sys.argv[1], sys.argv[1:])
"""
build = None


def environment(folder, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "UROCE_", "SYSFS_"))}
    return dict(kept, XDG_RUNTIME_DIR=folder, HOME=folder, UROCE_SOCKET=os.path.join(folder, "uroce.sock"), **more)


def place(folder, *prefix, script=PAIR, options=(), limits=(), inside=(), **more):
    """The script's result under `uroce run` in a place: prefix makes it around `uroce run`, inside between it and the script."""
    def limit():
        for which, value in limits:
            resource.setrlimit(which, (value, value))

    return subprocess.run([*prefix, build.uroce, "run", *options, "--", *inside, "sh", "-c", script], cwd=folder, text=True,
                          env=environment(folder, **more), stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                          preexec_fn=limit)


def works(folder, *prefix, **more):
    result = place(folder, *prefix, **more)
    if result.returncode == 77:
        raise kit.Skipped("a program for this place is not installed")
    if result.returncode != 0 or "100 iters" not in result.stdout:
        raise kit.Failure(f"exit status {result.returncode}:\n{result.stdout}{result.stderr}")


def says(folder, sentence, *prefix, **more):
    result = place(folder, *prefix, script="ibv_devices", **more)
    if sentence not in result.stderr:
        raise kit.Failure(f"not '{sentence}', exit status {result.returncode}:\n{result.stdout}{result.stderr}")


def ordinary(folder):
    """A prefix that makes an ordinary user, who may write the folder."""
    if os.geteuid() != 0:
        return []
    os.chown(folder, USER, USER)
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def need(program):
    if not shutil.which(program):
        raise kit.Skipped(f"there is no {program}")


def small_memlock(folder):
    works(folder, *ordinary(folder), limits=[(resource.RLIMIT_MEMLOCK, 16384)])


def few_descriptors(folder):
    works(folder, limits=[(resource.RLIMIT_NOFILE, 64)])


def docker_filter(folder):
    works(folder, *ordinary(folder), "/usr/bin/python3", "-c", FILTER)


def docker_filter_program(folder):
    """The filter around the program alone; the daemon is on the host."""
    works(folder, inside=["/usr/bin/python3", "-c", FILTER])


def bubble(folder):
    need("bwrap")
    works(folder, *ordinary(folder), "bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--dev",
          "/dev", "--proc", "/proc", "--bind", folder, folder)


def rootless(folder):
    works(folder, *ordinary(folder), "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")


def no_sys(folder):
    need("bwrap")
    works(folder, "bwrap", "--bind", "/", "/", "--tmpfs", "/sys", "--dev", "/dev", "--proc", "/proc", "--bind", folder, folder)


def no_proc(folder):
    says(folder, "/proc/self/exe, by which", "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
         "mount -t tmpfs none /proc && exec \"$@\"", "sh")


def empty_environment(folder):
    """Nothing is left of the variables but the socket: the system's library loads, and finds no device."""
    result = place(folder, inside=["env", "-i", "PATH=/usr/bin:/bin"], script="ibv_devices; exit 0")
    if "uroce0" in result.stdout:
        raise kit.Failure("the program has found the library without the variables")


def no_daemon(folder):
    result = subprocess.run(["ibv_devices"], env=environment(folder, LD_LIBRARY_PATH=build.libraries), text=True,
                            capture_output=True, timeout=20)
    if "uroce" not in result.stderr or os.path.join(folder, "uroce.sock") not in result.stderr:
        raise kit.Failure(f"no sentence with the socket:\n{result.stdout}{result.stderr}")


def foreign_daemon(folder):
    """Another user's program, after su: the socket is not open to it, and the library says so."""
    if os.geteuid() != 0:
        raise kit.Skipped("only root can become another user")
    other = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    result = place(folder, inside=other, script="ibv_devices", options=("--sys=no",))
    if "uroce0" not in result.stdout and "uroce" not in result.stderr:
        raise kit.Failure(f"no device, and no sentence:\n{result.stdout}{result.stderr}")


def refused_namespace(folder):
    says(folder, "a user namespace: Operation not permitted", *ordinary(folder), "/usr/bin/python3", "-c", FILTER, options=("--sys=yes",))


PLACES = (("RLIMIT_MEMLOCK of 16 KiB, an ordinary user", small_memlock), ("RLIMIT_NOFILE of 64", few_descriptors),
          ("the system calls that Docker refuses, daemon and programs", docker_filter),
          ("the system calls that Docker refuses, programs alone", docker_filter_program),
          ("user, PID and network namespaces, a read-only root", bubble), ("a rootless user namespace", rootless),
          ("no /sys", no_sys), ("no /proc", no_proc), ("env -i", empty_environment), ("a socket without a daemon", no_daemon),
          ("another user, as after su", foreign_daemon), ("--sys=yes where namespaces are refused", refused_namespace))


def main():
    global build
    arguments = kit.point_arguments()
    build = kit.Build(arguments.build)
    points = [(name, lambda function=function: function(kit.scratch_folder())) for name, function in PLACES]
    return kit.run_points(points, arguments.match)


if __name__ == "__main__":
    sys.exit(main())
