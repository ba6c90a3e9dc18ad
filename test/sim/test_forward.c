/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several engines of one device: frames that arrive at the wrong one, and queue pairs that migrate
 * with their pending work.
 */
#include "rules.h"

#define COUNT(part_, field) counter_get(&engine_counters((part_)->engine)->field)
#define SUM(part_, field)   counter_sum(engine_counters((part_)->engine)->field, QOS_PRIORITIES)
#define LATER               (20 * NS_PER_US)

/* Both at engine 0 of their nodes; frames arrive as configured. */
static struct rules start(const struct kit_config *config, const struct kit_rc *rc)
{
    struct kit_config c = *config;

    c.seed = 1;
    c.log = true;
    return rules_start_on(kit_create(&c), rc);
}

static struct rules start_pair(unsigned engines, const struct kit_rc *rc)
{
    return start(&(struct kit_config){.engines = engines, .arrival = KIT_AT_OWNER}, rc);
}

static struct kit_engine *part(struct rules *t, unsigned node, unsigned engine)
{
    return &t->k->node[node].part[engine];
}

static void arrive_at(struct rules *t, unsigned node, unsigned engine)
{
    t->k->node[node].arrival = part(t, node, engine);
}

static void moves(struct kit_qp *qp, unsigned to)
{
    assert_true(kit_move(qp, to));
    assert_int_equal(kit_engine_of(qp)->index, to);
}

/* ---- frames ---- */

static void frames_find_their_engine(void **state)
{
    struct rules t = start_pair(3, NULL);
    struct kit_engine *here = part(&t, 1, 0), *owner = part(&t, 1, 2);

    moves(t.b, 2);
    arrive_at(&t, 1, 0);
    kit_recv(t.b, 9, t.mb, 0, 8 * MTU);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 8 * MTU, NULL, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(completes(t.b->recv_cq, 9, WC_SUCCESS).byte_len, 8 * MTU);
    assert_memory_equal(t.mb->bytes, t.ma->bytes, 8 * MTU);
    assert_int_equal(here->received, 8);
    assert_int_equal(SUM(here, rx_packets), 8);
    assert_int_equal(COUNT(here, rx_forwarded_out), 8);
    assert_int_equal(COUNT(here, rx_delivered), 0);
    assert_int_equal(COUNT(owner, rx_forwarded_in), 8);
    assert_int_equal(COUNT(owner, rx_delivered), 8);
    assert_int_equal(SUM(owner, rx_packets), 0);
    assert_int_equal(SUM(owner, rx_bytes), 0);
    assert_int_equal(COUNT(owner, rx_copies), 0);
    rules_finish(&t);
}

static enum kit_verdict damage(void *ctx, unsigned index, uint8_t *data, uint32_t *len,
                               const struct kit_seen *seen)
{
    data[*len - ICRC_LEN - 1] ^= 1;
    return KIT_PASS;
}

/* Only the owner checks the ICRC, and counts errors. */
static void damaged_frames_are_the_owners(void **state)
{
    struct rules t = start_pair(2, NULL);

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, t.mb, 0);
    t.ab->hook = damage;
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_RETRY_EXC_ERR);
    assert_true(COUNT(part(&t, 1, 1), drop[DROP_bad_icrc]) > 0);
    assert_int_equal(COUNT(part(&t, 1, 0), drop[DROP_bad_icrc]), 0);
    rules_finish(&t);
}

static void refused_frames_are_dropped(void **state)
{
    struct rules t = start_pair(2, NULL);
    struct kit_engine *here = part(&t, 1, 0);
    uint64_t dropped;

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    t.k->config.forward.refuse = 1000;
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 4 * MTU, t.mb, 0);
    run_for(&t, MILLI(3));
    dropped = COUNT(here, drop[DROP_forward_full]);
    assert_int_equal(dropped, here->received);
    assert_true(dropped >= 8); /* and again */
    assert_int_equal(COUNT(here, rx_forwarded_out), 0);
    t.k->config.forward.refuse = 0;
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_memory_equal(t.mb->bytes, t.ma->bytes, 4 * MTU);
    assert_int_equal(COUNT(here, drop[DROP_forward_full]), dropped);
    rules_finish(&t);
}

