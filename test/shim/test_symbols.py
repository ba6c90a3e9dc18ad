#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The two drop-in libraries export what Debian 12's rdma-core 44 exports (the .symbols files beside this one), what
uroce.h declares and what later versions of rdma-core have, need libc and each other alone, and leave no installed RDMA
program with an unresolved symbol. TAP.

usage: test_symbols.py LIBIBVERBS LIBRDMACM"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("ibv_devices", "ibv_devinfo", "ibv_asyncwatch", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
            "ibv_srq_pingpong", "ibv_xsrq_pingpong", "ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat",
            "ib_read_bw", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat", "raw_ethernet_bw", "rping", "ucmatose",
            "udaddy", "mckey", "rstream", "qperf", "fio")

# What uroce.h adds, what libmlx5 asks for since rdma-core 56, and what librdmacm has since rdma-core 60.
OURS = {"libibverbs": {"ibv_cmd_create_cq_ex2@@IBVERBS_PRIVATE_34", "uroce_create_wq_srq@@UROCE_1.0", "uroce_modify_rwq_ind_table@@UROCE_1.0",
                       "uroce_set_qp_entropy@@UROCE_1.0"}, "librdmacm": {"rdma_query_addrinfo@@RDMACM_1.4", "rdma_resolve_addrinfo@@RDMACM_1.4",
                      "rdma_write_cm_event@@RDMACM_1.4", "repoll_create@@RDMACM_1.5", "repoll_ctl@@RDMACM_1.5",
                      "repoll_wait@@RDMACM_1.5"}}
NEEDS = {"libibverbs": {"libc.so.6"}, "librdmacm": {"libc.so.6", "libibverbs.so.1"}}


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options).stdout


def exports(library):
    names = (line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines())
    # Version nodes are symbols of their own, whose name is their version.
    return {name for name in names if not name.startswith(("IBVERBS_", "RDMACM_", "UROCE_"))}


def expected(name):
    with open(os.path.join(HERE, name)) as text:
        return set(text.read().split())


def needed(library):
    return [line.split("[")[1].rstrip("]") for line in run("readelf", "-d", library).splitlines() if "(NEEDED)" in line]


def soname(library):
    return next(line.split("[")[1].rstrip("]") for line in run("readelf", "-d", library).splitlines()
                if "(SONAME)" in line)


def difference(library, name):
    ours, theirs = exports(library), expected(name + ".symbols") | OURS[name]
    return [f"missing {s}" for s in sorted(theirs - ours)] + [f"surplus {s}" for s in sorted(ours - theirs)]


def unresolved(program, folders):
    path = shutil.which(program)
    if not path:
        return None
    out = run("ldd", "-r", path, env=dict(os.environ, LD_LIBRARY_PATH=":".join(folders)))
    return [line.strip() for line in out.splitlines() if "undefined symbol" in line or "not found" in line]


def main():
    verbs, rdmacm = sys.argv[1:3]
    folders = [os.path.dirname(os.path.abspath(p)) for p in (verbs, rdmacm)]
    results = []
    for library, name in ((verbs, "libibverbs"), (rdmacm, "librdmacm")):
        results.append((f"{name} exports", difference(library, name)))
        results.append((f"{name} needs {' and '.join(sorted(NEEDS[name]))} alone",
                        [n for n in needed(library) if n not in NEEDS[name]]))
        results.append((f"{name} soname", [] if soname(library) == name + ".so.1" else [soname(library)]))
    results += [(f"{program} loads", unresolved(program, folders)) for program in PROGRAMS]
    print(f"1..{len(results)}")
    failed = 0
    for number, (what, problems) in enumerate(results, 1):
        if problems is None:
            print(f"ok {number} - {what} # SKIP not installed")
            continue
        print(f"{'not ok' if problems else 'ok'} {number} - {what}")
        failed += bool(problems)
        for problem in problems:
            print(f"# {problem}")
    return 1 if failed else 0


sys.exit(main())
