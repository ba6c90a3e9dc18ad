#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a program gets of a uroced that it shares with an attacker: every attack beside every victim. TAP.

usage: run_matrix.py --build DIR ATTACKER [--rounds N] [--workers N] [--short] [--shared] [--strict] [--match TEXT]
                     [--markdown]

The victims are Debian's ib_send_lat and ib_write_bw, unmodified, and a connection that opens the device. Each is measured beside
a plain busy program (one queue pair with WRITEs of 64 KiB), then beside the attack, in turns; the figures are medians of the
rounds. A victim must keep BANDWIDTH of the bandwidth that it has beside the plain program, and its 99th percentiles must
stay within LATENCY times those beside the plain program; both limits give way by as much as the rounds beside the plain program
differ (noise()).

The daemon and the victims have priority over other processes. So have attackers that sleep until work completes, as the plain
program does; those that compute all the time have less, and are also compared with a program without RDMA that only computes: the
worse figure of the two counts, so that not the kernel's scheduler is measured. --short: attackers take a
tenth of very many objects. A row fails when it misses the same limit three times, with a daemon of its own each
time. Where the machine does other work too (before the row less than IDLE of the processors' time is left), the limits are twice as
wide, and give way to more noise; so they always are with --shared, and never with --strict. --markdown prints the table of doc/isolation.md."""
import os
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "kit"), os.path.join(HERE, "..", "shim")]
import garbage
import python_attacks
import uroce_kit as kit
import uroce_net as net
from shared_daemon import OTHER, VICTIM, SharedDaemon, as_user
from run_control import Client, ALLOC_PD

BANDWIDTH, LATENCY = 0.8, 3
VISIT_LIMIT_MS = 10  # what doc/isolation.md promises: no reason to fail below it
DEVICE_SECONDS = 60
LATENCY_ROUNDS = 1500
NOISE_MAX, NOISE_SHARED = 1.5, 3
IDLE = 0.9  # of the processors' time: then the limits hold as they are
PRIORITY_SLEEPS, PRIORITY_COMPUTES = -20, -10  # of an attacker
MANY = 1000  # objects of an attacker
LOST = float("inf")  # of a victim that fails
SHARED_FACTOR, TRIES = 2, 3
DAEMON_ARGUMENTS = []


# ---- victims ----


def perftest(daemon, *command):
    try:
        _, text = kit.run_pair(daemon, as_user(VICTIM, *command, "-F", "-x", "0"), seconds=DEVICE_SECONDS)
        return kit.check_perftest(text)[0]
    except kit.Failure as failure:
        print("#   the victim: " + " / ".join(str(failure).splitlines()[-4:])[:300], flush=True)
        return None


def latency(daemon):
    """Microseconds: median, 99 %, 99.9 %."""
    row = perftest(daemon, "ib_send_lat", "-n", str(LATENCY_ROUNDS))
    return dict(zip(("p50", "p99", "p999"), (row[4], row[7], row[8]) if row else (LOST,) * 3))


def bandwidth(daemon):
    row = perftest(daemon, "ib_write_bw", "-D", "2", "-f", "0")
    return {"bw": row[3] if row else 0}


def at(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def opening(daemon):
    """Milliseconds for a connection with a device and a protection domain."""
    times, end = [], time.monotonic() + 1
    while time.monotonic() < end:
        start = time.perf_counter()
        client = Client(daemon)
        client.handle(ALLOC_PD)
        times.append((time.perf_counter() - start) * 1000)
        client.close()
        time.sleep(0.002)
    return {"open": at(times, 0.5), "open99": at(times, 0.99)}


def visit(daemon):
    return {**latency(daemon), **bandwidth(daemon), **opening(daemon)}


# ---- attackers ----


class Attack:
    """A row: an attack of the program `attacker`, or a function that starts processes (daemon, uid)."""

    def __init__(self, what, mode, count=0, uid=OTHER, environment=None, start=None, wire=False, sleeps=False):
        self.what, self.mode, self.count, self.uid = what, mode, count, uid
        self.environment, self.start, self.wire = environment, start, wire
        self.priority = PRIORITY_SLEEPS if sleeps else PRIORITY_COMPUTES

    @property
    def name(self):
        return self.mode + (f"-{self.count}" if self.count else "") + ("-same-user" if self.uid == VICTIM else "")


PLAIN = Attack("a plain busy program", "busy", 1, sleeps=True)
POLLS = Attack("the same, which never sleeps", "polling", 1)
COMPUTES = Attack("a program without RDMA that only computes", "burn", 1)
ROWS = [
    POLLS,
    COMPUTES,
    Attack("16 busy queue pairs", "busy", 16, sleeps=True),
    Attack("64 busy queue pairs", "busy", 64, sleeps=True),
    Attack("64 busy queue pairs of the same user", "busy", 64, uid=VICTIM, sleeps=True),
    Attack("READs of 1 MiB, 256 in flight", "reads", 16, sleeps=True),
    Attack("READs of 1 MiB of the same user", "reads", 16, uid=VICTIM, sleeps=True),
    Attack("sends to 256 queue pairs without receives", "rnr", 256, sleeps=True),
    Attack("100,000 queue pairs, some of them created and destroyed", "queues", 100000),
    Attack("1,000 idle connections", "idle-connections", 1000, sleeps=True),
    Attack("1,000 connections, each with a little work", "connections", 1000),
    Attack("registers and deregisters 1 GiB", "regions", 1),
    Attack("reads no event of 256 channels", "events", 256),
    Attack("overflows completion queues", "overflow", 16),
    Attack("rings all doorbells without work", "doorbells", 1000),
    Attack("flushes full queues", "errors", 2),
    Attack("memory that comes late", "silent", 16, environment={"UROCE_MR": "copy"}, sleeps=True),
    Attack("memory of a silent file system", "silent-files", start=python_attacks.silent_memory),
    Attack("freezes by ten connections", "freezes", start=python_attacks.freezes),
    Attack("`show` of 10,000 queue pairs", "show", start=python_attacks.show),
    Attack("takes all objects that a user may have, and asks for more", "exhaust", 100000),
    Attack("programs that end with 20,000 memory windows", "windows", 20000),
    Attack("passes descriptors of a silent file system", "silent-descriptors", start=python_attacks.silent_descriptors),
    Attack("punches pages of its mapped memory out", "holes", 16),
    Attack("wakes the worker, and takes wake-ups", "wakes", start=python_attacks.wakes),
    Attack("garbage from the wire", "garbage", start=garbage.flood, wire=True),
]


class Running:
    """An attack that takes place, until the block ends and the daemon has cleaned up after it."""

    def __init__(self, daemon, program, attack):
        self.daemon, self.attack = daemon, attack
        if attack.start:
            self.process = attack.start(daemon, attack.uid)
        else:
            # It changes its user itself: what it needs before is root's.
            self.process = subprocess.Popen([program, str(attack.uid), attack.mode, str(attack.count)],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                            env=daemon.environment(attack.environment), preexec_fn=lambda: os.setpriority(
                                                os.PRIO_PROCESS, 0, attack.priority))
        said = self.process.stdout.readline().strip()
        if said != "ready":
            self.__exit__()
            raise (net.Unavailable if said.startswith("skip") else kit.Failure)(f"the attack did not begin: {said}")

    def __enter__(self):
        return self

    def check(self):
        if self.process.poll() is not None:
            raise kit.Failure(f"the attack has ended: {self.process.returncode}")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        kit.wait_until(lambda: not any(c.get("device") for c in self.daemon.show("clients")), 60, "the end of the attacker's objects")


def measure(daemon, program, attack):
    with Running(daemon, program, attack) as running:
        figures = visit(daemon)
        running.check()
    return figures


# ---- verdicts ----


def medians(rounds):
    return {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}


def ratio(pairs, key):
    """The median of the rounds' ratios: beside the attack to beside the plain program."""
    return statistics.median(there[key] / here[key] for here, there in pairs)


def ratios(pairs, key, best):
    """That, the ratio of the medians, and that of the best rounds. Other programs on the machine can only make a round worse; an
    attack makes all worse. So the kindest of the three counts."""
    here, there = ([figures[key] for figures in rounds] for rounds in zip(*pairs))
    return (ratio(pairs, key), statistics.median(there) / statistics.median(here), best(there) / best(here))


def noise(pairs, key, most):
    """By how much the rounds beside the plain program differ: what the test cannot tell from an attack."""
    here = [plain[key] for plain, _ in pairs]
    return min(max(here) / min(here), most)


def verdict(pairs, shared):
    """What of it is too bad, by the cell. shared: the machine does other work."""
    factor, noisy = (SHARED_FACTOR, NOISE_SHARED) if shared else (1, NOISE_MAX)

    def give_way(key):
        return noise(pairs, key, noisy)

    kept, waited, opened = max(ratios(pairs, "bw", max)), min(ratios(pairs, "p99", min)), min(ratios(pairs, "open99", min))
    most = LATENCY * factor
    found = {}
    if kept < BANDWIDTH / factor / give_way("bw"):
        found["bandwidth"] = f"{kept:.2f} of that beside a plain program"
    if waited > most * give_way("p99"):
        found["latency"] = f"{waited:.1f} times the p99 beside a plain program"
    if opened > most * give_way("open99") and medians([there for _, there in pairs])["open99"] > VISIT_LIMIT_MS * factor:
        found["opening"] = f"{opened:.1f} times the p99 beside a plain program"
    tail = "; noise: " + ", ".join(f"{key} {give_way(key):.1f}" for key in ("bw", "p99", "open99"))
    return {cell: text + tail for cell, text in found.items()}


def cells(figures):
    return (f"{figures['p50']:.0f}, {figures['p99']:.0f}, {figures['p999']:.0f} | {figures['bw'] / 1000:.2f} | "
            f"{figures['open']:.2f}, {figures['open99']:.1f}")


class Table:
    def __init__(self):
        self.lines = ["| attack | latency, µs: median, p99, p99.9 | p99 to plain | GB/s | to plain | opening, ms: median, p99 |",
                      "|---|---|---|---|---|---|"]

    def add(self, what, figures, pairs=None):
        lat, bandwidth_, open_ = cells(figures).split(" | ")
        waited, kept = (f"{min(ratios(pairs, 'p99', min)):.1f}", f"{max(ratios(pairs, 'bw', max)):.1f}") if pairs else ("", "")
        self.lines.append(f"| {what} | {lat} | {waited} | {bandwidth_} | {kept} | {open_} |")


def worse(one, other):
    return {key: (min if key == "bw" else max)(one[key], other[key]) for key in one}


def run_pairs(build, program, attack, rounds):
    pairs = []
    computes = attack.priority == PRIORITY_COMPUTES and attack is not COMPUTES
    with SharedDaemon(build, wire=attack.wire, arguments=DAEMON_ARGUMENTS) as daemon:
        for _ in range(rounds):
            plain = measure(daemon, program, PLAIN)
            if LOST in plain.values() or not plain["bw"]:
                raise kit.Failure("a victim fails beside a plain program")
            said = f"#   plain: {cells(plain)}; "
            if computes:
                control = measure(daemon, program, COMPUTES)
                said += f"computing: {cells(control)}; "
                plain = worse(plain, control)
            pairs.append((plain, measure(daemon, program, attack)))
            print(f"{said}attack: {cells(pairs[-1][1])}", flush=True)
    return pairs


def is_idle(seconds=1):
    """Whether the machine does little else: nothing of this test runs now."""
    def times():
        with open("/proc/stat") as file:
            return [int(word) for word in file.readline().split()[1:9]]

    before = times()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(times(), before)]
    return spent[3] + spent[4] >= IDLE * sum(spent)