/* The ring between the engines is short: frames that fit arrive, the others are sent again. */
static void full_queue(void **state)
{
    struct kit_config config = {.engines = 2, .arrival = KIT_AT_OWNER, .forward = {.room = 5}};
    struct rules t = start(&config, &(struct kit_rc){.path_mtu = 1});

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    for (unsigned i = 0; i < 32; i++)
        kit_do(t.a, SQE_WRITE, i, t.ma, 64 * i, 64, t.mb, 64 * i);
    kit_settle(t.k);
    for (unsigned i = 0; i < 32; i++)
        completes(t.a->send_cq, i, WC_SUCCESS);
    assert_memory_equal(t.mb->bytes, t.ma->bytes, 64 * 32);
    assert_true(COUNT(part(&t, 1, 0), drop[DROP_forward_full]) > 0);
    rules_finish(&t);
}

/* A frame that was forwarded to the former owner is forwarded again to the new one. */
static void frames_follow(void **state)
{
    struct kit_config config = {
        .engines = 3, .arrival = KIT_AT_OWNER, .forward = {.delay = 50 * NS_PER_US}};
    struct rules t = start(&config, NULL);

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, t.mb, 0);
    run_for(&t, 3 * NS_PER_US);
    assert_int_equal(COUNT(part(&t, 1, 0), rx_forwarded_out), 1);
    assert_int_equal(COUNT(part(&t, 1, 1), rx_forwarded_in), 0);
    moves(t.b, 2);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(COUNT(part(&t, 1, 1), rx_forwarded_in), 1);
    assert_int_equal(COUNT(part(&t, 1, 1), rx_forwarded_out), 1);
    assert_int_equal(COUNT(part(&t, 1, 2), rx_forwarded_in), 1);
    assert_int_equal(COUNT(part(&t, 1, 2), rx_delivered), 1);
    assert_int_equal(count_of(t.a, retransmits), 0);
    rules_finish(&t);
}

static void frame_of_a_destroyed_queue_pair(void **state)
{
    struct kit_config config = {
        .engines = 2, .arrival = KIT_AT_OWNER, .forward = {.delay = 50 * NS_PER_US}};
    struct rules t = start(&config, &(struct kit_rc){.retry_cnt = KIT_ZERO});

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, t.mb, 0);
    run_for(&t, 3 * NS_PER_US);
    assert_int_equal(part(&t, 1, 1)->handed[0].n, 1);
    kit_qp_destroy(t.b);
    kit_settle(t.k);
    assert_int_equal(COUNT(part(&t, 1, 1), rx_forwarded_in), 1);
    assert_int_equal(COUNT(part(&t, 1, 1), drop[DROP_unknown_qpn]), 1);
    completes(t.a->send_cq, 1, WC_RETRY_EXC_ERR);
    rules_finish(&t);
}

/* Its engine alone removes its timer and its packets. */
static void destroyed_with_work(void **state)
{
    struct rules t = start_pair(3, NULL);

    moves(t.a, 1);
    link_does(t.ab, KIT_DROP);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, t.mb, 0); /* its timer runs */
    run_for(&t, NS_PER_US);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 8, t.mb, 0); /* and it has a packet */
    assert_true(engine_wants_tx(part(&t, 0, 1)->engine));
    kit_qp_destroy(t.a);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(engine_wants_tx(part(&t, 0, i)->engine));
        assert_true(engine_next_timer(part(&t, 0, i)->engine) == NS_NEVER);
    }
    kit_settle(t.k);
    assert_int_equal(t.ab->frames, 1);
    rules_finish(&t);
}

/* Two queue pairs of one port, on two engines: a frame from one to the other is looped back and
 * forwarded. */
