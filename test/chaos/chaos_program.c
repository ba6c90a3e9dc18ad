/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs and their memory. */
#include "chaos.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "work_queue.h"

#define BASE UINT64_C(0x100000)

/* ---- memory ---- */

/* Freed when its program has ended: AddressSanitizer reports a later access. */
struct space {
    _Atomic bool gone;
    struct memory memory;
};

static uint8_t *at(struct space *s, uint64_t addr, uint32_t len)
{
    if (atomic_load(&s->gone) || addr < BASE || addr - BASE > sizeof(s->memory) ||
        len > sizeof(s->memory) - (addr - BASE))
        return NULL;
    return (uint8_t *)&s->memory + (addr - BASE);
}

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const uint8_t *p = at(space, io[i].addr, io[i].len);

        io[i].status = p ? 0 : -EFAULT;
        if (p)
            memcpy(io[i].local, p, io[i].len);
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint8_t *p = at(space, io[i].addr, io[i].len);

        io[i].status = p ? 0 : -EFAULT;
        if (p)
            memcpy(p, io[i].local, io[i].len);
    }
}

static int atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                  uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)at(space, addr, sizeof(*word));

    if (!word)
        return -EFAULT;
    *old = compare;
    if (op == MEM_FETCH_ADD)
        *old = atomic_fetch_add(word, swap_add);
    else
        atomic_compare_exchange_strong(word, old, swap_add);
    return 0;
}

static const struct mem_backend backend = {
    .name = "chaos", .copy_in = copy_in, .copy_out = copy_out, .atomic = atomic};

static void *space_open(const struct ucred *peer, const struct mem_backend **copy, int *err)
{
    struct space *s = malloc(sizeof(*s));

    *copy = &backend;
    *err = -ENOMEM;
    if (!s)
        return NULL;
    atomic_init(&s->gone, false);
    memset(&s->memory, NOT_WRITTEN, sizeof(s->memory));
    return s;
}

static void space_gone(void *space)
{
    atomic_store(&((struct space *)space)->gone, true);
}

static void *map(struct mem_region *mr, int fd, const struct mem_piece *piece, unsigned n, int *err)
{
    *err = -EINVAL;
    return NULL;
}

static void unmap(void *mapping, struct mem_region *mr)
{
}

const struct mem_provider chaos_memory = {.space_open = space_open,
                                          .space_gone = space_gone,
                                          .space_close = free,
                                          .map = map,
                                          .unmap = unmap};

uint64_t va(const struct program *p, const void *at)
{
    return BASE + (uint64_t)((const uint8_t *)at - (const uint8_t *)p->memory);
}

/* ---- programs ---- */

struct ctl_msg program_call(struct program *p, enum ctl_type type, struct ctl_msg m)
{
    struct ctl_call k = {0};
    int status = kit_call(p->session, type, &m, &k, false);

    if (status)
        fprintf(stderr, "message %d: status %d\n", type, status);
    require(!status);
    return k.reply;
}

static void open_srq(struct program *p)
{
    struct ctl_msg m = {.create_srq = {.pd = p->pd, .max_wr = POOL, .max_sge = 1}};

    p->srq = program_call(p, CTL_CREATE_SRQ, m).create_srq;
    p->srq_segment = srq_object_get(p->session, p->srq.handle)->segment.base;
    p->srq_posted = 0;
    for (p->spares = 0; p->spares < POOL; p->spares++)
        p->spare[p->spares] = p->spares;
    program_fill_srq(p);
}

void program_open(struct program *p)
{
    struct ctl_msg none = {0}, m;

    p->session = session_create(p->dp->rnic, &(struct ucred){.pid = getpid()});
    require(p->session);
    program_call(p, CTL_OPEN, none);
    p->space = p->session->space;
    p->memory = &p->space->memory;
    p->pd = program_call(p, CTL_ALLOC_PD, none).handle;
    m = (struct ctl_msg){.reg_mr = {.pd = p->pd,
                                    .access = MEM_LOCAL_WRITE,
                                    .addr = BASE,
                                    .length = sizeof(struct memory),
                                    .iova = BASE}};
    m = program_call(p, CTL_REG_MR, m);
    p->mr = (struct test_mr){.handle = m.reg_mr.handle, .key = m.reg_mr.lkey};
    cq_open_for(p->session, &p->cq);
    open_srq(p);
}

void program_close(struct program *p)
{
    if (!p->session)
        return;
    session_close(p->session);
    cq_close(&p->cq);
    p->session = NULL;
}

void program_fill_srq(struct program *p)
{
    struct srq_shared *shared = (struct srq_shared *)p->srq_segment;

    while (p->spares && p->srq_posted - atomic_load_explicit(&shared->taken, memory_order_acquire) <
                            p->srq.size) {
        unsigned unit = p->spare[--p->spares];
        struct rqe *e = work_queue_slot(p->srq_segment + p->srq.ring_off, p->srq.size,
                                        p->srq.stride, p->srq_posted);

        memset(p->memory->pool[unit], NOT_WRITTEN, UNIT);
        *e = (struct rqe){.wr_id = unit, .num_sge = 1};
        *(struct sge *)(e + 1) =
            (struct sge){.addr = va(p, p->memory->pool[unit]), .length = UNIT, .lkey = p->mr.key};
        atomic_store_explicit(&shared->prod, ++p->srq_posted, memory_order_release);
    }
}
