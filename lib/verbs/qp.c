/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: creation, state changes, queries, destruction. */
#include "modify_by.h"
#include "shim.h"

#define ATTR_KNOWN                                                                                \
    (IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ACCESS_FLAGS |         \
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU |                \
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |                       \
     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | \
     IBV_QP_PATH_MIG_STATE | IBV_QP_DEST_QPN | IBV_QP_RATE_LIMIT)
/* Path migration and resizing: attributes of the API that the device does not have. */
#define ATTR_UNSUPPORTED (IBV_QP_ALT_PATH | IBV_QP_CAP)

/* Both or neither. */
#define RX_HASH_MASK   (IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE)
#define RX_HASH_FIELDS 0xFFu

static void caps_to_ctl(struct qp_caps *to, const struct ibv_qp_cap *from)
{
    to->max_send_wr = from->max_send_wr;
    to->max_recv_wr = from->max_recv_wr;
    to->max_send_sge = from->max_send_sge;
    to->max_recv_sge = from->max_recv_sge;
    to->max_inline_data = from->max_inline_data;
}

static void caps_from_ctl(struct ibv_qp_cap *to, const struct qp_caps *from)
{
    to->max_send_wr = from->max_send_wr;
    to->max_recv_wr = from->max_recv_wr;
    to->max_send_sge = from->max_send_sge;
    to->max_recv_sge = from->max_recv_sge;
    to->max_inline_data = from->max_inline_data;
}

static void init_base(struct shim_qp *qp, struct ibv_context *context,
                      const struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp *base = &qp->ex.qp_base;

    base->context = context;
    base->qp_context = attr->qp_context;
    base->pd = attr->pd;
    qp->pd = attr->pd ? attr->pd->handle : 0;
    base->send_cq = attr->send_cq;
    base->recv_cq = attr->recv_cq;
    base->srq = attr->srq;
    base->handle = qp->queue.qpn;
    base->qp_num = qp->queue.qpn;
    base->state = IBV_QPS_RESET;
    base->qp_type = attr->qp_type;
    pthread_mutex_init(&base->mutex, NULL);
    pthread_cond_init(&base->cond, NULL);
}

static uint32_t cq_handle(const struct ibv_cq *cq)
{
    return cq ? cq->handle : 0;
}

/* A queue pair with receive-side scaling receives by the work queues of its indirection table. It
 * has no receive completion queue, though programs may name one. */
static int fill_rx_hash(struct ctl_create_qp *r, const struct ibv_qp_init_attr_ex *attr)
{
    const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;

    if (!(attr->comp_mask & RX_HASH_MASK))
        return 0;
    if ((attr->comp_mask & RX_HASH_MASK) != RX_HASH_MASK || !attr->rwq_ind_tbl ||
        attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ||
        conf->rx_hash_key_len > sizeof(r->rx_hash.key) ||
        (conf->rx_hash_key_len && !conf->rx_hash_key))
        return -EINVAL;
    if (conf->rx_hash_fields_mask & ~(uint64_t)RX_HASH_FIELDS)
        return -EOPNOTSUPP;
    r->recv_cq = 0;
    r->rx_hash = (struct ctl_rx_hash){.function = conf->rx_hash_function,
                                      .fields = (uint32_t)conf->rx_hash_fields_mask,
                                      .ind = (uint32_t)attr->rwq_ind_tbl->ind_tbl_handle,
                                      .key_len = conf->rx_hash_key_len};
    if (conf->rx_hash_key_len)
        memcpy(r->rx_hash.key, conf->rx_hash_key, conf->rx_hash_key_len);
    return 0;
}

static struct client_cq *queue_of(struct ibv_cq *cq)
{
    return cq ? &to_cq(cq)->queue : NULL;
}

/* r->modify: set; the reply replaces *r. */
static int request_qp(struct shim_qp *qp, struct ibv_context *context,
                      struct ibv_qp_init_attr_ex *attr, struct ctl_create_qp_in *r)
{
    struct ctl_create_qp *create = &r->create;
    struct client_qp_uses uses = {.send_cq = queue_of(attr->send_cq),
                                  .recv_cq = queue_of(attr->recv_cq),
                                  .has_srq = attr->srq != NULL,
                                  .srq = attr->srq ? to_srq(attr->srq)->queue.uidx : 0};
    int err;

