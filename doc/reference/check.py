#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the API reference, and fails when a header's comments are not complete.

    doc/reference/check.py SOURCE_FOLDER [OUTPUT_FOLDER]

Without an output folder the pages are thrown away. The status is 77, which meson counts as skipped, without doxygen."""
import pathlib
import shutil
import subprocess
import sys
import tempfile


def make(root, output):
    doxyfile = (root / "doc/reference/Doxyfile").read_text()
    done = subprocess.run(["doxygen", "-"], cwd=root, input=doxyfile + f"\nOUTPUT_DIRECTORY = \"{output}\"\n",
                          capture_output=True, text=True)
    print(done.stdout + done.stderr, end="")
    return 1 if done.returncode or "warning:" in done.stderr else 0


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
