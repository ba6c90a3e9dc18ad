#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every program and library that is installed has the protections that meson.build asks for, as readelf shows. TAP.

usage: hardening.py BUILD"""
import json
import os
import re
import subprocess
import sys


def installed(build):
    """The ELF files that `meson install` would copy."""
    names = json.loads(subprocess.run(["meson", "introspect", "--installed", build], check=True, capture_output=True,
                                      text=True).stdout)
    for name in sorted(names):
        if os.path.isfile(name) and not os.path.islink(name):
            with open(name, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield name


def readelf(option, name):
    return subprocess.run(["readelf", "-W", option, name], check=True, capture_output=True, text=True).stdout


def missing(name):
    """What the file lacks."""
    header, segments, dynamic, symbols = (readelf(option, name) for option in ("-h", "-l", "-d", "--dyn-syms"))
    program = "INTERP" in segments
    lacks = []
    if not re.search(r"Type:\s+DYN", header) or (program and not re.search(r"FLAGS_1.*\bPIE\b", dynamic)):
        lacks.append("position-independent code")
    if "GNU_RELRO" not in segments:
        lacks.append("RELRO")
    if not re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", dynamic):
        lacks.append("BIND_NOW")
    stack = re.search(r"GNU_STACK.*\s([RWE ]{3})\s", segments)
    if not stack or "E" in stack[1]:
        lacks.append("a stack without execution")
    if re.search(r"LOAD.*\sRWE\s", segments):
        lacks.append("segments either writable or executable")
    if "TEXTREL" in dynamic:
        lacks.append("code without relocations")
    if "__stack_chk_fail" not in symbols:
        lacks.append("stack protector")
    if not re.search(r"\b__\w+_chk\b", symbols.replace("__stack_chk_fail", "")):
        lacks.append("FORTIFY_SOURCE")
    marked = "SHSTK" in readelf("-n", name)
    if os.path.basename(name) == "uroced":  # with shadow stacks its workers would wait for memory that is late
        lacks += ["a stack that is not a shadow stack"] if marked else []
    elif "X86-64" in header and not marked:
        lacks.append("shadow stack")
    return lacks


def main():
    names = list(installed(sys.argv[1]))
    failed = 0
    print(f"1..{len(names) + 1}")
    for number, name in enumerate(names, 1):
        base = re.sub(r"(\.so\.\d+).*", r"\1", os.path.basename(name))
        lacks = missing(name)
        failed += bool(lacks)
        print(f"{'not ok' if lacks else 'ok'} {number} - {base}" + "".join(f"\n# it lacks {what}" for what in lacks))
    found = {os.path.basename(name) for name in names}
    good = {"uroce", "uroced", "uroce-perf"} <= found and any(name.startswith("libibverbs.so") for name in found)
    print(f"{'ok' if good else 'not ok'} {len(names) + 1} - the programs and libraries are installed")
    return 1 if failed or not good else 0


if __name__ == "__main__":
    sys.exit(main())
