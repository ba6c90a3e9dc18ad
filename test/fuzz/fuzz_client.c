/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon returns to applications: libibverbs is the client of a session in this process,
 * whose replies, descriptors, queues, completions and events are changed on the way. Nothing that
 * comes back may make the library write outside of the application's own queues, or crash it.
 *
 * The daemon is fuzz_daemon.c's.
 *
 * Input: actions, each an opcode byte, a byte that says what it is about, the number of bytes of
 * its own, and these: its operands, then the changes of the answers that it gets. Without bytes for
 * it an answer is not changed, however many the library asks for. See make_client_corpus.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "fuzz_client.h"
#include "fuzz_daemon.h"

#define ACTIONS 120

enum action {
    ACT_OPEN,
    ACT_CLOSE,
    ACT_QUERY,
    ACT_PD,
    ACT_MR,
    ACT_CHANNEL,
    ACT_CQ,
    ACT_QP,
    ACT_SRQ,
    ACT_CONNECT,
    ACT_MODIFY,
    ACT_POST,
    ACT_POLL,
    ACT_EVENTS,
    ACT_WRITE,
    ACT_EVENT,
    ACT_WORK,
    ACT_END,
    ACT_AH_MW,
    ACT_RESIZE_SRQ,
    ACT_COUNT /* and an enum ex_action each */
};

/* ---- the application ---- */

struct fuzz_app app;

static struct ibv_cq *pick_cq(uint8_t which)
{
    return app.cq[which % OBJECTS] ? app.cq[which % OBJECTS] : app.cq[0];
}

static void drop_qp(unsigned i)
{
    if (app.qp[i] && is_gone(ibv_destroy_qp(app.qp[i]))) {
        app.qp[i] = NULL;
        app.send_ops[i] = 0;
    }
}

static void drop_srq(unsigned i)
{
    if (app.srq[i] && is_gone(ibv_destroy_srq(app.srq[i])))
        app.srq[i] = NULL;
}

static void drop_cq(unsigned i)
{
    if (app.cq[i] && is_gone(ibv_destroy_cq(app.cq[i]))) {
        app.cq[i] = NULL;
        app.read_flags[i] = 0;
    }
}

static void drop_mr(unsigned i)
{
    if (app.mr[i] && is_gone(ibv_dereg_mr(app.mr[i])))
        app.mr[i] = NULL;
}

/* What cannot be destroyed, since an answer says so, is tried again when the daemon is gone. */
static void drop_all(void)
{
    ex_drop_users();
    for (unsigned i = 0; i < OBJECTS; i++)
        drop_qp(i);
    for (unsigned i = 0; i < OBJECTS; i++) {
        drop_srq(i);
        drop_mr(i);
    }
    ex_drop_used();
    for (unsigned i = 0; i < OBJECTS; i++)
        drop_cq(i);
    if (app.ah && is_gone(ibv_destroy_ah(app.ah)))
        app.ah = NULL;
    if (app.mw && is_gone(ibv_dealloc_mw(app.mw)))
        app.mw = NULL;
    if (app.channel && is_gone(ibv_destroy_comp_channel(app.channel)))
        app.channel = NULL;
    if (app.pd && is_gone(ibv_dealloc_pd(app.pd)))
        app.pd = NULL;
}

static void close_device(void)
{
    if (!app.ctx)
        return;
    drop_all();
    daemon_end();
    drop_all();
    ibv_close_device(app.ctx);
    memset(&app, 0, sizeof(app));
}

static void open_device(void)
{
    struct ibv_device **list;

    if (app.ctx)
        return;
    list = ibv_get_device_list(NULL);
    if (list && list[0])
        app.ctx = ibv_open_device(list[0]);
    if (list)
        ibv_free_device_list(list);
    if (app.ctx)
        fcntl(app.ctx->async_fd, F_SETFL, O_NONBLOCK);
}

static void query(uint8_t what)
{
    struct ibv_device_attr_ex attr;
    struct ibv_port_attr port;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr qp;
    struct ibv_srq_attr srq;
    struct ibv_gid_entry entries[8];
    union ibv_gid gid;
    uint16_t pkey;

    ibv_query_device_ex(app.ctx, NULL, &attr);
    ibv_query_port(app.ctx, 1, &port);
    ibv_query_gid(app.ctx, 1, what, &gid);
    ibv_query_pkey(app.ctx, 1, 0, &pkey);
    ibv_query_gid_table(app.ctx, entries, ARRAY_SIZE(entries), 0);
    if (app.qp[what % OBJECTS])
        ibv_query_qp(app.qp[what % OBJECTS], &qp, IBV_QP_STATE | IBV_QP_AV, &init);
    if (app.srq[what % OBJECTS])
        ibv_query_srq(app.srq[what % OBJECTS], &srq);
}

static void make_cq(unsigned i, uint8_t cqe)
{
    if (app.cq[i])
        drop_cq(i);
    else
        app.cq[i] = ibv_create_cq(app.ctx, cqe + 1, NULL, cqe & 1 ? app.channel : NULL, 0);
}

