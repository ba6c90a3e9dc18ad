/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC: keys, ranges, rights and inaccessible memory, on both sides (9.7.4.1, 9.7.5.2, 10.6.3). Most
 * refused requests have the same effect on both queue pairs: one row each.
 */
#include "rules.h"

/* ---- refused by the responder ---- */

struct refusal {
    const char *name;
    enum sqe_op op;
    uint64_t va_off; /* added to the region's first address */
    uint32_t len;
    uint32_t mr_access;
    uint32_t qp_access; /* 0: all */
    enum { KEY_GOOD, KEY_WRONG, KEY_OTHER_PD, KEY_GONE } key;
    enum wc_status status; /* of the requester's completion */
    enum nak_code nak;
    enum qp_event event; /* at the responder */
};

#define ACCESS_ERR WC_REM_ACCESS_ERR, NAK_REMOTE_ACCESS, QP_EVENT_QP_ACCESS_ERR
#define INV_REQ    WC_REM_INV_REQ_ERR, NAK_INVALID_REQUEST, QP_EVENT_QP_REQ_ERR

static const struct refusal refusals[] = {
    {"write, wrong key", SQE_WRITE, 0, 10, MEM_ALL, 0, KEY_WRONG, ACCESS_ERR},
    {"long write, wrong key", SQE_WRITE, 0, 9000, MEM_ALL, 0, KEY_WRONG, ACCESS_ERR},
    {"write with immediate, wrong key", SQE_WRITE_IMM, 0, 10, MEM_ALL, 0, KEY_WRONG, ACCESS_ERR},
    {"read, wrong key", SQE_READ, 0, 10, MEM_ALL, 0, KEY_WRONG, ACCESS_ERR},
    {"swap, wrong key", SQE_CMP_SWP, 0, 8, MEM_ALL, 0, KEY_WRONG, ACCESS_ERR},
    {"add, wrong key", SQE_FETCH_ADD, 0, 8, MEM_ALL, 0, KEY_WRONG, ACCESS_ERR},
    {"write, key of another domain", SQE_WRITE, 0, 10, MEM_ALL, 0, KEY_OTHER_PD, ACCESS_ERR},
    {"read, key of another domain", SQE_READ, 0, 10, MEM_ALL, 0, KEY_OTHER_PD, ACCESS_ERR},
    {"add, key of another domain", SQE_FETCH_ADD, 0, 8, MEM_ALL, 0, KEY_OTHER_PD, ACCESS_ERR},
    {"write, deregistered", SQE_WRITE, 0, 10, MEM_ALL, 0, KEY_GONE, ACCESS_ERR},
    {"read, deregistered", SQE_READ, 0, 10, MEM_ALL, 0, KEY_GONE, ACCESS_ERR},
    {"write, one byte too far", SQE_WRITE, 5000, 3193, MEM_ALL, 0, KEY_GOOD, ACCESS_ERR},
    {"write, before the region", SQE_WRITE, -1ULL, 10, MEM_ALL, 0, KEY_GOOD, ACCESS_ERR},
    {"write, behind the region", SQE_WRITE, 8192, 1, MEM_ALL, 0, KEY_GOOD, ACCESS_ERR},
    {"read, one byte too far", SQE_READ, 8191, 2, MEM_ALL, 0, KEY_GOOD, ACCESS_ERR},
    {"add, over the end", SQE_FETCH_ADD, 8192, 8, MEM_ALL, 0, KEY_GOOD, ACCESS_ERR},
    {"write, no remote write", SQE_WRITE, 0, 10, MEM_ALL & ~MEM_REMOTE_WRITE, 0, KEY_GOOD,
     ACCESS_ERR},
    {"read, no remote read", SQE_READ, 0, 10, MEM_ALL & ~MEM_REMOTE_READ, 0, KEY_GOOD, ACCESS_ERR},
    {"swap, no remote atomic", SQE_CMP_SWP, 0, 8, MEM_ALL & ~MEM_REMOTE_ATOMIC, 0, KEY_GOOD,
     ACCESS_ERR},
    {"write, not on this queue pair", SQE_WRITE, 0, 10, MEM_ALL, MEM_REMOTE_READ, KEY_GOOD,
     INV_REQ},
    {"read, not on this queue pair", SQE_READ, 0, 10, MEM_ALL, MEM_REMOTE_WRITE, KEY_GOOD, INV_REQ},
    {"add, not on this queue pair", SQE_FETCH_ADD, 0, 8, MEM_ALL, MEM_REMOTE_WRITE, KEY_GOOD,
     INV_REQ},
    {"swap, misaligned", SQE_CMP_SWP, 4, 8, MEM_ALL, 0, KEY_GOOD, INV_REQ},
};

