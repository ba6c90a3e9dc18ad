#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rules about the source tree that the compiler does not enforce. TAP; run with the source folder as argument."""
import os
import re
import sys

PURE = ("base", "wire", "encap", "inject", "net", "steer", "fabric", "mem", "abi", "queue", "cc", "transport", "lab", "cm")
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
    return includes(root, files, r"infiniband/|rdma/", ("lib/verbs/", "lib/rdmacm/", "lib/mlx5/", "app/uroce-perf/peer/", "examples/", "test/"))


def dpdk_in_pure_layers(root, files):
    pure = tuple(f"lib/{name}/" for name in PURE)
    return includes(root, [f for f in files if f.startswith(pure)], "rte_", ())


def port_headers(root, files):
    return includes(root, files, r"rte_(mbuf|ethdev|flow)\b", ("drivers/pktio/ethdev", "test/unit/pktio/test_pktio_ethdev", "test/kit/nic/"))


def environment_headers(root, files):
    return includes(root, files, r"rte_telemetry\b", ("drivers/env/", "test/unit/env/"))


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


# State that has few writers: how it is named in code, the fields, and the files that may assign them. Each is a row of
# the page's table.
WRITERS = (
    ("resp", "epsn|msn|nak_sent|ack_pending|syndrome|ack_psn", ("responder/resp_commit",)),
    ("resp", "res_head|res_pending", ("responder/resp_commit",)),
    ("req", "tail|send|head|pkt|next_psn|max_psn|una|ack_asked_psn|rd_outstanding", ("requester/req_commit",)),
    ("req", "retries|rnr_retries|rnr_wait|stalls|implied_nak|nak_taken",
     ("requester/req_retry", "requester/req_recovery", "completer/comp_nak", "completer/comp_ack", "completer/comp_rx",
      "completer/comp_read", "completer/comp_slot", "core/sport", "completion/flush", "core/qp_state", "requester/req_commit")),
    ("req", "window|window_max|window_full|recovering|recovery|time_at",
     ("requester/req_recovery", "completer/comp_nak", "completer/comp_ack", "completer/comp_slot", "completer/comp_trim", "core/qp_state",
      "requester/req_commit", "requester/req_sack", "congestion/rate", "core/wr_time")),
    ("req", "sack", ("requester/req_sack",)),
    ("resp", "store", ("responder/resp_store",)),
    ("resp", "op|msg_len|write_va|write_rkey|write_left",
     ("responder/resp_write", "responder/resp_send", "responder/resp_uc", "responder/resp_ud", "responder/resp_commit")),
)
TRANSPORT = "lib/transport/"
WRITERS_PAGE = TRANSPORT + "README.md"


