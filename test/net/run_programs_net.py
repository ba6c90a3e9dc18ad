#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""UCX, MPICH and, with UCX chosen, Open MPI between two hosts: two network namespaces joined by veth, with a uroced on each end.
TAP; a point per program and IP version, and one for what each test of ucx_perftest moves. Needs root.

usage: run_programs_net.py --build DIR [--match TEXT] [--long]

UCX chooses its transports by itself. That it has chosen rc_verbs or ud_verbs is seen on the wire: each daemon has sent as
many bytes in RoCE packets as the test moves, and its queue pairs of those services have done it. TCP is there for the programs'
own connections. MPI's launcher starts the rank of the other host by `launch`, in the place of ssh.

--long: each test of ucx_perftest over rc_verbs and over ud_verbs alone, 1 B to 16 MiB, over a loopback device."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit
import uroce_net as net

MTU = 9000
SECONDS = 120
TESTS = ("tag_lat", "tag_bw", "stream_lat", "stream_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_am_lat", "ucp_am_bw",
         "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
ATOMIC_SIZES = (4, 8)
SIZES = (1, 8, 4096, 65536, 1 << 20, 16 << 20)
MOVED = 4 << 20  # bytes at most that a test of a size moves, so that the long ones are not too long
SERVICES = {"rc_verbs": "UCX_TLS=rc_verbs,ud_verbs:aux", "ud_verbs": "UCX_TLS=ud_verbs"}
LAUNCH = """#!/bin/sh
# launch [-x] HOST COMMAND...: what ssh does, in the other namespaces
[ "$1" = -x ] && shift
shift
exec ip netns exec {namespace} {apart} sh -c "$*"
"""
# Two hosts have no memory, processes or names in common: else UCX and MPI choose shared memory.
APART = ["unshare", "--ipc", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]


def sent_bytes(daemon):
    return sum(row["value"] for row in daemon.show("counters") if row["counter"] == "tx_bytes")


class Host:
    """A namespace with its daemon: programs run there under `uroce run`, as users start them."""

    def __init__(self, build, daemon, end, folder):
        self.build, self.daemon, self.end, self.folder = build, daemon, end, folder

    def environment(self, extra=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "UCX_", "UROCE_"))}
        return dict(kept, UROCE_SOCKET=self.daemon.socket, HOME=self.folder, OMPI_ALLOW_RUN_AS_ROOT="1",
                    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **(extra or {}))

    def start(self, command, extra=None):
        program = kit.Program.__new__(kit.Program)
        program.command = command
        program.output = open(os.path.join(self.folder, "output"), "w+")
        os.unlink(program.output.name)
        program.process = subprocess.Popen(
            ["ip", "netns", "exec", self.end.namespace, *APART, self.build.uroce, "run", "--", *command], stdin=subprocess.DEVNULL,
            stdout=program.output, stderr=subprocess.STDOUT, env=self.environment(extra), cwd=self.folder)
        return program


def ucx(hosts, address, test, size, count, extra=None):
    """ucx_perftest between the hosts; the bytes that each daemon has sent for it, and the client's output."""
    port = kit.free_port()
    command = ["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-w", "1", "-p", str(port)]
    if ":" in address:
        command.append("-6")
    before = [sent_bytes(host.daemon) for host in hosts]
    server = hosts[0].start(command, extra)
    try:
        kit.await_listening(server, port, 30)  # in the network namespace of unshare, which is the program's
        client = hosts[-1].start([*command, address], extra)
        try:
            text = client.finish(SECONDS)
        finally:
            client.kill()
    finally:
        server.kill()
    if "Final" not in text:
        raise kit.Failure(f"no result in:\n{text}")
    return [sent_bytes(host.daemon) - old for host, old in zip(hosts, before)], text


def ucx_by_itself(hosts, address, test):
    size, count = 8192, 500
    sent, text = ucx(hosts, address, test, size, count)
    if max(sent) < size * count // 2:
        raise kit.Failure(f"{sent} bytes on the wire, {count} times {size} were to move:\n{text}")


