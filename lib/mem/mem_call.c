/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of backends as objects, for callers that do not wait for them: struct mem_caller. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "mem_internal.h"

void mem_call_run(struct mem_call *c)
{
    struct mem_io *io = c->io;

    switch (c->kind) {
    case MEM_CALL_IN:
        c->backend->copy_in(c->space, io, c->n);
        break;
    case MEM_CALL_OUT:
        c->backend->copy_out(c->space, io, c->n);
        break;
    default:
        io->status =
            c->backend->atomic(c->space, io->mr, io->addr, c->op, c->swap_add, c->compare, &c->old);
    }
}

static bool is_long(const struct mem_call *c, unsigned i)
{
    return c->kind != MEM_CALL_ATOMIC && c->io[i].len > MEM_SMALL;
}

bool mem_call_own(struct mem_call *c)
{
    size_t total = 0, at = 0;

    for (unsigned i = 0; i < c->n; i++)
        total += is_long(c, i) ? c->io[i].len : 0;
    c->own = total ? malloc(total) : NULL;
    if (total && !c->own)
        return false;
    for (unsigned i = 0; i < c->n; i++) {
        struct mem_io *io = &c->io[i];

        if (!is_long(c, i))
            continue;
        if (c->kind == MEM_CALL_OUT)
            memcpy(c->own + at, io->local, io->len);
        io->local = c->own + at;
        at += io->len;
    }
    return true;
}

static struct mem_call *prepare(struct mem_batch *b, const struct mem_region *mr,
                                enum mem_call_kind kind, unsigned n)
{
    struct mem_call *c = b->caller->call;

    c->kind = kind;
    c->backend = mr->backend;
    c->space = mr->space;
    c->owner = b->owner;
    c->n = n;
    c->own = NULL;
    return c;
}

/* Transfers whose bytes the call keeps itself. */
static bool is_small(const struct mem_io *io)
{
    return io->len <= MEM_SMALL;
}

static void take_transfers(struct mem_call *c, const struct mem_io *io)
{
    memcpy(c->io, io, c->n * sizeof(*io));
    for (unsigned i = 0; i < c->n; i++) {
        if (!is_small(&io[i]))
            continue;
        c->io[i].local = c->small[i];
        if (c->kind == MEM_CALL_OUT)
            memcpy(c->small[i], io[i].local, io[i].len);
    }
}

static void give_results(struct mem_call *c, struct mem_io *io)
{
    for (unsigned i = 0; i < c->n; i++) {
        io[i].status = c->io[i].status;
        if (c->kind == MEM_CALL_IN && c->io[i].local != io[i].local)
            memcpy(io[i].local, c->io[i].local, io[i].len);
    }
    if (unlikely(c->own)) {
        free(c->own);
        c->own = NULL;
    }
}

void mem_call_through(struct mem_batch *b, const struct mem_region *mr, struct mem_io *io,
                      unsigned n, bool out)
{
    struct mem_call *c = prepare(b, mr, out ? MEM_CALL_OUT : MEM_CALL_IN, n);

    take_transfers(c, io);
    if (likely(b->caller->run(b->caller))) {
        give_results(c, io);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        io[i].status = -EINPROGRESS;
    b->late(b->owner, c);
}

int mem_atomic_through(struct mem_batch *b, struct mem_region *mr, uint64_t addr,
                       enum mem_atomic_op op, uint64_t swap_add, uint64_t compare, uint64_t *old,
                       uint64_t tag)
{
    struct mem_call *c = prepare(b, mr, MEM_CALL_ATOMIC, 1);

    c->io[0] = (struct mem_io){.mr = mr, .addr = addr, .len = 8, .tag = tag};
    c->op = op;
    c->swap_add = swap_add;
    c->compare = compare;
    if (!b->caller->run(b->caller)) {
        b->late(b->owner, c);
        return -EINPROGRESS;
    }
    *old = c->old;
    return c->io[0].status;
}
