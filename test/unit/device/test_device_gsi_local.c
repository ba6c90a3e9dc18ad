/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of queue pair 1 that stay within the control thread, and those that others may see. */
#include <string.h>

#include "frame_ring.h"
#include "mad.h"
#include "net/gsi.h"
#include "sides.h"
#include "unit.h"

/* A port whose frames have no ICRC, since no other sees them. */
static int setup(void **state)
{
    struct sides *t;

    sides_setup(state);
    t = *state;
    t->r->device[0]->info.no_icrc = true;
    return 0;
}

/* All that the control thread does; no worker runs. */
static void run_alone(struct sides *t)
{
    while (event_loop_step(t->loop, 0)) {
    }
}

static bool worker_has_frames(const struct sides *t)
{
    return !frame_ring_empty(t->r->device[0]->net.slow.down);
}

/* A whole connection without a worker. */
static void test_inside(void **state)
{
    struct sides *t = *state;
    const struct gsi *g = &t->r->device[0]->gsi;
    uint32_t id, other;

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");
    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, "ping"), 0);
    side_no_event(&t->b); /* not within the call */
    run_alone(t);
    other = side_event(&t->b, CTL_CM_CONNECT_REQUEST).id;
    assert_int_equal(side_call(&t->b, CTL_CM_ACCEPT, other, 0x222, "pong"), 0);
    run_alone(t);
    assert_int_equal(side_event(&t->a, CTL_CM_CONNECT_RESPONSE).conn.qpn, 0x222);
    assert_int_equal(side_call(&t->a, CTL_CM_ESTABLISH, id, 0, ""), 0);
    run_alone(t);
    side_event(&t->b, CTL_CM_ESTABLISHED);
    assert_int_equal(side_call(&t->a, CTL_CM_DISCONNECT, id, 0, ""), 0);
    run_alone(t);
    side_event(&t->b, CTL_CM_DISCONNECTED);
    assert_int_equal(g->tx, 4);
    assert_int_equal(g->rx, 4);
    assert_int_equal(g->rx_bad, 0);
    assert_false(worker_has_frames(t));
}

static void send_request(struct sides *t, uint32_t qpn)
{
    uint32_t id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");

    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, qpn, ""), 0);
    run_alone(t);
}

/* A rule may be that of a sniffer; a frame with an ICRC may be captured. The port carries it. */
static void test_seen(void **state)
{
    struct sides *t = *state;
    struct device *d = t->r->device[0];

    side_listener(&t->b, IP_CM_PS_TCP, "0.0.0.0", 5);
    d->flow_count = 1;
    send_request(t, 0x111);
    d->flow_count = 0;
    assert_true(worker_has_frames(t));
    side_no_event(&t->b);
    sides_run(t);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
    d->info.no_icrc = false;
    send_request(t, 0x112);
    assert_true(worker_has_frames(t));
    sides_run(t);
    side_event(&t->b, CTL_CM_CONNECT_REQUEST);
}

/* No more wait there than in the ring to the worker; others wait for room, and then follow. */
static void test_room(void **state)
{
    struct sides *t = *state;
    struct device *d = t->r->device[0];
    struct cm_path path = {.port_num = 1, .vlan = VLAN_NONE, .gid_type = GID_TYPE_ROCE_V2};

    while (!d->gids.entry[path.sgid_index].valid ||
           d->gids.entry[path.sgid_index].type != GID_TYPE_ROCE_V2)
        path.sgid_index++;
    path.sgid = path.dgid = d->gids.entry[path.sgid_index].gid;
    for (unsigned i = 0; i < FRAME_RING_SLOTS + 3; i++)
        gsi_send(d, &path, (const uint8_t[MAD_LEN]){0});
    assert_int_equal(d->gsi.local_count, FRAME_RING_SLOTS);
    assert_true(d->gsi.is_full);
    assert_int_equal(d->gsi.waiting_count, 3);
    run_alone(t);
    assert_false(d->gsi.is_full);
    assert_int_equal(d->gsi.waiting_count, 0);
    assert_int_equal(d->gsi.rx, 2 * (FRAME_RING_SLOTS + 3)); /* each has an answer */
}

/* The device ends with frames on their way: as of a leak checker. */
static void test_end(void **state)
{
    struct sides *t = *state;
    uint32_t id = side_resolved(t, &t->a, IP_CM_PS_TCP, "127.0.0.1");

    assert_int_equal(side_call(&t->a, CTL_CM_CONNECT, id, 0x111, ""), 0);
    assert_int_equal(t->r->device[0]->gsi.local_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_inside, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_seen, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, sides_teardown),
    };

    return cmocka_run_group_tests_name("device_gsi_local", tests, NULL, NULL);
}
