/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, address handles and memory windows as a fake application uses them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kit_internal.h"
#include "mem_window.h"
#include "static_rate.h"

struct kit_ah {
    struct address_handle *ah;
    struct kit_ah *next;
};

struct kit_srq *kit_srq_create(struct kit_node *n, uint32_t size, struct kit_cq *cq, uint32_t xrcd)
{
    struct kit_srq *srq = kit_alloc(sizeof(*srq));
    struct srq_init init;
    int err = 0;

    srq->node = n;
    srq->size = size;
    srq->max_sge = 4;
    srq->stride = rqe_stride(srq->max_sge);
    srq->shared = kit_segment(sizeof(*srq->shared));
    srq->ring = kit_segment((size_t)size * srq->stride);
    init = (struct srq_init){
        .wq = {.ring = srq->ring,
               .prod = &srq->shared->prod,
               .size = size,
               .stride = srq->stride,
               .max_sge = srq->max_sge},
        .taken = &srq->shared->taken,
        .pd = KIT_PD,
        .xrc = cq != NULL,
        .xrcd = xrcd,
        .cq = cq ? &cq->cq : NULL,
        .owner = srq,
    };
    srq->srq = srq_create(n->srqs, &init, &err);
    if (!srq->srq)
        kit_fail("srq_create: %d", err);
    srq->number = srq_number(srq->srq);
    srq->next = n->srq;
    n->srq = srq;
    return srq;
}

int kit_srq_post(struct kit_srq *srq, uint64_t wr_id, const struct sge *sge, unsigned num_sge)
{
    struct rqe *e = work_queue_slot(srq->ring, srq->size, srq->stride, srq->prod);

    if (srq->prod - atomic_load_explicit(&srq->shared->taken, memory_order_acquire) >= srq->size)
        return -ENOMEM;
    *e = (struct rqe){.wr_id = wr_id, .num_sge = num_sge};
    if (num_sge)
        memcpy(e + 1, sge, num_sge * sizeof(*sge));
    atomic_store_explicit(&srq->shared->prod, ++srq->prod, memory_order_release);
    return 0;
}

static uint32_t create_ah(struct kit_node *from, const struct address_vector *av, uint64_t rate)
{
    struct kit_ah *ah = kit_alloc(sizeof(*ah));
    int err = 0;

    ah->ah = address_handle_create(from->ahs, KIT_PD, av, rate, &err);
    if (!ah->ah)
        kit_fail("address_handle_create: %d", err);
    ah->next = from->ah;
    from->ah = ah;
    return address_handle_number(ah->ah);
}

uint32_t kit_ah_create(struct kit_node *from, const struct kit_node *to, enum kit_gid gid)
{
    return kit_ah_with(from, to, &(struct kit_rc){.gid_index = (uint8_t)gid});
}

uint32_t kit_ah_with(struct kit_node *from, const struct kit_node *to, const struct kit_rc *path)
{
    struct address_vector av = kit_route(from, to, path);

    return create_ah(from, &av, static_rate_mbps(path->static_rate) * UINT64_C(1000000));
}

uint32_t kit_ah_to_group(struct kit_node *from, const union gid *group, enum kit_gid gid)
{
    struct address_vector av = kit_route(from, from, &(struct kit_rc){.gid_index = (uint8_t)gid});

    av.dgid = *group;
    gid_multicast_mac(group, av.dmac);
    return create_ah(from, &av, 0);
}

struct kit_mw *kit_mw_create(struct kit_node *n, enum mem_kind kind)
{
    struct kit_mw *mw = kit_alloc(sizeof(*mw));

    mw->region = (struct mem_region){.kind = (uint8_t)kind, .pd = KIT_PD};
    if (mr_insert(&n->mrs, &mw->region, (uint8_t)random_next(&n->kit->random)))
        kit_fail("memory region table full");
    mw->next = n->mw;
    n->mw = mw;
    return mw;
}

void kit_srq_fini(struct kit_node *n)
{
    while (n->srq) {
        struct kit_srq *srq = n->srq;

        n->srq = srq->next;
        srq_free(srq->srq);
        free(srq->shared);
        free(srq->ring);
        free(srq);
    }
    while (n->ah) {
        struct kit_ah *ah = n->ah;

        n->ah = ah->next;
        address_handle_unpublish(n->ahs, ah->ah);
        address_handle_free(ah->ah);
        free(ah);
    }
    while (n->mw) {
        struct kit_mw *mw = n->mw;

        n->mw = mw->next;
        window_unbind(&mw->region);
        mr_remove(&n->mrs, &mw->region);
        free(mw);
    }
    srq_table_destroy(n->srqs);
    ah_table_destroy(n->ahs);
}
