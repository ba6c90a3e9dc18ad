/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups whose members are at several engines of a device: the engine that gets a packet
 * serves its own members and forwards a copy to each engine that has others. Three engines at node
 * 0; members 0 at engine 0, 1 and 2 at engine 1.
 */
#include "rules.h"

#define COUNT(part_, field) counter_get(&engine_counters(part_)->field)
#define ENGINES             3
#define MEMBERS             3
#define QKEY                0x1234
#define PLACE               128 /* bytes of a receive buffer */
#define GRH_LEN             40

struct group {
    struct kit *k;
    struct kit_node *n, *outside;
    struct kit_qp *member[MEMBERS], *sender;
    struct kit_mr *from, *outside_from, *to;
    union gid gid;
    uint32_t ah, outside_ah;
    unsigned sent;
    uint64_t forwarded_out[ENGINES], forwarded_in[ENGINES], delivered[ENGINES], copies[ENGINES];
};

static struct kit_qp *make_ud(struct kit_node *n, unsigned engine)
{
    struct kit_qp *qp = kit_qp_create(n, &(struct kit_qp_config){.type = QPT_UD, .engine = engine});

    kit_start_ud(qp, QKEY, 0);
    return qp;
}

static void start(struct group *g)
{
    union gid other_gid = gid_from_ipv4((const uint8_t[]){224, 1, 2, 4});

    *g = (struct group){.gid = gid_from_ipv4((const uint8_t[]){224, 1, 2, 3})};
    g->k =
        kit_create(&(struct kit_config){.seed = 1, .log = true, .engines = ENGINES, .local = true});
    g->n = &g->k->node[0];
    g->outside = &g->k->node[1];
    g->to = kit_mr_create(g->n, MEMBERS * PLACE, MEM_ALL, KIT_MR_DIRECT);
    g->from = kit_mr_create(g->n, 8, MEM_ALL, KIT_MR_DIRECT);
    g->outside_from = kit_mr_create(g->outside, 8, MEM_ALL, KIT_MR_DIRECT);
    g->ah = kit_ah_to_group(g->n, &g->gid, KIT_GID_V4);
    g->outside_ah = kit_ah_to_group(g->outside, &g->gid, KIT_GID_V4);
    for (unsigned i = 0; i < MEMBERS; i++) {
        g->member[i] = make_ud(g->n, i > 0);
        assert_int_equal(kit_join(g->member[i], &g->gid), 0);
    }
    g->sender = make_ud(g->outside, 0);
    /* The undisturbed members. */
    assert_int_equal(kit_join(make_ud(g->n, 2), &other_gid), 0);
}

static void finish(struct group *g)
{
    assert_true(kit_counts_add_up(g->n));
    assert_true(kit_counts_add_up(g->outside));
    assert_true(kit_canaries_intact(g->n));
    kit_destroy(g->k);
}

/* Datagram number g->sent to the group, by a queue pair of either node. */
static void post(struct group *g, struct kit_qp *from)
{
    struct kit_mr *mr = from->node == g->n ? g->from : g->outside_from;
    struct sge sge = kit_sge(mr, 0, 8);
    struct kit_send wr = {
        .wr_id = ++g->sent,
        .op = SQE_SEND,
        .flags = SQE_SIGNALED,
        .ud = {.ah = from->node == g->n ? g->ah : g->outside_ah,
               .remote_qpn = QPN_MULTICAST,
               .remote_qkey = QKEY},
        .sge = &sge,
        .num_sge = 1,
    };

    for (unsigned i = 0; i < MEMBERS; i++)
        if (g->member[i])
            kit_recv(g->member[i], g->sent, g->to, i * PLACE, PLACE);
    memset(mr->bytes, (int)g->sent, 8);
    assert_int_equal(kit_post_send(from, &wr), 0);
    kit_ring(from);
}

static void send(struct group *g, struct kit_qp *from)
{
    post(g, from);
    kit_settle(g->k);
}

static void got_it(struct group *g, const struct kit_qp *from, unsigned i)
{
    const uint8_t *bytes = g->to->bytes + i * PLACE + GRH_LEN;
    struct cqe e = completes(g->member[i]->recv_cq, g->sent, WC_SUCCESS);

    assert_int_equal(e.byte_len, GRH_LEN + 8);
    assert_int_equal(e.src_qpn, from->qpn);
    for (unsigned j = 0; j < 8; j++)
        assert_int_equal(bytes[j], (uint8_t)g->sent);
}