static void make_srq(unsigned i)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = take(&in) % 32 + 1, .max_sge = 1}};

    if (app.srq[i])
        drop_srq(i);
    else if (app.pd)
        app.srq[i] = ibv_create_srq(app.pd, &attr);
}

static void make_qp(unsigned i, uint8_t type)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    struct ibv_qp_init_attr attr = {.send_cq = pick_cq(type),
                                    .recv_cq = pick_cq(type / 4),
                                    .srq = app.srq[type / 16 % OBJECTS],
                                    .cap = {WRS, WRS, 2, 2, 32},
                                    .qp_type = types[type % ARRAY_SIZE(types)]};

    if (app.qp[i])
        drop_qp(i);
    else if (app.pd && app.cq[0])
        app.qp[i] = ibv_create_qp(app.pd, &attr);
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 15};

    ibv_modify_qp(qp, &attr,
                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                      (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = dest,
                                .max_dest_rd_atomic = 4,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};
    ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid);
    ibv_modify_qp(qp, &attr,
                  qp->qp_type == IBV_QPT_UD ? IBV_QP_STATE
                  : qp->qp_type == IBV_QPT_UC
                      ? IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
                      : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    ibv_modify_qp(qp, &attr,
                  qp->qp_type == IBV_QPT_RC
                      ? IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC
                      : IBV_QP_STATE | IBV_QP_SQ_PSN);
}

/* Kind of work request; queue; memory region; how many. */
static void post(void)
{
    static uint8_t text[32];
    uint8_t kind = take(&in), which = take(&in), n = take(&in) % (2 * WRS);
    struct ibv_mr *mr = app.mr[kind % OBJECTS];
    struct ibv_sge sge = {KIT_BASE, 8, mr ? mr->lkey : 0}, own = {(uintptr_t)text, sizeof(text), 0};
    struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
    struct ibv_send_wr swr = {.sg_list = kind & 64 ? &own : &sge,
                              .num_sge = 1,
                              .opcode = kind & 15,
                              .send_flags = IBV_SEND_SIGNALED | (kind & 64 ? IBV_SEND_INLINE : 0)},
                       *bad_send;
    struct ibv_qp *qp = app.qp[which % OBJECTS];
    struct ibv_srq *srq = app.srq[which % OBJECTS];

    swr.wr.rdma.remote_addr = KIT_BASE;
    swr.wr.rdma.rkey = mr ? mr->rkey : 0;
    if (swr.opcode == IBV_WR_BIND_MW && !app.mw)
        return;
    if (swr.opcode == IBV_WR_BIND_MW)
        swr.bind_mw = (__typeof__(swr.bind_mw)){
            app.mw, app.mw->rkey + 1, {mr, KIT_BASE, 64, IBV_ACCESS_REMOTE_WRITE}};
    if (qp && qp->qp_type == IBV_QPT_UD &&
        (swr.opcode == IBV_WR_SEND || swr.opcode == IBV_WR_SEND_WITH_IMM)) {
        swr.wr.ud.ah = app.ah;
        swr.wr.ud.remote_qpn = which;
    }
    for (; n; n--, swr.wr_id++) {
        if (kind & 128 && srq)
            ibv_post_srq_recv(srq, &rwr, &bad_recv);
        else if (kind & 32 && qp)
            ibv_post_recv(qp, &rwr, &bad_recv);
        else if (qp)
            ibv_post_send(qp, &swr, &bad_send);
    }
}

static void poll_cq(struct ibv_cq *cq, uint8_t n)
{
    struct ibv_wc wc[8];

    if (!cq)
        return;
    for (n %= 8; n; n--)
        if (ibv_poll_cq(cq, ARRAY_SIZE(wc), wc) < 0)
            return;
    ibv_req_notify_cq(cq, 0);
}

static void take_events(void)
{
    struct ibv_async_event event;
    struct ibv_cq *cq;
    void *context;

    for (unsigned n = 0; n < 8 && !ibv_get_async_event(app.ctx, &event); n++)
        ibv_ack_async_event(&event);
    for (unsigned n = 0; app.channel && n < 8 && !ibv_get_cq_event(app.channel, &cq, &context); n++)
        ibv_ack_cq_events(cq, 1);
}

/* ---- what the daemon does by itself ---- */

static struct segment *pick_segment(struct session *c, uint8_t which)
{
    enum object_kind kind = which & 1 ? OBJ_QP : which & 2 ? OBJ_CQ : OBJ_SRQ;
    struct object *o = TAILQ_FIRST(&c->objects[kind]);

    for (which >>= 2; o && which; which--)
        o = TAILQ_NEXT(o, link);
    if (!o)
        return &c->segment;
    return kind == OBJ_QP   ? &container_of(o, struct qp_object, o)->segment
           : kind == OBJ_CQ ? &container_of(o, struct cq, o)->segment
                            : &container_of(o, struct srq_object, o)->segment;
}

/* Segment; position in words; bytes. A daemon that does this to its own worker may crash itself, so
 * none runs afterwards. */
