#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own test suite, as Debian ships it with python3-pyverbs, over a loopback device. TAP: a point per test
of the generic part. Tests named in rdma-core-44.txt must pass, if this version has them; the others may also skip, but not fail,
except for those that want what uroce does otherwise (DIFFERS).

As root the suite runs in a network namespace whose loopback device has lost an address, so that its GID table has an empty index,
and with huge pages reserved; else the tests that want these skip.

usage: run_rdma_core.py --build DIR [--workers N] [--list | --skips]
--list makes rdma-core-44.txt, --skips rdma-core-44-skips.txt; then rdma_core_page.py writes the page of both."""
import argparse
import contextlib
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import uroce_kit as kit

SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # pyverbs is built for Debian's own
PROVIDER = re.compile(r"tests\.test_(mlx5|efa|cuda)")
SECONDS = 240
HUGE_PAGES = 64
LOST, KEPT = "192.0.2.1/32", "192.0.2.2/32"
DIFFERS = {
    "tests.test_device.DMTest.test_multi_process_alloc_dm":
        "wants forked children to use their parent's context; here they open the device again",
}


def unpack(folder):
    suite = os.path.join(folder, "tests")
    shutil.copytree(SUITE, suite)
    for packed in glob.glob(os.path.join(suite, "*.gz")):
        with gzip.open(packed) as source, open(packed[:-3], "wb") as target:
            shutil.copyfileobj(source, target)
        os.unlink(packed)
    return suite


def results(text):
    """{test: (outcome, reason)} of unittest's verbose output; a test with a docstring has its outcome a line later."""
    found, current = {}, None
    for line in text.splitlines():
        name = re.match(r"(\w+) \((tests\.[\w.]+)\)", line)
        if name:
            current = name.group(2)
        outcome = re.search(r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped)\b ?(.*)$", line)
        if outcome and current:
            found[current] = outcome.groups()
            current = None
    return found


def required():
    with open(os.path.join(HERE, "rdma-core-44.txt")) as names:
        return {line.strip() for line in names if line.strip() and line[0] != "#"}


def lacks(suite, name):
    """Whether this version of the suite has no function of that name: later ones have some under other names."""
    module, function = (name.split(".")[part] for part in (1, -1))
    try:
        with open(os.path.join(suite, module + ".py")) as text:
            return not re.search(rf"\b{function}\b", text.read())
    except FileNotFoundError:
        return True


# Why a test skips, by its name or by what the suite says.
REASONS = (
    (r"tests\.test_mlx5", "tests mlx5's own interface"),
    (r"tests\.test_efa", "tests EFA's own interface"),
    (r"tests\.test_cuda", "needs a GPU with CUDA"),
    (r"dmabuf", "needs a graphics device that makes dma-bufs"),
    (r"tests\.test_tag_matching", "tag matching is not supported"),
    (r"huge pages", "needs huge pages"),
    (r"gid indices", "needs an empty index in the GID table, which an address that is gone leaves"),
)


def skips(suite, found):
    """{test: reason} of all that do not pass, also of those that the output does not name."""
    listed = subprocess.run([PYTHON, "-W", "ignore", "run_tests.py", "--list-tests"], cwd=suite, capture_output=True, text=True)
    names = set(re.findall(r"tests\.[\w.]+", listed.stdout + listed.stderr)) | found.keys()
    reasons = {}
    for name in names:
        outcome, said = found.get(name, ("skipped", ""))
        if outcome == "ok":
            continue
        fitting = [reason for pattern, reason in REASONS if re.search(pattern, name + " " + said)]
        reasons[name] = DIFFERS.get(name) or (fitting + [said.strip("'\"")])[0]
    return reasons


@contextlib.contextmanager
def surroundings():
    """Reserves huge pages and makes a network namespace, for root: its name, else None, and whether there are huge pages."""
    name = f"uroce-core-{os.getpid()}"
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        yield None, False
        return
    try:
        with kit.huge_pages(HUGE_PAGES) as huge:
            for command in (["link", "set", "lo", "up"], *(["address", "add", a, "dev", "lo"] for a in (LOST, KEPT))):
                subprocess.run(["ip", "-n", name, *command], check=True)
            yield name, huge
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def lose_address(daemon, namespace):
    """The GIDs of an address that is gone leave their indices empty, as those behind them stay where they are."""
    def gone():
        return not any(LOST.split("/")[0] in row["address"] for row in daemon.show("gids"))

    subprocess.run(["ip", "-n", namespace, "address", "del", LOST, "dev", "lo"], check=True)
    kit.wait_until(gone, 20, f"{LOST} has left the GID table")


def run_suite(daemon, suite):
    """By `uroce run`, as the tests of rdma_cm look in the device's files for the address of its network interface."""
    command = [*daemon.prefix, daemon.build.uroce, "run", "--", PYTHON, "-W", "ignore", "run_tests.py", "-v", "--dev", "uroce0", "--port", "1", "--gid", "0"]
    environment = daemon.environment(kit.rdma_program(os.path.dirname(suite)))
    done = subprocess.run(command, cwd=suite, env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    return done.stdout


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--workers", default="1")
    options.add_argument("--list", action="store_true", help="print the names of the tests that pass")
    options.add_argument("--skips", action="store_true", help="print the names of the others, with the reasons")
    arguments = options.parse_args()
    if not os.path.isdir(SUITE) or subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True).returncode:
        print("1..0 # SKIP python3-pyverbs and its tests are not installed")
        return 0

    kit.die_on_signals()
    folder = kit.scratch_folder()
    with surroundings() as (namespace, huge):
        daemon = kit.Daemon(kit.Build(arguments.build), folder, arguments=("--loopback", "--workers", arguments.workers),
                            namespace=namespace)
        try:
            if namespace:
                lose_address(daemon, namespace)
            suite = unpack(folder)
            text = run_suite(daemon, suite)
            alive = daemon.alive()
        finally:
            daemon.stop()
    found = results(text)
    if arguments.skips:
        print("\n".join(f"{name}: {reason}" for name, reason in sorted(skips(suite, found).items())))
        return 0
    found = {name: result for name, result in found.items() if result[0] == "ok" or not PROVIDER.match(name)}
    if arguments.list:
        print("\n".join(sorted(name for name, result in found.items() if result[0] == "ok")))
        return 0

    must = {name for name in required() if name in found or not lacks(suite, name)}
    must -= {name for name in must if "_huge_" in name and not huge or name.endswith("gid_ex_bad_flow") and not namespace}
    names = sorted(found.keys() | must)
    failed = not alive
    print(f"1..{len(names) + 1}")
    for number, name in enumerate(names, 1):
        outcome, reason = found.get(name, ("missing", ""))
        if name in DIFFERS and outcome in ("FAIL", "ERROR"):
            outcome, reason = "skipped", DIFFERS[name]
        good = outcome == "ok" or outcome == "skipped" and name not in must
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}" + (f" # SKIP {reason}" if outcome == "skipped" else ""))
        if not good:
            print(f"# {outcome}")
    print(f"{'ok' if alive else 'not ok'} {len(names) + 1} - uroced survives")
    if failed:
        print("\n".join("# " + line for line in text.splitlines()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
