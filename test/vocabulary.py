#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One meaning per word: the words of CONTRIBUTING.md's list that the tree does not use. TAP; run with the source folder
as argument. With a second argument, a folder or file of the tree, prints every hit in it."""
import os
import re
import sys

from layers import sources

# What not to write, and what to write instead. A space stands for any white space, also that between two lines of a
# comment.
WORDS = (
    (r"bells?", "doorbell"),
    (r"hand(s|ed|ing)?(-| )?over|handovers?", "forward (a frame), pass (anything else)"),
    (r"strays?", "misplaced"),
    (r"settl(e|es|ed|ing)", "complete, or the exact event that is awaited"),
    (r"(general|short|fast|slow) ways?", "general path, batch path, slow path"),
    (r"(?<!one\x20)of (which|whom)", "a clause that names the noun"),
    (r"(?<![\"`])nobody|somebody|anybody|everybody|who(m)?ever", "the actor: the worker, the peer, the application, the host"),
    (r"he|him|his|she|her|himself", "the noun"),
    (r"so many", "n, this many, that many"),
    (r"as often( as)?", "as many times"),
    (r"for good(?! reason|, _)", "permanently"),
    (r"the begin", "the start"),
    (r"meanwhile", "concurrently, until then"),
    (r"by and by|to and fro|of late|for want of|had better|as ever", "plain words"),
    (r"is up to the", "the actor as the subject: the kernel chooses"),
    (r"gets? what (it|he) deserves?|to whom it may concern", "what happens"),
    (r"naps?|napp(ed|ing)", "sleep"),
    (r"patience", "timeout, limit"),
)

# Hits that a folder may have. The test fails when there are more, and says so when there are fewer.
ALLOWED = {
    "app": 0,
    "config": 0,
    "doc": 0,
    "drivers": 0,
    "examples": 0,
    "lib": 0,
    "scripts": 0,
    "test": 0,
    "": 0,
}

# The list itself, or names of the past, are quoted in these. Generated pages follow the files that they are made from.
QUOTES = ("test/vocabulary.py", "CONTRIBUTING.md", "CHANGELOG.md")
GENERATED = "doc/generated/"
TEXT = (".c", ".h", ".def", ".py", ".sh", ".md", ".txt", ".ini", ".build", ".case", ".map", ".json")
SCRIPTS = ("scripts/test", "scripts/demo", "scripts/bench")

GAP = r"\s+(?:[*#/]+\s+)?"
PATTERN = re.compile(r"\b(?:" + "|".join(rf"(?P<w{i}>{word.replace(' ', GAP)})" for i, (word, _) in enumerate(WORDS))
                     + r")\b")


def checked(root):
    for path in sources(root):
        if (path.endswith(TEXT) or path.startswith(SCRIPTS)) and path not in QUOTES and not path.startswith(GENERATED):
            yield path


def hits(root, path):
    """file:line, the word, and what to write instead."""
    with open(os.path.join(root, path), errors="replace") as file:
        text = file.read().lower()
    for match in PATTERN.finditer(text):
        word = " ".join(re.sub(r"[*#/]", " ", match.group()).split())
        yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {word}", WORDS[int(match.lastgroup[1:])][1]


def folder_of(path):
    return path.split("/")[0] if "/" in path else ""


def main():
    root = sys.argv[1]
    files = list(checked(root))
    if len(sys.argv) > 2:
        for path in files:
            if path.startswith(sys.argv[2].rstrip("/")):
                for where, instead in hits(root, path):
                    print(f"{where} -> {instead}")
        return 0
    failed = 0
    print(f"1..{len(ALLOWED)}")
    for number, (folder, allowed) in enumerate(ALLOWED.items(), 1):
        found = [hit for path in files if folder_of(path) == folder for hit in hits(root, path)]
        failed += len(found) > allowed
        print(f"{'not ok' if len(found) > allowed else 'ok'} {number} - "
              f"{folder or 'the top folder'} uses the words of CONTRIBUTING.md")
        if len(found) > allowed:
            print(f"# {len(found)} hits, {allowed} are allowed")
            for where, instead in found[:30]:
                print(f"# {where}: write {instead}")
        elif len(found) < allowed:
            print(f"# {len(found)} hits: lower ALLOWED[{folder!r}] in test/vocabulary.py, which says {allowed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
