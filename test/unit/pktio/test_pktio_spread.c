/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive-side scaling in software, over simulated ports and the loopback one. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "frame_layout.h"
#include "loop.h"
#include "roce_frame.h"
#include "sim.h"
#include "spread_internal.h"
#include "unit.h"

#define FLOWS  64
#define QUEUES 4

/* `far` is the other end of the cable. */
static struct pktio *io, *far;

static struct pktio *spread_over(struct pktio *inner, unsigned queues, unsigned slots)
{
    struct pktio_spread_config config = {.queues = queues, .slots = slots};
    char error[128] = "";
    struct pktio *outer = pktio_spread_open(inner, &config, error, sizeof(error));

    if (!outer)
        fail_msg("%s", error);
    return outer;
}

static void open_sim(struct pktio_sim_config config, unsigned slots)
{
    struct pktio *end[2];

    for (unsigned i = 0; i < 2; i++)
        memcpy(config.mac[i], (uint8_t[6]){2, 0, 0, 0, 0, (uint8_t)(1 + i)}, 6);
    assert_int_equal(pktio_sim_pair(end, &config), 0);
    far = end[0];
    io = spread_over(end[1], QUEUES, slots);
}

static void close_sim(void)
{
    io->ops->close(io);
    far->ops->close(far);
}

static bool send(struct pktio *from, unsigned queue, const struct roce_flow *flow, uint32_t number)
{
    struct frame f;

    if (!from->ops->tx_lend(from, queue, &f, 1))
        return false;
    assert_true(f.room >= ROCE_FRAME_MAX);
    f.len = roce_frame_write(f.data, flow, number);
    from->ops->tx_burst(from, queue, &f, 1, 1);
    return true;
}

/* Receives the frames that wait at a queue and releases them in reverse order; returns their count
 * and numbers. */
static unsigned take(struct pktio *at, unsigned queue, uint32_t *number, unsigned max)
{
    struct frame f[FRAME_BURST];
    unsigned n = at->ops->rx_burst(at, queue, f, min_of(max, (unsigned)FRAME_BURST));

    for (unsigned i = 0; i < n; i++)
        number[i] = roce_frame_number(f[i].data, f[i].len);
    for (unsigned i = n; i-- > 0;)
        at->ops->rx_release(at, queue, &f[i], 1);
    return n;
}

/* The queue on which the only frame in flight arrives. Queue 0 polls first: its worker serves the
 * others. */
static unsigned where(uint32_t *number)
{
    unsigned found = 0, at = 0;

    for (unsigned q = 0; q < QUEUES; q++) {
        unsigned n = take(io, q, number, FRAME_BURST);

        found += n;
        at = n ? q : at;
    }
    assert_int_equal(found, 1);
    return at;
}

static unsigned predicted(const struct roce_flow *flow)
{
    struct rss_frame r = roce_flow_tuple(flow);
    struct rss rss;

    assert_int_equal(io->ops->rss(io, !rss_is_ipv4(&r.tuple), &rss), 0);
    return rss_queue(&rss, &r.tuple);
}

static void test_rss(void **state)
{
    unsigned got[QUEUES] = {0};
    struct pktio_info info;
    uint32_t number;

    open_sim((struct pktio_sim_config){0}, 8);
    io->ops->info(io, &info);
    assert_int_equal(info.queues, QUEUES);
    assert_int_equal(info.mac[5], 2);
    for (unsigned i = 0; i < 4 * FLOWS; i++) {
        struct roce_flow flow = roce_flow_number(i % FLOWS, i & 1);
        unsigned at;

        flow.tagged = i & 4;
        assert_true(send(far, 0, &flow, i));
        at = where(&number);
        assert_int_equal(at, predicted(&flow));
        assert_int_equal(number, i);
        got[at]++;
    }
    for (unsigned q = 0; q < QUEUES; q++)
        assert_in_range(got[q], FLOWS / 2, 2 * FLOWS);
    close_sim();
}