static uint32_t pick_key(struct kit_mr *mr, const struct refusal *r)
{
    uint32_t key = mr->region.key;

    if (r->key == KEY_GONE)
        kit_mr_deregister(mr);
    if (r->key == KEY_OTHER_PD)
        mr->region.pd = KIT_PD + 1;
    return r->key == KEY_WRONG ? key ^ 0x55AA1200 : key;
}

static void refuse(const struct refusal *r)
{
    struct rules t = rules_start(&(struct kit_rc){.access = r->qp_access});
    struct kit_mr *mr = kit_mr_create(&t.k->node[1], 8192, r->mr_access, KIT_MR_DIRECT);
    struct sge sge = kit_sge(t.ma, 0, r->len);
    struct kit_send wr = {.wr_id = 1,
                          .op = (uint8_t)r->op,
                          .flags = SQE_SIGNALED,
                          .sge = &sge,
                          .num_sge = 1,
                          .remote_addr = mr->region.iova + r->va_off,
                          .rkey = pick_key(mr, r)};

    print_message("# %s\n", r->name);
    kit_recv(t.b, 100, t.mb, 0, 10);
    assert_int_equal(kit_post_send(t.a, &wr), 0);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 10, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, r->status);
    completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
    completes(t.b->recv_cq, 100, r->op == SQE_WRITE_IMM ? WC_LOC_ACCESS_ERR : WC_WR_FLUSH_ERR);
    assert_int_equal(state_of(t.a), QPS_ERR);
    assert_int_equal(state_of(t.b), QPS_ERR);
    assert_int_equal(kit_link_acks(t.ba, AETH_NAK, (int)r->nak), 1);
    assert_int_equal(kit_events(&t.k->node[1], r->event), 1);
    assert_int_equal(t.k->node[1].events, 1);
    assert_int_equal(t.k->node[0].events, 0);
    for (unsigned i = 0; i < mr->len; i++)
        assert_int_equal(mr->bytes[i], 0);
    assert_int_equal(t.mb->bytes[0], 0);
    rules_finish(&t);
}

static void refused_requests(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(refusals); i++)
        refuse(&refusals[i]);
}

/* Requests before the refused one are executed, and answered before the NAK. */
static void earlier_requests_are_answered_first(void **state)
{
    struct rules t = rules_start(NULL);

    t.mb->bytes[0] = 77;
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 6 * MTU, t.mb, 0);
    kit_do(t.a, SQE_FETCH_ADD, 2, t.ma, 8192, 8, t.mb, 0);
    kit_do(t.a, SQE_WRITE, 3, t.ma, 0, 10, t.mb, MEM_BYTES);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    completes(t.a->send_cq, 3, WC_REM_ACCESS_ERR);
    assert_int_equal(t.ma->bytes[0], 77);
    assert_int_equal(t.ma->bytes[8192], 77);
    assert_int_equal(count_of(t.a, timeouts), 0);
    rules_finish(&t);
}

/* va + len wraps around the address space: a kernel once added before it compared. */
static void address_overflow(void **state)
{
    static const struct {
        enum sqe_op op;
        uint64_t va;
        uint32_t len;
    } what[] = {{SQE_WRITE, -8ULL, 16},
                {SQE_READ, -8ULL, 16},
                {SQE_WRITE, -1ULL, 1},
                {SQE_READ, 0, 65536},
                {SQE_FETCH_ADD, -8ULL, 8}};

    for (unsigned i = 0; i < ARRAY_SIZE(what); i++) {
        struct rules t = rules_start(NULL);
        struct sge sge = kit_sge(t.ma, 0, what[i].len);
        struct kit_send wr = {.wr_id = 1,
                              .op = (uint8_t)what[i].op,
                              .flags = SQE_SIGNALED,
                              .sge = &sge,
                              .num_sge = 1,
                              .remote_addr = what[i].va,
                              .rkey = t.mb->region.key};

        assert_int_equal(kit_post_send(t.a, &wr), 0);
        kit_ring(t.a);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_REM_ACCESS_ERR);
        rules_finish(&t);
    }
}

