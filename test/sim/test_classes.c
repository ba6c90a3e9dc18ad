/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic classes: strict ones, and those that share by bytes, of a port that is slower than its
 * queue pairs would be. */
#include "ceiling.h"
#include "engine_private.h"
#include "unit.h"

#include "kit.h"

#define LINE    UINT64_C(10000000000) /* bits per second */
#define SIZE    (64u << 10)
#define DEPTH   64
#define SOURCES 16
#define LENGTH  (15 * NS_PER_MS)
#define DRAINED (20 * NS_PER_MS) /* the queue of one that does not post any more is empty */
#define QKEY    5u

/* What posts all the time. */
struct source {
    struct kit_qp *qp, *peer;
    uint8_t op;
    uint32_t len;
    uint32_t ah[2];             /* of UD: in turn */
    bool off;                   /* it does not post */
    const struct source *after; /* it posts when that one has completed something */
    uint64_t completed;         /* and what was posted */
    uint64_t posted;
};

static struct {
    struct kit *k;
    struct tx_ceiling *ceiling;
    struct kit_mr *mr[2];
    struct source source[SOURCES];
    unsigned sources;
} w;

/* node: whose port is slow. */
static void start(const struct qos_classes *classes, unsigned node)
{
    struct kit_link_config link = {.delay = NS_PER_US, .bps = 10 * LINE};
    const uint32_t access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ;

    memset(&w, 0, sizeof(w));
    w.k = kit_create(&(struct kit_config){.seed = 1, .link = {link, link}, .classes = *classes});
    w.ceiling = tx_ceiling_create(LINE, 0);
    assert_non_null(w.ceiling);
    w.k->node[node].engine->cfg.ceiling = w.ceiling;
    for (unsigned i = 0; i < 2; i++)
        w.mr[i] = kit_mr_create(&w.k->node[i], SIZE, access, KIT_MR_DIRECT);
}

static void finish(void)
{
    kit_destroy(w.k);
    tx_ceiling_destroy(w.ceiling);
}

/* A reliable connection of a service level. */
static struct source *connection(uint8_t sl, uint8_t op, uint32_t len)
{
    struct kit_qp_config qp = {.sq_size = DEPTH, .rq_size = 1};
    struct kit_rc rc = {
        .path_mtu = 5, .timeout = 18, .max_rd_atomic = 16, .gid_index = KIT_GID_V6_VLAN, .sl = sl};
    struct source *s = &w.source[w.sources++];

    *s = (struct source){.op = op, .len = len};
    s->qp = kit_qp_create(&w.k->node[0], &qp);
    s->peer = kit_qp_create(&w.k->node[1], &qp);
    kit_connect(s->qp, s->peer, &rc);
    return s;
}

/* Datagrams of two service levels in turn. */
static struct source *datagrams(uint8_t sl, uint8_t other, uint32_t len)
{
    struct kit_qp_config qp = {.type = QPT_UD, .sq_size = DEPTH, .rq_size = 1};
    struct source *s = &w.source[w.sources++];

    *s = (struct source){.op = SQE_SEND, .len = len};
    s->qp = kit_qp_create(&w.k->node[0], &qp);
    s->peer = kit_qp_create(&w.k->node[1], &qp);
    kit_start_ud(s->qp, QKEY, 0);
    kit_start_ud(s->peer, QKEY, 0);
    for (unsigned i = 0; i < 2; i++)
        s->ah[i] =
            kit_ah_with(&w.k->node[0], &w.k->node[1],
                        &(struct kit_rc){.gid_index = KIT_GID_V6_VLAN, .sl = i ? other : sl});
    return s;
}

static void post(struct source *s)
{
    struct sge sge = kit_sge(w.mr[0], 0, s->len);
    struct kit_send wr = {.op = s->op,
                          .flags = SQE_SIGNALED,
                          .sge = &sge,
                          .num_sge = 1,
                          .remote_addr = kit_va(w.mr[1], 0),
                          .rkey = w.mr[1]->region.key};

    if (s->qp->type == QPT_UD) {
        wr.ud.ah = s->ah[s->posted % 2];
        wr.ud.remote_qpn = s->peer->qpn;
        wr.ud.remote_qkey = QKEY;
    }
    assert_int_equal(kit_post_send(s->qp, &wr), 0);
    s->posted++;
}

