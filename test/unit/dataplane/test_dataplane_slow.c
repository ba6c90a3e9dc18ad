/* SPDX-License-Identifier: BSD-3-Clause */
/* The slow path's rings and its choice of frames. */
#include <string.h>
#include <unistd.h>

#include "frame_layout.h"
#include "slow_path.h"
#include "unit.h"
#include "worker.h"

/* Passes a frame up as a worker does; returns whether it was accepted. */
static bool up(struct slow_path *s, const struct frame *f)
{
    if (!slow_path_wants(s, f))
        return false;
    slow_path_up(s, f);
    return true;
}

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};

static void test_ring_in_order(void **state)
{
    struct frame_ring *r = frame_ring_create();
    uint8_t bytes[FRAME_RING_ROOM] = {0};
    uint32_t len;

    assert_non_null(r);
    /* More than once around, never more than half full. */
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < FRAME_RING_SLOTS / 2; i++) {
            bytes[0] = (uint8_t)i;
            bytes[59 + i] = (uint8_t)(round + 1);
            assert_true(frame_ring_put(r, bytes, 60 + i));
        }
        for (unsigned i = 0; i < FRAME_RING_SLOTS / 2; i++) {
            const uint8_t *f = frame_ring_peek(r, &len);

            assert_non_null(f);
            assert_int_equal(len, 60 + i);
            assert_int_equal(f[0], (uint8_t)i);
            assert_int_equal(f[59 + i], round + 1);
            frame_ring_pop(r);
        }
        assert_true(frame_ring_empty(r));
    }
    frame_ring_destroy(r);
}

static void test_ring_bounds(void **state)
{
    static uint8_t bytes[FRAME_RING_ROOM + 1];
    struct frame_ring *r = frame_ring_create();
    uint32_t len;

    assert_null(frame_ring_peek(r, &len));
    assert_false(frame_ring_put(r, bytes, FRAME_RING_ROOM + 1));
    assert_true(frame_ring_empty(r));
    for (unsigned i = 0; i < FRAME_RING_SLOTS; i++)
        assert_true(frame_ring_put(r, bytes, FRAME_RING_ROOM));
    assert_false(frame_ring_put(r, bytes, 1));
    frame_ring_pop(r);
    assert_true(frame_ring_put(r, bytes, 1));
    frame_ring_destroy(r);
}

/* An Ethernet frame of 60 bytes with this type and, where the protocol is, this byte. */
static struct frame frame_of(uint8_t *bytes, unsigned type, unsigned at, unsigned protocol)
{
    memset(bytes, 0, 60);
    memset(bytes, 0xFF, 6);
    bytes[ETH_SMAC_OFF] = 2;
    bytes[ETH_SMAC_OFF + 5] = 9;
    put_be16(bytes + ETH_TYPE_OFF, (uint16_t)type);
    bytes[at] = (uint8_t)protocol;
    return (struct frame){.data = bytes, .len = 60};
}

#define PROTO4 (ETH_LEN + IPV4_PROTO_OFF)
#define PROTO6 (ETH_LEN + IPV6_NEXT_OFF)

static void test_what_the_host_wants(void **state)
{
    static const struct {
        unsigned type, at, protocol;
        bool wanted;
    } row[] = {
        {0x0806, ETH_LEN + ARP_OP_OFF, 0, true},
        {ETHERTYPE_IPV4, PROTO4, 1, true},
        {ETHERTYPE_IPV4, PROTO4, 2, true},
        {ETHERTYPE_IPV4, PROTO4, 6, false},
        {ETHERTYPE_IPV4, PROTO4, 17, false},
        {ETHERTYPE_IPV6, PROTO6, 58, true},
        {ETHERTYPE_IPV6, PROTO6, 0, true},
        {ETHERTYPE_IPV6, PROTO6, 6, false},
        {0x88CC, ETH_LEN, 0, false},
    };
    struct slow_path s, all;
    uint8_t bytes[64];

    assert_int_equal(slow_path_init(&s, our_mac, SLOW_PATH_IP_HOST), 0);
    assert_int_equal(slow_path_init(&all, our_mac, SLOW_PATH_ALL), 0);
    for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct frame f = frame_of(bytes, row[i].type, row[i].at, row[i].protocol);

        assert_int_equal(up(&s, &f), row[i].wanted);
        assert_true(up(&all, &f));
        /* The same behind a tag. */
        memmove(bytes + TAG_TYPE_OFF, bytes + ETH_TYPE_OFF, 44);
        memcpy(bytes + ETH_TYPE_OFF, (uint8_t[4]){0x81, 0, 0, 5}, 4);
        assert_int_equal(up(&s, &f), row[i].wanted);
    }
    slow_path_fini(&s);
    slow_path_fini(&all);
}

