/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single bursts in which something is marked or forged. Two responders that are the same get them,
 * one by the batch path, the other by the general path, and must not differ.
 */
#include "batch_kit.h"
#include "bth.h"
#include "encap_layout.h"
#include "hdr_template.h"

#define PSN      1001
#define ID       1000 /* of frames */
#define OTHER_ID 4711
#define CE       ECN_CE
#define ECT      2

struct trio {
    struct side a, fast, slow; /* requester, responders */
    struct frame f[FRAME_BURST];
    uint8_t bytes[FRAME_BURST][ROOM];
    unsigned n;
    uint64_t frames, frame_bytes; /* that have arrived */
};

static struct trio t;

static void post_recv(struct side *s, unsigned sges)
{
    struct rqe *e = work_queue_slot(s->rq, SLOTS, rqe_stride(2), s->recv_prod++);
    struct sge *sge = (struct sge *)(e + 1);

    *e = (struct rqe){.wr_id = s->recv_prod, .num_sge = sges};
    sge[0] = (struct sge){.addr = IOVA + 60000, .length = sges > 1 ? 4 : 64, .lkey = s->mr.key};
    sge[1] = (struct sge){.addr = IOVA + 61000, .length = 64, .lkey = s->mr.key};
    atomic_store(&s->shared->rq_prod, s->recv_prod);
}

/* Each message to another address. */
static void post(enum sqe_op op, uint32_t len, unsigned n)
{
    for (; n > 0; n--) {
        uint64_t addr = IOVA + t.a.prod % 16 * 3200;
        struct sqe *e = work_queue_slot(t.a.sq, SLOTS, sqe_stride(2, 0), t.a.prod++);

        *e = (struct sqe){
            .opcode = (uint8_t)op, .num_sge = 1, .remote_addr = addr, .rkey = t.fast.mr.key};
        *(struct sge *)(e + 1) = (struct sge){.addr = addr, .length = len, .lkey = t.a.mr.key};
    }
    atomic_store(&t.a.shared->sq_prod, t.a.prod);
    engine_doorbell(t.a.e, t.a.qp, 1);
}

static void sum(struct frame *f)
{
    memset(f->data + AT_IP_SUM, 0, 2);
    put_be16(f->data + AT_IP_SUM, (uint16_t)~ipv4_sum(f->data + AT_IP));
}

static void seal(struct frame *f)
{
    sum(f);
    icrc_seal(ICRC_IPV4, f->data + AT_IP, total_of(f) - ICRC_LEN);
}

static void set_id(struct frame *f, uint16_t id)
{
    put_be16(f->data + AT_IP_ID, id);
    seal(f);
}

/* All frames have one identification, as those of a batch. */
static void send_burst(void)
{
    make_frames(t.f, t.bytes);
    t.n = engine_tx(t.a.e, t.f, FRAME_BURST, 1);
    for (unsigned i = 0; i < t.n; i++)
        set_id(&t.f[i], ID);
}

static void receive_burst(void)
{
    engine_rx(t.fast.e, t.f, t.n, 1);
    engine_rx_forwarded(t.slow.e, t.f, t.n, 0, 1);
    t.frames += t.n;
    for (unsigned i = 0; i < t.n; i++)
        t.frame_bytes += t.f[i].len;
    check_counters(&t.fast, &t.slow, t.frames);
    check_same(&t.fast, &t.slow);
    assert_int_equal(counter_sum(engine_counters(t.fast.e)->rx_bytes, QOS_PRIORITIES),
                     t.frame_bytes);
}

