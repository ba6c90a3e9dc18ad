/* SPDX-License-Identifier: BSD-3-Clause */
/* An application on each device: its memory, completion queues and queue pairs. */
#include "perf.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QKEY      0x11111111u
#define IDLE_UIDX (UINT32_MAX - 2)
#define RD_ATOM   16

int objects_call(struct perf *p, unsigned side, enum ctl_type type, struct ctl_msg *m, int fd)
{
    struct ctl_call k = {.request = m, .in_fd = &fd, .in_fds = fd >= 0};

    m->magic = CTL_MAGIC;
    m->version = CTL_VERSION;
    m->type = (uint16_t)type;
    session_dispatch(p->session[side], &k);
    while (k.out_fds)
        close(k.out_fd[--k.out_fds]);
    *m = k.reply;
    return k.reply.status;
}

static int call_without_fd(struct perf *p, unsigned side, enum ctl_type type, struct ctl_msg *m)
{
    return objects_call(p, side, type, m, -1);
}

/* ---- contexts ---- */

static int open_session(struct perf *p, unsigned side)
{
    struct ctl_msg m = {.open.device = side};
    int err;

    p->session[side] = session_create(p->ports->rnic, &(struct ucred){.pid = getpid()});
    if (!p->session[side])
        return -ENOMEM;
    err = call_without_fd(p, side, CTL_OPEN, &m);
    m = (struct ctl_msg){0};
    if (!err)
        err = call_without_fd(p, side, CTL_ALLOC_PD, &m);
    p->pd[side] = m.handle;
    return err;
}

/* No larger than necessary: a small ring stays in the cache. */
static int open_cq(struct perf *p, unsigned side, unsigned kind, uint64_t entries)
{
    struct ctl_msg m = {.create_cq.cqe = pow2_at_least((uint32_t)max_of(entries, UINT64_C(64)))};
    int err = call_without_fd(p, side, CTL_CREATE_CQ, &m);

    if (err)
        return err;
    p->cq[side][kind] = session_cq_segment(p->session[side], m.create_cq.handle);
    p->cq_size[side][kind] = m.create_cq.cqe;
    p->cq_handle[side][kind] = m.create_cq.handle;
    return 0;
}

/* ---- queue pairs ---- */

static int create_qp(struct perf *p, struct perf_end *e, uint32_t uidx)
{
    struct ctl_msg m = {
        .create_qp = {.pd = p->pd[e->side],
                      .send_cq = p->cq_handle[e->side][SEND_CQ],
                      .recv_cq = p->cq_handle[e->side][RECV_CQ],
                      .type = p->opt.mode == MODE_UD ? QPT_UD : QPT_RC,
                      .uidx = uidx,
                      .caps = {.max_send_wr = (uint32_t)p->opt.depth,
                               .max_recv_wr = mode_receives(p->opt.mode) ? p->recv_depth : 1,
                               .max_send_sge = 1,
                               .max_recv_sge = 1,
                               .max_inline_data = (uint32_t)p->opt.inline_max}}};
    int err = call_without_fd(p, e->side, CTL_CREATE_QP, &m);
    uint8_t *base;

    if (err)
        return err;
    base = session_qp_segment(p->session[e->side], m.create_qp.qpn);
    e->qpn = m.create_qp.qpn;
    e->slot = m.create_qp.db_slot;
    e->sq_size = m.create_qp.sq_size;
    e->sq_stride = m.create_qp.sq_stride;
    e->rq_size = m.create_qp.rq_size;
    e->rq_stride = m.create_qp.rq_stride;
    e->shared = (struct qp_shared *)base;
    e->sq = base + m.create_qp.sq_off;
    e->rq = base + m.create_qp.rq_off;
    return 0;
}

static struct ah_attr address_of(const struct perf *p, unsigned side)
{
    union gid gid = perf_ports_address(p->ports, side);
    struct ah_attr ah = {.is_global = 1, .hop_limit = 64, .port_num = 1};

    memcpy(ah.dgid, gid.raw, sizeof(ah.dgid));
    return ah;
}

static int modify_qp(struct perf *p, const struct perf_end *e, enum qp_state state, uint32_t mask,
                     const struct perf_end *peer)
{
    uint32_t mtu = device_mtu_code((uint32_t)p->opt.mtu + MTU_AROUND);
    struct ctl_msg m = {.modify_qp = {.qpn = e->qpn,
                                      .mask = mask | QPA_STATE,
                                      .attr = {.state = state,
                                               .path_mtu = mtu,
                                               .port_num = 1,
                                               .qkey = QKEY,
                                               .max_rd_atomic = RD_ATOM,
                                               .max_dest_rd_atomic = RD_ATOM,
                                               .timeout = 18,
                                               .retry_cnt = 7,
                                               .rnr_retry = 7,
                                               .min_rnr_timer = 1,
                                               .dest_qpn = peer->qpn,
                                               .access_flags = PERF_ACCESS,
                                               .ah = address_of(p, peer->side)}}};

    return call_without_fd(p, e->side, CTL_MODIFY_QP, &m);
}

