/* SPDX-License-Identifier: BSD-3-Clause */
/* A simulated port with several queues: where a frame goes, the rule that the port reports, and
 * threads on all queues. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "frame_layout.h"
#include "roce_frame.h"
#include "sim.h"
#include "unit.h"

#define FLOWS 64

static struct pktio *end[2];

static void open_pair(struct pktio_sim_config config)
{
    for (unsigned i = 0; i < 2; i++)
        memcpy(config.mac[i], (uint8_t[6]){2, 0, 0, 0, 0, (uint8_t)(1 + i)}, 6);
    assert_int_equal(pktio_sim_pair(end, &config), 0);
}

static void close_pair(void)
{
    end[0]->ops->close(end[0]);
    end[1]->ops->close(end[1]);
}

static bool send(struct pktio *io, unsigned queue, const struct roce_flow *flow, uint32_t number)
{
    struct frame f;

    if (!io->ops->tx_lend(io, queue, &f, 1))
        return false;
    f.len = roce_frame_write(f.data, flow, number);
    io->ops->tx_burst(io, queue, &f, 1, 1);
    return true;
}

/* The queue of end 1 on which the only frame in flight arrives, with its number. */
static unsigned where(uint32_t *number)
{
    struct pktio_info info;
    unsigned found = 0, at = 0;

    end[1]->ops->info(end[1], &info);
    for (unsigned q = 0; q < info.queues; q++) {
        struct frame f[2];
        unsigned n = end[1]->ops->rx_burst(end[1], q, f, 2);

        if (n) {
            *number = roce_frame_number(f[0].data, f[0].len);
            end[1]->ops->rx_release(end[1], q, f, n);
            at = q;
        }
        found += n;
    }
    assert_int_equal(found, 1);
    return at;
}

/* Every flow arrives at the queue that the reported rule selects, and all queues get some. */
static void test_rss(void **state)
{
    unsigned got[4] = {0};
    struct pktio_info info;
    struct rss rss;
    uint32_t number;

    open_pair((struct pktio_sim_config){.queues = {2, 4}});
    end[1]->ops->info(end[1], &info);
    assert_int_equal(info.queues, 4);
    assert_int_equal(end[1]->ops->rss(end[1], false, &rss), 0);
    assert_int_equal(rss.table.size, SIM_TABLE);
    for (unsigned i = 0; i < FLOWS; i++) {
        struct roce_flow flow = roce_flow_number(i, i & 1);
        struct rss_frame r = roce_flow_tuple(&flow);
        unsigned at;

        assert_true(send(end[0], i & 1, &flow, i));
        at = where(&number);
        assert_int_equal(at, rss_queue(&rss, &r.tuple));
        assert_int_equal(number, i);
        got[at]++;
    }
    for (unsigned q = 0; q < 4; q++) {
        assert_true(got[q] > 0);
        assert_int_equal(pktio_sim_arrived(end[1], q), got[q]);
    }
    assert_int_equal(counter_get(&pktio_sim_queue_stats(end[0], 0)->sent), FLOWS / 2);
    assert_int_equal(counter_get(&pktio_sim_queue_stats(end[0], 1)->sent), FLOWS / 2);
    close_pair();
}

static void test_other_keys(void **state)
{
    struct rss rss;

    open_pair((struct pktio_sim_config){.queues = {3, 1},
                                        .rss_key = toeplitz_key_symmetric,
                                        .rss_fields = RSS_ADDRESSES,
                                        .rss_table = 8});
    assert_int_equal(end[0]->ops->rss(end[0], true, &rss), 0);
    assert_int_equal(rss.fields, RSS_ADDRESSES);
    assert_int_equal(rss.table.size, 8);
    assert_int_equal(indirection_share(&rss.table, 2), 2);
    assert_int_equal(end[1]->ops->rss(end[1], true, &rss), -ENOTSUP); /* nothing to spread */
    close_pair();
}

static void test_secret(void **state)
{
    unsigned got[2] = {0};
    struct rss rss;
    uint32_t number;

    open_pair((struct pktio_sim_config){.queues = {1, 2}, .rss_secret = true});
    assert_int_equal(end[1]->ops->rss(end[1], false, &rss), -ENOTSUP);
    for (unsigned i = 0; i < FLOWS; i++) {
        struct roce_flow flow = roce_flow_number(i, false);

        assert_true(send(end[0], 0, &flow, i));
        got[where(&number)]++;
    }
    assert_true(got[0] && got[1]);
    close_pair();
}

/* Frames that are not RoCEv2 go to queue 0; those to the port's own MAC return to the sending
 * queue. */
static void test_others(void **state)
{
    struct roce_flow flow = roce_flow_number(0, false);
    uint32_t number;
    struct frame f;

    open_pair((struct pktio_sim_config){.queues = {3, 3}});
    for (unsigned i = 0; i < FLOWS; i++) {
        flow.sport++;
        assert_int_equal(end[0]->ops->tx_lend(end[0], 1, &f, 1), 1);
        f.len = roce_frame_write(f.data, &flow, i);
        f.data[ETH_TYPE_OFF] = 0x90; /* an unknown type */
        end[0]->ops->tx_burst(end[0], 1, &f, 1, 1);
        assert_int_equal(where(&number), 0);

        memcpy(flow.dmac, flow.smac, 6);
        assert_true(send(end[0], 2, &flow, i));
        assert_false(end[0]->ops->wake_arm(end[0], 2));
        assert_int_equal(end[0]->ops->rx_burst(end[0], 2, &f, 1), 1);
        end[0]->ops->rx_release(end[0], 2, &f, 1);
        flow.dmac[5] = 2;
    }
    assert_int_equal(counter_get(&end[0]->ops->counters(end[0], 2)->local), FLOWS);
    close_pair();
}

