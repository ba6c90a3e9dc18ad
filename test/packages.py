#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Do the lists of Debian packages agree? What scripts/lib.sh installs to build is what debian/control names, without what only tests
need. TAP; the argument is the source folder."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
# gcc and its kind are in build-essential, which every build of a package has; cmocka is for tests.
OTHER = {"gcc", "libc6-dev", "ninja-build", "libcmocka-dev"}


def main():
    listed = re.search(r'^PACKAGES_BUILD="([^"]*)"', (ROOT / "scripts/lib.sh").read_text(), re.M)[1].split()
    field = re.search(r"^Build-Depends:(.*(?:\n .*)*)", (ROOT / "debian/control").read_text(), re.M)[1]
    named = {re.split(r"[\s:(]", word.strip())[0] for words in field.split(",") for word in words.split("|")}
    missing = set(listed) - OTHER - named
    print("1..1")
    for name in sorted(missing):
        print(f"# {name} is in scripts/lib.sh, and not in debian/control")
    print("not " * bool(missing) + "ok 1 - the package is built with what the tree is built with")
    return bool(missing)


sys.exit(main())
