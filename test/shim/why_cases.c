/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that fail, each for one reason: why_cases NAME does what the case says, prints
 * "wr_id STATUS VENDOR_ERR" of the first completion with an error, or "none", and ends without
 * tidying up. Run by run_why.py, which asks `uroce why` afterwards.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES 65536u
#define WR_ID 4711u
#define ALL                                                                      \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

struct end {
    struct ibv_pd *pd;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buffer;
    int mr_access, qp_access;
    enum ibv_mtu mtu;
    uint8_t depth;      /* max_rd_atomic of a, max_dest_rd_atomic of b */
    uint32_t dest_qpn;  /* 0: the other end */
    bool stays_in_init; /* b */
};

static struct ibv_context *ctx;
static struct ibv_cq *cq;
static struct end a, b;
static uint8_t timeout_code = 10, retry_cnt = 1, rnr_retry;
static enum ibv_qp_type type = IBV_QPT_RC;
static int cqes = 256;

static void check(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(2);
}

/* ---- connecting ---- */

static void open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    check(list && list[0], "ibv_get_device_list");
    ctx = ibv_open_device(list[0]);
    check(ctx, "ibv_open_device");
    cq = ibv_create_cq(ctx, cqes, NULL, NULL, 0);
    check(cq, "ibv_create_cq");
}

static void make_end(struct end *e)
{
    struct ibv_qp_init_attr attr = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {.max_send_wr = 64,
                                            .max_recv_wr = 64,
                                            .max_send_sge = 2,
                                            .max_recv_sge = 2,
                                            .max_inline_data = 64},
                                    .qp_type = type,
                                    .sq_sig_all = 1};

    e->pd = ibv_alloc_pd(ctx);
    e->buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(e->pd && e->buffer != MAP_FAILED, "ibv_alloc_pd");
    e->mr = ibv_reg_mr(e->pd, e->buffer, BYTES, e->mr_access);
    check(e->mr, "ibv_reg_mr");
    e->qp = ibv_create_qp(e->pd, &attr);
    check(e->qp, "ibv_create_qp");
}

static int to_init(struct end *e)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = e->qp_access, .qkey = 17};

    return ibv_modify_qp(e->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int to_rtr(struct end *e, uint32_t dest_qpn, const union ibv_gid *dgid)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = e->mtu,
                               .dest_qp_num = dest_qpn,
                               .max_dest_rd_atomic = e->depth,
                               .min_rnr_timer = 1,
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

    if (type == IBV_QPT_UD)
        return ibv_modify_qp(e->qp, &attr, IBV_QP_STATE);
    attr.ah_attr.grh.dgid = *dgid;
    return ibv_modify_qp(
        e->qp, &attr,
        type == IBV_QPT_UC ? mask : mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct end *e)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = timeout_code,
                               .retry_cnt = retry_cnt,
                               .rnr_retry = rnr_retry,
                               .max_rd_atomic = e->depth};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    return ibv_modify_qp(e->qp, &attr,
                         type != IBV_QPT_RC ? mask
                                            : mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static union ibv_gid own_gid(void)
{
    union ibv_gid gid;

    check(!ibv_query_gid(ctx, 1, 0, &gid), "ibv_query_gid");
    return gid;
}

static void connect_end(struct end *e, const struct end *to)
{
    union ibv_gid gid = own_gid();

    check(!to_init(e), "INIT");
    if (e->stays_in_init)
        return;
    check(!to_rtr(e, e->dest_qpn ? e->dest_qpn : to->qp->qp_num, &gid), "RTR");
    check(!to_rts(e), "RTS");
}

static void connect_both(void)
{
    open_device();
    make_end(&a);
    make_end(&b);
    connect_end(&a, &b);
    connect_end(&b, &a);
}

/* ---- work requests ---- */

static struct ibv_sge piece(const struct end *e, uint32_t length)
{
    return (struct ibv_sge){.addr = (uintptr_t)e->buffer, .length = length, .lkey = e->mr->lkey};
}

static void post(struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    struct ibv_send_wr *bad;

    wr->wr_id = WR_ID;
    if (sge) {
        wr->sg_list = sge;
        wr->num_sge = 1;
    }
    check(!ibv_post_send(a.qp, wr, &bad), "ibv_post_send");
}

/* One of a to b's region. */
static void post_remote(enum ibv_wr_opcode op, uint64_t remote, uint32_t rkey, uint32_t length)
{
    struct ibv_send_wr wr = {.opcode = op};
    struct ibv_sge sge = piece(&a, length);

    if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = rkey;
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = rkey;
    }
    post(&wr, &sge);
}