def mpi(hosts, name, options, folder):
    """A rank on each host, without a word on how they are to communicate."""
    launch = os.path.join(folder, "launch")
    with open(launch, "w") as file:
        file.write(LAUNCH.format(namespace=hosts[1].end.namespace, apart=" ".join(APART)))
    os.chmod(launch, 0o755)
    other = [hosts[1].build.uroce, "run", "--socket", hosts[1].daemon.socket, "--", f"./mpi_exchange.{name}"]
    program = f"./mpi_exchange.{name}"
    ranks = [*options(launch, hosts), "-n", "1", program, ":", "-n", "1", *other]
    before = [sent_bytes(host.daemon) for host in hosts]
    run = hosts[0].start([f"mpirun.{name}", *ranks])
    try:
        text = run.finish(SECONDS)
    finally:
        run.kill()
    sent = [sent_bytes(host.daemon) - old for host, old in zip(hosts, before)]
    if "all data right" not in text or min(sent) < 50 << 20:
        raise kit.Failure(f"{sent} bytes on the wire:\n{text}")


def compile_mpi(name, folder):
    if not shutil.which(f"mpicc.{name}"):
        raise kit.Skipped(f"there is no mpicc.{name}")
    source = os.path.join(HERE, "..", "programs", "mpi_exchange.c")
    subprocess.run([f"mpicc.{name}", "-O2", source, "-o", os.path.join(folder, f"mpi_exchange.{name}")], check=True)


def openmpi_options(launch, hosts):
    """Open MPI 4.1 takes UCX by itself, for messages and for windows, only for devices whose names begin with mlx, on all hosts."""
    return ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--host", f"{hosts[0].end.ipv4}:1,{hosts[1].end.ipv4}:1", "--mca", "plm_rsh_agent", launch,
            "--mca", "oob_tcp_if_include", "10.77.0.0/24"]


def mpich_options(launch, hosts):
    return ["-launcher", "ssh", "-launcher-exec", launch, "-hosts", f"{hosts[0].end.ipv4},{hosts[1].end.ipv4}"]


def every_test(host, service, test):
    """All sizes over one transport of a loopback device."""
    for size in ATOMIC_SIZES if test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap") else SIZES:
        count = max(min(200, MOVED // size), 2)
        name, value = SERVICES[service].split("=")
        sent, text = ucx([host], "localhost", test, size, count, {name: value})
        if sent[0] < size * count // 2:
            raise kit.Failure(f"{size} bytes, {count} times: {sent} bytes sent:\n{text}")


def wire_points(build, folder, wire, chosen):
    daemons = net.daemons(build, folder, wire)
    hosts = [Host(build, daemon, end, folder) for daemon, end in zip(daemons, wire.ends)]

    def exchange(name, options):
        compile_mpi(name, folder)
        mpi(hosts, name, options, folder)

    for version, address in (("IPv4", wire.ends[0].ipv4), ("IPv6", wire.ends[0].ipv6)):
        for test in ("tag_lat", "tag_bw", "ucp_put_bw", "ucp_get"):
            chosen.append((f"ucx_perftest -t {test}, {version}", lambda a=address, t=test: ucx_by_itself(hosts, a, t)))
    chosen.append(("Open MPI", lambda: exchange("openmpi", openmpi_options)))
    chosen.append(("MPICH", lambda: exchange("mpich", mpich_options)))
    return daemons


def main():
    arguments = net.start("ip", "ucx_perftest", more=[("--long", {"action": "store_true"})])
    build = kit.Build(arguments.build)
    folder, points, daemons = kit.scratch_folder(), [], []
    with net.Wire(MTU) as wire:
        try:
            if arguments.long:
                daemons = [kit.Daemon(build, folder, namespace=wire.ends[0].namespace)]
                host = Host(build, daemons[0], wire.ends[0], folder)
                points = [(f"{test} over {service}, 1 B to 16 MiB", lambda s=service, t=test: every_test(host, s, t))
                          for service in SERVICES for test in TESTS]
            else:
                daemons = wire_points(build, folder, wire, points)
            return kit.run_points(points, arguments.match)
        finally:
            for daemon in daemons:
                daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
