/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion counters in a program of any age, over a loopback device: run_later.py compiles it
 * with the headers of several versions of rdma-core. The program polls counters alone, and no
 * completion queue. Prints TAP.
 *
 * HAVE_CNTR: the header has IBVERBS_1.18. What other headers lack is declared here.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if !HAVE_CNTR
struct ibv_comp_cntr {
    struct ibv_context *context;
    uint32_t handle;
};
enum ibv_comp_cntr_type { IBV_COMP_CNTR_TYPE_WRS, IBV_COMP_CNTR_TYPE_BYTES };
struct ibv_comp_cntr_init_attr {
    uint32_t comp_mask;
    enum ibv_comp_cntr_type type;
    uint32_t flags;
};
struct ibv_comp_cntr_caps {
    uint64_t max_value;
    uint32_t max_counters;
    uint32_t supported_qp_attach_ops;
};
enum {
    IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
    IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
    IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
    IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
};
struct ibv_qp_attach_comp_cntr_attr {
    uint32_t comp_mask;
    uint32_t op_mask;
};
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
                              size_t caps_size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                           struct ibv_comp_cntr_init_attr *attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr);
int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
                            struct ibv_qp_attach_comp_cntr_attr *attr);
#endif

#define OPS     6
#define ALL_OPS ((1u << OPS) - 1)
#define BYTES   16384
#define MESSAGE 3000 /* several packets */
#define ACCESS  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static unsigned points, failures;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *memory; /* the upper half is the peer's */

static void point(bool good, const char *what)
{
    points++;
    failures += !good;
    printf("%s %u - %s\n", good ? "ok" : "not ok", points, what);
}

/* ---- counters ---- */

static struct ibv_comp_cntr *create(enum ibv_comp_cntr_type type)
{
    struct ibv_comp_cntr_init_attr attr = {.type = type};

    return ibv_create_comp_cntr(ctx, &attr);
}

static int attach(struct ibv_qp *qp, struct ibv_comp_cntr *cntr, uint32_t ops)
{
    struct ibv_qp_attach_comp_cntr_attr attr = {.op_mask = ops};

    errno = 0;
    return ibv_qp_attach_comp_cntr(qp, cntr, &attr);
}

static uint64_t done(struct ibv_comp_cntr *cntr)
{
    uint64_t value = UINT64_MAX;

    return ibv_read_comp_cntr(cntr, &value) ? UINT64_MAX : value;
}

static uint64_t failed(struct ibv_comp_cntr *cntr)
{
    uint64_t value = UINT64_MAX;

    return ibv_read_err_comp_cntr(cntr, &value) ? UINT64_MAX : value;
}

/* Polls the counter until it has come to `value`, at most some seconds. */
static bool comes_to(uint64_t (*count)(struct ibv_comp_cntr *cntr), struct ibv_comp_cntr *cntr,
                     uint64_t value)
{
    time_t end = time(NULL) + 10;

    while (count(cntr) < value && time(NULL) < end)
        sched_yield();
    return count(cntr) == value;
}

/* ---- queue pairs ---- */

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = type,
    };

    return ibv_create_qp(pd, &attr);
}

static bool to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};

    return !ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static bool connect_qp(struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = peer,
                               .max_dest_rd_atomic = 1,
                               .max_rd_atomic = 1,
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7,
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};

    if (ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid) ||
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return false;
    attr.qp_state = IBV_QPS_RTS;
    return !ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Without a completion. */
static int post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)memory, MESSAGE, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op}, *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)memory + BYTES / 2;
    wr.wr.rdma.rkey = rkey;
    return ibv_post_send(qp, &wr, &bad);
}

