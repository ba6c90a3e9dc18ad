/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that no correct peer sends: those that are dropped, with the drop reason (9.6.1,
 * A17.3.4), and those that are refused with a NAK (9.7.4.1). Frames are built by hand; all other
 * fields are right.
 */
#include "encap_layout.h"
#include "rules.h"

/* A whole SEND ONLY of ten bytes from a to b, which has a receive posted and would accept it. */
static struct pkt good_send(const struct rules *t)
{
    return (struct pkt){.opcode = RC(OP_SEND_ONLY),
                        .pkey = PKEY_DEFAULT,
                        .dest_qpn = t->b->qpn,
                        .psn = psn(PSN_A),
                        .ack_req = true,
                        .payload_len = 10};
}

static void inject(struct rules *t, const struct pkt *p)
{
    uint8_t frame[KIT_FRAME_ROOM], payload[PKT_MTU_MAX] = {1, 2, 3};

    kit_link_inject(t->ab, frame, kit_frame_build(frame, t->a, p, payload));
    kit_settle(t->k);
}

static struct rules start_with_receive(const struct kit_rc *rc)
{
    struct rules t = rules_start(rc);

    kit_recv(t.b, 100, t.mb, 0, 4096);
    return t;
}

/* Exactly one frame arrived; it was dropped for this reason and had no effect. */
static void assert_dropped(struct rules *t, enum drop why)
{
    const struct engine_counters *c = engine_counters(t->k->node[1].engine);

    assert_int_equal(counter_sum(c->rx_packets, QOS_PRIORITIES), 1);
    assert_int_equal(counter_get(&c->drop[why]), 1);
    assert_int_equal(counter_get(&c->rx_delivered), 0);
    completes_nothing(t->b->recv_cq);
    assert_int_equal(t->ba->frames, 0);
    assert_int_equal(state_of(t->b), QPS_RTS);
    rules_finish(t);
}

static void a_good_packet_passes(void **state)
{
    struct rules t = start_with_receive(NULL);
    struct pkt p = good_send(&t);

    inject(&t, &p);
    assert_int_equal(completes(t.b->recv_cq, 100, WC_SUCCESS).byte_len, 10);
    assert_int_equal(t.ba->frames, 1);
    rules_finish(&t);
}

static void packet_dropped(void (*spoil)(struct pkt *p), enum drop why)
{
    struct rules t = start_with_receive(NULL);
    struct pkt p = good_send(&t);

    spoil(&p);
    inject(&t, &p);
    assert_dropped(&t, why);
}

static void spoil_qpn(struct pkt *p)
{
    p->dest_qpn ^= 0x800000;
}

static void spoil_qpn_mad(struct pkt *p)
{
    p->dest_qpn = 1;
}

static void spoil_qpn_multicast(struct pkt *p)
{
    p->dest_qpn = 0xFFFFFF;
}

static void spoil_pkey(struct pkt *p)
{
    p->pkey = 0x1234;
}

static void spoil_service_uc(struct pkt *p)
{
    p->opcode = OPCODE(PKT_UC, OP_SEND_ONLY);
}

static void spoil_service_ud(struct pkt *p)
{
    p->opcode = OPCODE(PKT_UD, OP_SEND_ONLY);
}

static void spoil_service_xrc(struct pkt *p)
{
    p->opcode = OPCODE(PKT_XRC, OP_SEND_ONLY);
}

static void spoil_cnp(struct pkt *p)
{
    p->opcode = OPCODE_CNP;
    p->payload_len = 16;
    p->becn = true;
}

static void drop_reasons(void **state)
{
    packet_dropped(spoil_qpn, DROP_unknown_qpn);
    packet_dropped(spoil_qpn_mad, DROP_unknown_qpn);
    packet_dropped(spoil_qpn_multicast, DROP_unknown_qpn);
    packet_dropped(spoil_pkey, DROP_pkey_mismatch);
    packet_dropped(spoil_service_uc, DROP_service_mismatch);
    packet_dropped(spoil_service_ud, DROP_service_mismatch);
    packet_dropped(spoil_service_xrc, DROP_service_mismatch);
    packet_dropped(spoil_cnp, DROP_cnp_unsupported);
}