static void key_revoked_in_mid_message(void **state)
{
    struct rules t = rules_start(NULL);

    t.ab->config.bps = UINT64_C(1000000000);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 32 * MTU, t.mb, 0);
    run_for(&t, 100 * NS_PER_US); /* about twelve packets */
    kit_mr_deregister(t.mb);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_ACCESS_ERR);
    assert_int_equal(t.mb->bytes[31 * MTU], 0);
    rules_finish(&t);
}

static void read_key_revoked_in_mid_answer(void **state)
{
    struct rules t = rules_start(NULL);

    t.ba->config.bps = UINT64_C(1000000000);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 32 * MTU, t.mb, 0);
    run_for(&t, 100 * NS_PER_US);
    kit_mr_deregister(t.mb);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_ACCESS_ERR);
    rules_finish(&t);
}

static void read_destination_revoked(void **state)
{
    struct rules t = rules_start(NULL);

    kit_do(t.a, SQE_READ, 1, t.ma, 0, 32 * MTU, t.mb, 0);
    kit_mr_deregister(t.ma);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_LOC_PROT_ERR);
    assert_int_equal(state_of(t.a), QPS_ERR);
    rules_finish(&t);
}

/* ---- receive buffers ---- */

static void message_longer_than_the_buffer(void **state)
{
    static const uint32_t sizes[][2] = {{101, 100}, {1, 0}, {3000, 2999}, {3000, 100}};

    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct rules t = rules_start(NULL);

        kit_recv(t.b, 100, t.mb, 0, sizes[i][1]);
        kit_recv(t.b, 101, t.mb, 0, 4000);
        kit_do(t.a, SQE_SEND, 1, t.ma, 0, sizes[i][0], NULL, 0);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_REM_INV_REQ_ERR);
        completes(t.b->recv_cq, 100, WC_LOC_LEN_ERR);
        completes(t.b->recv_cq, 101, WC_WR_FLUSH_ERR);
        assert_int_equal(state_of(t.b), QPS_ERR);
        for (unsigned j = sizes[i][1]; j < MEM_BYTES; j++)
            assert_int_equal(t.mb->bytes[j], 0);
        rules_finish(&t);
    }
}

static void receive_buffer_not_writable(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_mr *mr = kit_mr_create(&t.k->node[1], 4096, MEM_REMOTE_READ, KIT_MR_DIRECT);

    kit_recv(t.b, 100, mr, 0, 4096);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 100, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_OP_ERR);
    completes(t.b->recv_cq, 100, WC_LOC_PROT_ERR);
    assert_int_equal(mr->bytes[0], 0);
    rules_finish(&t);
}

static void receive_list_with_a_bad_second_part(void **state)
{
    struct rules t = rules_start(NULL);
    struct sge sge[2] = {kit_sge(t.mb, 0, 50), kit_sge(t.mb, MEM_BYTES - 10, 50)};

    assert_int_equal(kit_post_recv(t.b, 100, sge, 2), 0);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 100, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_OP_ERR);
    completes(t.b->recv_cq, 100, WC_LOC_PROT_ERR);
    rules_finish(&t);
}

/* ---- refused by the requester itself ---- */

static void send_with(struct rules *t, enum sqe_op op, const struct sge *sge, unsigned n,
                      enum wc_status status)
{
    struct kit_send wr = {.wr_id = 1,
                          .op = (uint8_t)op,
                          .flags = SQE_SIGNALED,
                          .sge = sge,
                          .num_sge = n,
                          .remote_addr = kit_va(t->mb, 0),
                          .rkey = t->mb->region.key};

    assert_int_equal(kit_post_send(t->a, &wr), 0);
    kit_do(t->a, SQE_WRITE, 2, t->ma, 0, 10, t->mb, 0);
    kit_settle(t->k);
    completes(t->a->send_cq, 1, status);
    completes(t->a->send_cq, 2, WC_WR_FLUSH_ERR);
    assert_int_equal(state_of(t->a), QPS_ERR);
    assert_int_equal(state_of(t->b), QPS_RTS);
    assert_int_equal(t->ab->frames, 0);
    rules_finish(t);
}

