#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The static probes of libibverbs, as gdb and readelf find them in an unmodified program. TAP; skipped without gdb, or where the
library was built without probes.

usage: run_probes.py --build DIR"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

MESSAGES, BYTES, RECEIVES = 20, 100, 10
# Name: how many arguments, and how gdb prints them.
PROBES = {"post_send": (5, "%s %u %s %u %lu"), "post_recv": (4, "%s %lu %u %d"), "process_completion": (7, "%s %lu %d %d %u %u %u")}
SEND, RECV, WC_SEND, WC_RECV = 2, 1, 0, 128  # wr_id's of ibv_rc_pingpong, and opcodes of its completions


def notes(library):
    """{name: (arguments, semaphore)}, by readelf."""
    text = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, semaphore, arguments in re.findall(r"Provider: rdma_core_uroce\n +Name: (\w+)\n.*Semaphore: (\S+)\n +Arguments: (.*)", text):
        found[name] = (len(arguments.split()), int(semaphore, 16))
    return found


def check_notes(found):
    for name, (arguments, _) in PROBES.items():
        if name not in found or found[name][0] != arguments or not found[name][1]:
            raise kit.Failure(f"{name}: {found.get(name)}")


def trace(daemon):
    """What gdb prints of each probe of the client: {name: [values, ...]}."""
    command = ["ibv_rc_pingpong", "-g", "0", "-s", str(BYTES), "-n", str(MESSAGES), "-r", str(RECEIVES), "-p", str(kit.free_port())]
    server = kit.Program(daemon, command)
    kit.await_listening(server, int(command[-1]), 20)
    script = os.path.join(kit.scratch_folder(), "gdb")
    with open(script, "w") as file:
        file.write("set debuginfod enabled off\ncatch load libibverbs\nrun\ndelete\n")
        for name, (arguments, form) in PROBES.items():
            values = ", ".join(f"$_probe_arg{n}" for n in range(arguments))
            file.write(f"break -probe-stap rdma_core_uroce:{name}\ncommands\nsilent\n"
                       f'printf "probe {name} {form}\\n", {values}\ncontinue\nend\n')
        file.write("continue\n")
    client = kit.Program(daemon, ["gdb", "-q", "-nx", "-batch", "-x", script, "--args", *command, "127.0.0.1"])
    text = client.finish(120)
    if "Inferior loaded" not in text:
        server.kill()
        return None
    try:
        server.finish(20)
    except kit.Failure as failure:
        raise kit.Failure(f"{failure}\nclient: {text}") from None
    seen = {name: [] for name in PROBES}
    for name, values in re.findall(r"^probe (\w+) (.*)$", text, re.M):
        seen[name].append(values)
    return seen


def check(values, pattern, least, most):
    right = [value for value in values if re.fullmatch(pattern, value)]
    if len(right) != len(values) or not least <= len(values) <= most:
        raise kit.Failure(f"{len(values)} times: {values[:5]}; not {least} to {most} of {pattern}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    build = kit.Build(options.parse_args().build)
    library = glob.glob(os.path.join(build.folder, "lib/verbs/libibverbs.so.1"))[0]
    found = notes(library)
    if not found or not shutil.which("gdb"):
        print("1..0 # SKIP " + ("there is no gdb" if found else "built without sys/sdt.h"))
        return 0
    kit.die_on_signals()
    daemon = kit.Daemon(build, kit.scratch_folder())
    try:
        seen = trace(daemon)
        if seen is None:
            print("1..0 # SKIP gdb cannot run programs here")
            return 0
        tap = kit.Tap(4)
        tap.point("the library names its probes, each with a semaphore", lambda: check_notes(found))
        device = r"uroce0"
        tap.point("post_send: device, queue pair, operation, bytes, wr_id",
                  lambda: check(seen["post_send"], rf"{device} \d+ send {BYTES} {SEND}", MESSAGES, MESSAGES))
        tap.point("post_recv: device, wr_id, queue pair, SGEs",
                  lambda: check(seen["post_recv"], rf"{device} {RECV} \d+ 1", MESSAGES, MESSAGES + 2 * RECEIVES))
        tap.point("process_completion: device, wr_id, status, operation, queue pairs, bytes",
                  lambda: check(seen["process_completion"], rf"{device} (?:{SEND} 0 {WC_SEND}|{RECV} 0 {WC_RECV}) \d+ \d+ \d+",
                                2 * MESSAGES - 1, 2 * MESSAGES))
    finally:
        daemon.stop()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