static void local_pair(void **state)
{
    struct rules t =
        start(&(struct kit_config){.engines = 2, .arrival = KIT_AT_OWNER, .local = true}, NULL);
    struct kit_node *n = &t.k->node[0];
    struct kit_qp *x = kit_qp_create(n, NULL);
    struct kit_qp *y = kit_qp_create(n, &(struct kit_qp_config){.engine = 1});

    kit_connect(x, y, NULL);
    kit_recv(y, 9, t.ma, 4 * MTU, 4 * MTU);
    kit_do(x, SQE_SEND, 1, t.ma, 0, 4 * MTU, NULL, 0);
    kit_settle(t.k);
    completes(x->send_cq, 1, WC_SUCCESS);
    completes(y->recv_cq, 9, WC_SUCCESS);
    assert_memory_equal(t.ma->bytes, t.ma->bytes + 4 * MTU, 4 * MTU);
    assert_int_equal(COUNT(&n->part[0], rx_forwarded_out), 4);
    assert_true(COUNT(&n->part[1], rx_forwarded_out) > 0); /* acknowledges */
    assert_int_equal(t.ab->frames, 0);
    rules_finish(&t);
}

/* ---- moving with something pending ---- */

/* The time at which a sends its lost request again, and the number of frames sent until then. */
static ns_t time_of_repetition(ns_t move_at, ns_t back_at)
{
    struct rules t = start_pair(2, NULL);
    ns_t at;

    kit_link_lose(t.ab, 1);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, t.mb, 0);
    if (move_at) {
        run_for(&t, move_at);
        moves(t.a, 1);
    }
    if (back_at) {
        run_for(&t, back_at);
        moves(t.a, 0);
    }
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(count_of(t.a, timeouts), 1);
    assert_int_equal(t.ab->frames, 2);
    at = t.ab->log[1].at - t.ab->log[0].at;
    rules_finish(&t);
    return at;
}

static void armed_timer_moves(void **state)
{
    ns_t at = time_of_repetition(0, 0), tick = 33 * NS_PER_US;

    assert_in_range(at, 1048 * NS_PER_US, 1048 * NS_PER_US + 2 * tick);
    assert_in_range(time_of_repetition(NS_PER_US, 0), at - tick, at + tick);
    assert_in_range(time_of_repetition(700 * NS_PER_US, 0), at - tick, at + tick);
    assert_in_range(time_of_repetition(500 * NS_PER_US, 300 * NS_PER_US), at - tick, at + tick);
}

/* No engine owns it when the timer is due: the adopting engine handles the timer late. */
static void timer_is_due_on_the_way(void **state)
{
    struct kit_config config = {
        .engines = 2, .arrival = KIT_AT_OWNER, .forward = {.adopt = MILLI(500)}};
    struct rules t = start(&config, NULL);

    kit_link_lose(t.ab, 1);
    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, t.mb, 0);
    run_for(&t, NS_PER_US);
    moves(t.a, 1);
    assert_non_null(t.a->left);
    run_for(&t, MILLI(2));
    assert_non_null(t.a->left);
    assert_int_equal(t.ab->frames, 1);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(count_of(t.a, timeouts), 1);
    rules_finish(&t);
}

/* An answer to the new engine disarms what the old one had armed. */
static void answered_on_the_way(void **state)
{
    struct kit_config config = {
        .engines = 2, .arrival = KIT_AT_OWNER, .forward = {.adopt = MILLI(500)}};
    struct rules t = start(&config, NULL);

    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 8, t.mb, 0);
    run_for(&t, NS_PER_US);
    moves(t.a, 1);
    run_for(&t, LATER);
    assert_non_null(t.a->left);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    kit_settle(t.k);
    assert_int_equal(count_of(t.a, timeouts), 0);
    assert_int_equal(t.ab->frames, 1);
    rules_finish(&t);
}

