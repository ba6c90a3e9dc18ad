/* SPDX-License-Identifier: BSD-3-Clause */
/* Trimmed frames of every length, of many queue pairs without a store, and of other engines. */
#include <stdlib.h>
#include <string.h>

#include "encap_layout.h"
#include "engine_private.h"
#include "frame_trim.h"
#include "kit.h"
#include "unit.h"

#define DSCP    50
#define PSN     200
#define LEN     256
#define WATCHES LOSS_WATCHES

static struct kit *k;
static ns_t now;

static void begin(const struct kit_config *config)
{
    k = kit_create(config);
    now = k->now;
}

static struct kit_qp *make_pair(struct kit_qp **peer)
{
    const struct kit_rc rc = {.psn = {PSN, 100}};
    struct kit_qp *a, *b;

    kit_pair_rc(k, &a, &b, &rc);
    *peer = a;
    return b;
}

/* A WRITE of the peer for a region that does not exist: nothing of it may be looked at. */
static uint32_t make_frame(uint8_t *out, const struct kit_qp *peer, const struct kit_qp *qp,
                           uint8_t op, uint32_t at)
{
    static const uint8_t payload[LEN];
    const struct pkt p = {.opcode = OPCODE(PKT_RC, op),
                          .pkey = PKEY_DEFAULT,
                          .dest_qpn = qp->qpn,
                          .psn = psn(at),
                          .payload_len = LEN};

    return kit_frame_build(out, peer, &p, payload);
}

/* The frame is exactly as long as it says, so that a sanitizer reports a read beyond it. */
static void receive(struct engine *e, const uint8_t *data, uint32_t len)
{
    uint8_t *copy = malloc(len + !len);
    struct frame f = {.data = copy, .len = len};

    assert_non_null(copy);
    memcpy(copy, data, len);
    engine_rx(e, &f, 1, now);
    free(copy);
}

static uint64_t drops(const struct engine *e, enum drop reason)
{
    return counter_get(&engine_counters(e)->drop[reason]);
}

/* The frames that an engine sends now; *first: of these the first packet. */
static unsigned sent(struct engine *e, struct pkt *first)
{
    static uint8_t bytes[FRAME_BURST][KIT_FRAME_ROOM];
    struct frame f[FRAME_BURST];
    struct encap_view v;
    const struct encap_port any = {.promiscuous = true};
    unsigned n;

    for (unsigned i = 0; i < FRAME_BURST; i++)
        f[i] = (struct frame){.data = bytes[i], .room = KIT_FRAME_ROOM};
    n = engine_tx(e, f, FRAME_BURST, now);
    if (n) {
        assert_int_equal(encap_rx(&v, f[0].data, f[0].len, &any), DROP_NONE);
        assert_int_equal(pkt_parse(first, v.bth, v.bth_len), DROP_NONE);
    }
    return n;
}

static bool is_nak(const struct pkt *p, uint32_t at)
{
    return p->opcode == OPCODE(PKT_RC, OP_ACK) && p->psn.v == at &&
           p->aeth.syndrome == (AETH_NAK | NAK_PSN_SEQUENCE);
}

static void trim_one(const struct kit_qp *peer, const struct kit_qp *qp, uint32_t at)
{
    uint8_t frame[KIT_FRAME_ROOM];
    uint32_t len = make_frame(frame, peer, qp, OP_WRITE_MIDDLE, at);

    receive(qp->node->engine, frame, frame_trim(frame, len, DSCP));
}

/* A frame with the code point that was cut anywhere: with its headers it is answered, without them
 * it is a cut one, and either way it is counted once. */
