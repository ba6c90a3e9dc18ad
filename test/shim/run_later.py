#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs compiled with the headers of several versions of rdma-core, over a loopback daemon. TAP.

usage: run_later.py --build DIR --compiler 'COMMAND' [--headers DIR]... LATER_ABI.C [LATER_COUNTERS.C]

--headers: a folder with infiniband/verbs.h, and rdma/ where that version has one; without, the system's headers."""
import argparse
import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

# What a header has, by a function of its version of the interface.
FEATURES = {"HAVE_FLUSH": "ibv_wr_flush(", "HAVE_DMAH": "ibv_reg_mr_ex(", "HAVE_SPEED": "ibv_query_port_speed(", "HAVE_BUF": "ibv_alloc_buf(",
            "HAVE_CNTR": "ibv_create_comp_cntr("}
SYSTEM = "/usr/include"


def compile_program(arguments, source, headers, folder, number):
    """The program; the other headers of the folder stay out."""
    name_of_it = os.path.basename(source).removesuffix(".c")
    only = os.path.join(folder, f"headers{number}.{name_of_it}")
    os.mkdir(only)
    for name in ("infiniband", "rdma"):
        if os.path.isdir(os.path.join(headers, name)):
            os.symlink(os.path.join(os.path.abspath(headers), name), os.path.join(only, name))
    with open(os.path.join(only, "infiniband", "verbs.h")) as text:
        verbs = text.read()
    flags = [f"-D{name}={int(function in verbs)}" for name, function in FEATURES.items()]
    program = os.path.join(folder, f"{name_of_it}{number}")
    library = os.path.join(arguments.build, "lib", "verbs", "libibverbs.so.1")
    command = [*shlex.split(arguments.compiler), "-std=gnu11", "-Wall", "-Werror", "-isystem", only, *flags, source,
               "-o", program, library]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise kit.Failure(done.stderr)
    return program, " ".join(name for name, function in FEATURES.items() if function in verbs) or "none of the later calls"


def region(daemon, address):
    return next((mr for mr in daemon.show("mr") if int(mr["address"], 0) == int(address, 16)), None)


def points(daemon, program, label):
    """Its points, and that a buffer that it tells of is mapped before it is used."""
    process = subprocess.Popen([program], env=daemon.environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        mr, told, lines = None, False, []
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("# registered "):
                mr, told = region(daemon, line.split()[2]), True
                process.stdin.write("\n")
                process.stdin.flush()
        status = process.wait(20)
    finally:
        process.kill()
    results = [(line.startswith("ok "), f"{line.split(' - ', 1)[1]}, {label}", []) for line in lines
               if line.startswith(("ok ", "not ok "))]
    if told:
        mapped = mr is not None and (mr["backend"], mr["why"], mr["uses"]) == ("mapped", "shared", 0)
        results.append((mapped, f"the buffer is mapped at once, {label}", [str(mr)]))
    return results + [(status == 0, f"all points were reached, {label}", lines)]


def run_with(arguments, daemon, source, headers, folder, number):
    try:
        program, has = compile_program(arguments, source, headers, folder, number)
    except (kit.Failure, OSError) as problem:
        return [(False, f"compiles with {headers}", str(problem).splitlines())]
    return [(True, f"compiles with {headers}: {has}", []), *points(daemon, program, f"headers {number}")]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--compiler", default="cc")
    options.add_argument("--headers", action="append", default=[])
    options.add_argument("sources", nargs="+", metavar="source")
    arguments = options.parse_args()
    kit.die_on_signals()
    folder = kit.scratch_folder()
    daemon = kit.Daemon(kit.Build(arguments.build), folder)
    results = []
    try:
        for number, headers in enumerate(arguments.headers or [SYSTEM]):
            for source in arguments.sources:
                results += run_with(arguments, daemon, source, headers, folder, number)
        results.append((daemon.alive(), "uroced survives", [daemon.log()]))
    finally:
        daemon.stop()
    return kit.print_points(results)


if __name__ == "__main__":
    sys.exit(main())
