#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI over uroce's loopback device and over TCP in turn, as Markdown: Open MPI, MPICH and mpi4py of Debian, by mpi_table.c.

usage: test/perf/mpi_table.py [--build DIR] [--rounds N] [--ranks 2,4,8] [--mpi openmpi,mpich,mpi4py] [PATTERN:BYTES ...]

A cell has the times in microseconds of an operation over uroce and over TCP, medians of the rounds, and the median of the
rounds' ratios, in bold where TCP is faster. Open MPI has two ways over TCP, its own (o) and UCX's (u): a cell has the one with
the lower median. mpi_table compares the data that it receives. On the standard error output: what each run took, and how many
packets uroce sent."""
import argparse
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

SECONDS = {"uroce": 60, "o": 20, "u": 20}   # for all of a run
LOOPS = {8: 20000, 64 << 10: 1000, 1 << 20: 100, 4 << 20: 25}   # of mpi4py's ring
# A rank that waits gives its CPU to the others. Without the last two, UCX copies messages of up to 256 KiB into pieces of 8 KiB
# where a process has a small share of the port's speed, and in each MPI_Send of Open MPI.
OPENMPI = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
OVER_UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
OVER_TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", "--mca", "osc", "pt2pt"]
DEVICE = {"UCX_TLS": "ib,self", "UCX_RNDV_THRESH": "64K", "UCX_RNDV_SEND_NBR_THRESH": "64K"}
UCX_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
MPICH_YIELDS = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
# MPI: {side: (mpirun, environment)}
SIDES = {
    "openmpi": {"uroce": (OPENMPI + OVER_UCX, DEVICE), "o": (OPENMPI + OVER_TCP, {}), "u": (OPENMPI + OVER_UCX, UCX_TCP)},
    "mpich": {"uroce": (["mpirun.mpich"], DEVICE | MPICH_YIELDS), "u": (["mpirun.mpich"], UCX_TCP | MPICH_YIELDS)},
}
SIDES["mpi4py"] = SIDES["openmpi"]
TITLES = {"openmpi": "Open MPI", "mpich": "MPICH", "mpi4py": "mpi4py on Open MPI"}


def wait_for(process):
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        pass


class Runner:
    def __init__(self, options):
        self.options, self.folder = options, kit.scratch_folder()
        self.daemon = kit.Daemon(kit.Build(options.build), self.folder,
                                 arguments=("--loopback", "--workers", str(options.workers)))

    def compile(self, mpi):
        if mpi != "mpi4py":
            subprocess.run(["mpicc." + mpi, "-O2", os.path.join(HERE, "mpi_table.c"), "-o",
                            os.path.join(self.folder, "mpi_table." + mpi)], check=True)

    def run(self, side, words, more):
        """The output; all that the command started has ended."""
        # Open MPI refuses to run for root unless both are set.
        environment = dict({k: v for k, v in os.environ.items() if not k.startswith(("LD_", "UCX_", "UROCE_"))},
                           UROCE_SOCKET=self.daemon.socket, TMPDIR=self.folder, OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       cwd=self.folder, env=environment, process_group=0)
            try:
                status = process.wait(SECONDS[side])
            except subprocess.TimeoutExpired:
                status = None
            finally:
                for number in (signal.SIGTERM, signal.SIGKILL):
                    if process.poll() is None:
                        os.killpg(process.pid, number)
                        wait_for(process)
            output.seek(0)
            text = output.read()
        if status != 0:
            end = f"exit status {status}" if status else f"not done after {SECONDS[side]} s"
            raise kit.Failure(f"{' '.join(words)}: {end}:\n{text}")
        return text

    def packets(self):
        return sum(row["value"] for row in self.daemon.show("counters") if row["counter"] == "tx_packets")

    def measure(self, mpi, ranks, side):
        """{(pattern, bytes): microseconds}"""
        mpirun, environment = SIDES[mpi][side]
        start, before = time.monotonic(), self.packets()
        prefix = [self.daemon.build.uroce, "run", "--"] if side == "uroce" else []
        prefix += mpirun + ["-n", str(ranks)]
        if mpi == "mpi4py":
            times = self.rings(side, prefix, environment)
        else:
            words = [*prefix, "./mpi_table." + mpi, "-t", str(self.options.seconds), *self.options.cases]
            try:
                text = self.run(side, words, environment)
            except kit.Failure as failure:
                if side == "uroce":
                    raise
                print(failure, file=sys.stderr)
                text = str(failure)   # MPICH's ranks over TCP sometimes wait for each other without end
            rows = re.findall(r"^(\w+) (\d+) ([\d.]+) \d+$", text, re.MULTILINE)
            times = {(pattern, int(size)): float(us) for pattern, size, us in rows}
        sent = self.packets() - before
        print(f"{mpi}, {ranks} ranks, {side}: {time.monotonic() - start:.1f} s, {sent} packets", file=sys.stderr)
        if (sent > 0) != (side == "uroce"):
            raise kit.Failure(f"{mpi}, {side}: {sent} packets through uroce")
        return times

    def rings(self, side, prefix, environment):
        times = {}
        for size, loops in LOOPS.items():
            text = self.run(side, [*prefix, "/usr/bin/python3", "-m", "mpi4py.bench", "ringtest", "-s", "10", "-l", str(loops),
                             "-n", str(size)], environment)
            times["ring", size] = float(re.search(r"= ([\d.e+-]+) seconds", text)[1]) / loops * 1e6
        return times


def cell(rounds, case):
    """rounds: {side: microseconds} of each round."""
    medians = {side: statistics.median(one[side].get(case, math.inf) for one in rounds) for side in rounds[0]}
    rival = min((side for side in medians if side != "uroce"), key=medians.get)
    if math.isinf(medians[rival]):
        return f"{medians['uroce']:.4g}, no end"
    ratio = statistics.median(one["uroce"][case] / one[rival].get(case, math.inf) for one in rounds)
    name = f" {rival}" if len(medians) > 2 else ""
    text = f"{ratio:.2f}" if ratio < 1 else f"**{ratio:.2f}**"
    return f"{medians['uroce']:.4g}, {medians[rival]:.4g}{name}: {text}"


def table(runner, mpi):
    ranks = runner.options.ranks
    results = {n: [] for n in ranks}
    for _ in range(runner.options.rounds):
        for n in ranks:
            results[n].append({side: runner.measure(mpi, n, side) for side in SIDES[mpi]})
    print(f"\n| {TITLES[mpi]} | bytes | " + " | ".join(f"{n} ranks" for n in ranks) + " |\n" + "|---" * (2 + len(ranks)) + "|")
    for case in results[ranks[0]][0]["uroce"]:
        cells = " | ".join(cell(results[n], case) for n in ranks)
        print(f"| {case[0]} | {case[1]} | {cells} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each measurement, at least (default 0.1)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)),
                        help="of uroced (default: one for each CPU)")
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4, 8])
    parser.add_argument("--mpi", type=lambda text: text.split(","), default=list(SIDES))
    parser.add_argument("cases", nargs="*", metavar="PATTERN:BYTES")
    options = parser.parse_args()
    kit.die_on_signals()
    runner = Runner(options)
    try:
        for mpi in options.mpi:
            runner.compile(mpi)
            table(runner, mpi)
    finally:
        runner.daemon.stop()


if __name__ == "__main__":
    main()