static void bad_local_lists_send_nothing(void **state)
{
    struct rules t = rules_start(NULL);
    struct sge wrong_key = kit_sge(t.ma, 0, 10);
    struct sge list[3];
    struct kit_mr *read_only;

    wrong_key.lkey ^= 0x1000;
    send_with(&t, SQE_SEND, &wrong_key, 1, WC_LOC_PROT_ERR);

    t = rules_start(NULL);
    list[0] = kit_sge(t.ma, MEM_BYTES - 9, 10);
    send_with(&t, SQE_WRITE, list, 1, WC_LOC_PROT_ERR);

    t = rules_start(NULL);
    list[0] = kit_sge(t.ma, 0, 3000);
    list[1] = kit_sge(t.ma, 0, 3000);
    list[2] = kit_sge(t.ma, UINT64_MAX - 100, 3000);
    send_with(&t, SQE_WRITE, list, 3, WC_LOC_PROT_ERR);

    t = rules_start(NULL);
    list[0] = kit_sge(t.ma, 0, 10);
    t.ma->region.pd = KIT_PD + 1;
    send_with(&t, SQE_SEND, list, 1, WC_LOC_PROT_ERR);

    t = rules_start(NULL);
    read_only = kit_mr_create(&t.k->node[0], 100, 0, KIT_MR_DIRECT);
    list[0] = kit_sge(read_only, 0, 100);
    send_with(&t, SQE_READ, list, 1, WC_LOC_PROT_ERR);

    t = rules_start(NULL);
    read_only = kit_mr_create(&t.k->node[0], 100, 0, KIT_MR_DIRECT);
    list[0] = kit_sge(read_only, 0, 8);
    send_with(&t, SQE_FETCH_ADD, list, 1, WC_LOC_PROT_ERR);
}

/* A list whose second part is bad leaves no transfer in the batch: the first part's data would end
 * up in the next packet's frame, or be written instead of read. */
static void bad_second_part_is_forgotten(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rules t = rules_start(NULL);
        struct kit_mr *mr = kit_mr_create(&t.k->node[0], 100, MEM_ALL, KIT_MR_COPY);
        struct sge list[2] = {kit_sge(mr, 0, 100), kit_sge(t.ma, UINT64_MAX - 100, 100)};
        struct kit_send wr = {
            .wr_id = 1, .op = SQE_SEND, .flags = SQE_SIGNALED, .sge = list, .num_sge = 2};
        struct kit_qp *c, *d;

        kit_pair_rc(t.k, &c, &d, NULL);
        if (i)
            kit_mr_fault(mr, 0, 100, -EFAULT);
        assert_int_equal(kit_post_send(t.a, &wr), 0);
        kit_ring(t.a);
        kit_do(c, SQE_WRITE, 2, t.ma, 0, 200, t.mb, 0);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_LOC_PROT_ERR);
        completes(c->send_cq, 2, WC_SUCCESS);
        assert_memory_equal(t.mb->bytes, t.ma->bytes, 200);
        kit_mr_fault(mr, 0, 100, 0);
        kit_do(d, SQE_WRITE, 3, t.mb, 0, 200, t.ma, 1000);
        kit_settle(t.k);
        completes(d->send_cq, 3, WC_SUCCESS);
        for (unsigned k = 0; k < 100; k++)
            assert_int_equal(mr->bytes[k], 0);
        assert_int_equal(t.k->node[0].copies, 0);
        rules_finish(&t);
    }
}

/* ---- memory that cannot be reached ---- */

static void source_unreachable(void **state)
{
    static const int why[] = {-EFAULT, -ESRCH};

    for (unsigned i = 0; i < 4; i++) {
        struct rules t = rules_start(NULL);
        struct kit_mr *mr = kit_mr_create(&t.k->node[0], 8192, MEM_ALL, KIT_MR_COPY);

        kit_mr_fault(mr, i < 2 ? 0 : 5000, 1, why[i % 2]); /* at once, or in the fifth packet */
        kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 10, t.mb, 20000);
        kit_do(t.a, SQE_WRITE, 2, mr, 0, 8192, t.mb, 0);
        kit_do(t.a, SQE_WRITE, 3, t.ma, 0, 10, t.mb, 30000);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_SUCCESS);
        completes(t.a->send_cq, 2, WC_LOC_PROT_ERR);
        completes(t.a->send_cq, 3, WC_WR_FLUSH_ERR);
        assert_memory_equal(t.mb->bytes + 20000, t.ma->bytes, 10);
        assert_int_equal(t.mb->bytes[30000], 0);
        assert_int_equal(t.ab->frames, i < 2 ? 1 : 1 + 4); /* no byte behind the bad one */
        assert_int_equal(state_of(t.b), QPS_RTS);
        rules_finish(&t);
    }
}