static ns_t time_of_rnr_end(bool move)
{
    struct rules t = start_pair(2, &(struct kit_rc){.min_rnr_timer = 14}); /* 1 ms */
    ns_t at;

    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 8, NULL, 0);
    run_for(&t, 100 * NS_PER_US);
    assert_int_equal(count_of(t.a, rnr_nak_rcvd), 1);
    kit_recv(t.b, 9, t.mb, 0, 8);
    if (move) {
        moves(t.a, 1);
        moves(t.b, 1);
    }
    kit_ring(t.a);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.b->recv_cq, 9, WC_SUCCESS);
    assert_int_equal(t.ab->frames, 2);
    assert_int_equal(count_of(t.a, timeouts), 0);
    at = t.ab->log[1].at - t.ba->log[0].at;
    rules_finish(&t);
    return at;
}

static void rnr_wait_moves(void **state)
{
    ns_t at = time_of_rnr_end(false);

    assert_in_range(at, NS_PER_MS, 2 * NS_PER_MS);
    assert_in_range(time_of_rnr_end(true), at - 33 * NS_PER_US, at + 33 * NS_PER_US);
}

static bool four_frames(void *link)
{
    return ((struct kit_link *)link)->frames == 4;
}

/* One engine sent half of the response, the other sends the rest, and no part is sent twice. */
static void read_half_answered(ns_t adopt)
{
    struct kit_config config = {.engines = 2,
                                .arrival = KIT_AT_OWNER,
                                .forward = {.adopt = adopt},
                                .link = {{0}, {.bps = UINT64_C(10000000000)}}};
    struct rules t = start(&config, NULL);

    memset(t.mb->bytes, 0x77, 16 * MTU);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 16 * MTU, t.mb, 0);
    assert_int_equal(kit_run(t.k, four_frames, t.ba, MILLI(1)), KIT_DONE);
    moves(t.b, 1);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_memory_equal(t.ma->bytes, t.mb->bytes, 16 * MTU);
    assert_int_equal(t.ba->frames, 16);
    assert_int_equal(t.ab->frames, 1);
    assert_int_equal(SUM(part(&t, 1, 0), tx_packets), 4);
    assert_int_equal(SUM(part(&t, 1, 1), tx_packets), 12);
    rules_finish(&t);
}

static void read_moves_half_answered(void **state)
{
    read_half_answered(0);
    read_half_answered(LATER);
}

static void write_moves_half_sent(void **state)
{
    struct kit_config config = {
        .engines = 2, .arrival = KIT_AT_OWNER, .link = {{.bps = UINT64_C(10000000000)}}};
    struct rules t = start(&config, NULL);

    kit_do(t.a, SQE_WRITE, 1, t.ma, 0, 16 * MTU, t.mb, 0);
    kit_do(t.a, SQE_WRITE, 2, t.ma, 0, 16 * MTU, t.mb, 16 * MTU);
    assert_int_equal(kit_run(t.k, four_frames, t.ab, MILLI(1)), KIT_DONE);
    moves(t.a, 1);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.a->send_cq, 2, WC_SUCCESS);
    assert_memory_equal(t.mb->bytes, t.ma->bytes, 16 * MTU);
    assert_int_equal(t.ab->frames, 32);
    assert_int_equal(count_of(t.a, retransmits), 0);
    rules_finish(&t);
}

static void post_write(struct rules *t, uint64_t wr_id)
{
    struct sge sge = kit_sge(t->ma, 0, 8);
    struct kit_send wr = {.wr_id = wr_id,
                          .op = SQE_WRITE,
                          .flags = SQE_SIGNALED,
                          .rkey = t->mb->region.key,
                          .remote_addr = kit_va(t->mb, 0),
                          .sge = &sge,
                          .num_sge = 1};

    assert_int_equal(kit_post_send(t->a, &wr), 0);
}

