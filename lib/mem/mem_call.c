/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of backends as objects, for callers that do not wait for them: struct mem_caller. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "mem_internal.h"
#include "mem_memcpy.h"

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

    if (c->own)
        return true;
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

/* The bytes of short transfers go into the call: they are where others follow soon. */
static void keep_small(struct mem_call *c)
{
    uint8_t *at = c->small;

    for (unsigned i = 0; i < c->n; i++) {
        struct mem_io *io = &c->io[i];

        c->lent[i] = io->local;
        if (io->len > MEM_SMALL)
            continue;
        if (c->kind == MEM_CALL_OUT)
            mem_memcpy_small(at, io->local, io->len);
        io->local = at;
        at += io->len;
    }
}

/* Where the batch wants them. */
static void give_bytes(const struct mem_call *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        const struct mem_io *io = &c->io[i];

        if (io->status) /* what was in the call before is another's */
            continue;
        if (io->len <= MEM_SMALL)
            mem_memcpy_small(c->lent[i], io->local, io->len);
        else if (unlikely(io->local != c->lent[i]))
            memcpy(c->lent[i], io->local, io->len);
    }
}

/* What the batch is told of a call that goes on without it: another thread may be setting the
 * statuses of the call's own transfers. */
static void tell_late(struct mem_io *io, const struct mem_call *c)
{
    for (unsigned i = 0; i < c->n; i++)
        io[i] =
            (struct mem_io){.window = c->io[i].window, .tag = c->io[i].tag, .status = -EINPROGRESS};
}

/* It is not made. */
static void fail_call(struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        io[i].status = -ENOMEM;
}

/* A call is made for a part of the transfers: they are collected elsewhere. */
static void move_out(struct mem_batch *b)
{
    memcpy(b->own, b->io, b->n * sizeof(*b->io));
    b->io = b->own;
}

void mem_call_through(struct mem_batch *b, unsigned first, unsigned n, bool out)
{
    const struct mem_region *mr = b->io[first].mr;
    struct mem_call *c;

    if (unlikely(n < b->n) && b->io != b->own)
        move_out(b);
    c = prepare(b, mr, out ? MEM_CALL_OUT : MEM_CALL_IN, n);
    if (b->io == b->own)
        memcpy(c->io, b->io + first, n * sizeof(*c->io));
    keep_small(c);
    if (unlikely(b->bytes_leave) && !mem_call_own(c)) {
        fail_call(b->io + first, n);
        return;
    }
    if (unlikely(!b->caller->run(b->caller))) {
        b->io = b->own;
        tell_late(b->io + first, c);
        b->late(b->owner, c);
        return;
    }
    if (!out)
        give_bytes(c);
    if (unlikely(c->own)) {
        free(c->own);
        c->own = NULL;
    }
    if (b->io == b->own)
        for (unsigned i = 0; i < n; i++)
            b->io[first + i].status = c->io[i].status;
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