/* Frames that are not RoCEv2, too short ones included, go to queue 0. */
static void test_others(void **state)
{
    struct roce_flow flow = roce_flow_number(0, false);
    struct frame f;

    open_sim((struct pktio_sim_config){0}, 8);
    for (unsigned i = 0; i < FLOWS; i++) {
        flow.sport++;
        assert_int_equal(far->ops->tx_lend(far, 0, &f, 1), 1);
        f.len = roce_frame_write(f.data, &flow, i);
        f.data[ETH_TYPE_OFF + 1] = 6; /* ARP */
        if (i & 1)
            f.len = 6 + i % 8;
        far->ops->tx_burst(far, 0, &f, 1, 1);
        assert_int_equal(io->ops->rx_burst(io, 0, &f, 1), 1);
        io->ops->rx_release(io, 0, &f, 1);
        for (unsigned q = 1; q < QUEUES; q++)
            assert_int_equal(io->ops->rx_burst(io, q, &f, 1), 0);
    }
    close_sim();
}

/* Frames of every queue leave by the port, each queue's in order, when queue 0 polls. */
static void test_sending(void **state)
{
    struct roce_flow flow = roce_flow_number(0, false);
    uint32_t number[FRAME_BURST], next[QUEUES] = {0};

    open_sim((struct pktio_sim_config){.slots = 16}, 8);
    flow.dmac[5] = 1;
    for (unsigned round = 0; round < 50; round++) {
        unsigned total = 0, n;

        for (unsigned i = 0; i < 3; i++)
            for (unsigned q = 1; q < QUEUES; q++)
                assert_true(send(io, q, &flow, q << 16 | (round * 3 + i)));
        assert_int_equal(take(far, 0, number, FRAME_BURST), 0);
        if (round & 1)
            assert_int_equal(take(io, 0, number, 1), 0);
        assert_true(send(io, 0, &flow, round));
        while ((n = take(far, 0, number, FRAME_BURST))) {
            for (unsigned i = 0; i < n; i++)
                assert_int_equal(number[i] & 0xFFFF, next[number[i] >> 16]++);
            total += n;
        }
        assert_int_equal(total, 3 * (QUEUES - 1) + 1);
    }
    close_sim();
}

/* A port below that seals what it sends, but for frames that say that they are sealed. */
static const struct pktio_ops *sealing;
static unsigned sealed_again;

static unsigned lend_unsealed(struct pktio *end, unsigned queue, struct frame *f, unsigned n)
{
    n = sealing->tx_lend(end, queue, f, n);
    for (unsigned i = 0; i < n; i++)
        f[i].icrc_omitted = true;
    return n;
}

static void count_unsealed(struct pktio *end, unsigned queue, struct frame *f, unsigned n,
                           unsigned used)
{
    for (unsigned i = 0; i < used; i++)
        sealed_again += f[i].icrc_omitted;
    sealing->tx_burst(end, queue, f, n, used);
}

/* Frames of the other queues have an ICRC, which may be wrong on purpose: it stays as it is. */
static void test_sealed(void **state)
{
    struct pktio_sim_config config = {.mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
    struct roce_flow flow = roce_flow_number(0, false);
    struct pktio *end[2];
    struct pktio_ops ops;
    uint32_t number;

    assert_int_equal(pktio_sim_pair(end, &config), 0);
    far = end[0];
    sealing = end[1]->ops;
    ops = *sealing;
    ops.tx_lend = lend_unsealed;
    ops.tx_burst = count_unsealed;
    end[1]->ops = &ops;
    io = spread_over(end[1], QUEUES, 8);
    flow.dmac[5] = 1;
    sealed_again = 0;
    for (unsigned q = 0; q < QUEUES; q++) {
        assert_true(send(io, q, &flow, q));
        assert_int_equal(take(io, 0, &number, 1), 0);
        assert_int_equal(take(far, 0, &number, 1), 1);
        assert_int_equal(number, q);
    }
    assert_int_equal(sealed_again, 1); /* queue 0's, which was lent by the port itself */
    close_sim();
}

/* A full port: the rings fill, then no frame is lent; when the port drains, all frames go out. */
static void test_full_sending(void **state)
{
    struct roce_flow flow = roce_flow_number(0, false);
    unsigned sent[QUEUES] = {0}, got[QUEUES] = {0}, n;
    uint32_t number[FRAME_BURST];

    open_sim((struct pktio_sim_config){.slots = 4}, 8);
    flow.dmac[5] = 1;
    for (unsigned i = 0; i < 30; i++) {
        for (unsigned q = 1; q < QUEUES; q++)
            sent[q] += send(io, q, &flow, q);
        assert_int_equal(take(io, 0, number, 1), 0);
    }
    assert_int_equal(sent[1] + sent[2] + sent[3], 4 + 3 * 8);
    assert_false(send(io, 0, &flow, 0));
    assert_false(io->ops->wake_arm(io, 0)); /* something moved */
    assert_false(io->ops->wake_arm(io, 0)); /* and something waits */
    while ((n = take(far, 0, number, FRAME_BURST))) {
        for (unsigned i = 0; i < n; i++)
            got[number[i]]++;
        take(io, 0, number, 1);
    }
    for (unsigned q = 1; q < QUEUES; q++)
        assert_int_equal(got[q], sent[q]);
    close_sim();
}

/* Lent and not used: no effect. */
static void test_unused(void **state)
{
    struct frame f[FRAME_BURST];

    open_sim((struct pktio_sim_config){0}, 8);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(io->ops->tx_lend(io, 1, f, FRAME_BURST), 8);
        io->ops->tx_burst(io, 1, f, 8, 0);
        assert_int_equal(io->ops->tx_lend(io, 0, f, 3), 3);
        io->ops->tx_burst(io, 0, f, 3, 0);
    }
    close_sim();
}