static void post_to_b(enum ibv_wr_opcode op, uint32_t length)
{
    post_remote(op, (uintptr_t)b.buffer, b.mr->rkey, length);
}

static void post_message(uint32_t length)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_sge sge = piece(&a, length);

    post(&wr, &sge);
}

static void post_receive(struct end *e, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = piece(e, length);
    struct ibv_recv_wr wr = {.wr_id = WR_ID + 1, .sg_list = &sge, .num_sge = 1}, *bad;

    sge.lkey = lkey;
    check(!ibv_post_recv(e->qp, &wr, &bad), "ibv_post_recv");
}

static bool take(struct ibv_wc *wc)
{
    time_t end = time(NULL) + 10;

    while (time(NULL) < end)
        if (ibv_poll_cq(cq, 1, wc) == 1)
            return true;
    return false;
}

/* The next completion has to be a good one. */
static void expect_success(void)
{
    struct ibv_wc wc;

    check(take(&wc) && wc.status == IBV_WC_SUCCESS, "a completion with success");
}

/* Those with success are passed over. */
static void report(void)
{
    struct ibv_wc wc;

    while (take(&wc))
        if (wc.status != IBV_WC_SUCCESS) {
            printf("%lu %d %u\n", wc.wr_id, wc.status, wc.vendor_err);
            return;
        }
    puts("none");
}

/* ---- keys ---- */

static void wrong_rkey(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 64);
}

static void read_wrong_rkey(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_READ, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 64);
}

static void long_wrong_rkey(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 5000);
}

static void rkey_deregistered(void)
{
    uint32_t rkey;

    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
    expect_success();
    rkey = b.mr->rkey;
    check(!ibv_dereg_mr(b.mr), "ibv_dereg_mr");
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, rkey, 64);
}

static void rkey_other_domain(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)a.buffer, a.mr->rkey, 64);
}

static void write_without_right(void)
{
    b.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void read_without_right(void)
{
    b.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

static void atomic_without_right(void)
{
    b.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    connect_both();
    post_to_b(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
}

static void write_out_of_range(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer + BYTES - 32, b.mr->rkey, 64);
}

static void read_out_of_range(void)
{
    connect_both();
    post_remote(IBV_WR_RDMA_READ, (uintptr_t)b.buffer + BYTES - 32, b.mr->rkey, 64);
}

static void post_from(uint32_t lkey, uint64_t at, uint32_t length)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)b.buffer, b.mr->rkey}};
    struct ibv_sge sge = {.addr = at, .length = length, .lkey = lkey};

    post(&wr, &sge);
}

static void wrong_lkey(void)
{
    connect_both();
    post_from(a.mr->lkey ^ 0x5A00, (uintptr_t)a.buffer, 64);
}

static void long_wrong_lkey(void)
{
    connect_both();
    post_from(a.mr->lkey ^ 0x5A00, (uintptr_t)a.buffer, 5000);
}

static void lkey_deregistered(void)
{
    uint32_t lkey;

    connect_both();
    lkey = a.mr->lkey;
    check(!ibv_dereg_mr(a.mr), "ibv_dereg_mr");
    post_from(lkey, (uintptr_t)a.buffer, 64);
}

static void lkey_other_domain(void)
{
    connect_both();
    post_from(b.mr->lkey, (uintptr_t)b.buffer, 64);
}

static void lkey_out_of_range(void)
{
    connect_both();
    post_from(a.mr->lkey, (uintptr_t)a.buffer + BYTES - 32, 64);
}

static void read_into_read_only(void)
{
    a.mr_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

/* ---- receives ---- */

static void receive_queue_empty(void)
{
    connect_both();
    post_message(64);
}

static void receive_too_small(void)
{
    connect_both();
    post_receive(&b, 16, b.mr->lkey);
    post_message(64);
}

static void receive_wrong_lkey(void)
{
    connect_both();
    post_receive(&b, 64, b.mr->lkey ^ 0x5A00);
    post_message(64);
}

static void receive_read_only(void)
{
    b.mr_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_receive(&b, 64, b.mr->lkey);
    post_message(64);
}

static void imm_without_receive(void)
{
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE_WITH_IMM, 64);
}

