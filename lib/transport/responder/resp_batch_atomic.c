/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of atomics, of ATOMIC WRITEs or of FLUSHes, executed as resp_atomic.c does it: the first
 * two in mapped memory. Each gets its resource, and is answered later (resp_batch_reply.c).
 */
#include "resp_rules.h"
#include "responder.h"
#include "rx_batch.h"

/* Inlined where they are constants. */
enum requests { ATOMICS, ATOMIC_WRITES, FLUSHES };

/* ---- admit ---- */

/* Where bytes of earlier requests wait to be copied, or could not be, the general path looks at
 * that first. */
static unsigned admit_answered(const struct rx_batch *b, unsigned n, enum mem_access right)
{
    const struct responder *resp = &b->qp->resp;

    if (b->e->batch.n || b->e->copies_failed || !resp_right_ok(b->qp, right) ||
        !resp_order_ok(resp, PF_START, RESP_IDLE))
        return 0;
    return min_of(n, resp->res_max);
}

unsigned resp_admit_atomics(struct rx_batch *b, unsigned n)
{
    return admit_answered(b, n, MEM_REMOTE_ATOMIC);
}

unsigned resp_admit_atomic_writes(struct rx_batch *b, unsigned n)
{
    return admit_answered(b, n, MEM_REMOTE_WRITE);
}

unsigned resp_admit_flushes(struct rx_batch *b, unsigned n)
{
    return admit_answered(b, n, MEM_FLUSH_GLOBAL);
}

/* ---- one request ---- */

/* The 8 bytes in mapped memory, or NULL. */
ALWAYS_INLINE uint8_t *find_eight(struct rx_batch *b, struct mr_grant *g, struct mr_hint *hint,
                                  uint32_t key, uint32_t access, uint64_t va)
{
    uint8_t *at = rx_batch_lookup(b, g, hint, key, access, va, 8);

    return resp_aligned_ok(va) && mem_atomic_fits(at) ? at : NULL;
}

ALWAYS_INLINE uint8_t *find_written(struct rx_batch *b, struct mr_grant *g,
                                    const struct icrc_span *s)
{
    const uint8_t *reth = rx_batch_eth(b, s);

    if (reth_len(reth) != 8 || s->payload != 8)
        return NULL;
    return find_eight(b, g, &b->qp->resp.write_hint, reth_rkey(reth), MEM_REMOTE_WRITE,
                      reth_va(reth));
}

/* Whether the peer may flush all that it asks for (A19.4.1.2): for a region the key alone counts,
 * and an empty range is exempt. */
static bool may_flush(struct rx_batch *b, struct mr_grant *g, struct mr_hint *hint,
                      const uint8_t *feth)
{
    const uint8_t *reth = feth + FETH_LEN;
    uint8_t selectivity = feth_selectivity(feth);
    uint32_t key = reth_rkey(reth), len = reth_len(reth);

    if (feth_placement(feth) != FETH_GLOBAL || selectivity > FETH_REGION)
        return false;
    if (selectivity == FETH_RANGE && !len)
        return true;
    if (unlikely(key != g->key))
        *g = rx_batch_grant(b, hint, key, MEM_FLUSH_GLOBAL);
    return selectivity == FETH_REGION ? g->direct || g->copied
                                      : mr_grant_covers(g, reth_va(reth), len);
}

/* Whether the request may be executed here, and *at: its 8 bytes in mapped memory. False: the
 * general path must judge it. flush: the hint of FLUSHes. */
ALWAYS_INLINE bool find_target(enum requests what, struct rx_batch *b, struct mr_grant *g,
                               struct mr_hint *flush, const struct icrc_span *s, uint8_t **at)
{
    const uint8_t *eth = rx_batch_eth(b, s);

    if (what == FLUSHES)
        return may_flush(b, g, flush, eth);
    *at = what == ATOMICS ? find_eight(b, g, &b->qp->resp.atomic_hint, atomic_eth_rkey(eth),
                                       MEM_REMOTE_ATOMIC, atomic_eth_va(eth))
                          : find_written(b, g, s);
    return *at;
}

static void do_atomic(const struct rx_batch *b, const struct icrc_span *s, struct resp_resource *r,
                      uint8_t *at)
{
    const uint8_t *eth = rx_batch_eth(b, s);
    bool swap = opcode_table[bth_opcode(s->bth)].kind == KIND_CMP_SWP;

    r->kind = swap ? KIND_CMP_SWP : KIND_FETCH_ADD;
    r->original = mem_atomic_mapped(at, swap ? MEM_CMP_SWP : MEM_FETCH_ADD,
                                    atomic_eth_swap_add(eth), atomic_eth_compare(eth));
}

static void do_atomic_write(const struct rx_batch *b, const struct icrc_span *s,
                            struct resp_resource *r, uint8_t *at)
{
    r->kind = KIND_ATOMIC_WRITE;
    mem_store8_mapped(at, rx_batch_eth(b, s) + RETH_LEN);
}

/* ---- place ---- */

ALWAYS_INLINE unsigned place_answered(enum requests what, struct rx_batch *b, unsigned n)
{
    struct responder *resp = &b->qp->resp;
    struct mr_grant g = {.direct = NULL};
    struct mr_hint flush = {.mr = NULL};
    uint32_t at = resp_next_resource(resp);
    psn_t next = resp->epsn;
    unsigned i;

    for (i = 0; i < n; i++) {
        const struct icrc_span *s = &b->span[i];
        struct resp_resource *r = &resp->res[at];
        uint8_t *target = NULL;

        if (r->pending || !find_target(what, b, &g, &flush, s, &target)) /* as resp_place_reads */
            break;
        *r = (struct resp_resource){.kind = KIND_FLUSH,
                                    .pending = true,
                                    .first = next,
                                    .packets = 1,
                                    .all = 1,
                                    .msn = resp->msn + i + 1};
        if (what == ATOMICS)
            do_atomic(b, s, r, target);
        else if (what == ATOMIC_WRITES)
            do_atomic_write(b, s, r, target);
        next = psn_add(next, 1);
        at = at + 1 < resp->res_max ? at + 1 : 0;
    }
    b->next = next;
    return i;
}

unsigned resp_place_atomics(struct rx_batch *b, unsigned n)
{
    return place_answered(ATOMICS, b, n);
}

unsigned resp_place_atomic_writes(struct rx_batch *b, unsigned n)
{
    return place_answered(ATOMIC_WRITES, b, n);
}

unsigned resp_place_flushes(struct rx_batch *b, unsigned n)
{
    return place_answered(FLUSHES, b, n);
}

void resp_commit_atomic_batch(struct rx_batch *b, unsigned n)
{
    resp_commit_reads(b->e, b->qp, n, b->next);
    resp_note_written(b->e, b->qp);
}
