/* SPDX-License-Identifier: BSD-3-Clause */
/* A port that keeps the frames of a burst until it is told to send them. The worker tells it in
 * each pass, after several bursts if there is as much to send, and says whether there is still
 * more: it does not sleep then, and the next pass tells the port again. */
#include <sched.h>
#include <string.h>

#include "unit.h"
#include "worker_kit.h"

#define ROUNDS   50
#define WRITES   14
#define UNIT     2048
#define PACKETS  (WRITES * UNIT / 256) /* by the kit's path MTU */
#define DEADLINE (20 * NS_PER_SEC)

struct memory {
    uint8_t source[WRITES][UNIT], target[WRITES][UNIT];
};

/* A cable's end, which sends at once; what is kept is only counted. The worker writes it, and it is
 * read when the worker has ended. */
static struct keeper {
    struct pktio *end;
    const struct pktio_ops *inner;
    struct pktio_ops ops;
    unsigned bursts;     /* with frames, since the last flush */
    unsigned most;       /* of them in one flush */
    bool more;           /* as the last flush said */
    unsigned times_more; /* that one said so */
    bool late;           /* something was kept when the worker went on */
} keeper[2];
static unsigned keepers;

static struct keeper *keeper_of(const struct pktio *end)
{
    return &keeper[end == keeper[1].end];
}

static unsigned keeper_rx_burst(struct pktio *end, unsigned queue, struct frame *f, unsigned n)
{
    struct keeper *k = keeper_of(end);

    k->late |= k->bursts != 0;
    return k->inner->rx_burst(end, queue, f, n);
}

static void keeper_tx_burst(struct pktio *end, unsigned queue, struct frame *f, unsigned n,
                            unsigned used)
{
    struct keeper *k = keeper_of(end);

    k->bursts += used != 0;
    k->inner->tx_burst(end, queue, f, n, used);
}

static void keeper_tx_flush(struct pktio *end, unsigned queue, bool more)
{
    struct keeper *k = keeper_of(end);

    k->most = max_of(k->most, k->bursts);
    k->more = more;
    k->times_more += more;
    k->bursts = 0;
}

static bool keeper_wake_arm(struct pktio *end, unsigned queue)
{
    struct keeper *k = keeper_of(end);

    k->late |= k->bursts || k->more;
    return k->inner->wake_arm(end, queue);
}

static struct pktio *wrap(struct pktio *end)
{
    struct keeper *k = &keeper[keepers++];

    *k = (struct keeper){.end = end, .inner = end->ops, .ops = *end->ops};
    k->ops.rx_burst = keeper_rx_burst;
    k->ops.tx_burst = keeper_tx_burst;
    k->ops.tx_flush = keeper_tx_flush;
    k->ops.wake_arm = keeper_wake_arm;
    end->ops = &k->ops;
    return end;
}

static struct memory *memory(void)
{
    return (struct memory *)kit_memory;
}

static uint64_t va(const void *p)
{
    return KIT_BASE + (uint64_t)((const uint8_t *)p - kit_memory);
}

static void wait_for(struct test_cq *cq, ns_t deadline)
{
    const struct cqe *e;

    while (!(e = cq_reader_peek(&cq->reader))) {
        require(worker_time() < deadline);
        sched_yield();
    }
    require(e->status == WC_SUCCESS);
    cq_reader_advance(&cq->reader);
}

static void write_all(struct test_qp *from, const struct test_mr mr[2])
{
    for (unsigned i = 0; i < WRITES; i++) {
        struct test_send s = {.op = SQE_WRITE,
                              .signaled = i + 1 == WRITES,
                              .addr = va(memory()->source[i]),
                              .remote_addr = va(memory()->target[i]),
                              .len = UNIT,
                              .lkey = mr[0].key,
                              .rkey = mr[1].key};

        post_send(from, &s);
    }
    ring_bell(from);
}

static void test_flush(void **state)
{
    const struct pktio_sim_config config = {0};
    struct dataplane dp = {.wrap = wrap};
    struct test_qp pair[2];
    struct test_mr mr[2];
    struct test_cq cq[2];

    _Static_assert(PACKETS > 3 * FRAME_BURST, "a pass after a pause is not enough");
    dataplane_start(&dp, 1, &config);
    for (unsigned i = 0; i < 2; i++) {
        cq_open(&dp, i, &cq[i]);
        mr[i] = mr_open(&dp, i, KIT_BASE, sizeof(struct memory));
    }
    pair_open(&dp, pair, 0, cq);
    for (unsigned round = 0; round < ROUNDS; round++) {
        memset(memory()->source, (int)round + 1, sizeof(memory()->source));
        write_all(&pair[0], mr);
        wait_for(&cq[0], worker_time() + DEADLINE);
        assert_memory_equal(memory()->target, memory()->source, sizeof(memory()->source));
    }
    dataplane_stop(&dp);
    for (unsigned i = 0; i < 2; i++) {
        assert_false(keeper[i].late);
        assert_int_equal(keeper[i].bursts, 0);
        assert_false(keeper[i].more);
        cq_close(&cq[i]);
    }
    assert_true(keeper[0].most > 1);
    assert_true(keeper[0].times_more > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flush)};

    return cmocka_run_group_tests_name("dataplane_flush", tests, NULL, NULL);
}