/* ---- the peer ---- */

static void peer_destroyed(void)
{
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
    expect_success();
    check(!ibv_destroy_qp(b.qp), "ibv_destroy_qp");
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey, 64);
}

static void wrong_dest_qpn(void)
{
    a.dest_qpn = 0xABCDE;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_connected_elsewhere(void)
{
    b.dest_qpn = 0xABCDE;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_in_init(void)
{
    b.stays_in_init = true;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void peer_in_error(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    connect_both();
    check(!ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), "ERR");
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

/* What the two processes tell each other. */
struct told {
    union ibv_gid gid;
    uint64_t at;
    uint32_t qpn, rkey;
};

static pid_t peer_process;

static struct told tell(const struct end *e)
{
    return (struct told){
        .gid = own_gid(), .at = (uintptr_t)e->buffer, .qpn = e->qp->qp_num, .rkey = e->mr->rkey};
}

static void connect_told(struct end *e, const struct told *to)
{
    check(!to_init(e), "INIT");
    check(!to_rtr(e, to->qpn, &to->gid), "RTR");
    check(!to_rts(e), "RTS");
}

static _Noreturn void be_peer(int in, int out)
{
    const char *socket = getenv("PEER_SOCKET");
    struct told there, here;

    if (socket)
        setenv("UROCE_SOCKET", socket, 1);
    open_device();
    make_end(&b);
    here = tell(&b);
    check(write(out, &here, sizeof(here)) == sizeof(here), "write");
    check(read(in, &there, sizeof(there)) == sizeof(there), "read");
    connect_told(&b, &there);
    check(write(out, &here, sizeof(here)) == sizeof(here), "write");
    for (;;)
        pause();
}

/* The peer is another process, of the daemon at PEER_SOCKET if that is set. */
static struct told connect_process(void)
{
    struct told there, here;
    int up[2], down[2];

    check(!pipe(up) && !pipe(down), "pipe");
    peer_process = fork();
    check(peer_process >= 0, "fork");
    if (!peer_process)
        be_peer(down[0], up[1]);
    open_device();
    make_end(&a);
    check(read(up[0], &there, sizeof(there)) == sizeof(there), "read");
    here = tell(&a);
    check(write(down[1], &here, sizeof(here)) == sizeof(here), "write");
    check(read(up[0], &there, sizeof(there)) == sizeof(there), "read");
    timeout_code = 14;
    retry_cnt = 3;
    connect_told(&a, &there);
    return there;
}

static void write_to(const struct told *there, uint32_t rkey)
{
    post_remote(IBV_WR_RDMA_WRITE, there->at, rkey, 64);
}

static void end_peer(void)
{
    kill(peer_process, SIGKILL);
    waitpid(peer_process, NULL, 0);
}

/* The daemon may not know yet that the peer's process has ended. */
static void write_until_error(const struct told *there)
{
    struct ibv_wc wc;

    do {
        write_to(there, there->rkey);
        check(take(&wc), "a completion");
    } while (wc.status == IBV_WC_SUCCESS);
    printf("%lu %d %u\n", wc.wr_id, wc.status, wc.vendor_err);
}

/* Killed when one request has succeeded. */
static void peer_killed(void)
{
    struct told there = connect_process();

    write_to(&there, there.rkey);
    expect_success();
    end_peer();
    write_until_error(&there);
}

static void process_wrong_rkey(void)
{
    struct told there = connect_process();

    write_to(&there, there.rkey ^ 0x5A00);
    report();
    end_peer();
}

/* DAEMON is the process of a daemon that this program may kill. */
static void kill_daemon(void)
{
    const char *pid = getenv("DAEMON");

    check(pid && atoi(pid) > 1 && !kill(atoi(pid), SIGKILL), "DAEMON");
}

static void peer_daemon_killed(void)
{
    struct told there = connect_process();

    write_to(&there, there.rkey);
    expect_success();
    kill_daemon();
    write_until_error(&there);
    end_peer();
}

/* Of its own daemon: what was posted is flushed. */
static void daemon_killed(void)
{
    connect_both();
    post_receive(&a, 64, a.mr->lkey);
    kill_daemon();
}

static void no_neighbour(void)
{
    union ibv_gid gid;

    open_device();
    make_end(&a);
    check(!to_init(&a), "INIT");
    gid = own_gid();
    gid.raw[12] = 203;
    gid.raw[13] = 0;
    gid.raw[14] = 113;
    gid.raw[15] = 9;
    check(to_rtr(&a, 17, &gid), "RTR, where no host has the address, fails");
}

static void one_write(void)
{
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void two_writes(void)
{
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
    expect_success();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void no_retries(void)
{
    retry_cnt = 0;
    two_writes();
}

/* ---- attributes that do not fit ---- */

static void path_mtu_larger(void)
{
    a.mtu = IBV_MTU_2048;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 5000);
}

static void path_mtu_smaller(void)
{
    a.mtu = IBV_MTU_512;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 5000);
}

static void qp_without_write(void)
{
    b.qp_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void qp_without_atomics(void)
{
    b.qp_access = IBV_ACCESS_REMOTE_READ;
    connect_both();
    post_to_b(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
}

static void reads_not_allowed(void)
{
    a.depth = 0;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

static void reads_too_many(void)
{
    b.depth = 0;
    connect_both();
    post_to_b(IBV_WR_RDMA_READ, 64);
}

static void atomic_misaligned(void)
{
    connect_both();
    post_remote(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)b.buffer + 4, b.mr->rkey, 8);
}

static void atomic_of_16_bytes(void)
{
    connect_both();
    post_to_b(IBV_WR_ATOMIC_FETCH_AND_ADD, 16);
}

static void invalidate_region(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV};
    struct ibv_sge sge;

    connect_both();
    wr.invalidate_rkey = b.mr->rkey;
    sge = piece(&a, 64);
    post_receive(&b, 64, b.mr->lkey);
    post(&wr, &sge);
}

static void local_invalidate_region(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV};

    connect_both();
    wr.invalidate_rkey = a.mr->rkey;
    post(&wr, NULL);
}

static void bind_without_right(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};
    struct ibv_mw *mw;

    connect_both();
    mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
    check(mw, "ibv_alloc_mw");
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = a.mr,
                                                     .addr = (uintptr_t)a.buffer,
                                                     .length = 4096,
                                                     .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    post(&wr, NULL);
}

static void cq_overrun(void)
{
    cqes = 1;
    connect_both();
    for (unsigned i = 0; i < 60; i++)
        post_to_b(IBV_WR_RDMA_WRITE, 64);
    for (;;) { /* until the queue pair is in error */
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;

        check(!ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
        if (attr.qp_state == IBV_QPS_ERR)
            return;
    }
}

/* ---- calls that fail ---- */

static void expect_einval(const struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_attr a_ = *attr;

    check(ibv_modify_qp(a.qp, &a_, mask) == EINVAL, "ibv_modify_qp fails with EINVAL");
}

static void begin_init(void)
{
    open_device();
    make_end(&a);
    check(!to_init(&a), "INIT");
}

static struct ibv_qp_attr rtr(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = 17,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 1,
                               .ah_attr = {.is_global = 1, .port_num = 1}};

    attr.ah_attr.grh.dgid = own_gid();
    return attr;
}

#define RTR_MASK                                                                    \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

static void modify_reset_to_rts(void)
{
    open_device();
    make_end(&a);
    expect_einval(&(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE);
}

static void modify_without_psn(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    expect_einval(&attr, RTR_MASK & ~IBV_QP_RQ_PSN);
}

static void modify_with_timeout(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    expect_einval(&attr, RTR_MASK | IBV_QP_TIMEOUT);
}

static void modify_reads(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    attr.max_dest_rd_atomic = 255;
    expect_einval(&attr, RTR_MASK);
}

static void modify_gid_index(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    attr.ah_attr.grh.sgid_index = 200;
    expect_einval(&attr, RTR_MASK);
}

static void modify_without_grh(void)
{
    struct ibv_qp_attr attr;

    begin_init();
    attr = rtr();
    attr.ah_attr.is_global = 0;
    expect_einval(&attr, RTR_MASK);
}

/* ---- datagrams ---- */

static struct ibv_ah *make_ah(void)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    struct ibv_ah *ah;

    attr.grh.dgid = own_gid();
    ah = ibv_create_ah(a.pd, &attr);
    check(ah, "ibv_create_ah");
    return ah;
}

static void send_datagram(struct ibv_ah *ah, const struct end *to)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .wr.ud = {ah, to->qp->qp_num, 17}};
    struct ibv_sge sge = piece(&a, 64);

    post(&wr, &sge);
    expect_success();
}

