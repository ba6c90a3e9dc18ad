/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC: queue pairs of one program whose port is the bottleneck. Answers may go before what others
 * send (engine_tx_answer), but none gets more by that than it should.
 */
#include "engine_private.h"
#include "rules.h"

#define LINE      UINT64_C(40000000000) /* bits per second, to the port */
#define SLOW_LINE UINT64_C(1000000000)  /* from it */
#define SIZE      (64u << 10)
#define MESSAGE   1024
#define READERS   64
#define DEPTH     48
#define LENGTH    (50 * NS_PER_MS)

struct fair {
    struct kit *k;
    struct kit_qp *reader[READERS], *bulk;
    struct kit_mr *mr[2]; /* of each node */
    uint8_t op;
    uint64_t read[READERS], posted, written;
};

static struct kit_qp *connect_one(struct kit *k, unsigned node)
{
    struct kit_qp_config qp = {.sq_size = 64, .rq_size = 1};
    struct kit_rc rc = {.path_mtu = 3, .timeout = 18, .max_rd_atomic = 16};
    struct kit_qp *a = kit_qp_create(&k->node[node], &qp), *b = kit_qp_create(&k->node[!node], &qp);

    kit_connect(a, b, &rc);
    return a;
}

static struct fair start(uint8_t op, bool bulk)
{
    struct kit_link_config to = {.delay = 2 * NS_PER_US, .bps = LINE},
                           from = {.delay = 2 * NS_PER_US, .bps = SLOW_LINE};
    struct fair t = {.op = op,
                     .k = kit_create(&(struct kit_config){.seed = 1, .link = {to, from}})};

    for (unsigned i = 0; i < 2; i++)
        t.mr[i] =
            kit_mr_create(&t.k->node[i], SIZE,
                          MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
                          KIT_MR_DIRECT);
    for (unsigned i = 0; i < READERS; i++) {
        t.reader[i] = connect_one(t.k, 0);
        kit_do(t.reader[i], t.op, 0, t.mr[0], 0, op == SQE_READ ? MESSAGE : 8, t.mr[1], 0);
    }
    t.bulk = bulk ? connect_one(t.k, 1) : NULL;
    return t;
}

static unsigned completed(struct kit_qp *qp)
{
    struct cqe e[DEPTH];
    unsigned n = kit_poll(qp->send_cq, e, DEPTH);

    for (unsigned i = 0; i < n; i++)
        assert_int_equal(e[i].status, WC_SUCCESS);
    return n;
}

/* Each reader asks again at once. */
static bool go_on(void *arg)
{
    struct fair *t = arg;

    for (unsigned i = 0; i < READERS; i++)
        if (completed(t->reader[i])) {
            t->read[i]++;
            kit_do(t->reader[i], t->op, 0, t->mr[0], 0, t->op == SQE_READ ? MESSAGE : 8, t->mr[1],
                   0);
        }
    if (!t->bulk)
        return false;
    for (t->written += completed(t->bulk); t->posted - t->written < DEPTH; t->posted++)
        kit_do(t->bulk, SQE_WRITE, t->posted, t->mr[1], 0, MESSAGE, t->mr[0], 0);
    return false;
}

/* How many the slowest and the fastest have read. */
static void finish(struct fair *t, uint64_t *least, uint64_t *most)
{
    assert_int_equal(kit_run(t->k, go_on, t, LENGTH), KIT_BUDGET);
    *least = UINT64_MAX;
    *most = 0;
    for (unsigned i = 0; i < READERS; i++) {
        *least = min_of(*least, t->read[i]);
        *most = max_of(*most, t->read[i]);
    }
    kit_destroy(t->k);
}

/* Queue pairs that are the same get the same. */
static void equals(uint8_t op)
{
    struct fair t = start(op, false);
    uint64_t least, most;

    finish(&t, &least, &most);
    assert_in_range(least, most * 3 / 4, most);
}

static void equal_readers(void **state)
{
    equals(SQE_READ);
}

static void equal_atomics(void **state)
{
    equals(SQE_FETCH_ADD);
}

static void equal_writers(void **state)
{
    equals(SQE_WRITE);
}

/* In a round each reader has two answers before the others and one in its turn, and the writer a
 * quantum. */
static void writer_beside_readers(void **state)
{
    struct fair t = start(SQE_READ, true);
    uint64_t least, most, reads = 0;

    finish(&t, &least, &most);
    for (unsigned i = 0; i < READERS; i++)
        reads += t.read[i];
    assert_true(t.written * 3 * READERS > reads * TX_QUANTUM / 2);
    assert_in_range(least, most / 2, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_readers),
        cmocka_unit_test(equal_atomics),
        cmocka_unit_test(equal_writers),
        cmocka_unit_test(writer_beside_readers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