static void target_unreachable(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rules t = rules_start(NULL);
        struct kit_mr *mr = kit_mr_create(&t.k->node[1], 8192, MEM_ALL, KIT_MR_COPY);

        kit_mr_fault(mr, i ? 5000 : 0, 1, -EFAULT);
        kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 10, t.mb, 0);
        kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 8192, mr, 0);
        kit_do(t.a, SQE_WRITE, 3, t.ma, 0, 10, t.mb, 30000);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_SUCCESS);
        completes(t.a->send_cq, 2, WC_REM_OP_ERR);
        completes(t.a->send_cq, 3, WC_WR_FLUSH_ERR);
        assert_int_equal(kit_link_acks(t.ba, AETH_NAK, NAK_REMOTE_OPERATIONAL), 1);
        assert_int_equal(state_of(t.b), QPS_ERR);
        rules_finish(&t);
    }
}

static void receive_buffer_unreachable(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_mr *mr = kit_mr_create(&t.k->node[1], 8192, MEM_ALL, KIT_MR_COPY);

    kit_mr_fault(mr, 5000, 1, -EFAULT);
    kit_recv(t.b, 100, t.mb, 0, 100);
    kit_recv(t.b, 101, mr, 0, 8192);
    kit_recv(t.b, 102, t.mb, 200, 100);
    kit_recv(t.b, 103, t.mb, 300, 100);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 100, NULL, 0);
    kit_do(t.a, SQE_SEND, 2, t.ma, 0, 8192, NULL, 0);
    kit_do(t.a, SQE_SEND, 3, t.ma, 0, 100, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.a->send_cq, 2, WC_REM_OP_ERR);
    completes(t.a->send_cq, 3, WC_WR_FLUSH_ERR);
    completes(t.b->recv_cq, 100, WC_SUCCESS);
    completes(t.b->recv_cq, 101, WC_LOC_PROT_ERR);
    completes(t.b->recv_cq, 102, WC_WR_FLUSH_ERR);
    completes(t.b->recv_cq, 103, WC_WR_FLUSH_ERR);
    completes_nothing(t.b->recv_cq);
    rules_finish(&t);
}

static void read_source_unreachable(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rules t = rules_start(NULL);
        struct kit_mr *mr = kit_mr_create(&t.k->node[1], 8192, MEM_ALL, KIT_MR_COPY);

        kit_mr_fault(mr, i ? 5000 : 0, 1, -EFAULT);
        kit_do(t.a, SQE_READ, 1, t.ma, 0, 8192, mr, 0);
        kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 10, t.mb, 0);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_REM_OP_ERR);
        completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
        assert_int_equal(state_of(t.b), QPS_ERR);
        rules_finish(&t);
    }
}

static void result_unreachable(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rules t = rules_start(NULL);
        struct kit_mr *mr = kit_mr_create(&t.k->node[0], 8192, MEM_ALL, KIT_MR_COPY);

        kit_mr_fault(mr, i ? 5000 : 0, 1, -EFAULT);
        kit_do(t.a, SQE_READ, 1, mr, 0, 8192, t.mb, 0);
        kit_do(t.a, SQE_READ, 2, t.ma, 0, 10, t.mb, 0);
        kit_settle(t.k);
        completes(t.a->send_cq, 1, WC_LOC_PROT_ERR);
        completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
        completes_nothing(t.a->send_cq);
        assert_int_equal(state_of(t.a), QPS_ERR);
        assert_int_equal(state_of(t.b), QPS_RTS);
        rules_finish(&t);
    }
}