    *create = (struct ctl_create_qp){.pd = attr->pd ? attr->pd->handle : 0,
                                     .send_cq = cq_handle(attr->send_cq),
                                     .recv_cq = cq_handle(attr->recv_cq),
                                     .type = attr->qp_type,
                                     .sq_sig_all = !!attr->sq_sig_all,
                                     .srq = attr->srq ? attr->srq->handle : 0};
    err = fill_rx_hash(create, attr);
    if (err)
        return err;
    if (attr->qp_type == IBV_QPT_XRC_RECV)
        create->xrcd = ((struct shim_xrcd *)attr->xrcd)->handle;
    if (attr->qp_type != IBV_QPT_RAW_PACKET)
        create->entropy = to_context(context)->entropy;
    caps_to_ctl(&create->caps, &attr->cap);
    err = client_qp_create(&to_context(context)->client, &qp->queue, &uses, r);
    if (err)
        return err;
    caps_from_ctl(&attr->cap, &create->caps);
    qp->cap = attr->cap;
    qp->sq_sig_all = create->sq_sig_all;
    return 0;
}

static bool is_supported(const struct ibv_qp_init_attr_ex *attr)
{
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                           IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                           RX_HASH_MASK;

    return !(attr->comp_mask & ~known) &&
           !(attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags);
}

/* The program may use its structure again: here is a copy of what it says, the rest is 0. Older
 * programs' structures end early, so what the mask does not name is not read. */
static struct ibv_qp_init_attr_ex read_attr(const struct ibv_qp_init_attr_ex *from)
{
    struct ibv_qp_init_attr_ex to = {.qp_context = from->qp_context,
                                     .send_cq = from->send_cq,
                                     .recv_cq = from->recv_cq,
                                     .srq = from->srq,
                                     .cap = from->cap,
                                     .qp_type = from->qp_type,
                                     .sq_sig_all = from->sq_sig_all,
                                     .comp_mask = from->comp_mask};

    if (from->comp_mask & IBV_QP_INIT_ATTR_PD)
        to.pd = from->pd;
    if (from->comp_mask & IBV_QP_INIT_ATTR_XRCD)
        to.xrcd = from->xrcd;
    if (from->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS)
        to.create_flags = from->create_flags;
    if (from->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE)
        to.rwq_ind_tbl = from->rwq_ind_tbl;
    if (from->comp_mask & IBV_QP_INIT_ATTR_RX_HASH)
        to.rx_hash_conf = from->rx_hash_conf;
    if (from->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        to.send_ops_flags = from->send_ops_flags;
    return to;
}

/*
 * Clears the attributes that a type does not use: an XRC receive side has only its domain, a send
 * side no receive queue. -EINVAL: an attribute that it needs is missing.
 */
static int normalise_attr(struct ibv_qp_init_attr_ex *attr)
{
    if (attr->qp_type == IBV_QPT_XRC_RECV) {
        attr->pd = NULL;
        attr->send_cq = attr->recv_cq = NULL;
        attr->srq = NULL;
        return attr->xrcd ? 0 : -EINVAL;
    }
    if (attr->qp_type == IBV_QPT_XRC_SEND) {
        attr->recv_cq = NULL;
        attr->srq = NULL;
    }
    if (attr->comp_mask & RX_HASH_MASK) {
        attr->recv_cq = NULL;
        return attr->pd ? 0 : -EINVAL;
    }
    if (!attr->pd || !attr->send_cq || (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND))
        return -EINVAL;
    return 0;
}

static struct shim_qp *alloc_qp(void)
{
    struct shim_qp *qp = aligned_alloc(CACHE_LINE, round_up(sizeof(*qp), CACHE_LINE));

    if (qp)
        memset(qp, 0, sizeof(*qp));
    return qp;
}

/* Of *from, the capabilities become those of the queue pair. */
static struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *from,
                                struct ctl_create_qp_in *r)
{
    struct ibv_qp_init_attr_ex attr = read_attr(from);
    struct shim_qp *qp;
    int err;

    if (!is_supported(&attr))
        return refuse(-EOPNOTSUPP);
    err = normalise_attr(&attr);
    if (err)
        return refuse(err);
    qp = alloc_qp();
    if (!qp)
        return NULL;
    err = attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
              ? -qp_ex_init(qp, attr.qp_type, attr.send_ops_flags)
              : 0;
    if (!err)
        err = request_qp(qp, context, &attr, r);
    if (err) {
        free(qp);
        return refuse(err);
    }
    from->cap = attr.cap;
    init_base(qp, context, &attr);
    client_qp_publish(&qp->queue);
    return &qp->ex.qp_base;
}

struct ibv_qp *shim_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    struct ctl_create_qp_in r = {0};

    return create_qp(context, attr, &r);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {.qp_context = attr->qp_context,
                                     .send_cq = attr->send_cq,
                                     .recv_cq = attr->recv_cq,
                                     .srq = attr->srq,
                                     .cap = attr->cap,
                                     .qp_type = attr->qp_type,
                                     .sq_sig_all = attr->sq_sig_all,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = pd};
    struct ibv_qp *qp = shim_create_qp_ex(pd->context, &ex);

    if (qp)
        attr->cap = ex.cap;
    return qp;
}