static int post_recv(struct ibv_qp *qp)
{
    struct ibv_sge sge = {(uintptr_t)memory + BYTES / 2, MESSAGE, mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    return ibv_post_recv(qp, &wr, &bad);
}

/* ---- the points ---- */

static void limits(void)
{
    struct ibv_comp_cntr_caps caps[2];

    memset(caps, 0x5A, sizeof(caps));
    point(!_ibv_query_comp_cntr_caps(ctx, caps, sizeof(*caps)) && caps->max_value == UINT64_MAX &&
              caps->max_counters >= 16 && caps->supported_qp_attach_ops == ALL_OPS &&
              caps[1].max_counters == 0x5A5A5A5A,
          "what there is");
    point(!_ibv_query_comp_cntr_caps(ctx, caps, sizeof(caps)) && !caps[1].max_value &&
              !caps[1].supported_qp_attach_ops,
          "fields of later versions are zero");
    errno = 0;
    point(_ibv_query_comp_cntr_caps(ctx, caps, sizeof(*caps) - 1) == EINVAL && errno == EINVAL,
          "a structure that is too short");
}

static void refused_attributes(void)
{
    struct ibv_comp_cntr_init_attr mask = {.comp_mask = 1}, flags = {.flags = 1};
    struct ibv_comp_cntr_init_attr type = {.type = (enum ibv_comp_cntr_type)2};

    errno = 0;
    point(!ibv_create_comp_cntr(ctx, &mask) && errno == EOPNOTSUPP, "an unknown field");
    errno = 0;
    point(!ibv_create_comp_cntr(ctx, &flags) && errno == EOPNOTSUPP, "an unknown flag");
    errno = 0;
    point(!ibv_create_comp_cntr(ctx, &type) && errno == EOPNOTSUPP, "an unknown type");
}

static void values(void)
{
    struct ibv_comp_cntr *c = create(IBV_COMP_CNTR_TYPE_WRS);

    point(c && c->context == ctx && !done(c) && !failed(c), "a counter begins with 0");
    point(!ibv_set_comp_cntr(c, 40) && !ibv_inc_comp_cntr(c, 2) && done(c) == 42 && !failed(c),
          "the completion count is set, and incremented");
    point(!ibv_set_err_comp_cntr(c, 6) && !ibv_inc_err_comp_cntr(c, 1) && failed(c) == 7 &&
              done(c) == 42,
          "and so is the error count");
    point(!ibv_set_comp_cntr(c, UINT64_MAX) && !ibv_inc_comp_cntr(c, 1) && !done(c),
          "behind the largest value is 0");
    point(!ibv_destroy_comp_cntr(c), "it ends");
}

static void attaching(void)
{
    struct ibv_qp_attach_comp_cntr_attr unknown = {.comp_mask = 1, .op_mask = 1};
    struct ibv_comp_cntr *a = create(IBV_COMP_CNTR_TYPE_WRS), *b = create(IBV_COMP_CNTR_TYPE_BYTES);
    struct ibv_qp *qp = make_qp(IBV_QPT_RC);

    point(!attach(qp, a, IBV_QP_ATTACH_COMP_CNTR_OP_SEND), "attached in RESET");
    point(attach(qp, b, IBV_QP_ATTACH_COMP_CNTR_OP_SEND) == EBUSY && errno == EBUSY,
          "an operation has one counter");
    point(to_init(qp) && !attach(qp, b, IBV_QP_ATTACH_COMP_CNTR_OP_RECV), "attached in INIT");
    point(attach(qp, a, 0) == EINVAL, "no operation");
    point(attach(qp, a, ALL_OPS + 1) == EOPNOTSUPP, "an unknown operation");
    point(ibv_qp_attach_comp_cntr(qp, a, &unknown) == EOPNOTSUPP, "an unknown field");
    point(connect_qp(qp, qp->qp_num) &&
              attach(qp, a, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ) == EINVAL,
          "too late in RTS");
    errno = 0;
    point(ibv_destroy_comp_cntr(a) == EBUSY && errno == EBUSY && ibv_destroy_comp_cntr(b) == EBUSY,
          "attached counters stay");
    point(!ibv_destroy_qp(qp) && !ibv_destroy_comp_cntr(a) && !ibv_destroy_comp_cntr(b),
          "until the queue pair ends");
}

/* Two connected queue pairs with a counter of each operation. */
struct pair {
    struct ibv_qp *qp[2];
    struct ibv_comp_cntr *cntr[2][OPS];
};

static bool pair_open(struct pair *p, enum ibv_comp_cntr_type type)
{
    for (unsigned i = 0; i < 2; i++) {
        p->qp[i] = make_qp(IBV_QPT_RC);
        for (unsigned op = 0; op < OPS; op++) {
            p->cntr[i][op] = create(type);
            if (!p->cntr[i][op] || attach(p->qp[i], p->cntr[i][op], 1u << op))
                return false;
        }
    }
    for (unsigned i = 0; i < 2; i++)
        if (!to_init(p->qp[i]) || !connect_qp(p->qp[i], p->qp[1 - i]->qp_num))
            return false;
    return true;
}

static void pair_close(struct pair *p)
{
    bool good = true;

    for (unsigned i = 0; i < 2; i++) {
        good &= !ibv_destroy_qp(p->qp[i]);
        for (unsigned op = 0; op < OPS; op++)
            good &= !ibv_destroy_comp_cntr(p->cntr[i][op]);
    }
    point(good, "queue pairs and counters end");
}

enum { SEND, RECV, READ, PEER_READ, WRITE, PEER_WRITE };

/* Whether an operation was counted at both ends, and nothing else: what each counts in all. */
static bool counted(const struct pair *p, const uint64_t at_a[OPS], const uint64_t at_b[OPS])
{
    bool good = true;

    for (unsigned op = 0; op < OPS; op++)
        good &= comes_to(done, p->cntr[0][op], at_a[op]) &&
                comes_to(done, p->cntr[1][op], at_b[op]) && !failed(p->cntr[0][op]) &&
                !failed(p->cntr[1][op]);
    return good;
}

static void operations(enum ibv_comp_cntr_type type, uint64_t one, const char *what)
{
    uint64_t a[OPS] = {0}, b[OPS] = {0};
    char text[80];
    struct pair p;

    snprintf(text, sizeof(text), "a counter of %s for each operation", what);
    point(pair_open(&p, type), text);
    post_recv(p.qp[1]);
    post_recv(p.qp[1]);
    a[SEND] = b[RECV] = one;
    point(!post(p.qp[0], IBV_WR_SEND, 0) && counted(&p, a, b), "SEND, and the receive");
    a[READ] = b[PEER_READ] = one;
    point(!post(p.qp[0], IBV_WR_RDMA_READ, mr->rkey) && counted(&p, a, b), "READ");
    memset(memory, 7, MESSAGE);
    a[WRITE] = b[PEER_WRITE] = one;
    point(!post(p.qp[0], IBV_WR_RDMA_WRITE, mr->rkey) &&
              comes_to(done, p.cntr[1][PEER_WRITE], one) &&
              !memcmp(memory, memory + BYTES / 2, MESSAGE) && counted(&p, a, b),
          "WRITE, whose bytes are there when the peer's counter shows it");
    a[WRITE] = b[PEER_WRITE] = b[RECV] = 2 * one;
    point(!post(p.qp[0], IBV_WR_RDMA_WRITE_WITH_IMM, mr->rkey) && counted(&p, a, b),
          "WRITE with immediate data, which takes a receive, too");
    ibv_set_comp_cntr(p.cntr[0][WRITE], 100);
    post(p.qp[0], IBV_WR_RDMA_WRITE, mr->rkey);
    point(comes_to(done, p.cntr[0][WRITE], 100 + one), "a counter goes on from what was set");
    pair_close(&p);
}

/* The first WRITE is refused, and all that is behind it is flushed. */
static void errors(void)
{
    struct pair p;

    point(pair_open(&p, IBV_COMP_CNTR_TYPE_BYTES), "counters for work that fails");
    post_recv(p.qp[0]);
    post(p.qp[0], IBV_WR_RDMA_WRITE, mr->rkey ^ 0x100);
    post(p.qp[0], IBV_WR_RDMA_WRITE, mr->rkey);
    post(p.qp[0], IBV_WR_RDMA_READ, mr->rkey);
    post(p.qp[0], IBV_WR_SEND, 0);
    point(comes_to(failed, p.cntr[0][WRITE], 2) && comes_to(failed, p.cntr[0][READ], 1) &&
              comes_to(failed, p.cntr[0][SEND], 1) && comes_to(failed, p.cntr[0][RECV], 1),
          "one that fails, and those that are flushed");
    point(comes_to(failed, p.cntr[1][PEER_WRITE], 1) && !done(p.cntr[1][PEER_WRITE]),
          "the peer's WRITE that was refused");
    pair_close(&p);
}

/* One counter of all operations of both ends. */
static void one_for_all(void)
{
    struct ibv_comp_cntr *c = create(IBV_COMP_CNTR_TYPE_WRS);
    struct ibv_qp *qp[2] = {make_qp(IBV_QPT_RC), make_qp(IBV_QPT_RC)};
    bool good = c != NULL;

    for (unsigned i = 0; i < 2; i++)
        good &=
            !attach(qp[i], c, ALL_OPS) && to_init(qp[i]) && connect_qp(qp[i], qp[1 - i]->qp_num);
    for (unsigned i = 0; i < 12; i++)
        good &= !post(qp[i % 2], IBV_WR_RDMA_WRITE, mr->rkey);
    point(good && comes_to(done, c, 24), "one counter of all operations of two queue pairs");
    ibv_destroy_qp(qp[0]);
    ibv_destroy_qp(qp[1]);
    ibv_destroy_comp_cntr(c);
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
    pd = ctx ? ibv_alloc_pd(ctx) : NULL;
    cq = pd ? ibv_create_cq(ctx, 64, NULL, NULL, 0) : NULL;
    memory = cq ? aligned_alloc(4096, BYTES) : NULL;
    mr = memory ? ibv_reg_mr(pd, memory, BYTES, ACCESS) : NULL;
    if (!mr) {
        fprintf(stderr, "later_counters: no device\n");
        return 1;
    }
    limits();
    refused_attributes();
    values();
    attaching();
    operations(IBV_COMP_CNTR_TYPE_WRS, 1, "work requests");
    operations(IBV_COMP_CNTR_TYPE_BYTES, MESSAGE, "bytes");
    errors();
    one_for_all();
    point(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx),
          "all objects end");
    free(memory);
    ibv_free_device_list(list);
    printf("1..%u\n", points);
    return failures ? 1 : 0;
}
