/* SPDX-License-Identifier: BSD-3-Clause */
/* Causes that are about keys and memory: see why.h. */
#include <errno.h>

#include "engine_private.h"
#include "mr_about.h"
#include "why.h"

/* Details of keys, in the order of cause.def. */
enum { KEY_REGION_KEY = 4, KEY_REGION_AT, KEY_REGION_LEN, KEY_NONE_OR_RIGHTS, KEY_SPECIAL, KEY_IS };

/* By enum mr_fault. */
static const uint8_t remote_cause[] = {[MR_BAD_KEY] = CAUSE_remote_key_unknown,
                                       [MR_BAD_PD] = CAUSE_remote_key_other_domain,
                                       [MR_BAD_ACCESS] = CAUSE_remote_key_no_right,
                                       [MR_BAD_RANGE] = CAUSE_remote_key_range};
static const uint8_t local_cause[] = {[MR_BAD_KEY] = CAUSE_local_key_unknown,
                                      [MR_BAD_PD] = CAUSE_local_key_other_domain,
                                      [MR_BAD_ACCESS] = CAUSE_local_key_no_right,
                                      [MR_BAD_RANGE] = CAUSE_local_key_range};

/* ---- what the key should have been, or what it is ---- */

/* Of the queue pair's own domain: its program knows these keys. */
static void add_right_key(const struct engine *e, uint32_t pd, struct why *w)
{
    uint32_t key = (uint32_t)w->detail[0], swapped = __builtin_bswap32(key);
    const struct mem_region *mr = mr_lookup(e->cfg.mrs, swapped);
    bool all;

    w->detail[KEY_SPECIAL] = mr && atomic_load_explicit(&mr->pd, memory_order_relaxed) == pd;
    all = mr_find_address(e->cfg.mrs, pd, w->detail[1], w->detail[2], &mr);
    w->detail[KEY_NONE_OR_RIGHTS] = all && !mr;
    if (!mr)
        return;
    w->detail[KEY_REGION_KEY] = atomic_load_explicit(&mr->key, memory_order_relaxed);
    w->detail[KEY_REGION_AT] = mr->iova;
    w->detail[KEY_REGION_LEN] = mr->len;
}

/* Where the key is known: what it gives access to. */
static void add_region(const struct mr_about *about, struct why *w)
{
    uint64_t at = w->detail[1] - about->va; /* if it is not below the region */

    w->detail[KEY_REGION_AT] = about->va;
    w->detail[KEY_REGION_LEN] = about->len;
    w->detail[KEY_NONE_OR_RIGHTS] = about->access | WHY_RIGHTS;
    if (w->detail[1] >= about->va && at <= about->len && w->detail[2] > about->len - at)
        w->detail[KEY_SPECIAL] = w->detail[2] - (about->len - at);
}

/* A key that is unknown may have been known before. */
static struct why access_why(const struct engine *e, const struct qp *qp, uint32_t pd,
                             const uint8_t *cause, enum mr_fault found, struct why w)
{
    uint32_t key = (uint32_t)w.detail[0];
    uint64_t at = found == MR_BAD_KEY ? mr_removed_at(e->cfg.mrs, key) : 0;
    bool remote = cause == remote_cause;
    struct mr_about about;

    w.cause = cause[found];
    if (at) {
        w.cause = remote ? CAUSE_remote_key_removed : CAUSE_local_key_removed;
        w.detail[3] = (e->now - min_of(e->now, at)) / NS_PER_US;
    }
    if (pd == MEM_PD_NONE)
        return w;
    mr_about(e->cfg.mrs, key, pd, qp->qpn, &about);
    w.detail[KEY_IS] = about.is;
    if (found == MR_BAD_ACCESS || found == MR_BAD_RANGE)
        add_region(&about, &w);
    else
        add_right_key(e, pd, &w);
    return w;
}

enum fault why_access_fault(struct engine *e, struct qp *qp, enum fault fault, enum mr_fault found,
                            uint32_t key, uint64_t va, uint64_t len, uint32_t need)
{
    /* The domain of an XRC request is its SRQ's, which is not at hand. */
    uint32_t pd = qp->type == QPT_XRC_RECV ? MEM_PD_NONE : qp->pd;

    if (found == MR_OK || found >= ARRAY_SIZE(remote_cause))
        return fault;
    qp->why.found =
        access_why(e, qp, pd, remote_cause, found, why_of(CAUSE_none, key, va, len, need));
    qp->why.found_of = fault;
    return fault;
}

bool why_local_access(struct engine *e, const struct qp *qp, uint32_t pd, const struct sge *sge,
                      unsigned n, uint32_t need, struct why *out)
{
    struct mem_region *mr;

    for (unsigned i = 0; i < n; i++) {
        enum mr_fault f = sge[i].length ? mr_check(&e->mrs, sge[i].lkey, pd, sge[i].addr,
                                                   sge[i].length, need, &mr)
                                        : MR_OK;

        if (f == MR_OK || f >= ARRAY_SIZE(local_cause))
            continue;
        *out = access_why(e, qp, pd, local_cause, f,
                          why_of(CAUSE_none, sge[i].lkey, sge[i].addr, sge[i].length, need));
        return true;
    }
    return false;
}

/* ---- memory that is not there ---- */

struct why why_memory_gone(enum why_side side, uint64_t addr, uint64_t len, uint32_t key)
{
    return why_of(CAUSE_local_memory_gone, side, addr, len, key);
}

void why_copy_fault(struct engine *e, struct qp *qp, enum why_side side, unsigned tag)
{
    struct failed_copy *c = &e->failed_copy[tag];
    bool known = c->len && c->out == (side != WHY_REMOTE_SOURCE);

    qp->why.found =
        known ? why_memory_gone(side, c->addr, c->len, c->key) : why_memory_gone(side, 0, 0, 0);
    qp->why.found.detail[4] = known && c->status == -ESRCH;
    c->len = 0;
    qp->why.found_of = FAULT_MEMORY;
}

void why_invalidate(const struct engine *e, const struct qp *qp, uint32_t key, struct why *out)
{
    struct mr_about about;

    mr_about(e->cfg.mrs, key, qp->pd, qp->qpn, &about);
    out->detail[0] = key;
    out->detail[1] = about.is;
}
