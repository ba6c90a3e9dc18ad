#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""TAP: programs show the project's version, and CHANGELOG.md has a section for it.

    version.py SOURCE_FOLDER VERSION PROGRAM..."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kit"))
from uroce_kit import Failure, Tap


def shows(program, version):
    wanted = f"{pathlib.Path(program).name} {version}"
    found = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20).stdout.strip()
    if found != wanted:
        raise Failure(f"{program} --version says '{found}' and not '{wanted}'")


def sections(changelog):
    """(version, date) of each section, the newest first."""
    return re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (.+)$", changelog, flags=re.M)


def is_described(changelog, version):
    found = sections(changelog)
    if not found or found[0][0] != version:
        raise Failure(f"the first section of CHANGELOG.md is {found[:1]} and not of {version}")


def is_in_order(changelog):
    found = sections(changelog)
    numbers = [tuple(map(int, version.split("."))) for version, _ in found]
    if numbers != sorted(set(numbers), reverse=True):
        raise Failure("the sections of CHANGELOG.md are not in the order of versions")
    for version, date in found:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", date) and (version, date) != (found[0][0], "unreleased"):
            raise Failure(f"{version}: '{date}' is no date")


def main():
    root, version, programs = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    changelog = (root / "CHANGELOG.md").read_text()
    tap = Tap(len(programs) + 2)
    for program in programs:
        tap.point(f"{pathlib.Path(program).name} --version", lambda: shows(program, version))
    tap.point("CHANGELOG.md begins with this version", lambda: is_described(changelog, version))
    tap.point("its sections are in order and have dates", lambda: is_in_order(changelog))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
