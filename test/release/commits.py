#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""TAP: what scripts/check-commits says of sample messages, as a file and as commits. commits.py SOURCE_FOLDER"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from uroce_kit import Failure, Tap

BODY = "\n\nCause: a reader could not find it.\nChange: it has a name.\n"
# What it is a sample of, the message, and a part of each fault that is to be found.
SAMPLES = (
    ("a good message", "wire: PSNs have a type" + BODY, ()),
    ("several components", "wire, encap: headers are templates" + BODY, ()),
    ("a folder as component", "doc/decisions: shorter" + BODY, ()),
    ("a command as component", "uroce replay: names say more" + BODY, ()),
    ("72 characters", "wire: " + "x" * 66 + BODY, ()),
    ("a comment of the editor", "wire: PSNs have a type" + BODY + "# Please enter the commit message\n", ()),
    ("a long command", "test: one suite more" + BODY + "\n    " + "scripts/test " * 10 + "\n", ()),
    ("a reverted commit", 'Revert "wire: PSNs have a type"' + BODY, ()),
    ("73 characters", "wire: " + "x" * 67 + BODY, ("73 characters",)),
    ("no component", "PSNs have a type" + BODY, ("is not 'component: what'",)),
    ("a period", "wire: PSNs have a type." + BODY, ("period",)),
    ("nothing said", "wire: wip" + BODY, ("does not say what",)),
    ("no body", "wire: PSNs have a type\n", ("no 'Cause:'", "no 'Change:'")),
    ("no cause", "wire: PSNs have a type\n\nChange: they have.\n", ("no 'Cause:'",)),
    ("no empty line", "wire: PSNs have a type" + BODY.replace("\n\n", "\n"), ("no empty line",)),
    ("a long line", "wire: PSNs have a type" + BODY + "word " * 20 + "\n", ("a line of the body has 100",)),
)


def run(command, folder, message=None):
    identity = {f"GIT_{who}_{what}": "tester@example.org"
                for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(command, cwd=folder, input=message, capture_output=True, text=True, timeout=60,
                          env=environment)


def check(done, wanted):
    text = done.stdout + done.stderr
    lines = done.stdout.splitlines()
    if done.returncode != bool(wanted) or len(lines) != len(wanted) + 1:
        raise Failure(f"status {done.returncode}, wanted {wanted}\n{text}")
    for part in wanted:
        if part not in text:
            raise Failure(f"'{part}' is not among\n{text}")


def as_file(checker, folder, message, wanted):
    with open(os.path.join(folder, "message"), "w") as file:
        file.write(message)
    check(run([checker, "--file", "message"], folder), wanted)


def as_commits(checker, folder):
    """A repository with one good commit, one bad one and a merge."""
    for command, message in (
            (["init", "-q", "-b", "main"], None), (["commit", "-q", "--allow-empty", "-F", "-"], "begin"),
            (["checkout", "-q", "-b", "work"], None), (["commit", "-q", "--allow-empty", "-F", "-"], SAMPLES[0][1]),
            (["commit", "-q", "--allow-empty", "-F", "-"], "wip"), (["checkout", "-q", "main"], None),
            (["merge", "-q", "--no-ff", "-m", "a merge says nothing", "work"], None)):
        done = run(["git", *command], folder, message)
        if done.returncode:
            raise Failure(f"git {command[0]}: {done.stderr}")
    done = run([checker, "work^^..main"], folder)
    check(done, ("is not 'component: what'", "no 'Cause:'", "no 'Change:'"))
    if not done.stdout.endswith("1 passed, 1 failed\n"):
        raise Failure(done.stdout)
    check(run([checker, "main~0..main"], folder), ())


def template(checker, root):
    """The template alone is no message."""
    check(run([checker, "--file", os.path.join(root, ".gitmessage")], root),
          ("is not 'component: what'", "no 'Cause:'", "no 'Change:'"))


def main():
    if not shutil.which("git"):
        print("1..0 # SKIP there is no git")
        return 0
    root = os.path.abspath(sys.argv[1])
    checker = os.path.join(root, "scripts/check-commits")
    tap = Tap(len(SAMPLES) + 2)
    with tempfile.TemporaryDirectory() as folder:
        for name, message, wanted in SAMPLES:
            tap.point(name, lambda: as_file(checker, folder, message, wanted))
        tap.point("a range with a merge", lambda: as_commits(checker, folder))
        tap.point(".gitmessage", lambda: template(checker, root))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
