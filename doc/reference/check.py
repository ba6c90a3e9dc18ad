#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the API reference, and fails when a header's comments are not complete.

    doc/reference/check.py SOURCE_FOLDER [OUTPUT_FOLDER]

Without an output folder the pages are thrown away. The status is 77, which meson counts as skipped, without doxygen."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# A name that says it all needs no comment: fields, constants, structures within a structure.
MAY_BE_SILENT = r"(Member .* \((variable|enumvalue|macro definition)\) of|Compound \w+(::\w+)+) .*is not documented"


def make(root, output):
    doxyfile = (root / "doc/reference/Doxyfile").read_text()
    done = subprocess.run(["doxygen", "-"], cwd=root, input=doxyfile + f"\nOUTPUT_DIRECTORY = \"{output}\"\n",
                          capture_output=True, text=True)
    faults = [line for line in done.stderr.splitlines() if line.strip() and not re.search(MAY_BE_SILENT, line)]
    if faults:
        print("\n".join(faults))
    return 1 if done.returncode or faults else 0


def main():
    if not shutil.which("doxygen"):
        print("there is no doxygen")
        return 77
    root = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        output = pathlib.Path(sys.argv[2]).resolve()
        output.mkdir(parents=True, exist_ok=True)
        status = make(root, output)
        if not status:
            print(f"{output}/html/index.html")
        return status
    with tempfile.TemporaryDirectory(prefix="uroce-reference-") as folder:
        return make(root, folder)


if __name__ == "__main__":
    sys.exit(main())