/* With a WRITE that arrives, so that the responders know what the requester's frames look like. */
static int begin(void **state)
{
    memset(&t, 0, sizeof(t));
    side_init(&t.a, 1, 128, ALL_RIGHTS, 0);
    side_init(&t.fast, 2, 128, ALL_RIGHTS, 0);
    side_init(&t.slow, 2, 128, ALL_RIGHTS, 0);
    for (unsigned i = 0; i < MEMORY; i++)
        t.a.memory[i] = (uint8_t)(i * 7 + i / 256);
    connect_to(&t.a, &t.fast, ALL_RIGHTS, PSN);
    connect_to(&t.fast, &t.a, ALL_RIGHTS, PSN);
    connect_to(&t.slow, &t.a, ALL_RIGHTS, PSN);
    post(SQE_WRITE, 8, 1);
    send_burst();
    receive_burst();
    return 0;
}

static int end(void **state)
{
    side_fini(&t.a);
    side_fini(&t.fast);
    side_fini(&t.slow);
    return 0;
}

static uint64_t dropped(enum drop reason)
{
    return counter_get(&engine_counters(t.fast.e)->drop[reason]);
}

static uint64_t marked(void)
{
    return counter_get(&qp_counters(t.fast.qp)->np_ecn_marked_roce_packets);
}

/* With a NAK that says "invalid request". */
static uint64_t refused(void)
{
    return counter_get(&qp_counters(t.fast.qp)->remote_invalid_request);
}

/* ---- frames ---- */

/* As a switch does: the ICRC does not cover the mark. */
static void mark(struct frame *f, uint8_t ecn)
{
    f->data[AT_IP_TOS] = ecn;
    sum(f);
}

/* The ICRC stays that of the identification before. */
static void forge_id(struct frame *f, uint16_t id)
{
    put_be16(f->data + AT_IP_ID, id);
    sum(f);
}

/* Frame `to` becomes frame `from`, with the PSN of frame `to`. */
static void replace(unsigned to, unsigned from)
{
    uint32_t psn = get_be24(t.f[to].data + AT_BTH_PSN);

    memcpy(t.f[to].data, t.f[from].data, t.f[from].len);
    t.f[to].len = t.f[from].len;
    put_be24(t.f[to].data + AT_BTH_PSN, psn);
    seal(&t.f[to]);
}

/* ---- marks ---- */

static void test_marks_are_counted(void **state)
{
    static const uint8_t marks[] = {0, CE, CE, ECT, CE, 0, 1, CE, CE, 0};

    post(SQE_WRITE, 8, ARRAY_SIZE(marks));
    send_burst();
    assert_int_equal(t.n, ARRAY_SIZE(marks));
    for (unsigned i = 0; i < t.n; i++)
        mark(&t.f[i], marks[i]);
    receive_burst();
    assert_int_equal(marked(), 5);
    assert_int_equal(counter_get(&qp_counters(t.fast.qp)->rx_packets), ARRAY_SIZE(marks) + 1);
}

static void test_marks_of_several_sizes(void **state)
{
    static const uint8_t marks[] = {CE, CE, 0, 0, CE, 0, CE, 0, 0};

    for (uint32_t len = 8; len <= 24; len += 8)
        post(SQE_WRITE, len, 3);
    send_burst();
    assert_int_equal(t.n, ARRAY_SIZE(marks));
    for (unsigned i = 0; i < t.n; i++)
        mark(&t.f[i], marks[i]);
    receive_burst();
    assert_int_equal(marked(), 4);
}

static void test_marks_before_another_identification(void **state)
{
    post(SQE_WRITE, 8, 6);
    send_burst();
    mark(&t.f[1], CE);
    for (unsigned i = 2; i < t.n; i++)
        set_id(&t.f[i], OTHER_ID);
    receive_burst();
    assert_int_equal(marked(), 1);
}

/* The second SEND's receive WQE is not for the batch path. */
static void test_marks_of_what_is_not_placed(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        post_recv(&t.fast, 1 + (i == 1));
        post_recv(&t.slow, 1 + (i == 1));
    }
    post(SQE_SEND, 8, 4);
    send_burst();
    mark(&t.f[0], CE);
    mark(&t.f[1], CE);
    mark(&t.f[3], CE);
    receive_burst();
    assert_int_equal(marked(), 3);
}