static void flush_goes_on(void **state)
{
    struct rules t = start_pair(2, NULL);

    kit_recv(t.a, 20, t.ma, 0, 8);
    post_write(&t, 1);
    assert_int_equal(kit_modify(t.a, QPS_ERR), 0);
    /* The application must have read the old engine's flush completions, of both queues. */
    assert_false(kit_move(t.a, 1));
    completes(t.a->send_cq, 1, WC_WR_FLUSH_ERR);
    assert_false(kit_move(t.a, 1));
    completes(t.a->recv_cq, 20, WC_WR_FLUSH_ERR);
    post_write(&t, 2);
    post_write(&t, 3);
    moves(t.a, 1);
    completes(t.a->send_cq, 2, WC_WR_FLUSH_ERR);
    completes(t.a->send_cq, 3, WC_WR_FLUSH_ERR);
    completes_nothing(t.a->send_cq);
    kit_recv(t.a, 21, t.ma, 0, 8); /* rings by itself */
    post_write(&t, 4);
    kit_ring(t.a);
    completes(t.a->recv_cq, 21, WC_WR_FLUSH_ERR);
    completes(t.a->send_cq, 4, WC_WR_FLUSH_ERR);
    kit_settle(t.k);
    assert_int_equal(t.ab->frames, 0);
    rules_finish(&t);
}

/* The NAK with the reason has not been sent yet. */
static void nak_moves(void **state)
{
    struct rules t = start_pair(2, NULL);
    uint8_t bytes[KIT_FRAME_ROOM];
    struct frame f = {.data = bytes};
    struct pkt p = {.opcode = RC(OP_WRITE_ONLY),
                    .pkey = PKEY_DEFAULT,
                    .dest_qpn = t.b->qpn,
                    .psn = psn(PSN_A),
                    .ack_req = true,
                    .reth = {.va = 0, .rkey = 0, .len = 8},
                    .payload_len = 8};

    f.len = kit_frame_build(bytes, t.a, &p, "01234567");
    part(&t, 1, 0)->received++;
    engine_rx(part(&t, 1, 0)->engine, &f, 1, t.k->now);
    assert_int_equal(state_of(t.b), QPS_ERR);
    moves(t.b, 1);
    kit_settle(t.k);
    assert_int_equal(t.ba->frames, 1);
    assert_int_equal(kit_link_acks(t.ba, AETH_NAK, NAK_REMOTE_ACCESS), 1);
    rules_finish(&t);
}

/* ---- doorbells ---- */

static void bell_at_the_old_engine(void **state)
{
    struct rules t = start_pair(2, NULL);

    moves(t.a, 1);
    kit_settle(t.k); /* the adopting engine has looked for work */
    post_write(&t, 1);
    engine_doorbell(part(&t, 0, 0)->engine, t.a->qp, t.k->now);
    assert_false(engine_wants_tx(part(&t, 0, 0)->engine));
    assert_false(engine_wants_tx(part(&t, 0, 1)->engine));
    kit_settle(t.k);
    assert_int_equal(t.ab->frames, 0);
    engine_doorbell(part(&t, 0, 1)->engine, t.a->qp, t.k->now);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    rules_finish(&t);
}

/* The adopting engine looks for work: no doorbell of the old engine is lost. */
static void bell_on_the_way(void **state)
{
    struct kit_config config = {.engines = 2, .arrival = KIT_AT_OWNER, .forward = {.adopt = LATER}};
    struct rules t = start(&config, NULL);

    moves(t.a, 1);
    assert_non_null(t.a->left);
    post_write(&t, 1);
    engine_doorbell(part(&t, 0, 0)->engine, t.a->qp, t.k->now);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(SUM(part(&t, 0, 1), tx_packets), 1);
    rules_finish(&t);
}

/* ---- completions ---- */

static void completions_must_be_read(void **state)
{
    struct rules t = start_pair(2, NULL);

    kit_recv(t.b, 9, t.mb, 0, 8);
    kit_do(t.a, SQE_SEND, 1, t.ma, 0, 8, NULL, 0);
    kit_settle(t.k);
    assert_false(kit_move(t.a, 1));
    assert_false(kit_move(t.b, 1));
    assert_int_equal(kit_engine_of(t.a)->index, 0);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    completes(t.b->recv_cq, 9, WC_SUCCESS);
    moves(t.a, 1);
    moves(t.b, 1);
    /* In the other lane now, and not in the one before. */
    kit_recv(t.b, 10, t.mb, 0, 8);
    kit_do(t.a, SQE_SEND, 2, t.ma, 0, 8, NULL, 0);
    kit_settle(t.k);
    assert_true(cq_lane_is_empty(&t.a->send_cq->cq, 0));
    assert_false(cq_lane_is_empty(&t.a->send_cq->cq, 1));
    completes(t.a->send_cq, 2, WC_SUCCESS);
    completes(t.b->recv_cq, 10, WC_SUCCESS);
    rules_finish(&t);
}