static void test_full_receiving(void **state)
{
    struct roce_flow flow = roce_flow_number(0, false);
    uint32_t number[FRAME_BURST];
    unsigned at;

    open_sim((struct pktio_sim_config){0}, 8);
    while (!(at = predicted(&flow)))
        flow.sport++;
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 12; i++)
            assert_true(send(far, 0, &flow, i));
        assert_int_equal(take(io, 0, number, FRAME_BURST), 0);
        assert_int_equal(take(io, at, number, FRAME_BURST), 8);
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(number[i], i);
        assert_int_equal(counter_get(&io->ops->counters(io, at)->rx_overflow), 4 * (round + 1));
    }
    assert_int_equal(counter_get(&io->ops->counters(io, 0)->rx_overflow), 0);
    close_sim();
}

/* To the port's own MAC: back on the sending queue, whatever its hash, and on no other. */
static void test_own_mac(void **state)
{
    uint32_t number;

    open_sim((struct pktio_sim_config){0}, 8);
    for (unsigned i = 0; i < 4 * FLOWS; i++) {
        struct roce_flow flow = roce_flow_number(i % FLOWS, false);

        flow.smac[5] = 2;
        assert_true(send(io, i % QUEUES, &flow, i));
        if (i % QUEUES)
            assert_false(io->ops->wake_arm(io, i % QUEUES));
        assert_int_equal(where(&number), i % QUEUES);
        assert_int_equal(number, i);
    }
    for (unsigned q = 0; q < QUEUES; q++)
        assert_int_equal(counter_get(&io->ops->counters(io, q)->local), FLOWS);
    assert_int_equal(take(far, 0, &number, 1), 0);
    close_sim();
}

/* To a group: the port below returns a copy (the loopback port does nothing else) on the sending
 * queue. */
static void test_groups(void **state)
{
    struct pktio_loop_config config = {.name = "loop", .mac = {2, 0, 0, 0, 0, 2}, .queues = 1};
    uint32_t number;

    io = spread_over(pktio_loop_create(&config), QUEUES, 8);
    for (unsigned i = 0; i < 4 * FLOWS; i++) {
        struct roce_flow flow = roce_flow_number(i % FLOWS, true);

        memcpy(flow.smac, config.mac, 6);
        memcpy(flow.dmac, (uint8_t[6]){0x33, 0x33, 0, 0, 0, 1}, 6);
        gid_parse(&flow.dst, "ff0e::1");
        assert_true(send(io, i % QUEUES, &flow, i));
        assert_int_equal(where(&number), i % QUEUES);
        assert_int_equal(number, i);
    }
    io->ops->close(io);
}

