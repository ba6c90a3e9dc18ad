/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers, collected into few backend calls, and atomics: see mem.h. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "mem_internal.h"
#include "mem_memcpy.h"

static uint8_t *direct_at(const struct mem_region *mr, uint64_t addr)
{
    return mr->direct + (addr - mr->addr);
}

static void queue_transfer(struct mem_batch *b, struct mem_region *mr, uint64_t addr, void *local,
                           uint32_t len, uint64_t tag)
{
    if (!b->n)
        b->io = b->caller ? b->caller->call->io : b->own;
    b->io[b->n++] = (struct mem_io){.mr = mr, .addr = addr, .local = local, .len = len, .tag = tag};
}

bool mem_batch_out(struct mem_batch *b, struct mem_region *mr, uint64_t addr, const void *local,
                   uint32_t len, uint64_t tag)
{
    if (mr->direct)
        mem_memcpy(direct_at(mr, addr), local, len);
    else
        queue_transfer(b, mr, addr, (void *)(uintptr_t)local, len, tag);
    return mr->direct;
}

bool mem_batch_in(struct mem_batch *b, struct mem_region *mr, uint64_t addr, void *local,
                  uint32_t len, uint64_t tag)
{
    if (mr->direct)
        mem_memcpy(local, direct_at(mr, addr), len);
    else
        queue_transfer(b, mr, addr, local, len, tag);
    return mr->direct;
}

/* Ends the span if the transfer is done; else the queued transfer holds its window. */
static bool end_or_hold_span(struct mem_batch *b, struct mr_span *s, bool done)
{
    if (done) {
        mr_span_end(s);
    } else {
        b->io[b->n - 1].window = s->window;
        s->window = NULL;
    }
    return done;
}

bool mem_batch_out_span(struct mem_batch *b, struct mr_span *s, const void *local, uint32_t len,
                        uint64_t tag)
{
    return end_or_hold_span(b, s, mem_batch_out(b, s->mr, s->addr, local, len, tag));
}

bool mem_batch_in_span(struct mem_batch *b, struct mr_span *s, void *local, uint32_t len,
                       uint64_t tag)
{
    return end_or_hold_span(b, s, mem_batch_in(b, s->mr, s->addr, local, len, tag));
}

/* How many of the n transfers, from the first on, one backend call can do. */
static unsigned count_same_space(const struct mem_io *io, unsigned n)
{
    unsigned same = 1;

    while (same < n && (io[same].mr == io->mr || (io[same].mr->space == io->mr->space &&
                                                  io[same].mr->backend == io->mr->backend)))
        same++;
    return same;
}

static void call_backend(const struct mem_backend *backend, void *space, struct mem_io *io,
                         unsigned n, bool out)
{
    (out ? backend->copy_out : backend->copy_in)(space, io, n);
}

static unsigned flush_batch(struct mem_batch *b, bool out)
{
    unsigned failed = 0;

    for (unsigned i = 0, n; i < b->n; i += n) {
        const struct mem_region *mr = b->io[i].mr;

        n = count_same_space(b->io + i, b->n - i);
        if (b->caller)
            mem_call_through(b, i, n, out);
        else
            call_backend(mr->backend, mr->space, b->io + i, n, out);
    }
    for (unsigned i = 0; i < b->n; i++) {
        if (b->io[i].window)
            window_release(b->io[i].window);
        failed += b->io[i].status != 0;
    }
    return failed;
}

unsigned mem_batch_flush_out(struct mem_batch *b)
{
    return flush_batch(b, true);
}

unsigned mem_batch_flush_in(struct mem_batch *b)
{
    return flush_batch(b, false);
}

static int direct_atomic(uint8_t *at, enum mem_atomic_op op, uint64_t swap_add, uint64_t compare,
                         uint64_t *old)
{
    if (!mem_atomic_fits(at))
        return -EFAULT;
    *old = mem_atomic_mapped(at, op, swap_add, compare);
    return 0;
}

int mem_atomic(struct mem_batch *b, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
               uint64_t swap_add, uint64_t compare, uint64_t *old, uint64_t tag)
{
    if (mr->direct)
        return direct_atomic(direct_at(mr, addr), op, swap_add, compare, old);
    if (b && b->caller)
        return mem_atomic_through(b, mr, addr, op, swap_add, compare, old, tag);
    return mr->backend->atomic(mr->space, mr, addr, op, swap_add, compare, old);
}

static int direct_store8(uint8_t *at, const uint8_t bytes[8])
{
    if (!mem_atomic_fits(at))
        return -EFAULT;
    mem_store8_mapped(at, bytes);
    return 0;
}

int mem_store8(struct mem_batch *b, struct mem_region *mr, uint64_t addr, const uint8_t bytes[8],
               uint64_t tag)
{
    struct mem_batch alone;

    if (mr->direct)
        return direct_store8(direct_at(mr, addr), bytes);
    if (!b) {
        alone.n = 0;
        alone.caller = NULL;
        b = &alone;
    }
    queue_transfer(b, mr, addr, (uint8_t *)(uintptr_t)bytes, 8, tag);
    mem_batch_flush_out(b);
    b->n = 0;
    return b->io->status;
}
