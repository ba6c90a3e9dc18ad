/* SPDX-License-Identifier: BSD-3-Clause */
/* Statements that create objects: qp mr mw cq srq ah. */
#include <stdlib.h>
#include <string.h>

#include "script.h"

static void *segment(size_t bytes)
{
    void *p = aligned_alloc(CACHE_LINE, round_up(bytes, CACHE_LINE));

    if (!p)
        kit_fail("out of memory");
    return memset(p, 0, bytes);
}

/* From the engine's entry `net` of the GID table to the peer's. */
static struct address_vector route(const struct script *s, const struct qp_conf *c)
{
    const struct gid_entry *source = &s->node->gids.entry[c->net];
    struct address_vector av = {
        .sgid = source->gid,
        .dgid = s->peer->gids.entry[c->net].gid,
        .gid_type = source->type,
        .sgid_index = (uint8_t)c->net,
        .vlan = source->vlan,
        .sl = (uint8_t)c->sl,
        .pcp = (uint8_t)c->sl & 7,
        .traffic_class = (uint8_t)c->tclass,
        .hop_limit = (uint8_t)c->hop,
        .flow_label = c->flow,
    };

    memcpy(av.smac, s->node->port.mac, sizeof(av.smac));
    memcpy(av.dmac, s->peer->port.mac, sizeof(av.dmac));
    return av;
}

/* ---- queue pairs ---- */

#define F(name)                                                 \
    {                                                           \
#name, offsetof(struct qp_conf, name), sizeof(uint32_t) \
    }
static const struct field conf_fields[] = {
    F(mtu),     F(sq_psn), F(rq_psn),      F(retry),      F(rnr_retry), F(timeout),
    F(min_rnr), F(max_rd), F(max_dest_rd), F(qkey),       F(peer),      F(pd),
    F(sq),      F(rq),     F(max_sge),     F(max_inline), F(sig_all),   F(xrcd),
    F(tclass),  F(hop),    F(flow),        F(sl),         {0},
};
#undef F

static const struct qp_conf conf_defaults = {
    .mtu = 1024,
    .sq_psn = 100,
    .rq_psn = 200,
    .retry = 7,
    .rnr_retry = 7,
    .min_rnr = 12,
    .max_rd = 4,
    .max_dest_rd = 4,
    .access = MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC | MEM_FLUSH_GLOBAL,
    .qkey = 0x11111111,
    .peer = 0x200,
    .pd = KIT_PD,
    .sq = 64,
    .rq = 16,
    .max_sge = 4,
    .max_inline = 128,
    .xrcd = 1,
    .hop = 64,
};

static struct qp *create(struct script *s, struct script_qp *qp, struct script_srq *srq)
{
    const struct qp_conf *c = &qp->conf;
    bool no_ring = qp->type == QPT_XRC_RECV;
    struct qp_init init = {
        .type = qp->type,
        .pd = c->pd,
        .srq = srq ? srq->srq : NULL,
        .xrcd = c->xrcd,
        .sq_sig_all = c->sig_all,
        .send_cq = &qp->cq->cq,
        .recv_cq = &qp->cq->cq,
        .shared = no_ring ? NULL : qp->shared,
        .sq = {.ring = qp->sq,
               .prod = &qp->shared->sq_prod,
               .size = c->sq,
               .stride = qp->sq_stride,
               .max_sge = c->max_sge,
               .max_inline = c->max_inline},
        .rq = {.ring = qp->rq,
               .prod = &qp->shared->rq_prod,
               .size = c->rq,
               .stride = qp->rq_stride,
               .max_sge = c->max_sge},
        .caps = {c->sq, c->rq, c->max_sge, c->max_sge, c->max_inline},
        .owner = qp,
    };
    struct qp *made;
    int err = 0;

    made = qp_create(s->qps, &init, &err);
    if (!made)
        fail(s, "qp_create: %d", err);
    return made;
}

/* qp TYPE [as NAME] [state S] [srq S] [cq C] [net N] [access A] [FIELD VALUE]... */
void st_qp(struct script *s)
{
    struct script_qp *qp = kit_alloc(sizeof(*qp));
    const char *name = "qp", *word;
    struct script_srq *srq = NULL;
    uint32_t state = QPS_RTS;

    qp->conf = conf_defaults;
    qp->cq = object(s, OBJ_CQ, NULL);
    qp->type = named(s, type_names, need(s, "a type"), "queue pair type");
    while ((word = next(s))) {
        const struct field *f = find_field(conf_fields, word);

        if (f)
            field_set(f, &qp->conf, need_number(s, word));
        else if (!strcmp(word, "as"))
            name = need(s, "a name");
        else if (!strcmp(word, "state"))
            state = named(s, state_names, need(s, "a state"), "state");
        else if (!strcmp(word, "srq"))
            srq = object(s, OBJ_SRQ, need(s, "a shared queue"));
        else if (!strcmp(word, "cq"))
            qp->cq = object(s, OBJ_CQ, need(s, "a completion queue"));
        else if (!strcmp(word, "net"))
            qp->conf.net = named(s, net_names, need(s, "a network"), "network");
        else if (!strcmp(word, "access"))
            qp->conf.access = need_access(s);
        else
            fail(s, "script: a queue pair has no '%s'", word);
    }
    qp->sq_stride = sqe_stride(qp->conf.max_sge, qp->conf.max_inline);
    qp->rq_stride = rqe_stride(qp->conf.max_sge);
    qp->shared = segment(sizeof(*qp->shared));
    qp->sq = segment((size_t)qp->conf.sq * qp->sq_stride);
    qp->rq = segment((size_t)qp->conf.rq * qp->rq_stride);
    qp->av = route(s, &qp->conf);
    qp->in_psn = qp->conf.rq_psn;
    qp->qp = create(s, qp, srq);
    engine_qp_attach(s->engine, qp->qp);
    object_add(s, OBJ_QP, name, qp);
    to_state(s, qp, state);
}