static void test_flows(void **state)
{
    struct roce_flow flow = roce_flow_number(5, false), v6 = roce_flow_number(6, true);
    struct pktio_flow want = {.src = flow.src, .dst = flow.dst, .sport = flow.sport};
    struct pktio_flow by_qpn = {.dst = v6.dst, .dest_qpn = v6.dest_qpn};
    void *rule[3], *none;
    uint32_t number;
    unsigned at;

    open_sim((struct pktio_sim_config){0}, 8);
    at = (predicted(&flow) + 1) % QUEUES;
    assert_int_equal(io->ops->flow_add(io, &want, QUEUES, &none), -EINVAL);
    assert_int_equal(io->ops->flow_add(io, &want, at, &rule[0]), 0);
    assert_int_equal(io->ops->flow_add(io, &by_qpn, 3, &rule[1]), 0);
    want.sport++;
    assert_int_equal(io->ops->flow_add(io, &want, 0, &rule[2]), 0);
    assert_true(send(far, 0, &flow, 1));
    assert_int_equal(where(&number), at);
    for (unsigned i = 0; i < FLOWS; i++) {
        v6.sport++;
        assert_true(send(far, 0, &v6, i));
        assert_int_equal(where(&number), 3);
    }
    io->ops->flow_remove(io, rule[0]);
    assert_true(send(far, 0, &flow, 2));
    assert_int_equal(where(&number), predicted(&flow));
    flow.sport++;
    assert_true(send(far, 0, &flow, 2));
    assert_int_equal(where(&number), 0);
    io->ops->flow_remove(io, rule[1]);
    v6.dest_qpn++;
    assert_true(send(far, 0, &v6, 2));
    assert_int_equal(where(&number), predicted(&v6));
    io->ops->flow_remove(io, rule[2]);
    close_sim();
}

static unsigned slots_in_use(struct spread_flows *f)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FLOW_SLOTS; i++)
        n += f->slot[i] != 0;
    return n;
}

/* Rules that go leave free slots behind, where a search ends, also while others stay. */
static void test_flows_that_go(void **state)
{
    static void *rule[SPREAD_FLOWS_MAX / 4];
    struct roce_flow flow = roce_flow_number(0, false);
    struct pktio_flow want = {.src = flow.src, .dst = flow.dst};
    struct spread_flows *flows;

    open_sim((struct pktio_sim_config){0}, 8);
    flows = &spread_of(io)->flows;
    flows->secret = 1;
    for (unsigned i = 0; i < 60 * ARRAY_SIZE(rule); i++) {
        unsigned at = i % ARRAY_SIZE(rule);

        if (rule[at])
            io->ops->flow_remove(io, rule[at]);
        want.sport = (uint16_t)(i + 1);
        assert_int_equal(io->ops->flow_add(io, &want, i % QUEUES, &rule[at]), 0);
    }
    assert_in_range(slots_in_use(flows), ARRAY_SIZE(rule), 2 * ARRAY_SIZE(rule));
    for (unsigned i = 0; i < ARRAY_SIZE(rule); i++)
        io->ops->flow_remove(io, rule[i]);
    assert_int_equal(slots_in_use(flows), 0);
    close_sim();
}

/* As many rules as there is room for, repeatedly: each is found, and none after all are removed. */
static void test_many_flows(void **state)
{
    static void *rule[SPREAD_FLOWS_MAX];
    struct roce_flow flow = roce_flow_number(0, false);
    struct pktio_flow want = {.src = flow.src, .dst = flow.dst};
    uint32_t number;
    void *none;

    open_sim((struct pktio_sim_config){0}, 8);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SPREAD_FLOWS_MAX; i++) {
            want.sport = (uint16_t)(0xC000 + i);
            assert_int_equal(io->ops->flow_add(io, &want, i % QUEUES, &rule[i]), 0);
        }
        assert_int_equal(io->ops->flow_add(io, &want, 0, &none), -ENOSPC);
        for (unsigned i = 0; i < SPREAD_FLOWS_MAX; i += 61) {
            flow.sport = (uint16_t)(0xC000 + i);
            assert_true(send(far, 0, &flow, i));
            assert_int_equal(where(&number), i % QUEUES);
        }
        for (unsigned i = 0; i < SPREAD_FLOWS_MAX; i++)
            io->ops->flow_remove(io, rule[i]);
        flow.sport = 0xC000 + 61;
        assert_true(send(far, 0, &flow, 1));
        assert_int_equal(where(&number), predicted(&flow));
    }
    close_sim();
}

