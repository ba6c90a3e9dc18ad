#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The drop-in libraries export what Debian 12's rdma-core 44 exports (the .symbols files beside this one), what
uroce.h declares and what later versions of rdma-core have, need libc and each other alone, and leave no installed RDMA
program with an unresolved symbol. TAP.

usage: test_symbols.py LIBIBVERBS LIBRDMACM LIBMLX5"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("ibv_devices", "ibv_devinfo", "ibv_asyncwatch", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
            "ibv_srq_pingpong", "ibv_xsrq_pingpong", "ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat",
            "ib_read_bw", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat", "raw_ethernet_bw", "rping", "ucmatose",
            "udaddy", "mckey", "rstream", "qperf", "fio")

# What uroce.h adds and librdmacm needs of libibverbs, and what rdma-core has after version 44, up to 65.
LATER = {"libibverbs": {"UROCE_1.0": "uroce_create_wq_srq uroce_modify_qp_steps uroce_modify_rwq_ind_table "
                                     "uroce_set_qp_entropy",
                        "UROCE_INTERNAL": "uroce_create_qp_in uroce_is_over uroce_modify_qp_by",
                        "IBVERBS_1.15": "ibv_alloc_dmah ibv_dealloc_dmah ibv_reg_mr_ex",
                        "IBVERBS_1.16": "ibv_dm_export_dmabuf_fd ibv_query_port_speed",
                        "IBVERBS_1.17": "ibv_alloc_buf ibv_free_buf ibv_reg_buf_mr",
                        "IBVERBS_1.18": "_ibv_query_comp_cntr_caps ibv_create_comp_cntr ibv_destroy_comp_cntr "
                                        "ibv_export_buf_dmabuf_fd ibv_inc_comp_cntr ibv_inc_err_comp_cntr "
                                        "ibv_qp_attach_comp_cntr ibv_read_comp_cntr ibv_read_err_comp_cntr "
                                        "ibv_set_comp_cntr ibv_set_err_comp_cntr",
                        "IBVERBS_PRIVATE_34": "ibv_cmd_create_cq_ex2 ibv_wr_opcode_str"},
         "librdmacm": {"RDMACM_1.4": "rdma_query_addrinfo rdma_resolve_addrinfo rdma_write_cm_event",
                       "RDMACM_1.5": "repoll_create repoll_ctl repoll_wait"}}

# The names for libraries of drivers: all of node 34 is in each later node, under a version of the linker's second choice, and
# what later versions have added.
PRIVATE, DRIVER = "IBVERBS_PRIVATE_", "verbs_register_driver_"
LATER_NODES = (57, 59, 64, 65)
LATER_PRIVATE = """ibv_cmd_alloc_dmah ibv_cmd_create_comp_cntr ibv_cmd_destroy_comp_cntr ibv_cmd_export_dmabuf_fd ibv_cmd_free_dmah
    ibv_cmd_inc_comp_cntr ibv_cmd_inc_err_comp_cntr ibv_cmd_qp_attach_comp_cntr ibv_cmd_query_comp_cntr_caps
    ibv_cmd_query_port_speed ibv_cmd_read_comp_cntr ibv_cmd_read_err_comp_cntr ibv_cmd_reg_mr_ex ibv_cmd_set_comp_cntr
    ibv_cmd_set_err_comp_cntr ibv_dmabuf_heap_alloc ibv_dmabuf_heap_cc_shared_init ibv_dmabuf_heap_destroy
    ibv_dmabuf_heap_free""".split()
NEEDS = {"libmlx5": {"libc.so.6", "libibverbs.so.1"}, "libibverbs": {"libc.so.6"}, "librdmacm": {"libc.so.6", "libibverbs.so.1"}}


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options).stdout


def exports(library):
    names = (line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines())
    # Version nodes are symbols of their own, whose name is their version.
    return {name for name in names if not name.startswith(("IBVERBS_", "RDMACM_", "UROCE_"))}


def in_later_nodes(names):
    """The private names of the later nodes, where node 34 has these names."""
    for node in LATER_NODES:
        yield f"{DRIVER}{node}@@{PRIVATE}{node}"
        yield from (f"{name}@{PRIVATE}{node}" for name in (*names, *LATER_PRIVATE) if not name.startswith(DRIVER))


def expected(library):
    with open(os.path.join(HERE, library + ".symbols")) as text:
        names = set(text.read().split())
    names |= {f"{name}@@{version}" for version, added in LATER[library].items() for name in added.split()}
    private = [name.split("@")[0] for name in names if name.endswith(f"@@{PRIVATE}34")]
    return names.union(in_later_nodes(private) if private else ())


def of_the_system(name):
    """What the system's library of this name exports; None without one."""
    out = run("ldconfig", "-p", env=dict(os.environ, PATH=os.environ["PATH"] + ":/sbin"))
    paths = [line.split("=> ")[1] for line in out.splitlines() if line.strip().startswith(name + ".so.1 ")]
    return {line.split()[-1] for line in run("nm", "-D", "--defined-only", paths[0]).splitlines()} if paths else None


def lacking(library, name):
    theirs = of_the_system(name)
    ours = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    return None if theirs is None else sorted(theirs - ours)


def needed(library):
    return [line.split("[")[1].rstrip("]") for line in run("readelf", "-d", library).splitlines() if "(NEEDED)" in line]


def soname(library):
    return next(line.split("[")[1].rstrip("]") for line in run("readelf", "-d", library).splitlines()
                if "(SONAME)" in line)


def difference(library, name):
    ours, theirs = exports(library), expected(name)
    return [f"missing {s}" for s in sorted(theirs - ours)] + [f"surplus {s}" for s in sorted(ours - theirs)]


def unresolved(program, folders):
    path = shutil.which(program)
    if not path:
        return None
    out = run("ldd", "-r", path, env=dict(os.environ, LD_LIBRARY_PATH=":".join(folders)))
    return [line.strip() for line in out.splitlines() if "undefined symbol" in line or "not found" in line]


def main():
    verbs, rdmacm, mlx5 = sys.argv[1:4]
    folders = [os.path.dirname(os.path.abspath(p)) for p in (verbs, rdmacm, mlx5)]
    results = [("libmlx5 has all that the system's has", lacking(mlx5, "libmlx5")),
               ("libmlx5 needs", [n for n in needed(mlx5) if n not in NEEDS["libmlx5"]])]
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