/* ---- memory ---- */

/* mr NAME SIZE [access A] [readonly] [pd P] [data SEED] */
void st_mr(struct script *s)
{
    const char *name = need(s, "a name"), *word;
    uint32_t size = (uint32_t)need_number(s, "a size"), access = MEM_LOCAL_WRITE, pd = KIT_PD;
    uint32_t seed = 0, off = 0;
    bool readonly = false;
    struct kit_mr *mr;

    while ((word = next(s))) {
        if (!strcmp(word, "access"))
            access = MEM_LOCAL_WRITE | need_access(s);
        else if (!strcmp(word, "readonly"))
            readonly = true;
        else if (!strcmp(word, "pd"))
            pd = (uint32_t)need_number(s, "a protection domain");
        else if (!strcmp(word, "data"))
            need_data(s, &seed, &off);
        else
            fail(s, "script: a memory region has no '%s'", word);
    }
    if (readonly)
        access &= ~(uint32_t)MEM_LOCAL_WRITE;
    mr = kit_mr_create(s->node, size, access, s->memory);
    mr->region.pd = pd;
    for (uint32_t i = 0; seed && i < size; i++)
        mr->bytes[i] = data_byte(seed, off + i);
    object_add(s, OBJ_MR, name, mr);
}

/* mw NAME TYPE [pd P] */
void st_mw(struct script *s)
{
    const char *name = need(s, "a name");
    struct mem_region *w = kit_alloc(sizeof(*w));

    w->kind = need_number(s, "a type") == 1 ? MEM_WINDOW_1 : MEM_WINDOW_2;
    w->pd = accept(s, "pd") ? (uint32_t)need_number(s, "a protection domain") : KIT_PD;
    object_add(s, OBJ_MW, name, w);
    if (mr_insert(&s->node->mrs, w, 0x10))
        kit_fail("memory region table full");
}

/* ---- queues and handles ---- */

/* cq NAME SIZE */
void st_cq(struct script *s)
{
    const char *name = need(s, "a name");

    object_add(s, OBJ_CQ, name, kit_cq_create(s->node, (uint32_t)need_number(s, "a size")));
}

/* srq NAME SIZE [pd P] [xrc DOMAIN] [cq C] */
void st_srq(struct script *s)
{
    struct script_srq *srq = kit_alloc(sizeof(*srq));
    const char *name = need(s, "a name"), *word;
    struct srq_init init = {.pd = KIT_PD, .owner = srq};
    struct kit_cq *cq = object(s, OBJ_CQ, NULL);
    int err = 0;

    srq->size = (uint32_t)need_number(s, "a size");
    while ((word = next(s))) {
        if (!strcmp(word, "pd"))
            init.pd = (uint32_t)need_number(s, "a protection domain");
        else if (!strcmp(word, "cq"))
            cq = object(s, OBJ_CQ, need(s, "a completion queue"));
        else if (!strcmp(word, "xrc")) {
            init.xrc = true;
            init.xrcd = (uint32_t)need_number(s, "a domain");
        } else
            fail(s, "script: a shared queue has no '%s'", word);
    }
    srq->stride = rqe_stride(4);
    srq->shared = segment(sizeof(*srq->shared));
    srq->ring = segment((size_t)srq->size * srq->stride);
    init.cq = &cq->cq;
    init.taken = &srq->shared->taken;
    init.wq = (struct work_queue){.ring = srq->ring,
                                  .prod = &srq->shared->prod,
                                  .size = srq->size,
                                  .stride = srq->stride,
                                  .max_sge = 4};
    srq->srq = srq_create(s->srqs, &init, &err);
    if (!srq->srq)
        fail(s, "srq_create: %d", err);
    object_add(s, OBJ_SRQ, name, srq);
}

/* ah NAME [pd P] [net N] [to ADDRESS] [tclass T] [hop H] [flow F] [sl S] */
void st_ah(struct script *s)
{
    const char *name = need(s, "a name"), *word, *to = NULL;
    struct qp_conf c = conf_defaults;
    struct address_vector av;
    struct address_handle *ah;
    int err = 0;

    while ((word = next(s))) {
        const struct field *f = find_field(conf_fields, word);

        if (f)
            field_set(f, &c, need_number(s, word));
        else if (!strcmp(word, "net"))
            c.net = named(s, net_names, need(s, "a network"), "network");
        else if (!strcmp(word, "to"))
            to = need(s, "an address");
        else
            fail(s, "script: an address handle has no '%s'", word);
    }
    av = route(s, &c);
    if (to && gid_parse(&av.dgid, to))
        fail(s, "script: '%s' is no address", to);
    ah = address_handle_create(s->ahs, c.pd, &av, 0, &err);
    if (!ah)
        fail(s, "ah_create: %d", err);
    object_add(s, OBJ_AH, name, ah);
}