static void test_cut_short(void **state)
{
    struct slow_path s;
    uint8_t bytes[64];
    struct frame f = frame_of(bytes, ETHERTYPE_IPV6, PROTO6, 58);

    assert_int_equal(slow_path_init(&s, our_mac, SLOW_PATH_IP_HOST), 0);
    f.len = 20;
    assert_false(up(&s, &f));
    f.len = 13;
    assert_false(up(&s, &f));
    f = frame_of(bytes, 0x8100, 16, 8);
    f.len = 17;
    assert_false(up(&s, &f));
    slow_path_fini(&s);
}

static void test_own_frames_stay(void **state)
{
    struct slow_path s;
    uint8_t bytes[64];
    struct frame f = frame_of(bytes, 0x0806, 20, 0);

    assert_int_equal(slow_path_init(&s, our_mac, SLOW_PATH_ALL), 0);
    memcpy(bytes + 6, our_mac, 6);
    assert_false(up(&s, &f));
    slow_path_fini(&s);
}

static void test_one_event_a_burst(void **state)
{
    struct slow_path s;
    uint8_t bytes[64];
    uint64_t count = 0;
    struct frame f = frame_of(bytes, 0x0806, 20, 0);

    assert_int_equal(slow_path_init(&s, our_mac, SLOW_PATH_IP_HOST), 0);
    slow_path_notify(&s);
    assert_int_equal(read(s.event_fd, &count, sizeof(count)), -1);
    assert_true(up(&s, &f));
    assert_true(up(&s, &f));
    slow_path_notify(&s);
    slow_path_notify(&s);
    assert_int_equal(read(s.event_fd, &count, sizeof(count)), sizeof(count));
    assert_int_equal(count, 1);
    assert_int_equal(counter_get(&s.up_frames), 2);
    slow_path_fini(&s);
}

static void test_full_is_lost_and_counted(void **state)
{
    struct slow_path s;
    uint8_t bytes[64];
    struct frame f = frame_of(bytes, 0x0806, 20, 0);

    assert_int_equal(slow_path_init(&s, our_mac, SLOW_PATH_IP_HOST), 0);
    for (unsigned i = 0; i < FRAME_RING_SLOTS + 3; i++) {
        assert_true(up(&s, &f));
        slow_path_down(&s, bytes, 60);
    }
    assert_int_equal(counter_get(&s.up_frames), FRAME_RING_SLOTS);
    assert_int_equal(counter_get(&s.up_lost), 3);
    assert_int_equal(s.down_lost, 3);
    slow_path_fini(&s);
}

/* ---- a port that is full ---- */

static bool room;
static unsigned sent;

static int no_wake(struct pktio *io, unsigned queue)
{
    return PKTIO_WAKE_NEVER;
}

static unsigned receive_nothing(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    return 0;
}

static unsigned lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    static uint8_t bytes[FRAME_RING_ROOM];

    f[0] = (struct frame){.data = bytes, .room = sizeof(bytes)};
    return room;
}

static void count_sent(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used)
{
    sent += used;
}

