/* SPDX-License-Identifier: BSD-3-Clause */
/* When answers are sent while other queue pairs have much to send. Reliable connections to
 * themselves receive what they sent. */
#include "bth.h"
#include "hdr_template.h"
#include "turns_kit.h"

static uint8_t opcode_of(const struct frame *f)
{
    return bth_opcode(f->data + hdr_bth_at(HDR_IPV4));
}

static bool is_of(const struct frame *f, const struct sender *s)
{
    return bth_dest_qpn(f->data + hdr_bth_at(HDR_IPV4)) == qp_number(s->qp);
}

static bool is_ack(const struct frame *f, const struct sender *s)
{
    return opcode_of(f) == OPCODE(PKT_RC, OP_ACK) && is_of(f, s);
}

static void post_one(struct sender *s, uint8_t opcode)
{
    struct sqe *e = work_queue_slot(s->sq, s->size, sqe_stride(1, 0), s->prod++);

    *e = (struct sqe){.opcode = opcode, .num_sge = 1, .remote_addr = w.mr.iova, .rkey = w.mr.key};
    *(struct sge *)(e + 1) =
        (struct sge){.addr = (uintptr_t)w.memory, .length = MESSAGE, .lkey = w.mr.key};
    atomic_store(&s->shared->sq_prod, s->prod);
    engine_doorbell(w.e, s->qp, w.now);
}

#define QUANTUM 16

static uint8_t elsewhere[QUANTUM][ROOM];

/* As transmit(), without a change of w.frame. */
static unsigned transmit_elsewhere(unsigned n)
{
    struct frame f[QUANTUM];

    for (unsigned i = 0; i < n; i++)
        f[i] = (struct frame){.data = elsewhere[i], .room = ROOM};
    return engine_tx(w.e, f, n, ++w.now);
}

/* Connections that owe answers, and have nothing to send; some other has. */
struct owing {
    struct sender *bulk, *s[FRAME_BURST];
};

/* Each sends some messages, as many as w.frame holds, which do not arrive yet. */
static void request(struct owing *o, struct share *program, unsigned n, unsigned messages)
{
    program_init(program, NULL, 1);
    for (unsigned i = 0; i < n; i++) {
        o->s[i] = make_sender(program, QPT_RC, SLOTS, true);
        for (unsigned k = 0; k < messages; k++)
            post_one(o->s[i], SQE_WRITE);
    }
    assert_int_equal(transmit(), n * messages);
    while (engine_wants_tx(w.e))
        assert_int_equal(transmit_elsewhere(1), 0);
}

/* It has had a turn. */
static void begin_bulk(struct owing *o, struct share *program)
{
    o->bulk = sender_of(program, SLOTS);
    post_writes(o->bulk, SLOTS);
    assert_int_equal(transmit_elsewhere(QUANTUM), QUANTUM);
}

static unsigned sent_by_bulk(const struct owing *o)
{
    return (unsigned)sent_by(o->bulk) - QUANTUM;
}

/* A message each. */
static struct owing requests(struct share *program, unsigned n)
{
    struct owing o;

    request(&o, program, n, 1);
    begin_bulk(&o, program);
    return o;
}

static struct owing owe(struct share *program, unsigned n)
{
    struct owing o = requests(program, n);

    engine_rx(w.e, w.frame, n, ++w.now);
    return o;
}

static void ack_goes_first(void **state)
{
    static struct share program;
    struct owing o = owe(&program, 1);

    assert_int_equal(transmit(), FRAME_BURST);
    assert_true(is_ack(&w.frame[0], o.s[0]));
    assert_int_equal(sent_by_bulk(&o), FRAME_BURST - 1);
}

/* Others send, too, however many answers are owed. */
static void answers_leave_half(void **state)
{
    static struct share program;
    struct owing o = owe(&program, FRAME_BURST);
    unsigned acks = 0;

    assert_int_equal(transmit(), FRAME_BURST);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        acks += opcode_of(&w.frame[i]) == OPCODE(PKT_RC, OP_ACK);
    assert_int_equal(acks, FRAME_BURST / 2);
    assert_int_equal(sent_by_bulk(&o), FRAME_BURST / 2);
    assert_int_equal(transmit(), FRAME_BURST);
    for (unsigned i = 0; i < FRAME_BURST / 2; i++)
        assert_int_equal(opcode_of(&w.frame[i]), OPCODE(PKT_RC, OP_ACK));
}