/* The port below spreads by another rule: queue 0 polls all of its queues, and looped-back frames
 * return to their queue. */
static void test_several_below(void **state)
{
    struct frame f[FRAME_BURST];
    uint32_t number;
    unsigned n;

    open_sim((struct pktio_sim_config){.queues = {1, 3}, .rss_fields = RSS_SRC_PORT}, 8);
    for (unsigned i = 0; i < 4 * FLOWS; i++) {
        struct roce_flow flow = roce_flow_number(i % FLOWS, false);

        assert_true(send(far, 0, &flow, i));
        assert_int_equal(where(&number), predicted(&flow));
    }
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < FRAME_BURST / 2; i++) {
            struct roce_flow flow = roce_flow_number(i, false);

            while (predicted(&flow))
                flow.sport++;
            assert_true(send(far, 0, &flow, i));
        }
        n = io->ops->rx_burst(io, 0, f, FRAME_BURST);
        assert_int_equal(n, FRAME_BURST / 2);
        io->ops->rx_release(io, 0, f, n);
    }
    /* None was lost on its way back. */
    assert_int_equal(far->ops->tx_lend(far, 0, f, FRAME_BURST), FRAME_BURST);
    far->ops->tx_burst(far, 0, f, FRAME_BURST, 0);
    close_sim();
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void sleep_all(void)
{
    for (unsigned q = 0; q < QUEUES; q++) {
        if (!io->ops->wake_arm(io, q))
            assert_true(io->ops->wake_arm(io, q));
        assert_false(readable(io->ops->wake_fd(io, q)));
    }
}

/* A frame wakes queue 0, which wakes the frame's queue after a poll; frames to be sent wake queue
 * 0. */
static void test_waking(void **state)
{
    struct roce_flow flow = roce_flow_number(0, false);
    uint32_t number;

    open_sim((struct pktio_sim_config){0}, 8);
    for (unsigned i = 0; i < FLOWS; i++) {
        struct roce_flow back = flow;
        unsigned at;

        flow.sport++;
        at = predicted(&flow);
        sleep_all();
        assert_true(send(far, 0, &flow, i));
        for (unsigned q = 0; q < QUEUES; q++)
            assert_int_equal(readable(io->ops->wake_fd(io, q)), !q);
        if (at) {
            assert_int_equal(take(io, 0, &number, 1), 0);
            for (unsigned q = 1; q < QUEUES; q++)
                assert_int_equal(readable(io->ops->wake_fd(io, q)), q == at);
            assert_false(io->ops->wake_arm(io, 0)); /* it had work */
            assert_false(io->ops->wake_arm(io, at));
        }
        assert_int_equal(take(io, at, &number, 1), 1);

        sleep_all();
        back.dmac[5] = 1;
        assert_true(send(io, 1 + i % (QUEUES - 1), &back, i));
        assert_true(readable(io->ops->wake_fd(io, 0)));
        assert_int_equal(take(io, 0, &number, 1), 0);
        assert_int_equal(take(far, 0, &number, 1), 1);
    }
    close_sim();
}

/* Ports that cannot wake, or never need to. */
static struct pktio_ops mute;
static int mute_answer;

static int mute_wake_fd(struct pktio *port, unsigned queue)
{
    return mute_answer;
}

static void test_ports_that_do_not_wake(void **state)
{
    static const int answer[] = {PKTIO_WAKE_POLL, PKTIO_WAKE_NEVER};

    for (unsigned i = 0; i < ARRAY_SIZE(answer); i++) {
        struct pktio_sim_config config = {.mac = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}};
        struct roce_flow flow = roce_flow_number(0, false);
        struct pktio *end[2];
        uint32_t number;

        assert_int_equal(pktio_sim_pair(end, &config), 0);
        mute = *end[1]->ops;
        mute.wake_fd = mute_wake_fd;
        mute_answer = answer[i];
        end[1]->ops = &mute;
        far = end[0];
        io = spread_over(end[1], QUEUES, 8);
        assert_int_equal(io->ops->must_poll(io, 0), answer[i] == PKTIO_WAKE_POLL);
        assert_false(io->ops->must_poll(io, 1));
        /* The other queues can wake it nevertheless. */
        sleep_all();
        flow.dmac[5] = 1;
        assert_true(send(io, 1, &flow, 7));
        assert_true(readable(io->ops->wake_fd(io, 0)));
        assert_int_equal(take(io, 0, &number, 1), 0);
        assert_int_equal(take(far, 0, &number, 1), 1);
        close_sim();
    }
}