/* A limited member of the default partition may talk to a full member. */
static void limited_member_passes(void **state)
{
    struct rules t = start_with_receive(NULL);
    struct pkt p = good_send(&t);

    p.pkey = 0x7FFF;
    inject(&t, &p);
    completes(t.b->recv_cq, 100, WC_SUCCESS);
    rules_finish(&t);
}

/* Offsets into an untagged IPv4 frame. */
#define AT_IP   14
#define AT_SRC  (AT_IP + 12)
#define AT_DST  (AT_IP + 16)
#define AT_BTH  (AT_IP + 20 + 8)
#define AT_DMAC 0

static void fix_ip_checksum(uint8_t *frame)
{
    uint32_t sum = 0;

    frame[AT_IP + 10] = frame[AT_IP + 11] = 0;
    for (unsigned i = 0; i < 20; i += 2)
        sum += (uint32_t)frame[AT_IP + i] << 8 | frame[AT_IP + i + 1];
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    frame[AT_IP + 10] = (uint8_t)(~sum >> 8);
    frame[AT_IP + 11] = (uint8_t)~sum;
}

/* One byte of the good packet's frame changed, with checksums and ICRC recomputed if requested. */
static void frame_dropped(unsigned at, uint8_t xor, bool reseal, enum drop why)
{
    struct rules t = start_with_receive(NULL);
    struct pkt p = good_send(&t);
    uint8_t frame[KIT_FRAME_ROOM];
    uint32_t len = kit_frame_build(frame, t.a, &p, "0123456789");

    frame[at] ^= xor;
    if (reseal) {
        fix_ip_checksum(frame);
        kit_frame_reseal(frame, len);
    }
    kit_link_inject(t.ab, frame, len);
    kit_settle(t.k);
    assert_dropped(&t, why);
}

static void frame_drop_reasons(void **state)
{
    frame_dropped(AT_SRC + 3, 0x40, true, DROP_source_mismatch);
    frame_dropped(AT_DST + 3, 0x40, true, DROP_wrong_destination);
    frame_dropped(AT_DMAC + 5, 0x40, true, DROP_not_our_mac);
    frame_dropped(AT_BTH + 12, 1, false, DROP_bad_icrc); /* payload */
    frame_dropped(AT_BTH + 24, 1, false, DROP_bad_icrc); /* the ICRC itself */
    frame_dropped(AT_BTH + 11, 1, false, DROP_bad_icrc); /* PSN */
}

/* From the right peer, but to another address of this port than the connection's. */
static void another_of_our_addresses(void **state)
{
    struct rules t = start_with_receive(NULL);
    struct pkt p = good_send(&t);
    struct gid_table *gids = &t.k->node[1].gids;
    struct gid_entry other = gids->entry[KIT_GID_V4];
    uint8_t frame[KIT_FRAME_ROOM];
    uint32_t len = kit_frame_build(frame, t.a, &p, "0123456789");

    other.gid.raw[15] ^= 0x40;
    assert_true(gid_table_add(gids, &other) >= 0);
    frame[AT_DST + 3] ^= 0x40;
    fix_ip_checksum(frame);
    kit_frame_reseal(frame, len);
    kit_link_inject(t.ab, frame, len);
    kit_settle(t.k);
    assert_dropped(&t, DROP_source_mismatch);
}

/* rxe once crashed on 48 bytes of opcode 0xFF to QPN 0xFFFFFF. */
static void undefined_opcodes(void **state)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        struct rules t = start_with_receive(NULL);
        struct pkt p = good_send(&t);
        uint8_t frame[KIT_FRAME_ROOM];
        uint32_t len = kit_frame_build(frame, t.a, &p, "0123456789");

        if (!opcode_is_defined((uint8_t)opcode)) {
            frame[AT_BTH] = (uint8_t)opcode;
            kit_frame_reseal(frame, len);
            kit_link_inject(t.ab, frame, len);
            kit_settle(t.k);
            assert_dropped(&t, DROP_unknown_opcode);
        } else {
            rules_finish(&t);
        }
    }
}

static void the_other_address_family(void **state)
{
    struct rules t = start_with_receive(NULL);
    struct rules v6 = rules_start(&(struct kit_rc){.gid_index = KIT_GID_V6});
    struct pkt p = good_send(&t);
    uint8_t frame[KIT_FRAME_ROOM];

    /* The same QPNs, but the packet came from another address of the same node. */
    assert_int_equal(t.b->qpn, v6.b->qpn);
    kit_link_inject(t.ab, frame, kit_frame_build(frame, v6.a, &p, "0123456789"));
    kit_settle(t.k);
    rules_finish(&v6);
    assert_dropped(&t, DROP_source_mismatch);
}