static void test_every_length(void **state)
{
    static const uint8_t ops[] = {OP_WRITE_FIRST, OP_WRITE_LAST_IMM, OP_WRITE_ONLY, OP_SEND_MIDDLE};

    for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
        uint32_t headers =
            ETH_LEN + IPV4_LEN + UDP_LEN + opcode_table[OPCODE(PKT_RC, ops[i])].header_len;
        uint8_t frame[KIT_FRAME_ROOM];
        struct kit_qp *a, *b;
        uint32_t whole;
        struct engine *e;

        begin(&(struct kit_config){.seed = 1, .trim = DSCP});
        b = make_pair(&a);
        e = b->node->engine;
        whole = make_frame(frame, a, b, ops[i], PSN);
        frame[ETH_LEN + 1] = DSCP << 2;
        put_be16(frame + ETH_LEN + 10, 0);
        put_be16(frame + ETH_LEN + 10, (uint16_t)~ipv4_sum(frame + ETH_LEN));
        for (uint32_t len = 0; len < whole; len++) {
            uint64_t before = drops(e, DROP_trimmed), all = kit_drops(b->node);
            struct pkt p;
            unsigned n;

            receive(e, frame, len);
            n = sent(e, &p);
            assert_int_equal(n, len >= headers);
            assert_true(!n || is_nak(&p, PSN));
            assert_int_equal(drops(e, DROP_trimmed) - before, n);
            assert_int_equal(kit_drops(b->node) - all, 1);
        }
        assert_int_equal(counter_get(&engine_counters(e)->rx_delivered), 0);
        assert_int_equal(b->qp->state, QPS_RTS);
        assert_true(kit_canaries_intact(b->node));
        kit_destroy(k);
    }
}

/* The queue pairs that are watched are told of, as many as there is room for. One that ends leaves
 * its watch to others, and so does one that does not come to its loss. */
static void test_watches(void **state)
{
    static struct kit_qp *a[WATCHES + 2], *b[WATCHES + 2];
    uint8_t frame[KIT_FRAME_ROOM];
    unsigned told = 0;
    struct engine *e;
    struct pkt p;

    begin(&(struct kit_config){.seed = 1, .trim = DSCP});
    for (unsigned i = 0; i < ARRAY_SIZE(b); i++)
        b[i] = make_pair(&a[i]);
    e = b[0]->node->engine;
    for (unsigned i = 0; i < ARRAY_SIZE(b); i++)
        trim_one(a[i], b[i], PSN + 1);
    assert_int_equal(sent(e, &p), 0);
    kit_qp_destroy(b[0]);
    trim_one(a[WATCHES], b[WATCHES], PSN + 1); /* in its place */
    for (unsigned i = 1; i < ARRAY_SIZE(b); i++) {
        const struct pkt write = {.opcode = OPCODE(PKT_RC, OP_WRITE_ONLY),
                                  .pkey = PKEY_DEFAULT,
                                  .dest_qpn = b[i]->qpn,
                                  .psn = psn(PSN)};

        receive(e, frame, kit_frame_build(frame, a[i], &write, NULL));
        if (!sent(e, &p))
            continue;
        assert_true(is_nak(&p, PSN + 1));
        told++;
    }
    assert_int_equal(told, WATCHES);
    for (unsigned i = 1; i < ARRAY_SIZE(b); i++) /* all, a second time */
        trim_one(a[i], b[i], PSN + 3);
    now += 11 * NS_PER_MS;
    trim_one(a[WATCHES + 1], b[WATCHES + 1], PSN + 2);
    trim_one(a[WATCHES + 1], b[WATCHES + 1], PSN + 1);
    assert_int_equal(sent(e, &p), 1);
    assert_true(is_nak(&p, PSN + 1));
    for (unsigned i = 1; i < ARRAY_SIZE(b); i++)
        kit_qp_destroy(b[i]);
    kit_destroy(k);
}

/* A frame that comes in at an engine that does not own its queue pair is forwarded as it is. */
static void test_forwarded(void **state)
{
    struct kit_qp *a, *b;

    begin(&(struct kit_config){.seed = 1, .trim = DSCP, .engines = 2, .log = true});
    b = make_pair(&a);
    trim_one(a, b, PSN);
    assert_int_equal(drops(kit_engine_of(b)->engine, DROP_trimmed), 1);
    kit_link_lose(&k->link[0], 0);
    for (unsigned i = 0; i < 2; i++) {
        uint8_t frame[KIT_FRAME_ROOM];
        uint32_t len = make_frame(frame, a, b, OP_WRITE_MIDDLE, PSN);

        b->node->arrival = &b->node->part[i];
        kit_link_inject(&k->link[0], frame, frame_trim(frame, len, DSCP));
        kit_run(k, NULL, NULL, NS_PER_MS);
    }
    assert_int_equal(drops(kit_engine_of(b)->engine, DROP_trimmed), 3);
    assert_int_equal(kit_link_acks(&k->link[1], AETH_NAK, NAK_PSN_SEQUENCE), 3);
    kit_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_watches),
        cmocka_unit_test(test_forwarded),
    };

    return cmocka_run_group_tests_name("transport_trimmed", tests, NULL, NULL);
}