static void test_refused(void **state)
{
    static const struct pktio_spread_config bad[] = {
        {.queues = 0},
        {.queues = SPREAD_QUEUES_MAX + 1},
        {.queues = 2, .slots = SPREAD_SLOTS_MAX + 1},
    };
    struct pktio_sim_config config = {0};
    struct pktio *end[2];
    char error[128];

    assert_int_equal(pktio_sim_pair(end, &config), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        error[0] = 0;
        assert_null(pktio_spread_open(end[0], &bad[i], error, sizeof(error)));
        assert_true(error[0]);
    }
    end[0]->ops->close(end[0]);
    end[1]->ops->close(end[1]);
}

/* ---- threads ---- */

#define FRAMES 4000u /* each way */

static _Atomic unsigned received, sent_back;
static uint8_t seen[FRAMES]; /* each written by its flow's queue alone */

/* The other end: sends over all flows, and receives frames in each queue's order. */
static void *peer(void *arg)
{
    uint32_t number[FRAME_BURST], next[QUEUES] = {0};
    unsigned n, i = 0, back = 0;

    while (i < FRAMES || back < FRAMES) {
        struct roce_flow flow = roce_flow_number(i % FLOWS, false);

        /* As many in flight as the smallest ring holds: none is dropped. */
        if (i < FRAMES && i - received < 32 && send(far, 0, &flow, i))
            i++;
        n = take(far, 0, number, FRAME_BURST);
        for (unsigned k = 0; k < n; k++)
            assert_int_equal(number[k] & 0xFFFFFF, next[number[k] >> 24]++);
        back += n;
        if (!n)
            sched_yield();
    }
    atomic_store(&sent_back, back);
    return NULL;
}

/* A worker: receives frames and sends as many; sleeps on the descriptor when idle. Queue 0's runs
 * until all have finished. */
static void *worker(void *arg)
{
    unsigned queue = (unsigned)(uintptr_t)arg;
    struct pollfd p = {.fd = io->ops->wake_fd(io, queue), .events = POLLIN};
    struct roce_flow flow = roce_flow_number(queue, false);
    uint32_t number[FRAME_BURST], mine = 0, owed = 0;

    flow.dmac[5] = 1;
    while (received < FRAMES || owed || (!queue && !atomic_load(&sent_back))) {
        unsigned n = take(io, queue, number, FRAME_BURST);

        for (unsigned i = 0; i < n; i++)
            seen[number[i]]++;
        received += n;
        owed += n;
        while (owed && send(io, queue, &flow, queue << 24 | mine)) {
            owed--;
            mine++;
        }
        if (owed)
            sched_yield();
        else if (!n && io->ops->wake_arm(io, queue))
            poll(&p, 1, 20); /* or all have finished */
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t thread[QUEUES + 1];

    open_sim((struct pktio_sim_config){.slots = 64}, 32);
    received = sent_back = 0;
    memset(seen, 0, sizeof(seen));
    for (uintptr_t i = 0; i < QUEUES; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, worker, (void *)i), 0);
    assert_int_equal(pthread_create(&thread[QUEUES], NULL, peer, NULL), 0);
    for (unsigned i = 0; i <= QUEUES; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (unsigned i = 0; i < FRAMES; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(sent_back, FRAMES);
    close_sim();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rss),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_sending),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_full_sending),
        cmocka_unit_test(test_unused),
        cmocka_unit_test(test_full_receiving),
        cmocka_unit_test(test_own_mac),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_flows),
        cmocka_unit_test(test_many_flows),
        cmocka_unit_test(test_flows_that_go),
        cmocka_unit_test(test_several_below),
        cmocka_unit_test(test_waking),
        cmocka_unit_test(test_ports_that_do_not_wake),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
