#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rules about the source tree that the compiler does not enforce. TAP; run with the source folder as argument."""
import os
import re
import sys

PURE = ("base", "wire", "encap", "net", "steer", "mem", "abi", "queue", "transport", "cm")
MAX_LINES = 1000
# The unix sockets of the control protocol, and the report of a broken invariant.
IO_IN_PURE = ("lib/abi/ctl_msg.c", "lib/base/invariant.c")
NOT_OURS = ("build", ".git", "test/vectors")


def sources(root):
    for folder, folders, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        folders[:] = [f for f in folders
                      if not os.path.normpath(os.path.join(relative, f)).startswith(NOT_OURS) and f[0] != "."]
        for name in sorted(names):
            yield os.path.normpath(os.path.join(relative, name))


def lines(root, path):
    with open(os.path.join(root, path), errors="replace") as text:
        return text.read().splitlines()


def includes(root, files, pattern, allowed):
    """file:line of each #include that matches pattern outside the allowed folders."""
    found = []
    for path in files:
        if path.endswith((".c", ".h")) and not path.startswith(allowed):
            found += [f"{path}:{n}: {line}" for n, line in enumerate(lines(root, path), 1)
                      if re.match(r"\s*#\s*include\s*[<\"](" + pattern + ")", line)]
    return found


def component_of(path):
    """lib/net, drivers/pktio, app/uroce; of other files the first folder."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in ("lib", "drivers", "app") else parts[0]


def is_private(header):
    """Headers of a component that others may include are in its own folder, and not called *_internal.h."""
    return header.endswith("_internal.h") or header.startswith("lib/") and header.count("/") > 2


def private_headers(root, files):
    """Includes of another component's private headers, except in tests."""
    headers = [path for path in files if path.endswith(".h") and path.startswith(("lib/", "drivers/", "app/"))]
    found = []
    for path in files:
        if not path.endswith((".c", ".h")) or path.startswith("test/"):
            continue
        for number, line in enumerate(lines(root, path), 1):
            include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            named = [header for header in headers if include and ("/" + header).endswith("/" + include[1])]
            if named and not any(component_of(h) == component_of(path) or not is_private(h) for h in named):
                found.append(f"{path}:{number}: {line}: {named[0]} is private")
    return found


def verbs_headers(root, files):
    return includes(root, files, r"infiniband/|rdma/", ("lib/verbs/", "lib/rdmacm/", "examples/", "test/"))


def dpdk_in_pure_layers(root, files):
    pure = tuple(f"lib/{name}/" for name in PURE)
    return includes(root, [f for f in files if f.startswith(pure)], "rte_", ())


def port_headers(root, files):
    return includes(root, files, r"rte_(mbuf|ethdev|flow)\b", ("drivers/pktio/ethdev", "test/unit/pktio/test_pktio_ethdev", "test/kit/nic/"))


def clocks_and_io_in_pure_layers(root, files):
    pure = tuple(f"lib/{name}/" for name in PURE)
    pattern = r"\b(clock_gettime|gettimeofday|printf|fprintf|fopen|open|read|write|rand|pthread_\w+)\s*\("
    found = []
    for path in files:
        if path.startswith(pure) and path.endswith((".c", ".h")) and path not in IO_IN_PURE:
            code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), "\n".join(lines(root, path)),
                          flags=re.S)
            found += [f"{path}:{n}: {line.strip()}" for n, line in enumerate(code.split("\n"), 1)
                      if re.search(pattern, line)]
    return found


def long_files(root, files):
    return [f"{path}: {len(lines(root, path))} lines" for path in files
            if path.endswith((".c", ".h", ".py", ".def")) and len(lines(root, path)) > MAX_LINES]


def licences(root, files):
    return [path for path in files
            if path.endswith((".c", ".h")) and (lines(root, path) or [""])[0] !=
            "/* SPDX-License-Identifier: BSD-3-Clause */"]


def shared_guards(root, files):
    seen, found = {}, []
    for path in files:
        for line in lines(root, path)[:40] if path.startswith(("lib/", "drivers/")) and path.endswith(".h") else ():
            guard = re.match(r"#ifndef (UROCE_\w+_H)$", line)
            if guard and guard[1] in seen:
                found.append(f"{path}: {guard[1]} is {seen[guard[1]]}'s")
            elif guard:
                seen[guard[1]] = path
    return found


def left_over_markers(root, files):
    return [f"{path}:{n}: {line.strip()}" for path in files if path.endswith((".c", ".h"))
            for n, line in enumerate(lines(root, path), 1) if re.search(r"\b(TODO|FIXME|XXX)\b", line)]


RULES = (
    ("private headers are included by their own component and tests alone", private_headers),
    ("verbs headers are included by lib/verbs, lib/rdmacm, examples and tests alone", verbs_headers),
    ("no DPDK in the pure layers", dpdk_in_pure_layers),
    ("rte_mbuf, rte_ethdev and rte_flow are included by drivers/pktio/ethdev and its test alone", port_headers),
    ("no clock, randomness, I/O or locks in the pure layers", clocks_and_io_in_pure_layers),
    (f"no file is longer than {MAX_LINES} lines", long_files),
    ("every C file begins with its licence", licences),
    ("no two headers have one guard", shared_guards),
    ("no marker of unfinished work", left_over_markers),
)


def main():
    root = sys.argv[1]
    files = list(sources(root))
    failed = 0
    print(f"1..{len(RULES)}")
    for number, (name, rule) in enumerate(RULES, 1):
        found = rule(root, files)
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
        for line in found[:30]:
            print("# " + line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