/* Another handle of an XRC receive side, in the domain that the program has open. */
struct ibv_qp *shim_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
    const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    struct ctl_open_qp r = {.qpn = attr->qp_num};
    struct shim_qp *qp;
    int err;

    if (attr->comp_mask & ~(needed | IBV_QP_OPEN_ATTR_CONTEXT))
        return refuse(-EOPNOTSUPP);
    if ((attr->comp_mask & needed) != needed || !attr->xrcd || attr->xrcd->context != context ||
        attr->qp_type != IBV_QPT_XRC_RECV)
        return refuse(-EINVAL);
    qp = alloc_qp();
    if (!qp)
        return NULL;
    r.xrcd = ((struct shim_xrcd *)attr->xrcd)->handle;
    err = client_qp_open(&to_context(context)->client, &qp->queue, &r);
    if (err) {
        free(qp);
        return refuse(err);
    }
    caps_from_ctl(&qp->cap, &r.caps);
    qp->sq_sig_all = !!r.sq_sig_all;
    init_base(qp, context,
              &(struct ibv_qp_init_attr_ex){.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT
                                                              ? attr->qp_context
                                                              : NULL,
                                            .qp_type = attr->qp_type});
    qp->ex.qp_base.qp_num = attr->qp_num;
    qp->ex.qp_base.state = IBV_QPS_UNKNOWN;
    client_qp_publish(&qp->queue);
    return &qp->ex.qp_base;
}

static void attr_to_ctl(struct qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
    COPY_QP_ATTR(to, from);
    to->state = from->qp_state;
    to->cur_state = from->cur_qp_state;
    to->dest_qpn = from->dest_qp_num;
    to->access_flags = from->qp_access_flags & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    if (mask & IBV_QP_AV)
        ah_attr_to_ctl(&to->ah, &from->ah_attr);
    if (mask & IBV_QP_RATE_LIMIT) /* older programs have no room for it */
        to->rate_limit = from->rate_limit;
}

static void attr_from_ctl(struct ibv_qp_attr *to, const struct qp_attr *from, int mask)
{
    struct ibv_qp_attr all = {.qp_state = from->state,
                              .cur_qp_state = from->cur_state,
                              .dest_qp_num = from->dest_qpn,
                              .qp_access_flags = from->access_flags,
                              .sq_draining = from->sq_draining};

    COPY_QP_ATTR(&all, from);
    ah_attr_from_ctl(&all.ah_attr, &from->ah);
    memcpy(to, &all, offsetof(struct ibv_qp_attr, rate_limit));
    if (mask & IBV_QP_RATE_LIMIT) /* older programs have no room for it */
        to->rate_limit = from->rate_limit;
}

/* Programs set all attributes on both halves of an XRC pair. Those of the half that a queue pair
 * does not have are ignored, as the kernel does. */
static uint32_t relevant_mask(enum ibv_qp_type type, int mask)
{
    switch (type) {
    case IBV_QPT_XRC_SEND:
        return (uint32_t)(mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    case IBV_QPT_XRC_RECV:
        return (uint32_t)(mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY));
    default:
        return (uint32_t)mask;
    }
}

static int check_mask(int mask)
{
    if (mask & ~(ATTR_KNOWN | ATTR_UNSUPPORTED))
        return EINVAL;
    return mask & ATTR_UNSUPPORTED ? EOPNOTSUPP : 0;
}

/* A change that the daemon has made. */
static void take_step(struct ibv_qp *base, enum ibv_qp_state state, int mask)
{
    if (!(mask & IBV_QP_STATE))
        return;
    if (state == IBV_QPS_RESET) {
        client_qp_reset(&to_qp(base)->queue);
        to_qp(base)->ece = 0;
    }
    base->state = state;
}

static void take_steps(struct ibv_qp *base, const struct uroce_qp_step *step, unsigned steps,
                       uint32_t done)
{
    for (unsigned i = 0; i < steps && i < done; i++)
        take_step(base, step[i].state, step[i].mask);
}

/* 0 or an errno. */
static int steps_to_ctl(struct ctl_modify_qp *m, enum ibv_qp_type type,
                        const struct ibv_qp_attr *attr, const struct uroce_qp_step *step,
                        unsigned steps)
{
    int err, all = 0;

    if (!steps || steps > QP_STEPS)
        return EINVAL;
    for (unsigned i = 0; i < steps; i++) {
        all |= step[i].mask;
        err = i && !step[i].mask ? EINVAL : check_mask(step[i].mask);
        if (err)
            return err;
        if (!i)
            continue;
        m->next[i - 1].state = step[i].state;
        m->next[i - 1].mask = relevant_mask(type, step[i].mask);
    }
    attr_to_ctl(&m->attr, attr, all);
    m->attr.state = step[0].state;
    m->mask = relevant_mask(type, step[0].mask);
    return 0;
}