static void not_ready_to_receive(void **state)
{
    struct kit *k = kit_create(&(struct kit_config){.seed = 4});
    struct kit_qp *a = kit_qp_create(&k->node[0], NULL), *b = kit_qp_create(&k->node[1], NULL);
    struct pkt p = {.opcode = RC(OP_SEND_ONLY), .pkey = PKEY_DEFAULT, .dest_qpn = b->qpn};
    uint8_t frame[KIT_FRAME_ROOM];
    uint32_t len;

    kit_to_init(a, NULL);
    kit_to_rtr(a, b, NULL, 0);
    len = kit_frame_build(frame, a, &p, NULL);
    for (unsigned i = 0; i < 3; i++) {
        kit_link_inject(&k->link[0], frame, len);
        kit_settle(k);
        assert_int_equal(drops_of(&k->node[1], qp_state), i + 1);
        if (i == 0)
            kit_to_init(b, NULL);
        else
            assert_int_equal(kit_modify(b, QPS_ERR), 0);
    }
    kit_destroy(k);
}

/* ---- refused with a NAK ---- */

struct bad_sequence {
    const char *name;
    unsigned n;
    struct {
        uint8_t op;
        uint32_t payload, dma_len;
    } pkt[3];
};

static const struct bad_sequence bad_sequences[] = {
    {"middle first", 1, {{OP_SEND_MIDDLE, MTU}}},
    {"last first", 1, {{OP_SEND_LAST, 10}}},
    {"write middle first", 1, {{OP_WRITE_MIDDLE, MTU}}},
    {"write last with immediate first", 1, {{OP_WRITE_LAST_IMM, 10}}},
    {"first twice", 2, {{OP_SEND_FIRST, MTU}, {OP_SEND_FIRST, MTU}}},
    {"only in mid-message", 2, {{OP_SEND_FIRST, MTU}, {OP_SEND_ONLY, 10}}},
    {"write goes on as send", 2, {{OP_WRITE_FIRST, MTU, 2 * MTU}, {OP_SEND_LAST, MTU}}},
    {"send goes on as write", 2, {{OP_SEND_FIRST, MTU}, {OP_WRITE_LAST, 10}}},
    {"read in mid-message", 2, {{OP_SEND_FIRST, MTU}, {OP_READ_REQUEST, 0, 8}}},
    {"short first", 1, {{OP_SEND_FIRST, MTU - 4}}},
    {"long first", 1, {{OP_SEND_FIRST, MTU + 4}}},
    {"long only", 1, {{OP_SEND_ONLY, MTU + 1}}},
    {"short middle", 2, {{OP_SEND_FIRST, MTU}, {OP_SEND_MIDDLE, 4}}},
    {"empty last", 2, {{OP_SEND_FIRST, MTU}, {OP_SEND_LAST, 0}}},
    {"write shorter than announced", 1, {{OP_WRITE_ONLY, 10, 11}}},
    {"write longer than announced", 1, {{OP_WRITE_ONLY, 11, 10}}},
    {"write announced nothing", 1, {{OP_WRITE_ONLY, 10, 0}}},
    {"write first with all", 1, {{OP_WRITE_FIRST, MTU, MTU}}},
    {"write last too long", 2, {{OP_WRITE_FIRST, MTU, MTU + 1}, {OP_WRITE_LAST, 2}}},
    {"write last too short", 2, {{OP_WRITE_FIRST, MTU, MTU + 2}, {OP_WRITE_LAST, 1}}},
    {"write middle to the end", 2, {{OP_WRITE_FIRST, MTU, 2 * MTU}, {OP_WRITE_MIDDLE, MTU}}},
    {"longer than 2^31", 1, {{OP_WRITE_FIRST, MTU, 0x80000001}}},
    {"read longer than 2^31", 1, {{OP_READ_REQUEST, 0, 0xFFFFFFFF}}},
    {"flush of an unknown kind", 1, {{OP_FLUSH, 0, 10}}},
    {"atomic write of 7 bytes", 1, {{OP_ATOMIC_WRITE, 8, 7}}},
    {"atomic write in mid-message", 2, {{OP_SEND_FIRST, MTU}, {OP_ATOMIC_WRITE, 8, 8}}},
};