static int connect_to(struct perf *p, const struct perf_end *e, const struct perf_end *peer)
{
    bool ud = p->opt.mode == MODE_UD;
    int err = modify_qp(p, e, QPS_INIT,
                        QPA_PKEY_INDEX | QPA_PORT | (ud ? QPA_QKEY : QPA_ACCESS_FLAGS), peer);

    if (!err)
        err = modify_qp(p, e, QPS_RTR,
                        ud ? 0
                           : QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
                                 QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
                        peer);
    if (!err)
        err = modify_qp(
            p, e, QPS_RTS,
            QPA_SQ_PSN | (ud ? 0 : QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC),
            peer);
    return err;
}

static int open_pair(struct perf *p, struct perf_end pair[2], const uint32_t uidx[2])
{
    int err;

    pair[0].side = 0;
    pair[1].side = p->sides - 1;
    err = create_qp(p, &pair[0], uidx[0]);
    if (!err)
        err = create_qp(p, &pair[1], uidx[1]);
    if (!err)
        err = connect_to(p, &pair[0], &pair[1]);
    return err ? err : connect_to(p, &pair[1], &pair[0]);
}

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static int open_pairs(struct perf *p)
{
    struct perf_end idle[2] = {{0}, {0}};
    ns_t began = worker_time();
    size_t before = heap_bytes();
    double made = 2.0 * (double)(p->opt.qps + p->opt.idle);
    int err = 0;

    for (uint32_t i = 0; i < p->ends && !err; i += 2)
        err = open_pair(p, &p->end[i], (uint32_t[]){i, i + 1});
    for (uint64_t i = 0; i < p->opt.idle && !err; i++)
        err = open_pair(p, idle, (uint32_t[]){IDLE_UIDX, IDLE_UIDX});
    p->us_per_qp = (double)(worker_time() - began) / 1e3 / made;
    p->heap_per_qp = (double)(heap_bytes() - before) / made;
    return err;
}

/* ---- workers and peers ---- */

static uint32_t worker_of(const struct perf *p, const struct perf_end *e)
{
    const struct ctx_shared *shared = session_shared(p->session[e->side]);

    return atomic_load_explicit(&shared->slot_worker[e->slot], memory_order_relaxed);
}

static int by_worker(const void *a, const void *b)
{
    const struct perf_end *x = *(struct perf_end *const *)a, *y = *(struct perf_end *const *)b;

    return x->worker != y->worker ? (x->worker > y->worker) - (x->worker < y->worker)
                                  : (x->number > y->number) - (x->number < y->number);
}

/* The two queue pairs of a connection are peers; both are on one worker if the port is its own
 * peer. Datagrams may go to any queue pair: queue pairs on one worker become peers where possible.
 */
static int pair_ends(struct perf *p)
{
    struct perf_end **order = calloc(p->ends, sizeof(*order));

    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->ends; i++)
        order[i] = &p->end[i];
    if (p->opt.mode == MODE_UD && p->sides == 1)
        qsort(order, p->ends, sizeof(*order), by_worker);
    for (uint32_t i = 0; i < p->ends; i++) {
        order[i]->peer = order[i ^ 1];
        order[i]->sends = !(i & 1) || p->opt.bidirectional;
    }
    free(order);
    return 0;
}

static int find_workers(struct perf *p)
{
    p->posted = calloc(p->ends, sizeof(uint64_t) * p->end[0].sq_size);
    if (!p->posted)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->ends; i++) {
        struct perf_end *e = &p->end[i];
        struct ctx_shared *shared = session_shared(p->session[e->side]);

        e->number = i;
        e->worker = worker_of(p, e);
        e->doorbells = &shared->worker[e->worker];
        e->posted = p->posted + (size_t)i * e->sq_size;
        e->quota = UINT64_MAX;
    }
    return pair_ends(p);
}

static int list_senders(struct perf *p)
{
    for (unsigned w = 0; w < p->threads; w++) {
        struct perf_thread *t = &p->thread[w];

        t->closed = true;
        t->sender = calloc(p->ends, sizeof(*t->sender));
        if (!t->sender)
            return -ENOMEM;
        for (uint32_t i = 0; i < p->ends; i++) {
            struct perf_end *e = &p->end[i];

            if (e->worker != w)
                continue;
            t->closed &= e->peer->worker == w;
            if (e->sends)
                t->sender[t->senders++] = e;
        }
    }
    return 0;
}