/* Its completions are in completion queues of others, which it has no reference to. */
static void xrc_receivers_stay(void **state)
{
    struct rules t = start_pair(2, NULL);
    struct kit_qp *from =
        kit_qp_create(&t.k->node[0], &(struct kit_qp_config){.type = QPT_XRC_SEND});
    struct kit_qp *to =
        kit_qp_create(&t.k->node[1], &(struct kit_qp_config){.type = QPT_XRC_RECV, .xrcd = 1});

    moves(to, 1);
    kit_connect(from, to, NULL);
    assert_false(kit_move(to, 0));
    moves(from, 1);
    rules_finish(&t);
}

/* ---- misplaced queue pairs ---- */

/* Single packets from a to b; returns how many times b was reported as misplaced. */
static unsigned send_packets(struct rules *t, unsigned n)
{
    while (n) {
        unsigned burst = min_of(n, 64u);
        struct cqe e[64];

        n -= burst;
        for (unsigned i = 0; i < burst; i++)
            post_write(t, i);
        kit_ring(t->a);
        kit_settle(t->k);
        assert_int_equal(kit_poll(t->a->send_cq, e, 64), burst);
    }
    return t->b->misplaced;
}

static void strays_are_told(void **state)
{
    struct rules t = start_pair(2, NULL);

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    assert_int_equal(send_packets(&t, 63), 0);
    assert_int_equal(send_packets(&t, 1), 1);
    assert_int_equal(t.b->misplaced_at, 0);
    for (unsigned distance = 128, told = 2; distance <= 32768; distance *= 2, told++) {
        assert_int_equal(send_packets(&t, distance - 1), told - 1);
        assert_int_equal(send_packets(&t, 1), told);
    }
    /* No further apart than that. */
    assert_int_equal(send_packets(&t, 32767), 10);
    assert_int_equal(send_packets(&t, 1), 11);
    rules_finish(&t);
}

static void packets_that_come_directly_are_no_strays(void **state)
{
    struct rules t = start_pair(3, NULL);

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(send_packets(&t, 63), 0);
        arrive_at(&t, 1, 1);
        if (i % 2) { /* by the general path */
            kit_do(t.a, SQE_FETCH_ADD, 7, t.ma, 0, 8, t.mb, 0);
            kit_settle(t.k);
            completes(t.a->send_cq, 7, WC_SUCCESS);
        }
        assert_int_equal(send_packets(&t, i % 2 ? 0 : 1), 0);
        arrive_at(&t, 1, 0);
    }
    /* Nor those that arrive at different engines. */
    for (unsigned i = 0; i < 3; i++) {
        arrive_at(&t, 1, 2);
        assert_int_equal(send_packets(&t, 63), 0);
        arrive_at(&t, 1, 0);
        assert_int_equal(send_packets(&t, 63), 0);
    }
    assert_int_equal(send_packets(&t, 1), 1);
    /* At its new owner they arrive directly, and the count starts again. */
    send_packets(&t, 100);
    moves(t.b, 0);
    assert_int_equal(send_packets(&t, 200), 1);
    moves(t.b, 2);
    assert_int_equal(send_packets(&t, 127), 1);
    assert_int_equal(send_packets(&t, 1), 2);
    rules_finish(&t);
}

static void a_move_begins_a_new_run(void **state)
{
    struct rules t = start_pair(3, NULL);

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    assert_int_equal(send_packets(&t, 63), 0);
    moves(t.b, 2);
    assert_int_equal(send_packets(&t, 63), 0);
    assert_int_equal(send_packets(&t, 1), 1);
    rules_finish(&t);
}

