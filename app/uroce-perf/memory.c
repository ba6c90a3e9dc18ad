/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of messages: two halves for each worker, one for each end. */
#include "perf.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_MAX (UINT64_C(8) << 30)

/* With verification each outstanding message has a slot of its own; otherwise all messages use the
 * buffer's slots in turn. */
static void share_slots(const struct perf *p, struct cursor *c, uint32_t *used, uint32_t depth,
                        uint32_t slots)
{
    uint32_t first = *used;

    *used += depth;
    *c = p->opt.verify ? (struct cursor){.next = first, .first = first, .end = first + depth}
                       : (struct cursor){.next = first % slots, .end = slots};
}

void memory_assign(struct perf *p)
{
    uint32_t out[WORKERS_MAX] = {0}, in[WORKERS_MAX] = {0}, depth = (uint32_t)p->opt.depth;

    for (uint32_t i = 0; i < p->ends; i++) {
        struct perf_end *e = &p->end[i];
        uint32_t w = e->worker;

        e->local = (uintptr_t)p->memory + 2 * p->half * w;
        e->remote = e->local + p->half;
        if (e->sends)
            share_slots(p, &e->out, &out[w], depth, p->out_slots);
        e->checked = e->out;
    }
    for (uint32_t i = 0; i < p->ends && mode_receives(p->opt.mode); i++) {
        struct perf_end *e = &p->end[i];

        if (e->peer->sends)
            share_slots(p, &e->in, &in[e->worker], p->recv_depth, p->in_slots);
        e->in_checked = e->in;
    }
}

static uint64_t slots_needed(const struct perf *p, uint32_t depth)
{
    uint32_t largest = 0;

    for (unsigned w = 0; w < p->threads; w++) {
        uint32_t here = 0;

        for (uint32_t i = 0; i < p->ends; i++)
            here += p->end[i].worker == w;
        largest = max_of(largest, here);
    }
    return (uint64_t)largest * depth;
}

/* At largest half of the machine's memory. */
static uint64_t memory_limit(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    return min_of(all / 2, MEMORY_MAX);
}

int memory_plan(struct perf *p, char *error, size_t size)
{
    uint64_t grh = p->opt.mode == MODE_UD ? CACHE_LINE : 0;
    uint64_t out, in;

    p->out_stride = (uint32_t)round_up(max_of(p->size, UINT64_C(1)), CACHE_LINE);
    p->in_stride = p->out_stride + (uint32_t)grh;
    out = max_of(p->opt.buffer / p->out_stride, UINT64_C(1));
    in = max_of(p->opt.buffer / p->in_stride, UINT64_C(1));
    if (p->opt.verify) {
        out = max_of(out, slots_needed(p, (uint32_t)p->opt.depth));
        in = max_of(in, slots_needed(p, p->recv_depth));
    }
    if (p->opt.mode == MODE_ATOMIC) /* a counter for each queue pair */
        in = max_of(in, (uint64_t)p->ends);
    p->out_slots = (uint32_t)out;
    p->in_slots = (uint32_t)in;
    p->half = round_up(max_of(out * p->out_stride, in * p->in_stride), 4096);
    p->memory_len = 2 * p->half * p->threads;
    if (p->memory_len <= memory_limit())
        return 0;
    snprintf(error, size, "size, depth, qps: these messages need %lu MiB of memory, over %lu",
             p->memory_len >> 20, memory_limit() >> 20);
    return -1;
}

static int register_memory(struct perf *p, unsigned side, int fd)
{
    struct ctl_msg m = {.reg_mr = {.pd = p->pd[side],
                                   .access = PERF_ACCESS,
                                   .addr = (uintptr_t)p->memory,
                                   .iova = (uintptr_t)p->memory,
                                   .length = p->memory_len,
                                   .flags = CTL_MR_FD}};
    int err = objects_call(p, side, CTL_REG_MR, &m, fd);

    p->key[side] = m.reg_mr.rkey;
    return err;
}

int memory_open(struct perf *p)
{
    int fd = memfd_create("uroce-perf", MFD_CLOEXEC), err = 0;

    if (fd < 0 || ftruncate(fd, (off_t)p->memory_len)) {
        err = -errno;
    } else {
        void *at =
            mmap(NULL, p->memory_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

        p->memory = at == MAP_FAILED ? NULL : at;
        err = p->memory ? 0 : -errno;
    }
    for (unsigned side = 0; side < p->sides && !err; side++)
        err = register_memory(p, side, fd);
    if (fd >= 0)
        close(fd);
    return err;
}

void memory_close(struct perf *p)
{
    if (p->memory)
        munmap(p->memory, p->memory_len);
    p->memory = NULL;
}