static void test_marked_acknowledge(void **state)
{
    const struct qp_counters *c = qp_counters(t.a.qp);

    for (unsigned i = 0; i < 2; i++) { /* the first one updates the template */
        post(SQE_WRITE, 8, 1);
        send_burst();
        receive_burst();
        make_frames(t.f, t.bytes);
        t.n = engine_tx(t.fast.e, t.f, FRAME_BURST, 1);
        assert_int_equal(t.n, 1);
        mark(&t.f[0], i ? CE : 0);
        engine_rx(t.a.e, t.f, 1, 1);
        assert_int_equal(counter_get(&c->rx_packets), i + 1);
        assert_int_equal(counter_get(&c->np_ecn_marked_roce_packets), i);
        t.n = engine_tx(t.slow.e, t.f, FRAME_BURST, 1);
    }
}

/* ---- sizes ---- */

/* Ethernet's padding, in the middle of a batch: the frame's bytes count. */
static void test_padded_frames(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        post(SQE_WRITE, 8, 5);
        send_burst();
        t.f[2].len += 8;
        if (i)
            set_id(&t.f[2], OTHER_ID);
        receive_burst();
    }
}

/* ---- wrong header checksums ---- */

static void unmended_mark(void)
{
    t.f[2].data[AT_IP_TOS] = CE;
}

static void unmended_class(void)
{
    mark(&t.f[2], CE);
    t.f[2].data[AT_IP_TOS] |= 0xB8;
}

static void unmended_address(void)
{
    mark(&t.f[2], CE);
    t.f[2].data[AT_IP + IPV4_SRC_OFF] ^= 1;
}

static void unmended_ttl(void)
{
    t.f[2].data[AT_IP_TTL] ^= 1;
}

static void unmended_behind_a_mark(void)
{
    mark(&t.f[1], CE);
    t.f[2].data[AT_IP_TTL] ^= 1;
}

static void test_wrong_checksums(void **state)
{
    static void (*const forge[])(void) = {unmended_mark, unmended_class, unmended_address,
                                          unmended_ttl, unmended_behind_a_mark};

    for (unsigned i = 0; i < ARRAY_SIZE(forge); i++) {
        post(SQE_WRITE, 8, 5);
        send_burst();
        forge[i]();
        receive_burst();
        assert_int_equal(dropped(DROP_bad_ip_header), 1);
        end(NULL);
        begin(NULL);
    }
}

/* The template is updated by a marked frame; then a frame has no mark, and that one's checksum. */
static void test_wrong_checksum_behind_a_marked_template(void **state)
{
    post(SQE_WRITE, 8, 1);
    send_burst();
    t.f[0].data[AT_IP_TTL] = 50;
    mark(&t.f[0], ECT);
    receive_burst();
    post(SQE_WRITE, 8, 2);
    send_burst();
    for (unsigned i = 0; i < t.n; i++) {
        t.f[i].data[AT_IP_TTL] = 50;
        mark(&t.f[i], ECT);
        t.f[i].data[AT_IP_TOS] = 0;
    }
    receive_burst();
    assert_int_equal(dropped(DROP_bad_ip_header), 2);
}

/* ---- wrong ICRCs ---- */

/* The ICRC of a frame with another identification. */
static void test_icrc_of_the_frame_before(void **state)
{
    post(SQE_WRITE, 8, 3);
    send_burst();
    forge_id(&t.f[2], OTHER_ID);
    receive_burst();
    assert_int_equal(dropped(DROP_bad_icrc), 1);
}

/* The last frame begins as the second one, and has the ICRC of one that begins as the third. */
static void test_icrc_of_an_older_head(void **state)
{
    post(SQE_WRITE, 8, 4);
    send_burst();
    mark(&t.f[1], CE);
    set_id(&t.f[2], OTHER_ID);
    set_id(&t.f[3], OTHER_ID);
    forge_id(&t.f[3], ID);
    mark(&t.f[3], CE);
    receive_burst();
    assert_int_equal(dropped(DROP_bad_icrc), 1);
}

