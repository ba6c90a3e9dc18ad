/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process of several that share an XRC domain: it does what the lines of its standard input say
 * (run_xrc.py), and answers each with a line.
 *
 * usage: test_xrc FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define RECEIVES     64
#define BYTES        256
#define EVENT_MS     5000
#define COMPLETE_MS  20000
#define MASK_OF_OPEN (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static char buffer[BYTES];

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void open_all(const char *file)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct ibv_xrcd_init_attr attr = {.comp_mask =
                                          IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                      .fd = fd,
                                      .oflags = O_CREAT};

    need(list && list[0] && fd >= 0, "a device");
    ctx = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    need(ctx, "ibv_open_device");
    pd = ibv_alloc_pd(ctx);
    channel = ibv_create_comp_channel(ctx);
    need(pd && channel, "a domain and a channel");
    cq = ibv_create_cq(ctx, 2 * RECEIVES, NULL, channel, 0);
    mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
    xrcd = ibv_open_xrcd(ctx, &attr);
    need(cq && mr && xrcd, "ibv_open_xrcd");
    close(fd);
    need(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
}

/* ---- objects ---- */

static int create_target(void)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

    qp = ibv_create_qp_ex(ctx, &attr);
    return qp ? (int)qp->qp_num : -errno;
}

static int create_sender(void)
{
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_SEND,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD,
                                       .pd = pd,
                                       .send_cq = cq,
                                       .cap = {.max_send_wr = 8, .max_send_sge = 1}};

    qp = ibv_create_qp_ex(ctx, &attr);
    return qp ? (int)qp->qp_num : -errno;
}

static void post_receive(void)
{
    struct ibv_sge sge = {(uintptr_t)buffer, BYTES, mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    need(!ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

static int create_srq(void)
{
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = RECEIVES, .max_sge = 1},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                                                     IBV_SRQ_INIT_ATTR_PD,
                                        .srq_type = IBV_SRQT_XRC,
                                        .pd = pd,
                                        .xrcd = xrcd,
                                        .cq = cq};
    uint32_t number;

    srq = ibv_create_srq_ex(ctx, &attr);
    if (!srq)
        return -errno;
    need(!ibv_get_srq_num(srq, &number), "ibv_get_srq_num");
    for (unsigned i = 0; i < RECEIVES; i++)
        post_receive();
    return (int)number;
}

static struct ibv_qp *open_with(uint32_t mask, uint32_t qpn, enum ibv_qp_type type)
{
    struct ibv_qp_open_attr attr = {
        .comp_mask = mask, .qp_num = qpn, .xrcd = xrcd, .qp_context = &qp, .qp_type = type};

    errno = 0;
    return ibv_open_qp(ctx, &attr);
}

/* Whether a target, which has no protection domain, refuses to bind a window. */
static bool binds_nothing(struct ibv_qp *target)
{
    struct ibv_mw_bind bind = {.wr_id = 0};
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    int err;

    need(mw, "ibv_alloc_mw");
    err = ibv_bind_mw(target, mw, &bind);
    return !ibv_dealloc_mw(mw) && err == EINVAL;
}

static int open_target(uint32_t qpn)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct ibv_recv_wr recv = {.num_sge = 0}, *bad_recv;

    qp = open_with(MASK_OF_OPEN | IBV_QP_OPEN_ATTR_CONTEXT, qpn, IBV_QPT_XRC_RECV);
    if (!qp)
        return -errno;
    if (qp->qp_num != qpn || qp->qp_type != IBV_QPT_XRC_RECV || qp->state != IBV_QPS_UNKNOWN ||
        qp->qp_context != &qp || qp->pd || qp->send_cq || qp->recv_cq || qp->srq)
        return -EPROTO;
    if (ibv_post_send(qp, &wr, &bad) != EINVAL || ibv_post_recv(qp, &recv, &bad_recv) != EINVAL ||
        !binds_nothing(qp))
        return -EBADE;
    return 0;
}

/* 0, or the number of the row that is not refused in its way. */
static int refused(uint32_t qpn)
{
    const struct {
        uint32_t mask, qpn;
        enum ibv_qp_type type;
        int err;
    } row[] = {
        {MASK_OF_OPEN, qpn, IBV_QPT_RC, EINVAL},
        {MASK_OF_OPEN, qpn, IBV_QPT_XRC_SEND, EINVAL},
        {MASK_OF_OPEN, qpn ^ 0x800000, IBV_QPT_XRC_RECV, EINVAL},
        {MASK_OF_OPEN, qpn | 0x80000000, IBV_QPT_XRC_RECV, EINVAL},
        {MASK_OF_OPEN & ~(uint32_t)IBV_QP_OPEN_ATTR_NUM, qpn, IBV_QPT_XRC_RECV, EINVAL},
        {MASK_OF_OPEN & ~(uint32_t)IBV_QP_OPEN_ATTR_XRCD, qpn, IBV_QPT_XRC_RECV, EINVAL},
        {MASK_OF_OPEN & ~(uint32_t)IBV_QP_OPEN_ATTR_TYPE, qpn, IBV_QPT_XRC_RECV, EINVAL},
        {MASK_OF_OPEN | IBV_QP_OPEN_ATTR_RESERVED, qpn, IBV_QPT_XRC_RECV, EOPNOTSUPP},
    };

    for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (open_with(row[i].mask, row[i].qpn, row[i].type) || errno != row[i].err)
            return (int)i + 1;
    return 0;
}

