/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaching application memory by copying: process_vm_readv(2) and process_vm_writev(2). They work
 * for every kind of memory: they follow the application's current mappings, honour page protection,
 * and report a bad address.
 *
 * They reach the program that the process runs at that moment. That suits daemons that the kernel
 * gives no more access than the application's user has, and applications of root. For others see
 * pinned.h.
 *
 * Atomics: atomic.h.
 */
#ifndef UROCE_MEM_COPY_H
#define UROCE_MEM_COPY_H

#include <stdatomic.h>
#include <sys/types.h>

#include "freeze.h"
#include "heat.h"
#include "life.h"
#include "mem_heat.h"

/* One application: the `space` of its regions. Shared by all workers. */
struct mem_copy_space {
    pid_t pid;
    _Atomic bool gone;
    struct mem_freeze freeze;
    struct mem_heat heat;
    struct mem_life life;
    /* Counters of rare events; any thread reads them. */
    _Atomic uint64_t faults; /* transfers that met a bad address */
    _Atomic uint64_t denied; /* transfers that the kernel's access rules forbade (EPERM) */
};

/* The backend's table; every `space` passed to it is a struct mem_copy_space. Any worker. */
extern const struct mem_backend mem_copy_backend;

/*
 * pid: the application's, from the kernel (SO_PEERCRED), never from a message. Returns 0, or
 * -EINVAL if it is not a pid (0 is a process that this PID namespace does not see).
 */
int mem_copy_space_init(struct mem_copy_space *space, pid_t pid);

/*
 * Asks the kernel whether it allows transfers, without one. It may wait for the application. 0,
 * -EPERM or -ESRCH. Any thread.
 */
int mem_copy_space_reach(struct mem_copy_space *space);

/*
 * Notes that the application has ended: from now on every transfer fails with -ESRCH. The caller
 * must call it as soon as the connection closes or the pidfd becomes readable, because the kernel
 * may give the pid to another process later. Any thread.
 */
void mem_copy_space_mark_gone(struct mem_copy_space *space);

#endif
