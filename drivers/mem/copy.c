/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers by process_vm_readv and process_vm_writev: see copy.h. */
#include "copy.h"

#include <errno.h>

#include "atomic.h"
#include "common.h"
#include "ranges.h"

struct call {
    struct iovec local[RANGES_MAX], remote[RANGES_MAX];
    unsigned locals, remotes;
};

/*
 * The vectors of one kernel call, without the first `skip` bytes of io[0]. Ranges that are adjacent
 * in the application become one: most of the kernel's work is to look up pages, and with packets of
 * a kilobyte it would look up each page four times.
 */
static void make_vectors(struct call *c, const struct mem_io *io, unsigned n, uint64_t skip)
{
    c->locals = ranges_local(c->local, io, n, skip);
    c->remotes = 1;
    c->remote[0] = (struct iovec){(void *)(uintptr_t)(io->addr + skip), io->len - skip};
    for (unsigned i = 1; i < n; i++)
        if (ranges_follow(&io[i - 1], &io[i]))
            c->remote[c->remotes - 1].iov_len += io[i].len;
        else
            c->remote[c->remotes++] = (struct iovec){(void *)(uintptr_t)io[i].addr, io[i].len};
}

/* The status of the transfers when a kernel call has moved nothing; *n: how many it decides. */
static int call_status(struct mem_copy_space *space, int error, unsigned *n)
{
    if (error == ESRCH)
        return -ESRCH;
    if (error == EPERM) {
        atomic_fetch_add_explicit(&space->denied, *n, memory_order_relaxed);
        return -EPERM;
    }
    /* The kernel stops at the first bad page, which is in the first range. The others may be good.
     */
    atomic_fetch_add_explicit(&space->faults, 1, memory_order_relaxed);
    *n = 1;
    return -EFAULT;
}

static ssize_t call_kernel(void *arg, const struct mem_io *io, unsigned *n, uint64_t skip, bool out)
{
    struct mem_copy_space *space = arg;
    struct call c;
    ssize_t bytes = 0;

    if (atomic_load_explicit(&space->gone, memory_order_relaxed) && io->len)
        return -ESRCH;
    *n = min_of(*n, RANGES_MAX);
    make_vectors(&c, io, *n, skip);
    if (io->len) {
        bytes = (out ? process_vm_writev : process_vm_readv)(space->pid, c.local, c.locals,
                                                             c.remote, c.remotes, 0);
        if (bytes <= 0)
            return call_status(space, bytes ? errno : EFAULT, n);
    }
    return bytes;
}

static void copy_in(void *arg, struct mem_io *io, unsigned n)
{
    struct mem_copy_space *space = arg;

    ranges_transfer(space, &space->freeze, &space->heat, io, n, call_kernel, false);
}

static void copy_out(void *arg, struct mem_io *io, unsigned n)
{
    struct mem_copy_space *space = arg;

    ranges_transfer(space, &space->freeze, &space->heat, io, n, call_kernel, true);
}

static int copy_atomic(void *arg, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                       uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    struct mem_copy_space *space = arg;

    return mem_copied_atomic(&mem_copy_backend, space, &space->heat, &space->life.atomics, mr,
                             addr, op, swap_add, compare, old);
}

static void hold_space(void *arg)
{
    struct mem_copy_space *space = arg;

    mem_life_hold(&space->life);
}

static void release_space(void *arg)
{
    struct mem_copy_space *space = arg;

    mem_life_release(&space->life);
}

static _Atomic unsigned *late_calls(void *arg)
{
    struct mem_copy_space *space = arg;

    return &space->life.late;
}

static int pid_of(const void *arg)
{
    const struct mem_copy_space *space = arg;

    return space->pid;
}

static int user_of(const void *arg)
{
    const struct mem_copy_space *space = arg;

    return space->life.user;
}

const struct mem_backend mem_copy_backend = {
    .name = "copy",
    .copy_in = copy_in,
    .copy_out = copy_out,
    .atomic = copy_atomic,
    .hold = hold_space,
    .release = release_space,
    .late = late_calls,
    .pid = pid_of,
    .user = user_of,
};

int mem_copy_space_init(struct mem_copy_space *space, pid_t pid)
{
    if (pid <= 0)
        return -EINVAL;
    space->pid = pid;
    atomic_init(&space->gone, false);
    space->freeze = (struct mem_freeze){0};
    space->heat = (struct mem_heat){0};
    mem_life_begin(&space->life);
    atomic_init(&space->faults, 0);
    atomic_init(&space->denied, 0);
    return 0;
}

int mem_copy_space_reach(struct mem_copy_space *space)
{
    uint8_t byte;
    struct iovec local = {&byte, 1};
    struct iovec nowhere = {(void *)-(uintptr_t)4096, 1}; /* the kernel's addresses */

    if (atomic_load_explicit(&space->gone, memory_order_relaxed))
        return -ESRCH;
    if (process_vm_readv(space->pid, &local, 1, &nowhere, 1, 0) >= 0 || errno == EFAULT)
        return 0;
    if (errno == EPERM)
        atomic_fetch_add_explicit(&space->denied, 1, memory_order_relaxed);
    return errno == EPERM ? -EPERM : -ESRCH;
}

void mem_copy_space_mark_gone(struct mem_copy_space *space)
{
    atomic_store_explicit(&space->gone, true, memory_order_relaxed);
}