/* Those that came first are sent before others may go first. */
static void answers_do_not_overtake(void **state)
{
    static uint8_t bytes[8][ROOM];
    static struct share program;
    struct owing o = requests(&program, FRAME_BURST);
    struct frame answer[8];

    for (unsigned i = 0; i < 8; i++)
        answer[i] = (struct frame){.data = bytes[i], .room = ROOM};
    engine_rx(w.e, w.frame, 16, ++w.now);
    assert_int_equal(engine_tx(w.e, answer, 8, ++w.now), 8);
    engine_rx(w.e, w.frame + 16, 16, ++w.now);
    assert_int_equal(engine_tx(w.e, answer, 8, ++w.now), 8);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        assert_int_equal(sent_by(o.s[i]), i < 16 ? 2 : 1);
}

/* However few packets leave at a time: after a quantum, answers that go first are half of them. */
static void requests_go_on_in_a_flood(void **state)
{
    enum { RECEIVERS = 8, MESSAGES = FRAME_BURST / RECEIVERS };
    static struct share program;
    struct owing o;

    request(&o, &program, RECEIVERS, MESSAGES);
    begin_bulk(&o, &program);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        engine_rx(w.e, &w.frame[i % RECEIVERS * MESSAGES + i / RECEIVERS], 1, ++w.now);
        assert_int_equal(transmit_elsewhere(1), 1);
    }
    assert_int_equal(sent_by_bulk(&o), (FRAME_BURST - QUANTUM) / 2);
}

/* What is posted before the answer is sent waits for the others' turns. */
static void requests_wait_for_their_turn(void **state)
{
    static struct share program;
    struct owing o = owe(&program, 1);

    for (unsigned i = 0; i < 4; i++)
        post_one(o.s[0], SQE_WRITE);
    assert_int_equal(transmit(), FRAME_BURST);
    assert_true(is_ack(&w.frame[0], o.s[0]));
    for (unsigned i = 1; i < 17; i++)
        assert_false(is_of(&w.frame[i], o.s[0]));
    for (unsigned i = 17; i < 21; i++)
        assert_int_equal(opcode_of(&w.frame[i]), OPCODE(PKT_RC, OP_WRITE_ONLY));
    assert_int_equal(sent_by(o.s[0]), 1 + 1 + 4);
}

/* A connection that has sent its answer is not looked at any more. */
static void answer_ends_the_turn(void **state)
{
    static struct share program;
    struct sender *s;

    program_init(&program, NULL, 1);
    s = make_sender(&program, QPT_RC, SLOTS, true);
    post_one(s, SQE_WRITE);
    assert_int_equal(transmit(), 1);
    assert_int_equal(transmit(), 0);
    engine_rx(w.e, w.frame, 1, ++w.now);
    assert_int_equal(transmit(), 1);
    assert_true(is_ack(&w.frame[0], s));
    assert_false(engine_wants_tx(w.e));
}

/* Responses to short READs go first, too, as many as there is room for. */
static void short_reads_go_first(void **state)
{
    const unsigned reads = 9;
    static struct share program;
    struct sender *s[2], *bulk;
    unsigned first = 0, second = 0;

    program_init(&program, NULL, 1);
    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        s[i] = make_sender(&program, QPT_RC, SLOTS, true);
        for (unsigned k = 0; k < reads; k++)
            post_one(s[i], SQE_READ);
    }
    assert_int_equal(transmit(), 2 * reads);
    bulk = sender_of(&program, SLOTS);
    post_writes(bulk, SLOTS);
    engine_rx(w.e, w.frame, 2 * reads, ++w.now);
    assert_int_equal(transmit(), FRAME_BURST);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        bool response = opcode_of(&w.frame[i]) == OPCODE(PKT_RC, OP_READ_RESP_ONLY);

        first += response && is_of(&w.frame[i], s[0]) && i < FRAME_BURST / 2;
        second += response && is_of(&w.frame[i], s[1]) && i < FRAME_BURST / 2;
    }
    assert_int_equal(first, reads);
    assert_in_range(second, 0, FRAME_BURST / 2 - reads);
    assert_int_equal(sent_by(bulk), FRAME_BURST / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(ack_goes_first),
                                       TEST(answers_leave_half),
                                       TEST(answers_do_not_overtake),
                                       TEST(requests_go_on_in_a_flood),
                                       TEST(requests_wait_for_their_turn),
                                       TEST(answer_ends_the_turn),
                                       TEST(short_reads_go_first)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