static void refuse_sequence(const struct bad_sequence *bad)
{
    struct rules t = start_with_receive(NULL);

    print_message("# %s\n", bad->name);
    for (unsigned i = 0; i < bad->n; i++) {
        struct pkt p = good_send(&t);

        p.opcode = RC(bad->pkt[i].op);
        p.psn = psn(PSN_A + i);
        p.payload_len = bad->pkt[i].payload;
        p.reth.va = kit_va(t.mb, 8192);
        p.reth.rkey = t.mb->region.key;
        p.reth.len = bad->pkt[i].dma_len;
        inject(&t, &p);
    }
    assert_int_equal(kit_link_acks(t.ba, AETH_NAK, NAK_INVALID_REQUEST), 1);
    assert_int_equal(t.ba->log[t.ba->log_len - 1].pkt.psn.v, PSN_A + bad->n - 1);
    assert_int_equal(state_of(t.b), QPS_ERR);
    assert_int_equal(kit_events(&t.k->node[1], QP_EVENT_QP_REQ_ERR), 1);
    rules_finish(&t);
}

static void refused_sequences(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(bad_sequences); i++)
        refuse_sequence(&bad_sequences[i]);
}

static void more_reads_than_agreed(void **state)
{
    struct rules t = rules_start(&(struct kit_rc){.max_rd_atomic = 2});
    uint8_t frame[KIT_FRAME_ROOM];

    t.ba->config.bps = 1000000; /* so slow that no answer arrives before the end */
    for (unsigned i = 0; i < 4; i++) {
        struct pkt p = good_send(&t);

        p.opcode = RC(OP_READ_REQUEST);
        p.psn = psn(PSN_A + i);
        p.payload_len = 0;
        p.reth.va = kit_va(t.mb, 0);
        p.reth.rkey = t.mb->region.key;
        p.reth.len = 8;
        kit_link_inject(t.ab, frame, kit_frame_build(frame, t.a, &p, NULL));
    }
    kit_settle(t.k);
    assert_int_equal(kit_link_acks(t.ba, AETH_NAK, NAK_INVALID_REQUEST), 1);
    assert_int_equal(state_of(t.b), QPS_ERR);
    rules_finish(&t);
}

/* A repeated READ is answered only if it requests (the rest of) the same range. */
static void repeated_read_must_be_the_same(void **state)
{
    static const struct {
        uint32_t psn, va_off, len, answers;
    } again[] = {{0, 0, 3 * MTU, 3},    {1, MTU, 2 * MTU, 2},
                 {2, 2 * MTU, MTU, 1},  {0, 8, 3 * MTU, 0},
                 {0, 0, 4 * MTU, 0},    {1, 0, 3 * MTU, 0},
                 {1, MTU, 3 * MTU, 0},  {2, 2 * MTU, MTU + 1, 0},
                 {0, 0, 0xFFFFFFFF, 0}, {1, MTU + 1, 2 * MTU, 0},
                 {0, 0, 0, 0}};

    for (unsigned i = 0; i < ARRAY_SIZE(again); i++) {
        struct rules t = rules_start(NULL);
        struct pkt p = good_send(&t);

        kit_do(t.a, SQE_READ, 1, t.ma, 0, 3 * MTU, t.mb, 0);
        kit_settle(t.k);
        p.opcode = RC(OP_READ_REQUEST);
        p.psn = psn(PSN_A + again[i].psn);
        p.payload_len = 0;
        p.reth.va = kit_va(t.mb, again[i].va_off);
        p.reth.rkey = t.mb->region.key;
        p.reth.len = again[i].len;
        inject(&t, &p);
        assert_int_equal(t.ba->frames, 3 + again[i].answers);
        assert_int_equal(state_of(t.b), QPS_RTS);
        rules_finish(&t);
    }
}