EXPORT int uroce_modify_qp_by(struct ibv_qp *base, const struct ibv_qp_attr *attr,
                              const struct uroce_qp_step *step, unsigned steps,
                              uroce_send_modify send, void *arg)
{
    const struct ctx_shared *shared = to_context(base->context)->client.shared;
    struct ctl_modify_qp m = {.qpn = base->handle, .ece = to_qp(base)->ece};
    int err = steps_to_ctl(&m, base->qp_type, attr, step, steps);

    if (err)
        return -err;
    err = send(arg, shared->join_key, &m);
    take_steps(base, step, steps, m.done);
    return err;
}

EXPORT struct ibv_qp *uroce_create_qp_in(struct ibv_context *context,
                                         struct ibv_qp_init_attr_ex *init,
                                         const struct ibv_qp_attr *attr,
                                         const struct uroce_qp_step *step, unsigned steps)
{
    struct ctl_create_qp_in r = {0};
    int err = steps_to_ctl(&r.modify, init->qp_type, attr, step, steps);
    struct ibv_qp *qp = err ? refuse(-err) : create_qp(context, init, &r);

    if (!qp)
        return NULL;
    take_steps(qp, step, steps, r.modify.done);
    if (!r.modify_status)
        return qp;
    ibv_destroy_qp(qp);
    return refuse(r.modify_status);
}

static int send_modify(void *arg, const uint64_t *key, struct ctl_modify_qp *modify)
{
    struct ctl_msg m = {.modify_qp = *modify};
    int err = conn_call(arg, CTL_MODIFY_QP, &m, NULL, 0, NULL, 0);

    modify->done = m.modify_qp.done;
    return err;
}

EXPORT int uroce_modify_qp_steps(struct ibv_qp *base, const struct ibv_qp_attr *attr,
                                 const struct uroce_qp_step *step, unsigned steps)
{
    struct conn *conn = &to_context(base->context)->client.conn;

    return failed(-uroce_modify_qp_by(base, attr, step, steps, send_modify, conn));
}

EXPORT int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    const struct uroce_qp_step step = {attr->qp_state, mask};

    return uroce_modify_qp_steps(base, attr, &step, 1);
}

/* attr->typical_pkt_sz is a hint, and not needed. */
int shim_modify_qp_rate_limit(struct ibv_qp *base, struct ibv_qp_rate_limit_attr *attr)
{
    struct ctl_msg m = {.modify_qp = {.qpn = base->handle, .mask = QPA_RATE_LIMIT}};

    if (attr->comp_mask)
        return failed(EINVAL);
    m.modify_qp.attr.rate_limit = attr->rate_limit;
    m.modify_qp.attr.rate_burst = attr->max_burst_sz;
    return shim_call(base->context, CTL_MODIFY_QP, &m);
}

/* The daemon returns all attributes, and the caller gets all but the rate limit, which it has to
 * ask for. The mask also says whether the library is to remember the state. */
EXPORT int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask,
                        struct ibv_qp_init_attr *init)
{
    struct ctl_msg m = {.query_qp = {.qpn = base->handle}};
    struct shim_qp *qp = to_qp(base);
    int err = shim_call(base->context, CTL_QUERY_QP, &m);

    if (err)
        return err;
    attr_from_ctl(attr, &m.query_qp.attr, mask);
    attr->cap = qp->cap;
    if (mask & IBV_QP_STATE)
        base->state = attr->qp_state;
    *init = (struct ibv_qp_init_attr){.qp_context = base->qp_context,
                                      .send_cq = base->send_cq,
                                      .recv_cq = base->recv_cq,
                                      .srq = base->srq,
                                      .cap = qp->cap,
                                      .qp_type = base->qp_type,
                                      .sq_sig_all = qp->sq_sig_all};
    return 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *base)
{
    struct shim_qp *qp = to_qp(base);
    int err = client_qp_destroy(&qp->queue);

    if (!is_destroyed(err))
        return failed(-err);
    shim_wait_acks(&base->mutex, &base->cond, &base->events_completed, qp->async_delivered);
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    free(qp);
    return failed(-err);
}

/* Requests are placed in order, but not the bytes of each: memory that is copied is written by the
 * kernel's string instructions, and any region of the queue pair's may be copied. Responses to
 * READs are placed as they come where the peer has agreed on selective repeat. */
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    return 0;
}

static int change_mcast(struct ibv_qp *qp, enum ctl_type type, const union ibv_gid *gid)
{
    struct ctl_msg m = {.mcast = {.qpn = qp->qp_num}};

    memcpy(m.mcast.gid, gid->raw, sizeof(m.mcast.gid));
    return shim_call(qp->context, type, &m);
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return change_mcast(qp, CTL_ATTACH_MCAST, gid);
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return change_mcast(qp, CTL_DETACH_MCAST, gid);
}