static void test_flows(void **state)
{
    struct roce_flow flow = roce_flow_number(5, false), v6 = roce_flow_number(6, true);
    struct rss_frame r = roce_flow_tuple(&flow);
    struct pktio_flow want = {.src = flow.src, .dst = flow.dst, .sport = flow.sport};
    struct pktio_flow by_qpn = {.dst = v6.dst, .dest_qpn = v6.dest_qpn};
    void *rule[2], *none;
    uint32_t number;
    struct rss rss;
    unsigned home;

    open_pair((struct pktio_sim_config){.queues = {1, 4}, .flows = 2});
    assert_int_equal(end[1]->ops->rss(end[1], false, &rss), 0);
    home = rss_queue(&rss, &r.tuple);
    assert_int_equal(end[1]->ops->flow_add(end[1], &want, 4, &none), -EINVAL);
    assert_int_equal(end[1]->ops->flow_add(end[1], &want, (home + 1) % 4, &rule[0]), 0);
    assert_int_equal(end[1]->ops->flow_add(end[1], &by_qpn, 3, &rule[1]), 0);
    assert_int_equal(end[1]->ops->flow_add(end[1], &want, 0, &none), -ENOSPC);
    assert_int_equal(pktio_sim_flows(end[1]), 2);
    assert_true(send(end[0], 0, &flow, 1));
    assert_int_equal(where(&number), (home + 1) % 4);
    for (unsigned i = 0; i < 8; i++) {
        v6.sport++;
        assert_true(send(end[0], 0, &v6, i));
        assert_int_equal(where(&number), 3);
    }
    end[1]->ops->flow_remove(end[1], rule[0]);
    assert_true(send(end[0], 0, &flow, 2));
    assert_int_equal(where(&number), home);
    assert_int_equal(end[1]->ops->flow_add(end[1], &want, 0, &rule[0]), 0);
    /* An end with one queue, or without room for rules, refuses rules. */
    assert_int_equal(end[0]->ops->flow_add(end[0], &want, 0, &none), -ENOTSUP);
    close_pair();
    open_pair((struct pktio_sim_config){.queues = {1, 4}});
    assert_int_equal(end[1]->ops->flow_add(end[1], &want, 0, &none), -ENOTSUP);
    close_pair();
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* A frame wakes its queue, and no other. */
static void test_waking(void **state)
{
    struct roce_flow flow = roce_flow_number(0, false);
    struct rss_frame r;
    uint32_t number;
    struct rss rss;

    open_pair((struct pktio_sim_config){.queues = {1, 2}});
    assert_int_equal(end[1]->ops->rss(end[1], false, &rss), 0);
    for (unsigned i = 0; i < FLOWS; i++) {
        unsigned at;

        flow.sport++;
        r = roce_flow_tuple(&flow);
        at = rss_queue(&rss, &r.tuple);
        for (unsigned q = 0; q < 2; q++)
            assert_true(end[1]->ops->wake_arm(end[1], q));
        assert_true(send(end[0], 0, &flow, i));
        assert_true(readable(end[1]->ops->wake_fd(end[1], at)));
        assert_false(readable(end[1]->ops->wake_fd(end[1], !at)));
        assert_int_equal(where(&number), at);
    }
    close_pair();
}

static void test_bad_configurations(void **state)
{
    static const struct pktio_sim_config bad[] = {
        {.queues = {1, SIM_QUEUES_MAX + 1}}, {.queues = {4, 1}, .rss_table = 2},
        {.queues = {4, 1}, .rss_table = 5},  {.flows = SIM_FLOWS_MAX + 1},
        {.rss_fields = RSS_ALL + 1},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(pktio_sim_pair(end, &bad[i]), -EINVAL);
}

/* ---- threads ---- */

#define THREADS 3
#define FRAMES  3000

static _Atomic unsigned arrived;

/* Sends FRAMES numbered frames over its queue, in all flows, whenever there is room. */
static void *sender(void *arg)
{
    unsigned queue = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < FRAMES;) {
        struct roce_flow flow = roce_flow_number(i % FLOWS, false);

        if (send(end[0], queue, &flow, queue * FRAMES + i))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

static uint8_t seen[THREADS * FRAMES]; /* each written by its flow's queue alone */

/* Sleeps on the descriptor when idle. */
static void *receiver(void *arg)
{
    unsigned queue = (unsigned)(uintptr_t)arg, n;
    struct pollfd p = {.fd = end[1]->ops->wake_fd(end[1], queue), .events = POLLIN};
    struct frame f[FRAME_BURST];

    while (arrived < THREADS * FRAMES) {
        n = end[1]->ops->rx_burst(end[1], queue, f, FRAME_BURST);
        for (unsigned i = 0; i < n; i++)
            seen[roce_frame_number(f[i].data, f[i].len)]++;
        end[1]->ops->rx_release(end[1], queue, f, n);
        arrived += n;
        if (!n && end[1]->ops->wake_arm(end[1], queue))
            poll(&p, 1, 50); /* or the others received the last one */
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t thread[2][THREADS];

    open_pair((struct pktio_sim_config){.queues = {THREADS, THREADS}, .slots = 16});
    arrived = 0;
    memset(seen, 0, sizeof(seen));
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[0][i], NULL, receiver, (void *)i), 0);
        assert_int_equal(pthread_create(&thread[1][i], NULL, sender, (void *)i), 0);
    }
    for (unsigned i = 0; i < 2 * THREADS; i++)
        assert_int_equal(pthread_join(thread[i / THREADS][i % THREADS], NULL), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(seen); i++)
        assert_int_equal(seen[i], 1);
    close_pair();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rss),
        cmocka_unit_test(test_other_keys),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_flows),
        cmocka_unit_test(test_waking),
        cmocka_unit_test(test_bad_configurations),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