static bool post_on(void *arg)
{
    for (struct source *s = w.source; s < w.source + w.sources; s++) {
        struct cqe e[DEPTH];
        unsigned n = kit_poll(s->qp->send_cq, e, DEPTH);
        bool posted = false;

        for (unsigned i = 0; i < n; i++)
            assert_int_equal(e[i].status, WC_SUCCESS);
        s->completed += n;
        if (s->after && !s->after->completed)
            continue;
        for (; !s->off && s->posted - s->completed < DEPTH; posted = true)
            post(s);
        if (posted)
            kit_ring(s->qp);
    }
    return false;
}

/* What each priority of a node sends in the next `length`, in bits per second. */
static void run(unsigned node, ns_t length, double rate[QOS_PRIORITIES])
{
    const struct engine_counters *c = engine_counters(w.k->node[node].engine);
    uint64_t before[QOS_PRIORITIES];

    for (unsigned i = 0; i < QOS_PRIORITIES; i++)
        before[i] = counter_get(&c->tx_bytes[i]);
    assert_int_not_equal(kit_run(w.k, post_on, NULL, length), KIT_LIVELOCK);
    for (unsigned i = 0; i < QOS_PRIORITIES; i++)
        rate[i] = (double)(counter_get(&c->tx_bytes[i]) - before[i]) * 8 * (double)NS_PER_SEC /
                  (double)length;
}

static void assert_rate(double is, double should)
{
    if (is < should * 0.98 || is > should * 1.02)
        fail_msg("%.0f is not %.0f", is, should);
}

static double sum(const double rate[QOS_PRIORITIES])
{
    double all = 0;

    for (unsigned i = 0; i < QOS_PRIORITIES; i++)
        all += rate[i];
    return all;
}

/* ---- weights ---- */

/* Classes 0, 1, ... are those of priorities 0, 1, ...; the others are of class 0. */
static struct qos_classes of_weights(const uint8_t *percent, unsigned n)
{
    struct qos_classes c = {.count = n};

    for (unsigned i = 0; i < n; i++) {
        c.of_priority[i] = (uint8_t)i;
        c.percent[i] = percent[i];
    }
    return c;
}

/* Each class gets its share, whatever the lengths of its messages and of the others'. */
static void shares(void **state)
{
    static const uint8_t percent[][4] = {{60, 40}, {90, 10}, {95, 5}, {50, 30, 15, 5}};
    static const uint32_t lens[][4] = {
        {64, 64, 64, 64}, {SIZE, SIZE, SIZE, SIZE}, {SIZE, 64, 1024, 4096}, {256, 4096, SIZE, 64}};
    double rate[QOS_PRIORITIES];

    for (unsigned i = 0; i < ARRAY_SIZE(percent); i++)
        for (unsigned k = 0; k < ARRAY_SIZE(lens); k++) {
            unsigned n = percent[i][2] ? 4 : 2;
            ns_t length = k ? LENGTH : LENGTH / 4; /* short messages: many */
            struct qos_classes c = of_weights(percent[i], n);

            start(&c, 0);
            for (unsigned s = 0; s < 2 * n; s++)
                connection((uint8_t)(s / 2), SQE_WRITE, lens[k][s / 2]);
            run(0, NS_PER_MS, rate);
            run(0, length, rate);
            assert_rate(sum(rate), (double)LINE);
            for (unsigned s = 0; s < n; s++)
                assert_rate(rate[s], (double)LINE * percent[i][s] / 100);
            finish();
        }
}

/* What a class does not use goes to the others, in proportion; and at once, when it begins, it has
 * its share, and not what it has missed. */
static void unused_shares(void **state)
{
    struct qos_classes c = of_weights((uint8_t[]){50, 30, 20}, 3);
    struct source *most;
    double rate[QOS_PRIORITIES];

    start(&c, 0);
    most = connection(0, SQE_WRITE, SIZE);
    connection(1, SQE_WRITE, 1024);
    connection(1, SQE_WRITE, 1024);
    connection(2, SQE_WRITE, SIZE);
    for (unsigned i = 0; i < 2; i++) {
        most->off = true;
        run(0, DRAINED, rate);
        run(0, LENGTH, rate);
        assert_rate(rate[1], 0.6 * (double)LINE);
        assert_rate(rate[2], 0.4 * (double)LINE);
        most->off = false;
        run(0, 2 * NS_PER_MS, rate);
        assert_in_range((uint64_t)rate[0], 0.47 * (double)LINE, 0.52 * (double)LINE);
        run(0, LENGTH, rate);
        assert_rate(rate[0], 0.5 * (double)LINE);
        assert_rate(rate[1], 0.3 * (double)LINE);
        assert_rate(rate[2], 0.2 * (double)LINE);
    }
    finish();
}