/* ---- work requests ---- */

static int open_ah(struct perf *p, unsigned side)
{
    struct ctl_msg m = {
        .create_ah = {.pd = p->pd[side], .attr = address_of(p, p->sides - 1 - side)}};
    int err = call_without_fd(p, side, CTL_CREATE_AH, &m);

    p->ah[side] = m.create_ah.number;
    return err;
}

static void prepare_request(struct perf *p, struct perf_end *e)
{
    static const uint8_t opcode[] = {
        [MODE_WRITE] = SQE_WRITE, [MODE_WRITE_IMM] = SQE_WRITE_IMM, [MODE_SEND] = SQE_SEND,
        [MODE_READ] = SQE_READ,   [MODE_ATOMIC] = SQE_FETCH_ADD,    [MODE_UD] = SQE_SEND_IMM};
    bool in_line = p->opt.inline_max && p->size <= p->opt.inline_max;
    bool has_room = p->opt.mode != MODE_UD && sqe_has_free_words(opcode[p->opt.mode]);

    e->template = (struct sqe){.opcode = opcode[p->opt.mode],
                               .flags = in_line    ? SQE_INLINE
                                        : has_room ? SQE_SGE_IN_HEADER
                                                   : 0,
                               .num_sge = !in_line,
                               .inline_len = in_line ? (uint32_t)p->size : 0,
                               .rkey = p->key[e->peer->side]};
    if (p->opt.mode == MODE_UD) {
        e->template.ud.ah = p->ah[e->side];
        e->template.ud.remote_qpn = e->peer->qpn;
        e->template.ud.remote_qkey = QKEY;
    } else if (p->opt.mode == MODE_ATOMIC) {
        e->template.atomic.compare_add = 1;
        e->template.remote_addr = e->remote + (uint64_t)e->number * p->in_stride;
    }
}

/* Divides the messages among the senders; the first ones get one more. */
static void share_messages(struct perf *p)
{
    uint64_t senders = p->ends >> !p->opt.bidirectional, left = p->opt.messages % senders;

    for (uint32_t i = 0; i < p->ends && p->opt.messages; i++) {
        if (!p->end[i].sends)
            continue;
        p->end[i].quota = p->opt.messages / senders + (left > 0);
        left -= left > 0;
    }
}

static int create_all(struct perf *p)
{
    uint64_t outstanding = p->opt.qps * p->opt.depth;
    int err = 0;

    for (unsigned side = 0; side < p->sides && !err; side++) {
        bool both = p->sides == 1 && p->opt.bidirectional;

        err = open_session(p, side);
        if (!err)
            err = open_cq(p, side, SEND_CQ, outstanding << both);
        if (!err)
            err = open_cq(p, side, RECV_CQ,
                          mode_receives(p->opt.mode) ? outstanding << both << 1 : 1);
        if (!err && p->opt.mode == MODE_UD)
            err = open_ah(p, side);
    }
    if (!err)
        err = open_pairs(p);
    if (!err)
        err = find_workers(p);
    return err ? err : list_senders(p);
}

int objects_open(struct perf *p, char *error, size_t size)
{
    int err;

    p->sides = p->ports->count;
    p->ends = 2 * (uint32_t)p->opt.qps;
    /* A receiver on another worker may be behind. */
    p->recv_depth = (uint32_t)min_of(2 * p->opt.depth, (uint64_t)QUEUE_MAX_WR);
    p->end = aligned_alloc(CACHE_LINE, p->ends * sizeof(*p->end));
    err = -ENOMEM;
    if (p->end) {
        memset(p->end, 0, p->ends * sizeof(*p->end));
        err = create_all(p);
    }
    if (!err) {
        if (memory_plan(p, error, size))
            return -1;
        err = memory_open(p);
    }
    if (err) {
        snprintf(error, size, "cannot create queue pairs: %s", strerror(-err));
        return -1;
    }
    memory_assign(p);
    share_messages(p);
    for (uint32_t i = 0; i < p->ends; i++)
        prepare_request(p, &p->end[i]);
    return 0;
}

void objects_close(struct perf *p)
{
    for (unsigned side = 0; side < SIDES; side++) {
        if (p->session[side])
            session_close(p->session[side]);
        p->session[side] = NULL;
    }
    memory_close(p);
    free(p->end);
    free(p->posted);
    p->end = NULL;
    p->posted = NULL;
}
