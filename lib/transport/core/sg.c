/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scatter and gather between packets and the application's memory, through L_Keys. Regions are
 * looked up for every piece, so a key revoked in mid-message stops the message. Copies that need a
 * system call are queued in the engine's batch and done together, before the call into the engine
 * returns.
 */
#include <errno.h>

#include "late.h"
#include "sg.h"

static enum mr_fault lkey_check(struct engine *e, uint32_t pd, const struct sge *s, uint64_t addr,
                                uint32_t len, uint32_t access, struct mem_region **mr)
{
    return mr_check(&e->mrs, s->lkey, pd, addr, len, access, mr);
}

enum mr_fault sg_check(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                       uint32_t access)
{
    struct mem_region *mr;

    for (unsigned i = 0; i < n; i++) {
        enum mr_fault f;

        if (!sge[i].length)
            continue;
        f = lkey_check(e, pd, &sge[i], sge[i].addr, sge[i].length, access, &mr);
        if (f != MR_OK)
            return f;
    }
    return MR_OK;
}

bool sg_is_refused(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n)
{
    struct mem_region *mr;

    for (unsigned i = 0; i < n; i++)
        if (sge[i].length && lkey_check(e, pd, &sge[i], sge[i].addr, 0, 0, &mr) == MR_OK &&
            mem_refuses(&e->batch, mr))
            return true;
    return false;
}

/* The piece of an SGE list that starts at byte `off`: advances *i and *off past used-up SGEs. */
static uint32_t piece_at(const struct sge *sge, unsigned n, unsigned *i, uint32_t *off,
                         uint32_t len)
{
    while (*i < n && *off >= sge[*i].length) {
        *off -= sge[*i].length;
        ++*i;
    }
    return *i < n ? min_of(len, sge[*i].length - *off) : 0;
}

/* Inlined twice, so that the direction costs nothing. */
static inline __attribute__((always_inline)) enum mr_fault
sg_move(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n, uint32_t off,
        uint8_t *local, uint32_t len, unsigned tag, bool out)
{
    unsigned i = 0;

    while (len) {
        struct mem_region *mr;
        uint32_t piece = piece_at(sge, n, &i, &off, len);
        enum mr_fault f;

        if (!piece)
            return MR_BAD_RANGE;
        f = lkey_check(e, pd, &sge[i], sge[i].addr + off, piece,
                       out ? MEM_LOCAL_WRITE : MEM_LOCAL_READ, &mr);
        if (f != MR_OK)
            return f;
        if (out && mem_refuses(&e->batch, mr))
            return MR_NO_ROOM;
        if (mem_batch_full(&e->batch))
            out ? sg_flush_out(e) : sg_flush_in(e);
        (out ? mem_batch_out(&e->batch, mr, mr_host_addr(mr, sge[i].addr + off), local, piece, tag)
             : mem_batch_in(&e->batch, mr, mr_host_addr(mr, sge[i].addr + off), local, piece, tag));
        off += piece;
        local += piece;
        len -= piece;
    }
    return MR_OK;
}

enum mr_fault sg_scatter(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                         uint32_t off, const uint8_t *local, uint32_t len, unsigned tag)
{
    return sg_move(e, pd, sge, n, off, (uint8_t *)(uintptr_t)local, len, tag, true);
}

enum mr_fault sg_gather(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                        uint32_t off, uint8_t *local, uint32_t len, unsigned tag)
{
    enum mr_fault f = sg_move(e, pd, sge, n, off, local, len, tag, false);

    if (likely(f == MR_OK))
        return f;
    /* No packet comes of it: what is queued already would meet the next one in the same frame. */
    while (e->batch.n && e->batch.io[e->batch.n - 1].tag == tag)
        e->batch.n--;
    /* What was copied before may be late, and write to the frame for as long as it takes: the frame
     * is this packet's, which is not sent. It is built again, or has failed. */
    return e->tx_job[tag].failed ? MR_OK : f;
}

const uint8_t *sg_source(struct engine *e, uint32_t pd, const struct sge *sge, unsigned n,
                         uint32_t off, uint32_t len)
{
    struct mem_region *mr;
    unsigned i = 0;

    if (piece_at(sge, n, &i, &off, len) != len ||
        lkey_check(e, pd, &sge[i], sge[i].addr + off, len, MEM_LOCAL_READ, &mr) != MR_OK)
        return NULL;
    return mr->direct ? mr_direct(mr, sge[i].addr + off) : NULL;
}

/* Whether the call of the kernel that does the first can do the second. */
static bool is_same_call(const struct mem_io *io, const struct mem_io *next)
{
    return next->addr == io->addr + io->len &&
           (next->mr == io->mr || next->mr->space == io->mr->space);
}

/* The calls of the queued copies, to the programs whose memory it is: those that the packets of
 * others cause only until the program owes a grant. */
static void charge_calls(struct engine *e, bool out)
{
    const struct mem_io *io = e->batch.io;

    for (unsigned i = 0; i < e->batch.n; i++) {
        if (i && is_same_call(&io[i - 1], &io[i]))
            continue;
        if (!out)
            share_charge(e->tx_job[io[i].tag].qp->share, COST_COPY);
        else if (io[i].tag < RX_TAG_RAW)
            share_charge_caused(e->rx_job[io[i].tag].qp->share, COST_COPY);
    }
}

/* Raw packets have no incident. */
static __attribute__((cold)) void note_failed(struct engine *e, const struct mem_io *io, bool out)
{
    if (io->tag >= ARRAY_SIZE(e->failed_copy))
        return;
    e->failed_copy[io->tag] = (struct failed_copy){
        .addr = io->addr - io->mr->addr + io->mr->iova,
        .len = io->len,
        .key = atomic_load_explicit(&io->mr->key, memory_order_relaxed),
        .status = io->status,
        .out = out,
    };
}

/* The payload of a frame did not come. A transfer under way is late.c's by now. */
static enum job_failed judge_job(struct engine *e, struct tx_job *job, const struct mem_io *io)
{
    if (io->status == -EINPROGRESS || (io->status == -EBUSY && late_wait_to_send(e, job)))
        return JOB_LATE;
    note_failed(e, io, false);
    return JOB_FAILED;
}

void sg_flush_in(struct engine *e)
{
    charge_calls(e, false);
    if (mem_batch_flush_in(&e->batch))
        for (unsigned i = 0; i < e->batch.n; i++)
            if (e->batch.io[i].status) {
                struct tx_job *job = &e->tx_job[e->batch.io[i].tag];

                job->failed = (uint8_t)judge_job(e, job, &e->batch.io[i]);
            }
    e->batch.n = 0;
}

/* Transfers under way are late.c's: it has suspended their queue pairs. */
static void mark_failed(struct engine *e, uint64_t tag)
{
    if (tag >= RX_TAG_RAW) {
        e->completion[tag - RX_TAG_RAW].failed = true;
    } else {
        e->rx_job[tag].copy_failed = true;
        e->copies_failed = true;
    }
}

void sg_flush_out(struct engine *e)
{
    charge_calls(e, true);
    if (mem_batch_flush_out(&e->batch))
        for (unsigned i = 0; i < e->batch.n; i++)
            if (e->batch.io[i].status && e->batch.io[i].status != -EINPROGRESS) {
                note_failed(e, &e->batch.io[i], true);
                mark_failed(e, e->batch.io[i].tag);
            }
    e->batch.n = 0;
}