/* A class alone has all; and one whose queue pairs have limits has those. */
static void limits_within_classes(void **state)
{
    struct qos_classes c = of_weights((uint8_t[]){90, 10}, 2);
    struct qp_attr attr = {.rate_limit = 2000000};
    double rate[QOS_PRIORITIES];
    struct source *slow, *fast;

    start(&c, 0);
    slow = connection(0, SQE_WRITE, 8192);
    fast = connection(1, SQE_WRITE, 8192);
    assert_int_equal(engine_qp_modify(w.k->node[0].engine, slow->qp->qp, &attr, QPA_RATE_LIMIT,
                                      NULL, 5, w.k->now),
                     0);
    run(0, NS_PER_MS, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[0], 2e9);
    assert_rate(rate[1], (double)LINE - 2e9);
    slow->off = true;
    run(0, DRAINED, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[1], (double)LINE);
    fast->off = true;
    finish();
}

/* Queue pairs of a class are equal, whatever the others do. */
static void inside_a_class(void **state)
{
    struct qos_classes c = of_weights((uint8_t[]){20, 80}, 2);
    double rate[QOS_PRIORITIES];
    uint64_t before[4];

    start(&c, 0);
    for (unsigned i = 0; i < 4; i++)
        connection(0, SQE_WRITE, 4096);
    connection(1, SQE_WRITE, SIZE);
    run(0, NS_PER_MS, rate);
    for (unsigned i = 0; i < 4; i++)
        before[i] = counter_get(&qp_counters(w.source[i].qp->qp)->tx_bytes);
    run(0, 8 * LENGTH, rate);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t sent = counter_get(&qp_counters(w.source[i].qp->qp)->tx_bytes) - before[i];

        assert_rate((double)sent * 8 * (double)NS_PER_SEC / (8 * (double)LENGTH),
                    0.2 / 4 * (double)LINE);
    }
    finish();
}

/* Responses to READs are of the class of their queue pair. */
static void responses(void **state)
{
    struct qos_classes c = of_weights((uint8_t[]){70, 30}, 2);
    double rate[QOS_PRIORITIES];

    start(&c, 1);
    connection(0, SQE_READ, 8192);
    connection(0, SQE_READ, SIZE);
    connection(1, SQE_READ, SIZE);
    connection(1, SQE_READ, SIZE);
    run(1, NS_PER_MS, rate);
    run(1, LENGTH, rate);
    assert_rate(rate[0], 0.7 * (double)LINE);
    assert_rate(rate[1], 0.3 * (double)LINE);
    finish();
}

/* ---- strict priority ---- */

/* Two strict classes, of priorities 7 and 6, and two that share. */
static const struct qos_classes strict = {
    .count = 4, .of_priority = {3, 3, 3, 2, 3, 3, 1, 0}, .percent = {0, 0, 60, 40}};

/* A strict class has all that it wants: others have what it leaves, those after it in order. */
static void strict_order(void **state)
{
    struct qp_attr attr = {.rate_limit = 3000000};
    struct source *first, *second;
    double rate[QOS_PRIORITIES];

    start(&strict, 0);
    connection(0, SQE_WRITE, 1024);
    connection(0, SQE_WRITE, SIZE);
    connection(3, SQE_WRITE, SIZE);
    second = connection(6, SQE_WRITE, SIZE);
    first = connection(7, SQE_WRITE, SIZE);
    run(0, NS_PER_MS, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[7], (double)LINE);
    assert_true(rate[6] + rate[3] + rate[0] < 0.001 * (double)LINE);
    assert_int_equal(engine_qp_modify(w.k->node[0].engine, first->qp->qp, &attr, QPA_RATE_LIMIT,
                                      NULL, 5, w.k->now),
                     0);
    run(0, NS_PER_MS, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[7], 3e9);
    assert_rate(rate[6], (double)LINE - 3e9);
    assert_true(rate[3] + rate[0] < 0.001 * (double)LINE);
    second->off = true;
    run(0, DRAINED, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[7], 3e9);
    assert_rate(rate[3], 0.6 * ((double)LINE - 3e9));
    assert_rate(rate[0], 0.4 * ((double)LINE - 3e9));
    finish();
}

