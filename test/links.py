#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Do the links of every *.md of the tree lead somewhere, and do the files that it names in backquotes or in commands
exist? TAP; run with the source folder as argument."""
import os
import re
import sys

from layers import lines

FENCE = re.compile(r"^(    |```)")
LINK = re.compile(r"\]\(([^)\s]+)\)")  # its text may begin on the line before
QUOTED = re.compile(r"`([^`]+)`")
FOLDERS = ("app", "config", "doc", "drivers", "examples", "lib", "scripts", "test")
# A file of the tree: a path that starts in one of its folders, or a C or Python file by the end of its path.
PATH = re.compile(r"(?:(?:" + "|".join(FOLDERS) + r")/[\w./{},*-]*|[\w./-]+\.(?:c|h|def|py))$")
COMMAND = re.compile(r"(?<![\w./-])(?:config|doc|examples|scripts|test)/[\w./-]*\w")


def tree(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f[0] != "." and not (folder == root and f.startswith("build"))]
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in sorted(names))


def prose(root, page):
    """Number and text of each line that is not a block of commands."""
    return [(n, line) for n, line in enumerate(lines(root, page), 1) if not FENCE.match(line)]


def slug(heading):
    """The anchor that GitHub gives to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def anchors(root, page):
    return {slug(line.lstrip("#").strip()) for _, line in prose(root, page) if line.startswith("#")}


def broken_links(root, pages):
    for page in pages:
        for number, line in prose(root, page):
            for target in LINK.findall(QUOTED.sub("", line)):
                if re.match(r"\w+:", target):
                    continue
                path, _, anchor = target.partition("#")
                to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                if not os.path.exists(os.path.join(root, to)):
                    yield f"{page}:{number}: {target}: there is no {to}"
                elif anchor and anchor not in anchors(root, to):
                    yield f"{page}:{number}: {target}: {to} has no such heading"


def alternatives(path):
    """lib/{a,b}.c stands for lib/a.c and lib/b.c."""
    braces = re.search(r"\{([^}]*)\}", path)
    if not braces:
        return [path]
    return [p for choice in braces[1].split(",")
            for p in alternatives(path[:braces.start()] + choice + path[braces.end():])]


def pattern(path):
    """A file, a folder, or a file without its extension."""
    return re.compile(r"(.*/)?" + re.escape(path.rstrip("/")).replace(r"\*", "[^/]*") + r"(/.*|\.\w+)?$")


def named_files(root, page):
    """Number of the line and path of each file of the tree that a page names: in backquotes, or in a command."""
    for number, line in enumerate(lines(root, page), 1):
        if FENCE.match(line):
            yield from ((number, word) for word in COMMAND.findall(line))
        else:
            yield from ((number, quoted) for quoted in QUOTED.findall(line) if PATH.match(quoted))


def missing_files(root, pages, files):
    for page in pages:
        for number, named in named_files(root, page):
            for path in alternatives(named):
                wanted = pattern(path)
                if not any(wanted.match(file) for file in files):
                    yield f"{page}:{number}: there is no {path}"


def main():
    root = sys.argv[1]
    files = list(tree(root))
    pages = [f for f in files if f.endswith(".md")]
    failed = 0
    rules = (("every relative link leads to a file or a heading", broken_links(root, pages)),
             ("every file that a page names exists", missing_files(root, pages, files)))
    print(f"1..{len(rules)}")
    for number, (name, found) in enumerate(rules, 1):
        found = list(found)
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
        for line in found:
            print("# " + line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
