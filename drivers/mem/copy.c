/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy.h"

#include <errno.h>
#include <sys/uio.h>

#include "atomic.h"
#include "common.h"

#define RANGES_MAX MEM_BATCH_MAX /* of one call; the kernel's limit is 1024 */

typedef ssize_t (*transfer_fn)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                               unsigned long, unsigned long);

/* The ranges of one kernel call; `skip` bytes of the first were done by an earlier one. */
static unsigned describe(const struct mem_io *io, unsigned n, uint64_t skip, struct iovec *local,
                         struct iovec *remote)
{
    if (n > RANGES_MAX)
        n = RANGES_MAX;
    for (unsigned i = 0; i < n; i++) {
        uint64_t done = i ? 0 : skip;

        local[i] = (struct iovec){io[i].local + done, io[i].len - done};
        remote[i] = (struct iovec){(void *)(uintptr_t)(io[i].addr + done), io[i].len - done};
    }
    return n;
}

/* Accounts for `bytes` done, in order, after *skip of io[0]: how many ranges are complete now, and
 * in *skip how much of the next one. */
static unsigned complete(struct mem_io *io, unsigned n, uint64_t bytes, uint64_t *skip)
{
    unsigned i;

    for (i = 0; i < n && bytes >= io[i].len - *skip; i++) {
        bytes -= io[i].len - *skip;
        *skip = 0;
        io[i].status = 0;
    }
    *skip += bytes;
    return i;
}

static void fail(struct mem_io *io, unsigned n, int status)
{
    for (unsigned i = 0; i < n; i++)
        io[i].status = status;
}

/* What a kernel call that moved nothing means for io[0..n): how many of them it decides. */
static unsigned give_up(struct mem_copy_space *space, struct mem_io *io, unsigned n, int error)
{
    if (error == ESRCH) {
        fail(io, n, -ESRCH);
        return n;
    }
    if (error == EPERM) {
        atomic_fetch_add_explicit(&space->denied, n, memory_order_relaxed);
        fail(io, n, -EPERM);
        return n;
    }
    /* A call stops at the first bad page: that range is the first one, the others may be good. */
    atomic_fetch_add_explicit(&space->faults, 1, memory_order_relaxed);
    io[0].status = -EFAULT;
    return 1;
}

/*
 * A call may stop short at a bad page, in the middle of a range, or at the kernel's limit of bytes.
 * It is repeated from where it stopped: at a bad page the repetition moves nothing and says so.
 */
static void transfer_all(struct mem_copy_space *space, struct mem_io *io, unsigned n,
                         transfer_fn transfer)
{
    struct iovec local[RANGES_MAX], remote[RANGES_MAX];
    uint64_t skip = 0;

    mem_freeze_wait(&space->freeze);
    mem_heat_count(&space->heat, io, n);
    while (n) {
        unsigned ranges = describe(io, n, skip, local, remote);
        bool gone = atomic_load_explicit(&space->gone, memory_order_relaxed);
        ssize_t bytes = 0;
        unsigned over;

        if (io->len)
            bytes = gone ? -1 : transfer(space->pid, local, ranges, remote, ranges, 0);
        if (bytes > 0 || !io->len) {
            over = complete(io, ranges, (uint64_t)bytes, &skip);
        } else {
            over = give_up(space, io, n, gone ? ESRCH : bytes ? errno : EFAULT);
            skip = 0;
        }
        io += over;
        n -= over;
    }
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    transfer_all(space, io, n, process_vm_readv);
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    transfer_all(space, io, n, process_vm_writev);
}

static int copy_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                       uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    return mem_copied_atomic(&mem_copy_backend, space, mr, addr, op, swap_add, compare, old);
}

const struct mem_backend mem_copy_backend = {
    .name = "copy",
    .copy_in = copy_in,
    .copy_out = copy_out,
    .atomic = copy_atomic,
};

int mem_copy_space_init(struct mem_copy_space *space, pid_t pid)
{
    if (pid <= 0)
        return -EINVAL;
    space->pid = pid;
    atomic_init(&space->gone, false);
    space->freeze = (struct mem_freeze){0};
    space->heat = (struct mem_heat){0};
    atomic_init(&space->faults, 0);
    atomic_init(&space->denied, 0);
    return 0;
}

void mem_copy_space_mark_gone(struct mem_copy_space *space)
{
    atomic_store_explicit(&space->gone, true, memory_order_relaxed);
}