/* Sends one; each member must get exactly one copy. */
static void all_get_it(struct group *g, struct kit_qp *from)
{
    bool own = false;

    send(g, from);
    for (unsigned i = 0; i < MEMBERS; i++)
        if (g->member[i] == from) /* in the order of happening: in one queue */
            own = true;
    if (own)
        completes(from->send_cq, g->sent, WC_SUCCESS);
    for (unsigned i = 0; i < MEMBERS; i++)
        if (g->member[i])
            got_it(g, from, i);
    if (!own)
        completes(from->send_cq, g->sent, WC_SUCCESS);
    for (unsigned i = 0; i < MEMBERS; i++)
        if (g->member[i])
            completes_nothing(g->member[i]->recv_cq);
}

/* What an engine of node 0 has counted since the last call. */
static void counted(struct group *g, unsigned i, uint64_t delivered, uint64_t out, uint64_t in,
                    uint64_t copies)
{
    const struct engine *e = g->n->part[i].engine;

    assert_int_equal(COUNT(e, rx_delivered) - g->delivered[i], delivered);
    assert_int_equal(COUNT(e, rx_forwarded_out) - g->forwarded_out[i], out);
    assert_int_equal(COUNT(e, rx_forwarded_in) - g->forwarded_in[i], in);
    assert_int_equal(COUNT(e, rx_copies) - g->copies[i], copies);
    g->delivered[i] += delivered;
    g->forwarded_out[i] += out;
    g->forwarded_in[i] += in;
    g->copies[i] += copies;
}

static void arrive_at(struct group *g, unsigned engine)
{
    g->n->arrival = &g->n->part[engine];
}

static void one_copy_each(void **state)
{
    struct group g;

    start(&g);
    arrive_at(&g, 0);
    all_get_it(&g, g.sender);
    counted(&g, 0, 1, 1, 0, 1);
    counted(&g, 1, 1, 0, 1, 0);
    counted(&g, 2, 0, 0, 0, 0);
    arrive_at(&g, 1);
    all_get_it(&g, g.sender);
    counted(&g, 0, 1, 0, 1, 0);
    counted(&g, 1, 1, 1, 0, 1);
    counted(&g, 2, 0, 0, 0, 0);
    arrive_at(&g, 2); /* which has no member itself */
    all_get_it(&g, g.sender);
    counted(&g, 0, 1, 0, 1, 0);
    counted(&g, 1, 1, 0, 1, 0);
    counted(&g, 2, 0, 2, 0, 1);
    assert_int_equal(kit_drops(g.n), 0);
    finish(&g);
}

/* The port loops a copy back to the sending engine. */
static void sender_on_the_same_port(void **state)
{
    struct group g;

    start(&g);
    for (unsigned i = 0; i < ENGINES; i++)
        all_get_it(&g, make_ud(g.n, i));
    for (unsigned i = 0; i < MEMBERS; i++)
        all_get_it(&g, g.member[i]);
    assert_int_equal(kit_drops(g.n), 0);
    assert_int_equal(g.k->link[0].frames, ENGINES + MEMBERS);
    finish(&g);
}

static void all_at_one_engine(void **state)
{
    struct group g;

    start(&g);
    arrive_at(&g, 1);
    assert_true(kit_move(g.member[0], 1));
    all_get_it(&g, g.sender);
    counted(&g, 0, 0, 0, 0, 0);
    counted(&g, 1, 1, 0, 0, 0);
    arrive_at(&g, 0);
    all_get_it(&g, g.sender);
    counted(&g, 0, 0, 1, 0, 0);
    counted(&g, 1, 1, 0, 1, 0);
    finish(&g);
}

static void members_move(void **state)
{
    struct group g;

    start(&g);
    for (unsigned i = 0; i < 27; i++) {
        for (unsigned m = 0, places = i; m < MEMBERS; m++, places /= ENGINES)
            assert_true(kit_move(g.member[m], places % ENGINES));
        for (unsigned at = 0; at < ENGINES; at++) {
            arrive_at(&g, at);
            all_get_it(&g, g.sender);
        }
        all_get_it(&g, g.member[i % MEMBERS]);
    }
    assert_int_equal(kit_drops(g.n), 0);
    finish(&g);
}

