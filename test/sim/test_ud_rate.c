/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: rates of address handles (static_rate), which hold back the datagrams that leave by them. */
#include "engine_private.h"
#include "unit.h"

#include "kit.h"

#define LINE    UINT64_C(100000000000) /* bits per second */
#define DEPTH   32
#define QKEY    5u
#define MTU     2048
#define MS      NS_PER_MS
#define HALF    5 /* codes of enum ibv_rate: 5, 10, 2.5 Gb/s */
#define TEN     3
#define SLOWEST 2

/* A queue pair that sends by two handles in turn. */
struct stream {
    struct kit_qp *qp;
    uint32_t ah[2], len;
    uint64_t posted, completed;
};

static struct {
    struct kit *k;
    struct kit_mr *mr;
    struct kit_qp *to;
    struct stream stream[3];
    unsigned streams;
} w;

static uint32_t handle(uint8_t static_rate)
{
    return kit_ah_with(&w.k->node[0], &w.k->node[1], &(struct kit_rc){.static_rate = static_rate});
}

static struct stream *stream(uint32_t ah, uint32_t other, uint32_t len)
{
    struct kit_qp_config qp = {.type = QPT_UD, .sq_size = DEPTH, .rq_size = 1};
    struct stream *s = &w.stream[w.streams++];

    *s = (struct stream){.qp = kit_qp_create(&w.k->node[0], &qp), .ah = {ah, other}, .len = len};
    kit_start_ud(s->qp, QKEY, 0);
    return s;
}

static int setup(void **state)
{
    struct kit_qp_config qp = {.type = QPT_UD, .sq_size = 1, .rq_size = 1};
    struct kit_link_config link = {.delay = NS_PER_US, .bps = LINE};

    memset(&w, 0, sizeof(w));
    w.k = kit_create(&(struct kit_config){.seed = 1, .engines = 2, .link = {link, link}});
    w.mr = kit_mr_create(&w.k->node[0], MTU, MEM_LOCAL_WRITE, KIT_MR_DIRECT);
    w.to = kit_qp_create(&w.k->node[1], &qp);
    kit_start_ud(w.to, QKEY, 0);
    return 0;
}

static int teardown(void **state)
{
    kit_destroy(w.k);
    return 0;
}

static void post(struct stream *s)
{
    struct sge sge = kit_sge(w.mr, 0, s->len);
    struct kit_send wr = {.op = SQE_SEND, .flags = SQE_SIGNALED, .sge = &sge, .num_sge = 1};

    wr.ud.ah = s->ah[s->posted++ % 2];
    wr.ud.remote_qpn = w.to->qpn;
    wr.ud.remote_qkey = QKEY;
    assert_int_equal(kit_post_send(s->qp, &wr), 0);
}

static bool post_on(void *arg)
{
    for (struct stream *s = w.stream; s < w.stream + w.streams; s++) {
        struct cqe e[DEPTH];
        unsigned n = kit_poll(s->qp->send_cq, e, DEPTH);

        for (unsigned i = 0; i < n; i++)
            assert_int_equal(e[i].status, WC_SUCCESS);
        s->completed += n;
        if (s->posted - s->completed == DEPTH)
            continue;
        while (s->posted - s->completed < DEPTH)
            post(s);
        kit_ring(s->qp);
    }
    return false;
}

/* What each stream sends in the next `length`, in bits per second. */
static void run(ns_t length, double *rate)
{
    uint64_t before[3];

    for (unsigned i = 0; i < w.streams; i++)
        before[i] = counter_get(&qp_counters(w.stream[i].qp->qp)->tx_bytes);
    assert_int_equal(kit_run(w.k, post_on, NULL, length), KIT_BUDGET);
    for (unsigned i = 0; i < w.streams; i++)
        rate[i] = (double)(counter_get(&qp_counters(w.stream[i].qp->qp)->tx_bytes) - before[i]) *
                  8 * (double)NS_PER_SEC / (double)length;
}

static void assert_rate(double is, double should)
{
    if (is < should * 0.99 || is > should * 1.01)
        fail_msg("%.0f is not %.0f", is, should);
}

/* The rate, whatever the length; a burst after silence is bounded. */
static void rate_of_a_handle(void **state)
{
    static const struct {
        uint8_t code;
        double bps;
    } rates[] = {{SLOWEST, 2.5e9}, {HALF, 5e9}, {TEN, 1e10}};
    static const uint32_t lens[] = {64, 777, MTU};
    double rate[3];

    for (unsigned i = 0; i < ARRAY_SIZE(rates); i++)
        for (unsigned k = 0; k < ARRAY_SIZE(lens); k++) {
            struct stream *s = stream(handle(rates[i].code), 0, lens[k]);
            uint64_t before;

            s->ah[1] = s->ah[0];
            run(MS, rate);
            run(20 * MS, rate);
            assert_rate(rate[0], rates[i].bps);
            w.streams = 0;
            kit_settle(w.k);
            before = counter_get(&qp_counters(s->qp->qp)->tx_bytes);
            w.streams = 1;
            run(0, rate);
            assert_in_range(counter_get(&qp_counters(s->qp->qp)->tx_bytes) - before, 1,
                            (uint64_t)(rates[i].bps / 8 * CC_BURST / NS_PER_SEC) + 2 * MTU);
            w.streams = 0;
            kit_settle(w.k);
            kit_qp_destroy(s->qp);
        }
}