static bool spoilt;

__attribute__((no_sanitize("address"))) static void write_segment(struct session *c)
{
    struct segment *s = pick_segment(c, take(&in));
    size_t at = (take(&in) | (size_t)take(&in) << 8) * 4, n = take(&in) % 64;
    volatile uint8_t *to = s->base;

    spoilt = true;
    while (n-- && s->base && at < s->bytes)
        to[at++] = take(&in);
}

/* Where to; the record. */
static void send_event(struct session *c)
{
    uint8_t record[sizeof(struct ctl_async_event)] = {0};
    struct object *o = TAILQ_FIRST(&c->objects[OBJ_CHANNEL]);
    uint8_t how = take(&in);
    size_t n = how & 2 ? take(&in) % sizeof(record) : how & 1 ? 8 : sizeof(record);
    int fd = how & 1 ? (o ? container_of(o, struct channel, o)->dp.fd : -1) : c->async_fd;

    take_bytes(&in, record, sizeof(record));
    if (fd >= 0)
        send(fd, record, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void work(uint8_t n)
{
    for (n %= 16; n && !spoilt; n--)
        worker_poll(rnic_worker(rnic, 0), now += 100);
}

/* ---- an input ---- */

static void act_on_session(uint8_t action)
{
    struct session *c = daemon_session();

    if (!c)
        return;
    if (action == ACT_WRITE)
        write_segment(c);
    else
        send_event(c);
}

static void modify(uint8_t which)
{
    struct ibv_qp_attr attr = {.qp_state = which >> 4};

    if (app.qp[which % OBJECTS])
        ibv_modify_qp(app.qp[which % OBJECTS], &attr, IBV_QP_STATE);
}

static void make_other(uint8_t which)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

    if (!app.pd)
        return;
    ibv_query_gid(app.ctx, 1, 0, &attr.grh.dgid);
    if (which & 1 && !app.ah)
        app.ah = ibv_create_ah(app.pd, &attr);
    else if (!(which & 1) && !app.mw)
        app.mw = ibv_alloc_mw(app.pd, IBV_MW_TYPE_1);
}

static void resize_srq(struct ibv_srq *srq)
{
    struct ibv_srq_attr attr = {.max_wr = take(&in) % 64 + 1};

    if (srq)
        ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static void make_channel(void)
{
    if (app.channel)
        return;
    app.channel = ibv_create_comp_channel(app.ctx);
    if (app.channel)
        fcntl(app.channel->fd, F_SETFL, O_NONBLOCK);
}

static void make_mr(unsigned i)
{
    if (app.mr[i])
        drop_mr(i);
    else if (app.pd)
        app.mr[i] = ibv_reg_mr(app.pd, (void *)(uintptr_t)KIT_BASE, KIT_BYTES, 15);
}

static void act(uint8_t action, uint8_t which)
{
    unsigned i = which % OBJECTS;

    if (action == ACT_OPEN)
        open_device();
    else if (action == ACT_CLOSE)
        close_device();
    if (!app.ctx)
        return;
    switch (action) {
    case ACT_QUERY:
        query(which);
        break;
    case ACT_PD:
        app.pd = app.pd ? app.pd : ibv_alloc_pd(app.ctx);
        break;
    case ACT_MR:
        make_mr(i);
        break;
    case ACT_CHANNEL:
        make_channel();
        break;
    case ACT_CQ:
        make_cq(i, which);
        break;
    case ACT_QP:
        make_qp(i, take(&in));
        break;
    case ACT_SRQ:
        make_srq(i);
        break;
    case ACT_CONNECT:
        if (app.qp[i])
            connect_qp(app.qp[i], take(&in) + QPN_FIRST);
        break;
    case ACT_MODIFY:
        modify(which);
        break;
    case ACT_POST:
        post();
        break;
    case ACT_POLL:
        poll_cq(app.cq[i], which >> 2);
        break;
    case ACT_EVENTS:
        take_events();
        break;
    case ACT_WORK:
        work(which);
        break;
    case ACT_END:
        daemon_end();
        break;
    case ACT_AH_MW:
        make_other(which);
        break;
    case ACT_RESIZE_SRQ:
        resize_srq(app.srq[i]);
        break;
    case ACT_WRITE:
    case ACT_EVENT:
        act_on_session(action);
        break;
    default:
        if (action >= ACT_COUNT)
            ex_act(action - ACT_COUNT, which);
    }
}

/* Only its own bytes are in the input while an action takes place. */
static void next_act(struct input *all)
{
    uint8_t action = (uint8_t)(take(all) % (ACT_COUNT + EX_COUNT)), which = take(all),
            n = take(all);

    in = (struct input){all->p, min_of((size_t)n, all->left)};
    all->p += in.left;
    all->left -= in.left;
    act(action, which);
    in.left = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input all = {data, size};

    spoilt = false;
    daemon_start();
    for (unsigned n = 0; all.left && n < ACTIONS; n++)
        next_act(&all);
    close_device();
    daemon_stop();
    return 0;
}