/* Answers that fit no request: the first PSN in flight, but of the wrong kind or size. */
static void wrong_answers(void **state)
{
    static const struct {
        uint8_t op;
        uint32_t payload;
        enum wc_status status;
    } answer[] = {
        {OP_READ_RESP_ONLY, 9, WC_BAD_RESP_ERR},    {OP_READ_RESP_ONLY, 11, WC_BAD_RESP_ERR},
        {OP_READ_RESP_ONLY, 0, WC_BAD_RESP_ERR},    {OP_READ_RESP_FIRST, MTU, WC_BAD_RESP_ERR},
        {OP_READ_RESP_MIDDLE, 12, WC_BAD_RESP_ERR}, {OP_ATOMIC_ACK, 0, WC_BAD_RESP_ERR}};

    for (unsigned i = 0; i < ARRAY_SIZE(answer); i++) {
        struct rules t = rules_start(NULL);
        uint8_t frame[KIT_FRAME_ROOM], payload[MTU] = {0};
        struct pkt p = {.opcode = RC(answer[i].op),
                        .pkey = PKEY_DEFAULT,
                        .dest_qpn = t.a->qpn,
                        .psn = psn(PSN_A),
                        .payload_len = answer[i].payload};

        p.aeth.syndrome = AETH_ACK | AETH_CREDIT_NONE;
        link_does(t.ab, KIT_DROP);
        kit_do(t.a, SQE_READ, 1, t.ma, 0, 10, t.mb, 0);
        run_for(&t, 10 * NS_PER_US);
        kit_link_inject(t.ba, frame, kit_frame_build(frame, t.b, &p, payload));
        run_for(&t, 10 * NS_PER_US);
        completes(t.a->send_cq, 1, answer[i].status);
        assert_int_equal(state_of(t.a), QPS_ERR);
        rules_finish(&t);
    }
}

/* a sends a SEND, b receives it. Returns a's frame as b got it. */
static struct frame send_by_hand(struct rules *t, uint8_t *bytes, bool lent_inside, bool inside)
{
    struct frame f = {.data = bytes, .room = KIT_FRAME_ROOM, .icrc_omitted = lent_inside};

    memset(bytes, 0xA5, KIT_FRAME_ROOM);
    kit_do(t->a, SQE_SEND, 1, t->ma, 0, 10, NULL, 0);
    assert_int_equal(engine_tx(t->k->node[0].engine, &f, 1, t->k->now), 1);
    assert_int_equal(f.icrc_omitted, lent_inside);
    f.icrc_omitted = inside;
    t->k->node[1].part[0].received++;
    engine_rx(t->k->node[1].engine,
              &(struct frame){.data = f.data, .len = f.len, .icrc_omitted = inside}, 1, t->k->now);
    return f;
}

/* A frame that stays in the process has no ICRC, and none is checked: its flag tells the
 * receiver. */
static void icrc_left_out(void **state)
{
    uint8_t bytes[KIT_FRAME_ROOM];
    struct rules t = start_with_receive(NULL);
    struct frame f = send_by_hand(&t, bytes, true, true);

    assert_false(icrc_verify(ICRC_IPV4, f.data + ETH_LEN, f.len - ETH_LEN));
    assert_int_equal(completes(t.b->recv_cq, 100, WC_SUCCESS).byte_len, 10);
    run_for(&t, 10 * NS_PER_US);
    completes(t.a->send_cq, 1, WC_SUCCESS);
    rules_finish(&t);

    t = start_with_receive(NULL);
    f = send_by_hand(&t, bytes, false, false);
    assert_true(icrc_verify(ICRC_IPV4, f.data + ETH_LEN, f.len - ETH_LEN));
    completes(t.b->recv_cq, 100, WC_SUCCESS);
    rules_finish(&t);

    t = start_with_receive(NULL);
    send_by_hand(&t, bytes, true, false);
    assert_dropped(&t, DROP_bad_icrc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_packet_passes),   cmocka_unit_test(drop_reasons),
        cmocka_unit_test(limited_member_passes),  cmocka_unit_test(frame_drop_reasons),
        cmocka_unit_test(undefined_opcodes),      cmocka_unit_test(the_other_address_family),
        cmocka_unit_test(not_ready_to_receive),   cmocka_unit_test(refused_sequences),
        cmocka_unit_test(more_reads_than_agreed), cmocka_unit_test(repeated_read_must_be_the_same),
        cmocka_unit_test(wrong_answers),          cmocka_unit_test(another_of_our_addresses),
        cmocka_unit_test(icrc_left_out),
    };

    return cmocka_run_group_tests_name("rc_drops", tests, NULL, NULL);
}
