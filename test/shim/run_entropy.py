#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce entropy --running`: the flows of a daemon are those that its queue pairs have. TAP.

usage: run_entropy.py --build DIR"""
import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import uroce_kit as kit

FOREVER = "100000000"  # iterations; the programs are ended


def entropy(build, daemon, *arguments):
    return subprocess.run([build.uroce, "entropy", "--running", "--socket", daemon.socket, *arguments],
                          capture_output=True, text=True, timeout=20)


def without_flows(build, daemon):
    run = entropy(build, daemon)
    if run.returncode != 1 or "no flows" not in run.stderr or run.stdout:
        raise kit.Failure(f"status {run.returncode}: {run.stdout}{run.stderr}")


def connected(daemon):
    return [qp for qp in daemon.show("qps") if qp["state"] == "RTS"]


def compare(build, daemon, folder):
    """What it says of the running queue pairs is what it says of the same ones in a file."""
    qps = connected(daemon)
    if len(qps) != 2 or {qp["qpn"] for qp in qps} != {qp["dest_qpn"] for qp in qps}:
        raise kit.Failure(f"not a pair of queue pairs: {qps}")
    name = os.path.join(folder, "flows")
    with open(name, "w") as file:
        for qp in qps:
            print(qp["qpn"], qp["dest_qpn"], qp["sgid"], qp["dgid"], file=file)
    running = entropy(build, daemon, "--json")
    listed = subprocess.run([build.uroce, "entropy", "--file", name, "--json"], capture_output=True, text=True,
                            timeout=20)
    if running.returncode or listed.returncode or running.stdout != listed.stdout:
        raise kit.Failure(f"{running.stderr}{listed.stderr}not the same:\n{running.stdout}\n{listed.stdout}")
    for spread in json.loads(running.stdout)["spreads"]:
        # Both ends are on one host and agree on the port: nothing tells the directions apart.
        if spread["same_port"] != 2 or spread["ports"] != 1:
            raise kit.Failure(f"two ports: {spread}")


def of_programs(build, daemon, folder):
    port = kit.free_port()
    command = ["ibv_rc_pingpong", "-g", "0", "-n", FOREVER, "-p", str(port)]
    server = kit.Program(daemon, command)
    client = None
    try:
        kit.await_listening(server, port, 30)
        client = kit.Program(daemon, command + ["127.0.0.1"])
        kit.wait_until(lambda: len(connected(daemon)) == 2, 30, "both queue pairs connected")
        compare(build, daemon, folder)
    finally:
        server.kill()
        if client:
            client.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = kit.Build(parser.parse_args().build)
    kit.die_on_signals()
    folder = kit.scratch_folder()
    daemon = kit.Daemon(build, folder)
    try:
        tap = kit.Tap(2)
        tap.point("a daemon without queue pairs has no flows", lambda: without_flows(build, daemon))
        tap.point("the flows of a daemon", lambda: of_programs(build, daemon, folder))
    finally:
        daemon.stop()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