/* ---- datagrams ---- */

/* Each has the class of its own service level. */
static void datagrams_share(void **state)
{
    double rate[QOS_PRIORITIES];

    start(&strict, 0);
    for (unsigned i = 0; i < 2; i++) {
        datagrams(3, 3, 2048);
        datagrams(0, 0, 512);
    }
    run(0, NS_PER_MS, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[3], 0.6 * (double)LINE);
    assert_rate(rate[0], 0.4 * (double)LINE);
    finish();
}

/* Those of one queue pair stay in their order, so that the slower class decides; its others do not
 * wait for it. */
static void datagrams_change_class(void **state)
{
    double rate[QOS_PRIORITIES];
    struct source *mixed;

    start(&strict, 0);
    mixed = datagrams(6, 0, 1024);
    connection(3, SQE_WRITE, SIZE);
    run(0, NS_PER_MS, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[6], rate[0]);
    assert_rate(rate[0] / rate[3], 40.0 / 60);
    mixed->ah[1] = mixed->ah[0];
    run(0, NS_PER_MS, rate);
    run(0, LENGTH, rate);
    assert_rate(rate[6], (double)LINE);
    finish();
}

/* A queue pair that had datagrams of a class that waits for ever, and then one of the first: it
 * goes at once. */
static void datagram_after_silence(void **state)
{
    double rate[QOS_PRIORITIES];
    struct source *s;

    start(&strict, 0);
    s = datagrams(0, 7, 64);
    s->off = true;
    post(s);
    kit_ring(s->qp);
    run(0, NS_PER_MS, rate);
    assert_int_equal(s->completed, 1);
    connection(6, SQE_WRITE, SIZE);
    run(0, NS_PER_MS, rate);
    post(s);
    kit_ring(s->qp);
    run(0, 20 * NS_PER_US, rate);
    assert_int_equal(s->completed, 2);
    post(s);
    kit_ring(s->qp);
    run(0, NS_PER_MS, rate);
    assert_int_equal(s->completed, 2);
    w.source[1].off = true;
    run(0, DRAINED, rate);
    assert_int_equal(s->completed, 3);
    finish();
}

/* The second of two datagrams is of the first class. It does not wait for another turn of the class
 * that the one before it was of, which is held up from then on. */
static void datagram_after_another(void **state)
{
    double rate[QOS_PRIORITIES];
    struct source *s;

    start(&strict, 0);
    connection(3, SQE_WRITE, SIZE);
    run(0, NS_PER_MS, rate);
    s = datagrams(0, 7, 64);
    s->off = true;
    connection(6, SQE_WRITE, SIZE)->after = s;
    post(s);
    post(s);
    kit_ring(s->qp);
    run(0, NS_PER_MS, rate);
    assert_int_equal(s->completed, 2);
    finish();
}

/* ---- changes ---- */

/* RESET, and a path with another service level: another class. */
static void another_service_level(void **state)
{
    struct kit_rc rc = {.path_mtu = 5, .timeout = 18, .gid_index = KIT_GID_V6_VLAN, .sl = 7};
    double rate[QOS_PRIORITIES];
    struct source *s;

    start(&strict, 0);
    s = connection(0, SQE_WRITE, SIZE);
    connection(6, SQE_WRITE, SIZE);
    run(0, NS_PER_MS, rate);
    assert_rate(rate[0] + rate[6], rate[6]);
    assert_int_equal(kit_modify(s->qp, QPS_RESET), 0);
    assert_int_equal(kit_modify(s->peer, QPS_RESET), 0);
    s->posted = s->completed = 0;
    kit_connect(s->qp, s->peer, &rc);
    run(0, NS_PER_MS, rate);
    run(0, NS_PER_MS, rate);
    assert_rate(rate[7], (double)LINE);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares),
        cmocka_unit_test(unused_shares),
        cmocka_unit_test(limits_within_classes),
        cmocka_unit_test(inside_a_class),
        cmocka_unit_test(responses),
        cmocka_unit_test(strict_order),
        cmocka_unit_test(datagrams_share),
        cmocka_unit_test(datagrams_change_class),
        cmocka_unit_test(datagram_after_silence),
        cmocka_unit_test(datagram_after_another),
        cmocka_unit_test(another_service_level),
    };

    return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