def code_of(root, path):
    """The lines of a C file without comments."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), "\n".join(lines(root, path)), flags=re.S)
    return text.split("\n")


FETCH = re.compile(r"\bline_fetch\([^)]*\)")  # writes nothing


def assignments(root, files, name, fields):
    """file and line of each assignment to one of the fields, or use of its address by which it may be written."""
    field = rf"\b{name}(?:->|\.)(?:{fields})\b"
    assigns = re.compile(rf"{field}\s*(?:[-+|&]?=(?!=)|\+\+|--)|(?:\+\+|--)[\w>.-]*{field}|&[\w>.-]*{field}")
    return [(path, f"{n}: {line.strip()}") for path in files
            if path.startswith(TRANSPORT) and path.endswith((".c", ".h"))
            for n, line in enumerate(code_of(root, path), 1) if assigns.search(FETCH.sub("", line))]


def other_writers(root, files):
    """Assignments by other files than the writers, and writers that assign nothing."""
    found = []
    for name, fields, writers in WRITERS:
        assigned = assignments(root, files, name, fields)
        allowed = tuple(TRANSPORT + writer for writer in writers)
        found += [f"{path}:{line}" for path, line in assigned if not path.startswith(allowed)]
        found += [f"{writer} assigns none of {fields}" for writer in allowed
                  if not any(path.startswith(writer) for path, _ in assigned)]
    return found


def writers_page(root, files):
    """Rows of the page that name other writers than WRITERS, and rows that the page lacks."""
    rows = {}
    for line in lines(root, WRITERS_PAGE):
        column = line.split("|")
        if len(column) == 5:
            rows["|".join(re.findall(r"`(\w+)`", column[1]))] = set(re.findall(r"\b(\w+)(?:\.c\b|\]\()", column[2]))
    return [f"{WRITERS_PAGE}: {fields}: {sorted(rows.get(fields, []))}" for _, fields, writers in WRITERS
            if rows.get(fields) != {os.path.basename(writer) for writer in writers}]


# How much may be sent: who reads the window and the RNR wait to decide that.
ADMITS = TRANSPORT + "core/tx_allowance.h"
SENDS = tuple(TRANSPORT + part for part in ("tx/", "requester/req_take", "requester/req_batch", "responder/resp_batch"))


def second_admissions(root, files):
    found = []
    for path in files:
        if not path.startswith(TRANSPORT) or not path.endswith((".c", ".h")) or path == ADMITS:
            continue
        for n, line in enumerate(code_of(root, path), 1):
            # qp_state.c sets the window; a quarter of it is how often an ACK is asked for.
            compares = re.search(r"(?:(?<!-)[<>]=?|[-+]) +\w+(?:->|\.)(?:req\.)?window\b", line)
            if compares or path.startswith(SENDS) and re.search(r"\brnr_wait\b|\bqp_can_request\b|\binflight\b", line):
                found.append(f"{path}:{n}: {line.strip()}")
    return [f for f in found if "window / 4" not in f]


# Folders that get packets as values or through accessors; flow_parse.c and flow_tunnel.c take any frame apart.
NO_OFFSETS = ("lib/transport/", "lib/dataplane/", "lib/device/", "lib/queue/", "lib/mem/", "app/uroce/replay/")
TAKES_FRAMES_APART = ("lib/transport/raw/flow_parse.c", "lib/transport/raw/flow_tunnel.c")


def header_offsets(root, files):
    """Bytes of headers by number, outside lib/wire and lib/encap."""
    pattern = re.compile(r"\b(?:get|put)_be(?:16|24|32|64)\(|\b(?:bth|reth|aeth|l3|ip|frame|f->data)\s*"
                         r"(?:\[\s*\d+\s*\]|\+\s*\d+\b)")
    return [f"{path}:{n}: {line.strip()}" for path in files
            if path.startswith(NO_OFFSETS) and path.endswith((".c", ".h")) and path not in TAKES_FRAMES_APART
            for n, line in enumerate(code_of(root, path), 1) if pattern.search(line)]


def wqe_decoders(root, files):
    """The words of a WQE in the shared ring are read by lib/queue alone."""
    return [f"{path}:{n}: {line.strip()}" for path in files
            if path.startswith(("lib/transport/", "lib/dataplane/")) and path.endswith((".c", ".h"))
            for n, line in enumerate(code_of(root, path), 1) if re.search(r"\bvolatile\b|(?:rq|sq)(?:->|\.)ring\b.*\[", line)]


RULES = (
    ("private headers are included by their own component and tests alone", private_headers),
    ("verbs headers are included by lib/verbs, lib/rdmacm, lib/mlx5, app/uroce-perf/peer, examples and tests alone", verbs_headers),
    ("no DPDK in the pure layers", dpdk_in_pure_layers),
    ("rte_mbuf, rte_ethdev and rte_flow are included by drivers/pktio/ethdev and its test alone", port_headers),
    ("rte_telemetry is included by drivers/env and its test alone", environment_headers),
    ("no clock, randomness, I/O or locks in the pure layers", clocks_and_io_in_pure_layers),
    (f"no file is longer than {MAX_LINES} lines", long_files),
    ("every C file begins with its licence", licences),
    ("no two headers have one guard", shared_guards),
    ("no marker of unfinished work", left_over_markers),
    ("the transport's state has the writers that layers.py names", other_writers),
    ("the transport's page names the same writers", writers_page),
    ("what may be sent is decided in tx_allowance.h alone", second_admissions),
    ("header offsets are in lib/wire and lib/encap alone", header_offsets),
    ("WQEs are decoded by lib/queue alone", wqe_decoders),
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
