/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy.h"

#include <errno.h>

#include "atomic.h"
#include "common.h"
#include "ranges.h"

typedef ssize_t (*transfer_fn)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                               unsigned long, unsigned long);

struct call {
    struct iovec local[RANGES_MAX], remote[RANGES_MAX];
    unsigned ranges, remotes;
};

/*
 * One kernel call; `skip` bytes of the first range were done by an earlier one. The application's
 * ranges are taken together where they can be: looking up its pages is most of the work, and
 * packets of a kilobyte would have each page looked up four times.
 */
static void describe(struct call *c, const struct mem_io *io, unsigned n, uint64_t skip)
{
    c->ranges = n < RANGES_MAX ? n : RANGES_MAX;
    c->remotes = 0;
    for (unsigned i = 0; i < c->ranges; i++) {
        uint64_t done = i ? 0 : skip;

        c->local[i] = ranges_local(&io[i], done);
        if (i && ranges_follow(&io[i - 1], &io[i]))
            c->remote[c->remotes - 1].iov_len += io[i].len;
        else
            c->remote[c->remotes++] =
                (struct iovec){(void *)(uintptr_t)(io[i].addr + done), io[i].len - done};
    }
}

/* What a kernel call that moved nothing means for io[0..n): how many of them it decides. */
static unsigned give_up(struct mem_copy_space *space, struct mem_io *io, unsigned n, int error)
{
    if (error == ESRCH) {
        ranges_fail(io, n, -ESRCH);
        return n;
    }
    if (error == EPERM) {
        atomic_fetch_add_explicit(&space->denied, n, memory_order_relaxed);
        ranges_fail(io, n, -EPERM);
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
    struct call c;
    uint64_t skip = 0;

    mem_freeze_wait(&space->freeze);
    mem_heat_count(&space->heat, io, n);
    while (n) {
        bool gone = atomic_load_explicit(&space->gone, memory_order_relaxed);
        ssize_t bytes = 0;
        unsigned over;

        describe(&c, io, n, skip);
        if (io->len)
            bytes = gone ? -1 : transfer(space->pid, c.local, c.ranges, c.remote, c.remotes, 0);
        if (bytes > 0 || !io->len) {
            over = ranges_complete(io, c.ranges, (uint64_t)bytes, &skip);
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