/* One handle, queue pairs of two engines: together they have the rate. A handle of another rate,
 * and one without, are not held up. */
static void streams_of_a_handle(void **state)
{
    struct kit_qp_config other = {.type = QPT_UD, .sq_size = DEPTH, .rq_size = 1, .engine = 1};
    uint32_t ah = handle(HALF), free_ah = handle(0);
    double rate[3];

    stream(ah, ah, 1024);
    stream(ah, ah, 1024);
    kit_qp_destroy(w.stream[1].qp);
    w.stream[1].qp = kit_qp_create(&w.k->node[0], &other);
    kit_start_ud(w.stream[1].qp, QKEY, 0);
    run(MS, rate);
    run(20 * MS, rate);
    assert_rate(rate[0] + rate[1], 5e9);
    stream(free_ah, free_ah, MTU);
    run(MS, rate);
    run(2 * MS, rate);
    assert_rate(rate[0] + rate[1], 5e9);
    assert_true(rate[2] > 5e10);
}

/* Datagrams of a queue pair keep their order: those by the free handle wait for the others. */
static void in_order(void **state)
{
    double rate[3];

    stream(handle(SLOWEST), handle(0), 1024);
    run(MS, rate);
    run(20 * MS, rate);
    assert_rate(rate[0], 5e9);
    w.streams = 0;
    stream(handle(TEN), handle(SLOWEST), 1024);
    run(MS, rate);
    run(20 * MS, rate);
    assert_rate(rate[0], 5e9);
}

/* The queue pair's own limit, and the handle's: the lower one counts, and what waits for both goes
 * on when one ends. */
static void with_a_limit(void **state)
{
    struct qp_attr attr = {.rate_limit = 1000000};
    uint32_t ah = handle(HALF);
    struct stream *s = stream(ah, ah, 1024);
    struct engine *e = kit_engine_of(s->qp)->engine;
    double rate[3];

    assert_int_equal(engine_qp_modify(e, s->qp->qp, &attr, QPA_RATE_LIMIT, NULL, 5, w.k->now), 0);
    run(MS, rate);
    run(20 * MS, rate);
    assert_rate(rate[0], 1e9);
    for (unsigned i = 0; i < 20; i++) {
        attr.rate_limit = 0;
        assert_int_equal(engine_qp_modify(e, s->qp->qp, &attr, QPA_RATE_LIMIT, NULL, 5, w.k->now),
                         0);
        run(10 * MS, rate);
        assert_rate(rate[0], 5e9);
        attr.rate_limit = 20000000;
        assert_int_equal(engine_qp_modify(e, s->qp->qp, &attr, QPA_RATE_LIMIT, NULL, 5, w.k->now),
                         0);
        run(MS + i * 7 * NS_PER_US, rate);
    }
}

/* It migrates, and is reset, while it waits. */
static void waits_and_moves(void **state)
{
    uint32_t ah = handle(SLOWEST);
    struct stream *s = stream(ah, ah, 1024);
    double rate[3];

    run(MS, rate);
    for (unsigned i = 0; i < 20; i++) {
        kit_move(s->qp, i % 2);
        run(MS + i * 7 * NS_PER_US, rate);
    }
    run(20 * MS, rate);
    assert_rate(rate[0], 2.5e9);
    assert_int_equal(kit_modify(s->qp, QPS_RESET), 0);
    s->posted = s->completed = 0;
    kit_start_ud(s->qp, QKEY, 0);
    run(MS, rate);
    run(20 * MS, rate);
    assert_rate(rate[0], 2.5e9);
}

/* A handle of another protection domain is refused, also with a rate. */
static void of_another_domain(void **state)
{
    uint32_t ah = handle(TEN);
    struct stream *s = stream(ah, ah, 64);
    struct cqe e;

    s->qp->qp->pd = KIT_PD + 1;
    w.mr->region.pd = KIT_PD + 1;
    post(s);
    kit_ring(s->qp);
    kit_settle(w.k);
    assert_int_equal(kit_poll(s->qp->send_cq, &e, 1), 1);
    assert_int_equal(e.status, WC_LOC_QP_OP_ERR);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rate_of_a_handle), TEST(streams_of_a_handle), TEST(in_order),
        TEST(with_a_limit),     TEST(waits_and_moves),     TEST(of_another_domain),
    };

    return cmocka_run_group_tests_name("ud_rate", tests, NULL, NULL);
}