static void members_leave(void **state)
{
    struct group g;

    start(&g);
    arrive_at(&g, 2);
    assert_int_equal(kit_leave(g.member[1], &g.gid), 0);
    assert_int_equal(kit_leave(g.member[1], &g.gid), -ENOENT);
    send(&g, g.sender);
    got_it(&g, g.sender, 0);
    completes_nothing(g.member[1]->recv_cq);
    got_it(&g, g.sender, 2);
    counted(&g, 1, 1, 0, 1, 0);
    kit_qp_destroy(g.member[2]);
    g.member[2] = NULL;
    send(&g, g.sender);
    got_it(&g, g.sender, 0);
    completes_nothing(g.member[1]->recv_cq);
    counted(&g, 0, 2, 0, 2, 0);
    counted(&g, 1, 0, 0, 0, 0);
    counted(&g, 2, 0, 3, 0, 1);
    kit_qp_destroy(g.member[0]);
    g.member[0] = NULL;
    send(&g, g.sender);
    counted(&g, 2, 0, 0, 0, 0);
    assert_int_equal(COUNT(g.n->part[2].engine, drop[DROP_unknown_qpn]), 1);
    finish(&g);
}

/*
 * Copies in flight between the engines while a member migrates: the member misses that packet if it
 * leaves before the copy arrives, and gets it twice if it follows the copy. Datagrams permit both;
 * the counters still add up.
 */
static void copies_under_way_while_a_member_moves(void **state)
{
    struct group g;

    start(&g);
    g.k->config.forward.delay = NS_PER_MS;
    arrive_at(&g, 0);
    post(&g, g.sender);
    kit_run(g.k, NULL, NULL, 3 * NS_PER_US);
    assert_int_equal(g.n->part[1].handed[0].n, 1);
    got_it(&g, g.sender, 0);
    assert_true(kit_move(g.member[0], 1));
    assert_true(kit_move(g.member[1], 0));
    kit_recv(g.member[0], g.sent, g.to, 0, PLACE);
    kit_settle(g.k);
    got_it(&g, g.sender, 0);
    completes_nothing(g.member[1]->recv_cq);
    got_it(&g, g.sender, 2);
    counted(&g, 0, 1, 1, 0, 1);
    counted(&g, 1, 1, 0, 1, 0);
    finish(&g);
}

/* All members have left: the copy counts as delivered, without a receiver. */
static void copy_for_nobody(void **state)
{
    struct group g;

    start(&g);
    g.k->config.forward.delay = NS_PER_MS;
    arrive_at(&g, 2);
    post(&g, g.sender);
    kit_run(g.k, NULL, NULL, 3 * NS_PER_US);
    assert_int_equal(g.n->part[1].handed[2].n, 1);
    for (unsigned i = 1; i < MEMBERS; i++)
        assert_true(kit_move(g.member[i], 2));
    kit_settle(g.k);
    got_it(&g, g.sender, 0);
    for (unsigned i = 1; i < MEMBERS; i++)
        completes_nothing(g.member[i]->recv_cq);
    counted(&g, 1, 1, 0, 1, 0);
    counted(&g, 2, 0, 2, 0, 1);
    finish(&g);
}

static void refused_copies_are_dropped(void **state)
{
    struct group g;

    start(&g);
    g.k->config.forward.refuse = 1000;
    arrive_at(&g, 0);
    send(&g, g.sender);
    got_it(&g, g.sender, 0);
    completes_nothing(g.member[1]->recv_cq);
    counted(&g, 0, 1, 0, 0, 1);
    assert_int_equal(COUNT(g.n->part[0].engine, drop[DROP_forward_full]), 1);
    arrive_at(&g, 2);
    send(&g, g.sender);
    counted(&g, 2, 0, 0, 0, 1);
    assert_int_equal(COUNT(g.n->part[2].engine, drop[DROP_forward_full]), 2);
    finish(&g);
}

static enum kit_verdict damage(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                               const struct kit_seen *seen)
{
    data[*len - ICRC_LEN - 1] ^= 1;
    return KIT_PASS;
}

/* No other engine gets a copy. */
static void damaged_packets_go_nowhere(void **state)
{
    struct group g;

    start(&g);
    arrive_at(&g, 2);
    g.k->link[1].hook = damage;
    send(&g, g.sender);
    counted(&g, 2, 0, 0, 0, 0);
    assert_int_equal(COUNT(g.n->part[2].engine, drop[DROP_bad_icrc]), 1);
    finish(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_copy_each),
        cmocka_unit_test(sender_on_the_same_port),
        cmocka_unit_test(all_at_one_engine),
        cmocka_unit_test(members_move),
        cmocka_unit_test(members_leave),
        cmocka_unit_test(copies_under_way_while_a_member_moves),
        cmocka_unit_test(copy_for_nobody),
        cmocka_unit_test(refused_copies_are_dropped),
        cmocka_unit_test(damaged_packets_go_nowhere),
    };

    return cmocka_run_group_tests_name("forward_mcast", tests, NULL, NULL);
}