/* Packets of an earlier connection do not count for the next one. */
static void a_new_connection_strays_anew(void **state)
{
    struct rules t = start_pair(2, NULL);

    moves(t.b, 1);
    arrive_at(&t, 1, 0);
    assert_int_equal(send_packets(&t, 64 + 100), 1);
    assert_int_equal(kit_modify(t.a, QPS_RESET), 0);
    assert_int_equal(kit_modify(t.b, QPS_RESET), 0);
    kit_connect(t.a, t.b, NULL);
    assert_int_equal(send_packets(&t, 63), 1);
    assert_int_equal(send_packets(&t, 1), 2);
    rules_finish(&t);
}

/* Answers are packets of the connection as well. */
static void answers_stray(void **state)
{
    struct rules t = start_pair(2, NULL);

    moves(t.a, 1);
    arrive_at(&t, 0, 0);
    kit_do(t.a, SQE_READ, 1, t.ma, 0, 64 * MTU, t.mb, 0);
    kit_settle(t.k);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    assert_int_equal(t.a->misplaced, 1);
    rules_finish(&t);
}

/* Datagrams arrive at every engine: no owner is right for all of them. */
static void datagrams_are_no_strays(void **state)
{
    struct rules t = start_pair(2, NULL);
    struct kit_qp_config config = {.type = QPT_UD};
    struct kit_qp *from = kit_qp_create(&t.k->node[0], &config), *to;
    uint32_t ah = kit_ah_create(&t.k->node[0], &t.k->node[1], KIT_GID_V4);

    config.engine = 1;
    to = kit_qp_create(&t.k->node[1], &config);
    kit_start_ud(from, 5, 0);
    kit_start_ud(to, 5, 0);
    arrive_at(&t, 1, 0);
    for (unsigned i = 0; i < 200; i++) {
        struct kit_send wr = {.wr_id = i,
                              .op = SQE_SEND,
                              .flags = SQE_SIGNALED,
                              .ud = {.ah = ah, .remote_qpn = to->qpn, .remote_qkey = 5}};

        kit_recv(to, i, t.mb, 0, 64);
        assert_int_equal(kit_post_send(from, &wr), 0);
        kit_ring(from);
        kit_settle(t.k);
        completes(from->send_cq, i, WC_SUCCESS);
        completes(to->recv_cq, i, WC_SUCCESS);
    }
    assert_int_equal(to->misplaced, 0);
    assert_int_equal(COUNT(part(&t, 1, 1), rx_forwarded_in), 200);
    /* It migrates nevertheless. */
    moves(to, 0);
    rules_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_find_their_engine),
        cmocka_unit_test(damaged_frames_are_the_owners),
        cmocka_unit_test(refused_frames_are_dropped),
        cmocka_unit_test(full_queue),
        cmocka_unit_test(frames_follow),
        cmocka_unit_test(frame_of_a_destroyed_queue_pair),
        cmocka_unit_test(destroyed_with_work),
        cmocka_unit_test(local_pair),
        cmocka_unit_test(armed_timer_moves),
        cmocka_unit_test(timer_is_due_on_the_way),
        cmocka_unit_test(answered_on_the_way),
        cmocka_unit_test(rnr_wait_moves),
        cmocka_unit_test(read_moves_half_answered),
        cmocka_unit_test(write_moves_half_sent),
        cmocka_unit_test(flush_goes_on),
        cmocka_unit_test(nak_moves),
        cmocka_unit_test(bell_at_the_old_engine),
        cmocka_unit_test(bell_on_the_way),
        cmocka_unit_test(completions_must_be_read),
        cmocka_unit_test(xrc_receivers_stay),
        cmocka_unit_test(strays_are_told),
        cmocka_unit_test(packets_that_come_directly_are_no_strays),
        cmocka_unit_test(a_move_begins_a_new_run),
        cmocka_unit_test(a_new_connection_strays_anew),
        cmocka_unit_test(answers_stray),
        cmocka_unit_test(datagrams_are_no_strays),
    };

    return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