/* Waiting for room is no work: the worker may sleep until there is some. */
static void test_full_port(void **state)
{
    static const struct pktio_ops ops = {
        .wake_fd = no_wake, .rx_burst = receive_nothing, .tx_lend = lend, .tx_burst = count_sent};
    struct pktio io = {.ops = &ops};
    struct worker_group group = {.notify_fd = -1};
    struct worker *w = worker_create(&(struct worker_config){.group = &group});
    struct worker_port *port = worker_add_port(w, &io, 0, NULL);
    struct slow_path s;
    uint8_t bytes[64] = {0};

    assert_non_null(port);
    port->engine = engine_create(&(struct engine_config){.host = worker_host(port)});
    assert_non_null(port->engine);
    assert_int_equal(slow_path_init(&s, our_mac, SLOW_PATH_IP_HOST), 0);
    port->slow = &s;
    slow_path_down(&s, bytes, 60);
    slow_path_down(&s, bytes, 60);
    room = false;
    assert_false(worker_poll(w, worker_time()));
    assert_true(port->tx_full);
    room = true;
    assert_true(worker_poll(w, worker_time()));
    assert_false(port->tx_full);
    assert_int_equal(sent, 2);
    engine_destroy(port->engine);
    worker_destroy(w);
    slow_path_fini(&s);
}

/* ---- a worker that another one waits for ---- */

static unsigned asked[2]; /* lengths of bursts: none, and some */

static unsigned receive_arp(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    static uint8_t bytes[1500] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, [12] = 8, [13] = 6};

    if (!queue)
        return 0;
    asked[n > 0]++;
    for (unsigned i = 0; i < n; i++)
        f[i] = (struct frame){.data = bytes, .len = sizeof(bytes)};
    return n;
}

static void keep(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
}

/* Frames wait at a port because the worker to forward them to is behind; the port is polled
 * nevertheless, as it may have something to send. */
static void test_behind(void **state)
{
    static const struct pktio_ops ops = {.wake_fd = no_wake,
                                         .rx_burst = receive_arp,
                                         .rx_release = keep,
                                         .tx_lend = lend,
                                         .tx_burst = count_sent};
    struct pktio io = {.ops = &ops};
    struct worker_group group = {.notify_fd = -1};
    struct gid_table gids = {0};
    struct encap_port net = {.gids = &gids};
    struct worker_port *port[2] = {NULL};
    struct qp_table *qps = qp_table_create(NULL);
    struct worker *w[2];
    struct slow_path s;

    memcpy(net.mac, our_mac, sizeof(our_mac));
    for (unsigned i = 0; i < 2; i++) {
        w[i] = worker_create(&(struct worker_config){.index = i, .group = &group});
        port[i] = worker_add_port(w[i], &io, i, port[0]);
        assert_non_null(port[i]);
        port[i]->engine = engine_create(&(struct engine_config){
            .port = &net, .qps = qps, .host = worker_host(port[i]), .lane = i});
        assert_non_null(port[i]->engine);
    }
    assert_int_equal(worker_group_connect(&group), 0);
    assert_int_equal(slow_path_init(&s, our_mac, SLOW_PATH_IP_HOST), 0);
    port[0]->slow = &s;
    for (unsigned i = 0; i < 40; i++)
        worker_poll(w[1], NS_PER_SEC);
    assert_in_range(asked[1], 2, 20);
    assert_int_equal(asked[0] + asked[1], 40);
    assert_int_equal(counter_get(&engine_counters(port[1]->engine)->drop[DROP_forward_full]), 0);
    while (worker_poll(w[0], NS_PER_SEC))
        ;
    asked[0] = asked[1] = 0;
    worker_poll(w[1], NS_PER_SEC);
    assert_int_equal(asked[1], 1);
    for (unsigned i = 0; i < 2; i++)
        engine_destroy(port[i]->engine);
    worker_group_fini(&group);
    for (unsigned i = 0; i < 2; i++)
        worker_destroy(w[i]);
    qp_table_destroy(qps);
    slow_path_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_in_order),
        cmocka_unit_test(test_ring_bounds),
        cmocka_unit_test(test_what_the_host_wants),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_own_frames_stay),
        cmocka_unit_test(test_one_event_a_burst),
        cmocka_unit_test(test_full_is_lost_and_counted),
        cmocka_unit_test(test_full_port),
        cmocka_unit_test(test_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