/* The batch ends before the second SEND, which the general path places: the third was not verified
 * with it. */
static void test_wrong_icrc_behind_a_batch(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        post_recv(&t.fast, 1 + (i == 1));
        post_recv(&t.slow, 1 + (i == 1));
    }
    post(SQE_SEND, 8, 4);
    send_burst();
    t.f[2].data[AT_BTH_END] ^= 1;
    receive_burst();
    assert_int_equal(dropped(DROP_bad_icrc), 1);
}

/* ---- what else makes a batch ---- */

/* A SEND that is as long as the WRITEs around it, RETH included. */
static void test_another_opcode_with_a_mark(void **state)
{
    post_recv(&t.fast, 1);
    post_recv(&t.slow, 1);
    post(SQE_WRITE, 8, 4);
    send_burst();
    t.f[2].data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_SEND_ONLY);
    seal(&t.f[2]);
    mark(&t.f[2], CE);
    receive_burst();
    assert_int_equal(marked(), 1);
}

/* Inside of a long WRITE another message starts. */
static void test_message_inside_another(void **state)
{
    static const struct {
        enum sqe_op op;
        uint32_t len;
    } kinds[] = {{SQE_SEND, 8}, {SQE_WRITE, 8}, {SQE_WRITE, 2048}, {SQE_READ, 8}};

    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        post_recv(&t.fast, 1);
        post_recv(&t.slow, 1);
        post(SQE_WRITE, 3072, 1);
        post(kinds[i].op, kinds[i].len, 1);
        send_burst();
        assert_true(t.n > 3);
        replace(1, 3);
        receive_burst();
        assert_int_equal(refused(), 1);
        end(NULL);
        begin(NULL);
    }
}

/* A long SEND goes on behind its last packet. */
static void test_send_goes_on(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        post_recv(&t.fast, 1);
        post_recv(&t.slow, 1);
    }
    post(SQE_SEND, 3072, 2);
    send_burst();
    assert_int_equal(t.n, 6);
    t.f[3].data[AT_BTH_OPCODE] = OPCODE(PKT_RC, OP_SEND_MIDDLE);
    seal(&t.f[3]);
    receive_burst();
    assert_int_equal(refused(), 1);
}

static void test_write_too_long(void **state)
{
    t.fast.other.len = t.slow.other.len = UINT64_C(2) * MESSAGE_MAX;
    post(SQE_WRITE, 3072, 1);
    send_burst();
    put_be32(t.f[0].data + AT_RETH_RKEY, t.fast.other.key);
    put_be32(t.f[0].data + AT_RETH_LENGTH, MESSAGE_MAX + 1);
    seal(&t.f[0]);
    t.n = 1;
    receive_burst();
    assert_int_equal(refused(), 1);
}

/* ---- what the responder's host changes ---- */

/* The sniffer's rule counts the frames, though its queue pair has no engine. */
static void test_sniffer(void **state)
{
    const struct work_queue queue = {
        .ring = t.fast.rq, .size = SLOTS, .stride = rqe_stride(2), .max_sge = 2};
    struct qp_init init = {.type = QPT_RAW_PACKET,
                           .pd = PD,
                           .send_cq = &t.fast.cq,
                           .recv_cq = &t.fast.cq,
                           .sq = queue,
                           .rq = queue};
    int err;
    struct flow_rule rule = {.type = FLOW_SNIFFER, .qp = qp_create(t.fast.qps, &init, &err)};
    struct flow_entry *sniffer;

    assert_non_null(rule.qp);
    sniffer = flow_entry_create(&rule);
    assert_non_null(sniffer);
    atomic_store(&t.fast.flows.table, flow_table_with(NULL, sniffer));
    post(SQE_WRITE, 8, 5);
    send_burst();
    receive_burst();
    assert_int_equal(flow_entry_count(sniffer).frames, 5);
    flow_table_free(t.fast.flows.table);
    flow_entry_free(sniffer);
    qp_free(rule.qp);
}

