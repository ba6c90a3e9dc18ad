#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The long suites in parts of about ten minutes on two cores, twenty at most, one part for each commit.

    scripts/rotating.py --list          every part, with the tests that it runs
    scripts/rotating.py --count         the number that chooses
    scripts/rotating.py                 the part of this commit, for scripts/test
    scripts/rotating.py PART [TURN]     this part

The commit's count chooses the part, so that as many commits as there are parts run all of them; in a shallow clone,
which has no count, the commit's hash does. How often all parts have had their turn chooses the seeds of the
simulation and of libFuzzer, which are new each time.

What scripts/test reads: a line with the part's name, its turn and what it is, and a line for each run of meson test: the build
folder, the seconds that the run may take, and its arguments."""
import hashlib
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MUTATION_PARTS = 8
SEEDS = {"sim_all-long": 150000, "sim_rc-long": 125000, "sim_cm-long": 500000, "sim_lab-long": 30000}
FUZZ = (("packet", "queue"), ("engine", "ctl"), ("replay", "config"), ("flows", "net"), ("raw", "perf_options"),
        ("server", "memory"), ("client", "adopt", "rsockets"), ("cm", "lab", "inject"), ("socket", "long_frames", "rdmacm"))
FUZZ_SECONDS = 300
SOURCES = ("shim-perftest-source", "programs-valkey", "programs-fabtests", "programs-fabtests-long",
           *(f"programs-ucx-{part}" for part in ("uct-rc", "uct-ud", "cm", "ucp-rc", "ucp-ud", "types-rc", "types-ud", "sockaddr-rc",
                                                 "sockaddr-ud")))


def mutations():
    text = (ROOT / "test/mutation/mutations.txt").read_text()
    return [line.split()[1] for line in text.splitlines() if line.startswith("mutation ")]


def meson(folder, seconds, tests, *arguments):
    """A run of meson test; the arguments are added to those that the tests have."""
    added = [f"--test-args={shlex.join(arguments)}"] if arguments else []
    return [folder, str(seconds), "--num-processes", "1", *added, *tests]


def mutation(part):
    return lambda turn: [meson("build", 1200, ["mutation"],
                               *(f"--only={name}" for name in mutations()[part::MUTATION_PARTS]))]


def fuzz(targets):
    def runs(turn):
        run = meson("build-fuzz", FUZZ_SECONDS + 120, [f"fuzz_{name}-long" for name in targets],
                    f"-max_total_time={FUZZ_SECONDS}", f"-seed={turn + 2}")
        run[run.index("--num-processes") + 1] = str(len(targets))
        return [run]
    return runs


def sim(test, folder="build", share=1):
    def runs(turn):
        seeds = SEEDS[test] // share
        return [meson(folder, 1200, [test], "--first", str(1000 + turn * seeds), "--seeds", str(seeds))]
    return runs


def interop(kernel):
    """Both ports of the tests with a Linux kernel; over vhost-user in two halves."""
    for half in (1, 2):
        yield (f"interop-vhost-{kernel}-{half}", f"half of all programs with rdma_rxe of Linux {kernel}, over vhost-user",
               fixed(meson("build", 1200, [f"interop-all-{kernel}"], "--port", "vhost-user", "--part", f"{half}/2")))
    yield (f"interop-tap-{kernel}", f"programs with rdma_rxe of Linux {kernel}, over a TAP interface",
           fixed(meson("build", 1200, [f"interop-all-{kernel}"], "--port", "tap")))
    for half in (1, 2):
        yield (f"interop-socket-{kernel}-{half}", f"half of all programs with rdma_rxe of Linux {kernel}, over UDP sockets",
               fixed(meson("build", 1200, [f"interop-all-{kernel}"], "--port", "socket", "--part", f"{half}/2")))


def fixed(*runs):
    return lambda turn: list(runs)


def parts():
    """(name, what it is, runs of a turn): in the order of the commits, different kinds side by side."""
    found = [(f"mutation-{n + 1}", "an eighth of the faults that the tests must notice", mutation(n))
             for n in range(MUTATION_PARTS)]
    others = [(f"fuzz-{n + 1}", f"{FUZZ_SECONDS // 60} minutes of libFuzzer for {' and '.join(targets)}", fuzz(targets))
              for n, targets in enumerate(FUZZ)]
    others += [
        *(part for kernel in ("6.1", "6.12") for part in interop(kernel)),
        ("interop-rss", "uroced in a guest, over a NIC with RSS, and on two NUMA nodes; latency against load there",
         fixed(meson("build", 1200, ["interop-rss", "interop-numa", "interop-tail"]))),
        ("interop-memory", "adopted memory on Linux 6.1 and 6.12",
         fixed(meson("build", 1200, ["interop-memory-6.1", "interop-memory-6.12"]))),
        ("ports", "every kind of port, and jumbo frames", fixed(meson("build", 1200, ["ports-long", "net-1500", "net-9000", "net-cm-long", "net-cm-programs"]))),
        ("workers", "all programs over three workers; cache lines that workers pass to each other",
         fixed(meson("build", 1200, ["shim-workers-long", "passed_lines"]))),
        ("rounds", "all programs twice, and rdma-core's tests with two workers",
         fixed(meson("build", 1200, ["shim-long"], "--rounds", "2"), meson("build", 600, ["shim-rdma-core-workers", "shim-cm-workers", "shim-cm-long"]))),
        *((f"distribution-{name}", about, fixed(meson("build", 1200, [f"distribution-{name}"])))
          for name, about in (("bookworm", "a bare Debian 12: the two commands of README.md"),
                              ("trixie", "Debian 13: the demo, and all but the shim suite"), ("trixie-shim", "Debian 13: its programs"),
                              ("trixie-clang", "Debian 13, with clang and without cmocka"),
                              ("packages-bookworm", "Debian packages on Debian 12"), ("packages-trixie", "Debian packages on Debian 13"),
                              ("containers", "a container image, and what doc/ci.md says of containers"), ("sid", "Debian's next release"), ("arm64", "for arm64, under qemu-aarch64"))),
        ("adopt", "adopted memory under load for longer; moves and disturbances of queue pairs",
         fixed(meson("build", 1200, ["adopt-long"], "--seconds", "20"), meson("build", 400, ["dataplane_chaos-long", "shim-isolation", "shim-slow-memory-long", "shim-memory-many"]))),
        ("isolation", "programs that share one uroced: attackers beside others, 2,000 that are killed",
         fixed(meson("build", 300, ["isolation-soak"], "--kills", "2000"), meson("build", 300, ["cm-storm"]),
               meson("build", 1000, ["isolation-matrix-shared"], "--short", "--rounds", "2"))),
        ("isolation-2", "the same with two workers, and users with weights",
         fixed(meson("build", 300, ["isolation-soak-2"], "--kills", "2000"), meson("build", 200, ["isolation-weights"]), meson("build", 1000, ["isolation-matrix-2"], "--rounds", "2"))),
        ("programs", "every command of doc/programs.md, as root and as an ordinary user", fixed(meson("build", 1200, ["programs", "programs-user"]))),
        *((f"programs-net-{transport}", f"UCX over {transport} between two hosts, every test and size",
           fixed(meson("build", 1200, ["net-programs-long"], "--match", transport))) for transport in ("rc_verbs", "ud_verbs")),
        # Those of SOURCES are skipped where no variable names a folder with the sources, as in CI.
        ("programs-net", "programs between two hosts without settings; all programs of perftest with more options; programs with sources of their own",
         fixed(meson("build", 1200, ["net-programs", "shim-perftest-long", *SOURCES]))),
        ("sim-all", "new seeds of the simulation of everything", sim("sim_all-long")),
        ("sim-rc", "new seeds of the simulation of RC; the faults that the cases of the scripts are for",
         lambda turn: sim("sim_rc-long")(turn) + [meson("build", 900, ["mutation_verify"])]),
        ("sim-cm", "new seeds of the simulation of connections, and of laboratories",
         lambda turn: sim("sim_cm-long")(turn) + sim("sim_lab-long")(turn)),
        ("sim-sanitize", "new seeds of all four under AddressSanitizer and UBSan",
         lambda turn: [run for test in SEEDS for run in sim(test, "build-asan", 10)(turn)]),
    ]
    order = []
    while found or others:
        order += others[:2] + found[:1]
        others, found = others[2:], found[1:]
    return order


def commit_count():
    """The number of this commit, from the history or, without one, from its hash."""
    def git(*arguments):
        try:
            return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True).stdout.strip()
        except FileNotFoundError:
            return ""
    if git("rev-parse", "--is-shallow-repository") == "false":
        return int(git("rev-list", "--count", "HEAD"))
    name = git("rev-parse", "HEAD") or (ROOT / "CHANGELOG.md").read_text()
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 10000  # seeds have 32 bits


def chosen(all_parts):
    if len(sys.argv) < 2:
        turn, index = divmod(commit_count(), len(all_parts))
        return all_parts[index], turn
    for part in all_parts:
        if part[0] == sys.argv[1]:
            return part, int(sys.argv[2]) if len(sys.argv) > 2 else 0
    sys.exit(f"rotating.py: there is no part '{sys.argv[1]}'; --list names them")


def main():
    all_parts = parts()
    if sys.argv[1:] == ["--list"]:
        for name, about, runs in all_parts:
            tests = [word for run in runs(0) for word in run[4:] if not word.startswith("-")]
            print(f"{name:18} {about} ({', '.join(tests)})")
        return 0
    if sys.argv[1:] == ["--count"]:
        print(commit_count())
        return 0
    (name, about, runs), turn = chosen(all_parts)
    print(f"{name} {turn} {about}")
    for run in runs(turn):
        print(shlex.join(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
