#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""TAP: the descriptions of CI parse, and name suites and programs that exist; the rotating parts name tests that exist.

    workflows.py SOURCE_FOLDER BUILD_FOLDER"""
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kit"))
from uroce_kit import Failure, Tap

try:
    import yaml
except ImportError:
    yaml = None


def files(root):
    return sorted((root / ".github").rglob("*.yml")) + [root / ".gitlab-ci.yml"]


def parses(path):
    if yaml is None:
        return
    try:
        found = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise Failure(str(error))
    if not isinstance(found, dict):
        raise Failure("it is no mapping")


def suites(root):
    text = (root / "scripts/test").read_text()
    default, more = (re.search(rf'^{name}="(.*)"$', text, flags=re.M)[1] for name in ("DEFAULT_SUITES", "ALL_SUITES"))
    return set((default + " default " + more).split())


def calls(root, path):
    """What the file's commands call: programs of the source tree, and suites of .ci/run."""
    commands = re.findall(r"^\s*(?:- )?(?:run: |- )((?:\.ci|scripts|doc|test)/.*)$", path.read_text(), flags=re.M)
    known = suites(root)
    for command in commands:
        program, *arguments = command.split()
        if not os.access(root / program, os.X_OK):
            raise Failure(f"{program} is no program")
        if program == ".ci/run":
            unknown = [word for word in arguments if re.fullmatch(r"[a-z-]+", word) and word not in known]
            if unknown:
                raise Failure(f"{command}: there is no suite {unknown}")


def rotating(root, build):
    """Every part's tests exist, in the build folders that have them."""
    def run(*words):
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    tests = json.loads(run("meson", "introspect", "--tests", str(build)))
    known = {test["name"] for test in tests}
    long = {test["name"] for test in tests if {"uroce:nightly", "uroce:interop", "uroce:programs"} & set(test["suite"])}
    fuzzed = re.findall(r"^  '(\w+)': \[", (root / "test/fuzz/meson.build").read_text(), flags=re.M)
    listed = run(str(root / "scripts/rotating.py"), "--list")
    named = [name for names in re.findall(r"\(([^()]*)\)$", listed, flags=re.M) for name in names.split(", ")]
    faults = [f"there is no test {name}" for name in set(named) - known if not name.startswith("fuzz_")]
    faults += [f"no part has {name}" for name in long | {f"fuzz_{name}-long" for name in fuzzed} if name not in named]
    if faults:
        raise Failure("\n".join(faults))
    chosen = run(str(root / "scripts/rotating.py")).split()[0]
    if f"\n{chosen} " not in "\n" + listed:
        raise Failure(f"{chosen} was chosen, which is not listed")


def main():
    root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    found = files(root)
    tap = Tap(2 * len(found) + 1)
    for path in found:
        name = path.relative_to(root)
        tap.point(f"{name} parses" + ("" if yaml else " # SKIP no python3-yaml"), lambda: parses(path))
        tap.point(f"{name} calls what exists", lambda: calls(root, path))
    tap.point("rotating parts have tests", lambda: rotating(root, build))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