/* ---- the connection ---- */

static int connect_to(uint32_t dest)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int err = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = dest,
                                .max_dest_rd_atomic = 1,
                                .min_rnr_timer = 1,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};
    if (!err)
        err = ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid);
    if (!err)
        err = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    if (!err)
        err = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    return -err;
}

static int to_state(enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    return -ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int state_of(void)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    int err = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

    return err ? -err : init.qp_type == IBV_QPT_XRC_RECV ? (int)attr.qp_state : -EPROTO;
}

static int destroy(void)
{
    int err = ibv_destroy_qp(qp);

    qp = NULL;
    return -err;
}

/* ---- traffic, until there is another line to read ---- */

static bool is_over(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};

    return poll(&in, 1, 0) > 0;
}

/* The next completion; false: there is another line, and none comes. */
static bool completes(struct ibv_wc *wc)
{
    struct pollfd p[] = {{.fd = channel->fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    struct ibv_cq *event_cq;
    void *context;

    for (;;) {
        if (ibv_poll_cq(cq, 1, wc) > 0)
            return true;
        need(poll(p, srq ? 2 : 1, COMPLETE_MS) > 0, "a completion");
        if (!p[0].revents)
            return false;
        need(!ibv_get_cq_event(channel, &event_cq, &context), "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
        need(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
    }
}

static int send_one(uint32_t srqn, enum ibv_wr_opcode op)
{
    struct ibv_sge sge = {(uintptr_t)buffer, BYTES / 2, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = op,
                             .send_flags = IBV_SEND_SIGNALED,
                             .qp_type.xrc.remote_srqn = srqn},
                       *bad;
    struct ibv_wc wc;

    need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    need(completes(&wc), "a completion");
    return (int)wc.status;
}

static int flood(uint32_t srqn)
{
    int sent = 0, status;

    do {
        status = send_one(srqn, IBV_WR_SEND);
        if (status)
            return -status;
        sent++;
    } while (!is_over());
    return sent;
}

static int serve(void)
{
    struct ibv_wc wc;
    int got = 0;

    while (completes(&wc)) {
        if (wc.status)
            return -(int)wc.status;
        got++;
        post_receive();
    }
    return got;
}

/* The type of the next event, which must be the queue pair's; -ETIME: there is none. */
static int next_event(int ms)
{
    struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};
    struct ibv_async_event e;
    int type;

    if (poll(&p, 1, ms) <= 0)
        return -ETIME;
    need(!ibv_get_async_event(ctx, &e), "ibv_get_async_event");
    type = e.element.qp == qp ? (int)e.event_type : -EPROTO;
    ibv_ack_async_event(&e);
    return type;
}

static int run(const char *word, uint32_t n)
{
    if (!strcmp(word, "target"))
        return create_target();
    if (!strcmp(word, "sender"))
        return create_sender();
    if (!strcmp(word, "srq"))
        return create_srq();
    if (!strcmp(word, "open"))
        return open_target(n);
    if (!strcmp(word, "refused"))
        return refused(n);
    if (!strcmp(word, "connect"))
        return connect_to(n);
    if (!strcmp(word, "to"))
        return to_state((enum ibv_qp_state)n);
    if (!strcmp(word, "state"))
        return state_of();
    if (!strcmp(word, "destroy"))
        return destroy();
    if (!strcmp(word, "send"))
        return send_one(n, IBV_WR_SEND);
    if (!strcmp(word, "write"))
        return send_one(n, IBV_WR_RDMA_WRITE); /* to a region that does not exist */
    if (!strcmp(word, "flood"))
        return flood(n);
    if (!strcmp(word, "serve"))
        return serve();
    if (!strcmp(word, "event"))
        return next_event(EVENT_MS);
    if (!strcmp(word, "no-event"))
        return next_event(0);
    return -ENOSYS;
}

int main(int argc, char **argv)
{
    char line[64], word[32];
    unsigned n;

    if (argc != 2)
        return 2;
    setvbuf(stdin, NULL, _IONBF, 0); /* poll() sees what has not been read */
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_all(argv[1]);
    puts("0");
    while (fgets(line, sizeof(line), stdin)) {
        n = 0;
        need(sscanf(line, "%31s %u", word, &n) >= 1, "a word");
        if (!strcmp(word, "flood") || !strcmp(word, "serve"))
            puts("begun");
        printf("%d\n", run(word, n));
    }
    return 0;
}