static void atomic_unreachable(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_mr *mr = kit_mr_create(&t.k->node[1], 64, MEM_ALL, KIT_MR_COPY);

    kit_mr_fault(mr, 8, 8, -EFAULT);
    kit_do(t.a, SQE_FETCH_ADD, 1, t.ma, 0, 8, mr, 0);
    kit_do(t.a, SQE_FETCH_ADD, 2, t.ma, 0, 8, mr, 8);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.a->send_cq, 2, WC_REM_OP_ERR);
    rules_finish(&t);
}

/* The atomic has the WRITE's bytes written first, and they fail: the NAK goes out. */
static void atomic_behind_an_unreachable_target(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_mr *mr = kit_mr_create(&t.k->node[1], 64, MEM_ALL, KIT_MR_COPY);

    kit_mr_fault(mr, 0, 8, -EFAULT);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, mr, 0);
    kit_do(t.a, SQE_FETCH_ADD, 2, t.ma, 0, 8, mr, 8);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_OP_ERR);
    completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
    assert_int_equal(kit_link_acks(t.ba, AETH_NAK, NAK_REMOTE_OPERATIONAL), 1);
    rules_finish(&t);
}

/* Each WRITE that cannot be written fails its own queue pair, and no other in its burst. */
static void unreachable_twice(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_mr *bad = kit_mr_create(&t.k->node[1], 64, MEM_ALL, KIT_MR_COPY);
    struct kit_mr *good = kit_mr_create(&t.k->node[1], 64, MEM_ALL, KIT_MR_COPY);
    struct kit_qp *c, *d, *e, *f;

    kit_pair_rc(t.k, &c, &d, NULL);
    kit_pair_rc(t.k, &e, &f, NULL);
    kit_mr_fault(bad, 0, 8, -EFAULT);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, bad, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_REM_OP_ERR);
    kit_do(e, SQE_WRITE, 2, t.ma, 0, 8, good, 0);
    kit_do(c, SQE_WRITE, 3, t.ma, 0, 8, bad, 0);
    kit_settle(t.k);
    completes(e->send_cq, 2, WC_SUCCESS);
    completes(c->send_cq, 3, WC_REM_OP_ERR);
    assert_int_equal(state_of(f), QPS_RTS);
    assert_int_equal(state_of(d), QPS_ERR);
    rules_finish(&t);
}

/* A mapped and a copied region side by side, and few backend calls for many packets. */
static void copying_is_batched(void **state)
{
    struct rules t = rules_start(NULL);
    struct kit_mr *from = kit_mr_create(&t.k->node[0], 32 * MTU, MEM_ALL, KIT_MR_COPY);
    struct kit_mr *to = kit_mr_create(&t.k->node[1], 32 * MTU, MEM_ALL, KIT_MR_COPY);

    memcpy(from->bytes, t.ma->bytes, 32 * MTU);
    for (unsigned i = 0; i < 8; i++)
        kit_do(t.a, SQE_WRITE, i, from, i * 4 * MTU, 4 * MTU, to, i * 4 * MTU);
    kit_settle(t.k);
    for (unsigned i = 0; i < 8; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_memory_equal(to->bytes, t.ma->bytes, 32 * MTU);
    assert_int_equal(t.k->node[0].copies, 32);
    assert_in_range(t.k->node[0].copy_calls, 1, 16);
    rules_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_requests),
        cmocka_unit_test(earlier_requests_are_answered_first),
        cmocka_unit_test(address_overflow),
        cmocka_unit_test(key_revoked_in_mid_message),
        cmocka_unit_test(read_key_revoked_in_mid_answer),
        cmocka_unit_test(read_destination_revoked),
        cmocka_unit_test(message_longer_than_the_buffer),
        cmocka_unit_test(receive_buffer_not_writable),
        cmocka_unit_test(receive_list_with_a_bad_second_part),
        cmocka_unit_test(bad_local_lists_send_nothing),
        cmocka_unit_test(bad_second_part_is_forgotten),
        cmocka_unit_test(source_unreachable),
        cmocka_unit_test(target_unreachable),
        cmocka_unit_test(receive_buffer_unreachable),
        cmocka_unit_test(read_source_unreachable),
        cmocka_unit_test(result_unreachable),
        cmocka_unit_test(atomic_unreachable),
        cmocka_unit_test(atomic_behind_an_unreachable_target),
        cmocka_unit_test(unreachable_twice),
        cmocka_unit_test(copying_is_batched),
    };

    return cmocka_run_group_tests_name("rc_access", tests, NULL, NULL);
}