def run_row(build, program, attack, options, table):
    missed = None
    for _ in range(TRIES):
        shared = options.shared or not (options.strict or is_idle())
        print(f"# limits: {'of a shared machine' if shared else 'as they are promised'}", flush=True)
        try:
            pairs = run_pairs(build, program, attack, options.rounds)
        except net.Unavailable as reason:
            print(f"# skipped: {reason}")
            return
        found = verdict(pairs, shared)
        missed = found if missed is None else {cell: found[cell] for cell in missed if cell in found}
        if not missed:
            break
    table.add(attack.what, medians([there for _, there in pairs]), pairs)
    if missed:
        raise kit.Failure("\n".join(f"{cell}: {text}" for cell, text in missed.items()))


def plain_row(build, program, rounds, table):
    with SharedDaemon(build, arguments=DAEMON_ARGUMENTS) as daemon:
        table.add("none", medians([visit(daemon) for _ in range(rounds)]))
        table.add(PLAIN.what, medians([measure(daemon, program, PLAIN) for _ in range(rounds)]))


def main():
    flags = [(flag, {"action": "store_true"}) for flag in ("--short", "--shared", "--strict", "--markdown")]
    arguments = kit.point_arguments("attacker", more=[("--rounds", {"type": int, "default": 3}), ("--workers", {"type": int}), *flags])
    if arguments.workers:
        DAEMON_ARGUMENTS.extend(("--workers", str(arguments.workers)))
    if os.geteuid():
        print("1..0 # SKIP programs of several users need root")
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    build, table = kit.Build(arguments.build), Table()
    points = [("a plain busy program", lambda: plain_row(build, arguments.attacker, arguments.rounds, table))]
    for attack in ROWS if arguments.short else ():
        attack.count = attack.count // 10 if attack.count >= MANY else attack.count
    points += [(attack.name, lambda a=attack: run_row(build, arguments.attacker, a, arguments, table)) for attack in ROWS]
    status = kit.run_points(points, arguments.match)
    if arguments.markdown:
        print("\n".join(table.lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
