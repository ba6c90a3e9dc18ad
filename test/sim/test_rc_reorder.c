/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC between ends that have agreed on maps of kept packets, over a path that changes the order of
 * packets, by less than 64, and loses none: nothing is sent again. As over paths that packets are
 * sprayed on.
 */
#include "engine_private.h"
#include "rules.h"

#define RATE     UINT64_C(10000000000)
#define BEHIND   60u /* packets that may overtake another */
#define DURATION (20 * NS_PER_MS)
#define DEPTH    256

struct stream {
    struct kit_qp *a, *b;
    struct kit_mr *ma, *mb;
    enum sqe_op op;
    uint32_t size;
    uint64_t posted, completed;
};

static uint64_t poll_all(struct kit_cq *cq)
{
    struct cqe e[16];
    uint64_t all = 0;
    unsigned n;

    while ((n = kit_poll(cq, e, ARRAY_SIZE(e))))
        for (unsigned i = 0; i < n; i++, all++)
            assert_int_equal(e[i].status, WC_SUCCESS);
    return all;
}

static bool go_on(void *arg)
{
    struct stream *s = arg;

    if (s->op == SQE_SEND)
        for (uint64_t n = poll_all(s->b->recv_cq); n; n--)
            kit_recv(s->b, 0, s->mb, 0, s->size);
    s->completed += poll_all(s->a->send_cq);
    for (; s->posted - s->completed < DEPTH / 2; s->posted++)
        kit_do(s->a, s->op, s->posted, s->ma, 0, s->size, s->op == SQE_SEND ? NULL : s->mb, 0);
    return false;
}

/* A link that changes the order of packets of that many bytes, and around. */
static struct kit_link_config link_for(ns_t delay, uint32_t bytes)
{
    return (struct kit_link_config){.delay = delay,
                                    .bps = RATE,
                                    .reorder = 300,
                                    .jitter = BEHIND * (bytes * 8 * NS_PER_SEC / RATE)};
}

static void stream_over(enum sqe_op op, uint32_t size, ns_t delay)
{
    struct kit_link_config data = link_for(delay, MTU),
                           small = link_for(delay, size > MTU ? MTU : 60);
    struct kit_config config = {
        .seed = 1,
        .reorder = 1,
        .link = {op == SQE_READ ? small : data, op == SQE_READ ? data : small}};
    const struct kit_rc rc = {.timeout = 12, .max_rd_atomic = 64, .agreed = true};
    const struct kit_qp_config depth = {.sq_size = DEPTH, .rq_size = DEPTH};
    struct kit *k = kit_create(&config);
    struct stream s = {.op = op, .size = size};

    s.a = kit_qp_create(&k->node[0], &depth);
    s.b = kit_qp_create(&k->node[1], &depth);
    s.ma = kit_mr_create(&k->node[0], size, MEM_ALL, KIT_MR_DIRECT);
    s.mb = kit_mr_create(&k->node[1], size, MEM_ALL, KIT_MR_DIRECT);
    for (unsigned i = 0; i < size; i++)
        s.ma->bytes[i] = s.mb->bytes[i] = (uint8_t)(1 + i * 7 + (i >> 8) * 3);
    memset(op == SQE_READ ? s.ma->bytes : s.mb->bytes, 0, size);
    kit_connect(s.a, s.b, &rc);
    for (unsigned i = 0; op == SQE_SEND && i < DEPTH; i++)
        kit_recv(s.b, 0, s.mb, 0, size);
    assert_int_equal(kit_run(k, go_on, &s, DURATION), KIT_BUDGET);
    assert_true(s.completed * size > 1 << 20);
    assert_memory_equal(s.mb->bytes, s.ma->bytes, size);
    assert_true(k->link[0].reordered + k->link[1].reordered > 500);
    assert_int_equal(count_of(s.a, retransmits), 0);
    assert_int_equal(count_of(s.a, timeouts), 0);
    kit_destroy(k);
}

static void nothing_is_sent_again(void **state)
{
    static const enum sqe_op ops[] = {SQE_WRITE, SQE_SEND, SQE_READ};
    static const uint32_t sizes[] = {MTU, 16 * MTU};
    static const ns_t delays[] = {5 * NS_PER_US, 50 * NS_PER_US, 500 * NS_PER_US};

    for (unsigned i = 0; i < ARRAY_SIZE(ops); i++)
        for (unsigned j = 0; j < ARRAY_SIZE(sizes); j++)
            for (unsigned k = 0; k < ARRAY_SIZE(delays); k++)
                stream_over(ops[i], sizes[j], delays[k]);
}

/* A queue pair that begins anew at once, with the PSNs that it had: what it kept before is gone. */
static void reset_forgets_what_was_kept(void **state)
{
    const struct kit_rc rc = {.psn = {PSN_A, PSN_B}, .timeout = 20};
    struct kit *k = kit_create(&(struct kit_config){.seed = 1, .reorder = 1, .log = true});
    struct rules t = rules_start_on(k, &rc);

    kit_recv(t.b, 1, t.mb, 0, 64);
    kit_recv(t.b, 2, t.mb, 0, 64);
    link_does(t.ab, KIT_DROP);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 8, NULL, 0);
    run_for(&t, MILLI(1));
    link_does(t.ab, KIT_PASS);
    link_does(t.ba, KIT_DROP); /* the NAK */
    kit_do(t.a, SQE_SEND, 2, t.ma, 0, 8, NULL, 0);
    run_for(&t, MILLI(1));
    assert_int_equal(count_of(t.b, requests_kept), 1);
    link_does(t.ba, KIT_PASS);
    assert_int_equal(kit_modify(t.a, QPS_RESET), 0);
    assert_int_equal(kit_modify(t.b, QPS_RESET), 0);
    kit_connect(t.a, t.b, &rc);
    kit_recv(t.b, 3, t.mb, 0, 64);
    kit_recv(t.b, 4, t.mb, 0, 64);
    kit_do(t.a, SQE_SEND, 5, t.ma, 0, 8, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 5, WC_SUCCESS);
    completes(t.b->recv_cq, 3, WC_SUCCESS);
    completes_nothing(t.b->recv_cq);
    rules_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_sent_again),
        cmocka_unit_test(reset_forgets_what_was_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