static void test_address_is_removed(void **state)
{
    t.fast.gids.entry[0].valid = t.slow.gids.entry[0].valid = false;
    post(SQE_WRITE, 8, 4);
    send_burst();
    receive_burst();
    assert_int_equal(dropped(DROP_wrong_destination), 4);
}

static void add_sender(struct side *s)
{
    struct gid_entry sender = t.a.gids.entry[0];

    gid_table_add(&s->gids, &sender);
}

/* A queue pair that is held sends to none. The reason for the drop names it only if an address of
 * the receiving port sent the packet: another host may send to that number, too. */
static void test_held(void **state)
{
    uint32_t number = qp_number(t.fast.qp);

    engine_qp_hold(t.a.e, t.a.qp, true);
    post(SQE_WRITE, 8, 3);
    send_burst();
    assert_int_equal(t.n, 3);
    for (unsigned i = 0; i < t.n; i++)
        assert_int_equal(bth_dest_qpn(t.f[i].data + hdr_bth_at(HDR_IPV4)), QPN_NONE);
    receive_burst();
    assert_int_equal(dropped(DROP_unknown_qpn), 3);
    assert_int_equal(dropped(DROP_sender_mismatch), 0);
    add_sender(&t.fast);
    add_sender(&t.slow);
    receive_burst();
    assert_int_equal(dropped(DROP_unknown_qpn), 3);
    assert_int_equal(dropped(DROP_sender_mismatch), 3);
    t.f[0].data[hdr_bth_at(HDR_IPV4)] = OPCODE(PKT_UD, OP_SEND_ONLY); /* its program has named 0 */
    seal(&t.f[0]);
    t.n = 1;
    receive_burst();
    assert_int_equal(dropped(DROP_sender_mismatch), 3);
    engine_qp_hold(t.a.e, t.a.qp, false);
    post(SQE_WRITE, 8, 2);
    send_burst();
    assert_int_equal(t.n, 2);
    for (unsigned i = 0; i < t.n; i++)
        assert_int_equal(bth_dest_qpn(t.f[i].data + hdr_bth_at(HDR_IPV4)), number);
}

static void test_error_state(void **state)
{
    engine_qp_error(t.fast.e, t.fast.qp, CAUSE_program_memory, 1);
    engine_qp_error(t.slow.e, t.slow.qp, CAUSE_program_memory, 1);
    post(SQE_WRITE, 8, 4);
    send_burst();
    receive_burst();
    assert_int_equal(dropped(DROP_qp_state), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_marks_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(test_marks_of_several_sizes, begin, end),
        cmocka_unit_test_setup_teardown(test_marks_before_another_identification, begin, end),
        cmocka_unit_test_setup_teardown(test_marks_of_what_is_not_placed, begin, end),
        cmocka_unit_test_setup_teardown(test_marked_acknowledge, begin, end),
        cmocka_unit_test_setup_teardown(test_padded_frames, begin, end),
        cmocka_unit_test_setup_teardown(test_wrong_checksums, begin, end),
        cmocka_unit_test_setup_teardown(test_wrong_checksum_behind_a_marked_template, begin, end),
        cmocka_unit_test_setup_teardown(test_icrc_of_the_frame_before, begin, end),
        cmocka_unit_test_setup_teardown(test_icrc_of_an_older_head, begin, end),
        cmocka_unit_test_setup_teardown(test_wrong_icrc_behind_a_batch, begin, end),
        cmocka_unit_test_setup_teardown(test_another_opcode_with_a_mark, begin, end),
        cmocka_unit_test_setup_teardown(test_message_inside_another, begin, end),
        cmocka_unit_test_setup_teardown(test_send_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(test_write_too_long, begin, end),
        cmocka_unit_test_setup_teardown(test_sniffer, begin, end),
        cmocka_unit_test_setup_teardown(test_address_is_removed, begin, end),
        cmocka_unit_test_setup_teardown(test_held, begin, end),
        cmocka_unit_test_setup_teardown(test_error_state, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
