/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaching application memory by copying: process_vm_readv(2) and process_vm_writev(2). Right for
 * every kind of memory: it follows the application's current mapping, honours page protection, and
 * reports a bad address.
 *
 * It reaches whatever program the process runs at that moment: for daemons that the kernel lets at
 * no more than the application's user may reach, and for applications of root. Others: pinned.h.
 *
 * Atomics: atomic.h.
 */
#ifndef UROCE_MEM_COPY_H
#define UROCE_MEM_COPY_H

#include <stdatomic.h>
#include <sys/types.h>

#include "freeze.h"
#include "heat.h"
#include "mem.h"

/* One application; the `space` of its regions. Shared by all workers. */
struct mem_copy_space {
    pid_t pid;
    _Atomic bool gone;
    struct mem_freeze freeze;
    struct mem_heat heat;
    /* Counters of rare events; any thread reads them. */
    _Atomic uint64_t faults; /* transfers that met a bad address */
    _Atomic uint64_t denied; /* transfers that the kernel's access rules forbade (EPERM) */
};

/* The backend's table; every `space` passed to it is a struct mem_copy_space. Any worker. */
extern const struct mem_backend mem_copy_backend;

/*
 * pid: the application's, from the kernel (SO_PEERCRED), never from a message. 0, or -EINVAL when
 * it is none (0: a process that this PID namespace does not see).
 */
int mem_copy_space_init(struct mem_copy_space *space, pid_t pid);

/*
 * Says that the application ended: from now on every transfer fails with -ESRCH. Must be called as
 * soon as its connection closes or its pidfd says so, because the kernel may give the pid to
 * another process some time after. Any thread.
 */
void mem_copy_space_mark_gone(struct mem_copy_space *space);

#endif