/* One to b, and one to a itself: when it is here, b's has been looked at. */
static void post_datagram(void)
{
    struct ibv_ah *ah = make_ah();

    send_datagram(ah, &b);
    post_receive(&a, 128, a.mr->lkey);
    send_datagram(ah, &a);
    expect_success();
}

static void ud_no_receive(void)
{
    type = IBV_QPT_UD;
    connect_both();
    post_datagram();
}

static void ud_receive_without_grh(void)
{
    type = IBV_QPT_UD;
    connect_both();
    post_receive(&b, 64, b.mr->lkey);
    post_datagram();
}

static void ud_too_long(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_sge sge;

    type = IBV_QPT_UD;
    connect_both();
    sge = piece(&a, 60000);
    wr.wr.ud.ah = make_ah();
    wr.wr.ud.remote_qpn = b.qp->qp_num;
    wr.wr.ud.remote_qkey = 17;
    post(&wr, &sge);
}

/* ---- memory ---- */

static void peer_memory_gone(void)
{
    connect_both();
    munmap(b.buffer, BYTES);
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void own_memory_gone(void)
{
    connect_both();
    munmap(a.buffer, BYTES);
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static void receive_memory_gone(void)
{
    connect_both();
    post_receive(&b, 64, b.mr->lkey);
    munmap(b.buffer, BYTES);
    post_message(64);
}

/* Work requests behind the one that failed are flushed, and say why. */
static void flushed(void)
{
    struct ibv_wc wc;

    connect_both();
    post_remote(IBV_WR_RDMA_WRITE, (uintptr_t)b.buffer, b.mr->rkey ^ 0x5A00, 64);
    check(take(&wc) && wc.status == IBV_WC_REM_ACCESS_ERR, "remote access error");
    post_to_b(IBV_WR_RDMA_WRITE, 64);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name)  \
    {               \
#name, name \
    }
    CASE(wrong_rkey),
    CASE(read_wrong_rkey),
    CASE(long_wrong_rkey),
    CASE(rkey_deregistered),
    CASE(rkey_other_domain),
    CASE(write_without_right),
    CASE(read_without_right),
    CASE(atomic_without_right),
    CASE(write_out_of_range),
    CASE(read_out_of_range),
    CASE(wrong_lkey),
    CASE(long_wrong_lkey),
    CASE(lkey_deregistered),
    CASE(lkey_other_domain),
    CASE(lkey_out_of_range),
    CASE(read_into_read_only),
    CASE(receive_queue_empty),
    CASE(receive_too_small),
    CASE(receive_wrong_lkey),
    CASE(receive_read_only),
    CASE(imm_without_receive),
    CASE(peer_destroyed),
    CASE(wrong_dest_qpn),
    CASE(peer_connected_elsewhere),
    CASE(peer_in_init),
    CASE(peer_in_error),
    CASE(peer_killed),
    CASE(process_wrong_rkey),
    CASE(peer_daemon_killed),
    CASE(daemon_killed),
    CASE(no_neighbour),
    CASE(one_write),
    CASE(two_writes),
    CASE(no_retries),
    CASE(path_mtu_larger),
    CASE(path_mtu_smaller),
    CASE(qp_without_write),
    CASE(qp_without_atomics),
    CASE(reads_not_allowed),
    CASE(reads_too_many),
    CASE(atomic_misaligned),
    CASE(atomic_of_16_bytes),
    CASE(invalidate_region),
    CASE(local_invalidate_region),
    CASE(bind_without_right),
    CASE(cq_overrun),
    CASE(modify_reset_to_rts),
    CASE(modify_without_psn),
    CASE(modify_with_timeout),
    CASE(modify_reads),
    CASE(modify_gid_index),
    CASE(modify_without_grh),
    CASE(ud_no_receive),
    CASE(ud_receive_without_grh),
    CASE(ud_too_long),
    CASE(peer_memory_gone),
    CASE(own_memory_gone),
    CASE(receive_memory_gone),
    CASE(flushed),
#undef CASE
};

int main(int argc, char **argv)
{
    a = b = (struct end){.mr_access = ALL, .qp_access = ALL, .mtu = IBV_MTU_1024, .depth = 4};
    for (unsigned i = 0; argc == 3 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            if (strcmp(argv[2], "wait") == 0)
                report();
            return 0;
        }
    fprintf(stderr, "usage: why_cases NAME wait|leave\n");
    return 2;
}
