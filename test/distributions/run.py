#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce on another distribution, in a folder of this machine: builds there, runs the demo and suites. TAP. For root.

usage: run.py --build DIR [--folder DIR] [--keep] bookworm|trixie|trixie-shim|trixie-clang|sid|arm64|packages-bookworm|
              packages-trixie|containers

The folder (distributions in the build folder) keeps the other systems for the next run. --keep: also what was built there."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "kit"))
sys.path.insert(0, str(HERE))
import uroce_kit as kit
from containers import Containers
from packages import Packages
from roots import SOURCE, Root

# qemu-aarch64 for programs whose ELF header says arm64; the kernel opens it now, and so finds it in every root (F).
FORMAT = (r":uroce-arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
          r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{}:F")
ARM64_HOST = ("gcc-aarch64-linux-gnu libc6-dev-arm64-cross meson ninja-build pkg-config python3 binutils qemu-user-static").split()


def packages(*variables):
    """Of scripts/lib.sh."""
    script = f". {SOURCE}/scripts/lib.sh; echo " + " ".join("$" + name for name in variables)
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def suites(root, names, seconds, environment=None, network=False):
    """scripts/test of the tree, in the root."""
    status, output = root.run(f"scripts/test {names}", seconds, network=network, environment=environment)
    results = re.findall(r"^== (\S+: .*)$", output, flags=re.M)
    if status or not re.search(r"^\d+ passed, 0 failed$", output, flags=re.M):
        failed = re.findall(r"^not ok .*$|^.* (?:FAIL|ERROR|TIMEOUT) .*$", output, flags=re.M)
        raise kit.Failure("\n".join([*output.splitlines()[-20:], *failed[-30:], *results, f"exit status {status}"]))
    print("\n".join("# " + line for line in results if " passed" in line))


def headers(root, build):
    """A program that is compiled with the distribution's headers, over the build there, and over the one here."""
    root.must("meson test -C build --no-rebuild shim-later", 120)
    done = subprocess.run([SOURCE / "test/shim/run_later.py", "--build", build, "--headers", root.path / "usr/include",
                           SOURCE / "test/shim/later_abi.c", SOURCE / "test/shim/later_counters.c"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise kit.Failure("\n".join(line for line in done.stdout.splitlines() if not line.startswith("ok ")) + done.stderr)


DEMO, PLAIN = "demo", "builds without the tests"
# Of the default suites those that need no network and no guest: half of the time.
QUICK = "unit script sim replay shim-quick"
COMMANDS = {DEMO: "scripts/demo", PLAIN: "meson setup build-plain -Dtests=disabled && ninja -C build-plain"}


def natively(root, build, compiler, steps):
    """What installs the packages, and then the points of a distribution for this machine's processor."""
    environment = {"CC": compiler}
    wanted = packages("PACKAGES_BUILD", "PACKAGES_PROGRAMS", "PACKAGES_TEST")

    def one(step):
        if step in COMMANDS:
            root.must(COMMANDS[step], 600, environment=environment)
        else:
            suites(root, step, 1080, environment)
    return [lambda: root.install(wanted + [compiler]), *((step, lambda step=step: one(step)) for step in steps),
            ("a program of its headers, with its libraries and with this machine's", lambda: headers(root, build))]


def bare(root):
    """A system that has nothing of what uroce needs: the README's two commands install it."""
    return [lambda: None, (DEMO, lambda: root.must(COMMANDS[DEMO], 900, network=True)),
            (QUICK, lambda: suites(root, QUICK, 1080, network=True))]


def emulated():
    """The tests that need the kernel of a real machine, with the reasons."""
    lines = (HERE / "emulated.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


def arm64_tests(root, suite):
    listed = root.must(f"meson test -C build-arm64 --no-rebuild --list --suite {suite}", 60).splitlines()
    names = [line.split(" / ")[-1].strip() for line in listed if " / " in line]
    chosen = [name for name in names if name not in emulated()]
    status, output = root.run(f"meson test -C build-arm64 --no-rebuild -t 10 {' '.join(chosen)}", 900, user=True,
                              environment={"UROCE_TEST_FORMAT": FORMAT.format("/usr/bin/qemu-aarch64-static")})
    if status == 77:
        raise kit.Skipped("this kernel has no binary formats in user namespaces (Linux 6.7)")
    if status:
        raise kit.Failure("\n".join(line for line in output.splitlines()[-150:] if not re.search(r"\bOK\b", line)))
    print(f"# {suite}: {len(chosen)} of {len(names)} tests")


def arm64(root):
    """The same for a cross build in a root of this machine's processor, with the libraries of arm64 beside its own."""
    libraries = [f"{name}:arm64" for name in packages("PACKAGES_BUILD") if re.fullmatch(r"lib.*-dev", name)]
    return [lambda: root.install(ARM64_HOST + libraries, "dpkg --add-architecture arm64"),
            ("cross build", lambda: root.must("{ [ -f build-arm64/build.ninja ] || meson setup build-arm64 --cross-file "
                                              "config/arm64.ini -Dwerror=true; } && ninja -C build-arm64", 900)),
            *((suite, lambda suite=suite: arm64_tests(root, suite)) for suite in ("unit", "script", "sim", "replay"))]


def debian_packages(root, release):
    made = Packages(root, release)
    return [made.prepare, *made.points()]


def containers(root):
    made = Containers(root)
    return [made.prepare, *made.points()]


ENGINE = ["unit script sim replay"]
# The folder, the release, the points. scripts/demo comes first where warnings are no errors: sid has a new compiler any day.
SYSTEMS = {"bookworm": ("bookworm", "bookworm", lambda root, build: bare(root)),
           "trixie": ("trixie", "trixie", lambda root, build: natively(root, build, "gcc", [*ENGINE, DEMO])),
           "trixie-shim": ("trixie", "trixie", lambda root, build: natively(root, build, "gcc", ["shim"])),
           "trixie-clang": ("trixie", "trixie", lambda root, build: natively(root, build, "clang", [PLAIN, *ENGINE])),
           "sid": ("sid", "sid", lambda root, build: natively(root, build, "gcc", [DEMO, *ENGINE])),
           **{f"packages-{release}": (f"packages-{release}", release, lambda root, build, release=release: debian_packages(root, release))
              for release in ("bookworm", "trixie")},
           "containers": ("containers", "bookworm", lambda root, build: containers(root)),
           "arm64": ("trixie-arm64", "trixie", lambda root, build: arm64(root))}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--folder")
    options.add_argument("--keep", action="store_true")
    options.add_argument("system", choices=SYSTEMS)
    arguments = options.parse_args()
    kit.die_on_signals()
    if os.geteuid() or not shutil.which("debootstrap"):
        print("1..0 # SKIP " + ("only for root" if os.geteuid() else "there is no debootstrap"))
        return 0
    folder, release, points_of = SYSTEMS[arguments.system]
    root = Root(pathlib.Path(arguments.folder or f"{arguments.build}/distributions").resolve() / folder, release)
    packages_point, *points = points_of(root, arguments.build)
    try:
        root.make()
        root.copy_source()
        packages_point()
    except kit.Skipped as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    except kit.Failure as problem:
        if release != "sid": # whose packages do not fit each other on some days
            print("1..1\nnot ok 1 - a system with the packages")
            print("\n".join("# " + line for line in str(problem).splitlines()))
            return 1
        print("1..0 # SKIP sid cannot be installed today")
        return 0
    tap = kit.Tap(len(points))
    for name, function in points:
        tap.point(f"{arguments.system}: {name}", function)
    if not arguments.keep:
        root.remove_source()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
