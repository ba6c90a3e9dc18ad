/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_pool.h"

void pool_init(struct pool *p, struct kit_srq *srq, struct kit_qp *qp, uint32_t slot_len)
{
    struct kit_node *n = srq ? srq->node : qp->node;
    bool direct = random_below(&n->kit->random, 2);

    p->srq = srq;
    p->qp = qp;
    p->slot_len = slot_len;
    p->mr = kit_mr_create(n, POOL_SLOTS * slot_len, MEM_LOCAL_WRITE,
                          direct ? KIT_MR_DIRECT : KIT_MR_COPY);
}

/* Sometimes a slot in two pieces. */
static bool post_slot(struct pool *p, unsigned slot, struct random *r)
{
    uint32_t off = slot * p->slot_len, first = random_below(r, p->slot_len);
    uint64_t wr_id = (uint64_t)++p->serial << 8 | slot;
    struct sge sge[2] = {kit_sge(p->mr, off, first),
                         kit_sge(p->mr, off + first, p->slot_len - first)};
    unsigned n = 2;

    if (random_below(r, 2)) {
        sge[0] = kit_sge(p->mr, off, p->slot_len);
        n = 1;
    }
    if (p->srq ? kit_srq_post(p->srq, wr_id, sge, n) : kit_post_recv(p->qp, wr_id, sge, n))
        return false;
    p->wr_id[slot] = wr_id;
    p->posted++;
    return true;
}

void pool_post(struct pool *p, struct random *r)
{
    struct kit *k = p->mr->node->kit;
    unsigned burst = 1 + random_below(r, POOL_SLOTS);
    bool missing = false;

    if (p->closed)
        return;
    for (unsigned i = 0; i < POOL_SLOTS; i++) {
        if (p->wr_id[i])
            continue;
        missing = true;
        if (p->at > k->now || !burst)
            continue;
        if (!post_slot(p, i, r))
            break;
        burst--;
    }
    if (!missing)
        return;
    if (p->at <= k->now)
        p->at = k->now + random_below(r, 60 * NS_PER_US);
    kit_wake_at(k, max_of(p->at, k->now + 1));
}

const uint8_t *pool_take(struct pool *p, const struct cqe *e)
{
    unsigned slot = e->wr_id & 255;

    if (slot >= POOL_SLOTS || p->wr_id[slot] != e->wr_id)
        sim_fail("receive %llx completes, which is not posted", (unsigned long long)e->wr_id);
    p->wr_id[slot] = 0;
    p->taken++;
    return p->mr->bytes + slot * p->slot_len;
}

void pool_check(const struct pool *p)
{
    if (p->srq && srq_waiting(p->srq->srq) != p->posted - p->taken)
        sim_fail("%u entries posted to a shared queue, %u completed, %u wait", p->posted, p->taken,
                 srq_waiting(p->srq->srq));
}
