/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs get of one engine's time. */
#include <stdlib.h>

#include "timer.h"
#include "turns_kit.h"

/* ---- shares ---- */

static void programs_not_queue_pairs(void **state)
{
    static struct share one, many;
    struct sender *s[17];
    uint64_t sent = 0;

    program_init(&one, NULL, 1);
    program_init(&many, NULL, 1);
    for (unsigned i = 0; i < ARRAY_SIZE(s); i++)
        s[i] = sender_of(i ? &many : &one, SLOTS);
    always_send(s, ARRAY_SIZE(s), 4000);
    for (unsigned i = 1; i < ARRAY_SIZE(s); i++) {
        sent += sent_by(s[i]);
        assert_ratio(sent_by(s[i]), sent_by(s[0]), 1.0 / 16);
    }
    assert_ratio(sent, sent_by(s[0]), 1);
}

static void users_before_programs(void **state)
{
    static struct share user[2], program[5];
    struct sender *s[5];
    uint64_t sent = 0;

    share_init(&user[0], w.e, NULL, 1);
    share_init(&user[1], w.e, NULL, 1);
    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(&program[i], &user[i > 0], 1);
        s[i] = sender_of(&program[i], SLOTS);
    }
    always_send(s, ARRAY_SIZE(s), 4000);
    for (unsigned i = 1; i < ARRAY_SIZE(s); i++) {
        sent += sent_by(s[i]);
        assert_ratio(sent_by(s[i]), sent_by(s[0]), 1.0 / 4);
    }
    assert_ratio(sent, sent_by(s[0]), 1);
}

static void weights(void **state)
{
    static struct share user[2], program[2];
    struct sender *s[2];

    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        share_init(&user[i], w.e, NULL, i ? 3 : 1);
        program_init(&program[i], &user[i], 1);
        s[i] = sender_of(&program[i], SLOTS);
    }
    always_send(s, ARRAY_SIZE(s), 4000);
    assert_ratio(sent_by(s[1]), sent_by(s[0]), 3);
}

/* One that sends now and then is in the next burst, beside any number of others; and gains nothing
 * by it when it sends more. */
static void sparse_comes_first(void **state)
{
    static struct share sparse, program[8];
    struct sender *s[8], *now_and_then;

    program_init(&sparse, NULL, 1);
    now_and_then = sender_of(&sparse, SLOTS);
    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(&program[i], NULL, 1);
        s[i] = sender_of(&program[i], SLOTS);
    }
    for (unsigned i = 0; i < 300; i++) {
        always_send(s, ARRAY_SIZE(s), 20);
        post_writes(now_and_then, 1);
        always_send(s, ARRAY_SIZE(s), 1);
        assert_int_equal(sent_by(now_and_then), i + 1);
    }
}

/* The first one has n packets when it is looked at, and then none for a moment. */
static void send_again_and_again(unsigned n)
{
    static struct share program[2];
    struct sender *s[2];
    uint64_t sent[2] = {0};

    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(&program[i], NULL, 1);
        s[i] = sender_of(&program[i], SLOTS);
    }
    for (unsigned i = 0; i < 4000; i++) {
        if (sent_by(s[0]) == s[0]->prod)
            post_writes(s[0], n);
        always_send(&s[1], 1, 1);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        sent[i] = sent_by(s[i]);
        sender_fini(s[i]);
        share_leave(&program[i]);
    }
    assert_true(sent[0] < sent[1] * 21 / 20);
}

static void sparse_has_no_more(void **state)
{
    for (unsigned n = 1; n <= SLOTS; n += 9)
        send_again_and_again(n);
}

/* A program that owes waits for its turn with new work, too. */
static void debt_is_kept(void **state)
{
    static struct share owes, program;
    struct sender *debtor, *s;

    program_init(&owes, NULL, 1);
    program_init(&program, NULL, 1);
    debtor = sender_of(&owes, SLOTS);
    s = sender_of(&program, SLOTS);
    always_send(&s, 1, 3);
    share_charge(&owes, SHARE_QUANTUM * 3);
    post_writes(debtor, 1);
    always_send(&s, 1, 2);
    assert_int_equal(sent_by(debtor), 0);
    always_send(&s, 1, 6);
    assert_int_equal(sent_by(debtor), 1);
}

/* ---- copies ---- */

static void copy_in(void *space, struct mem_io *io, unsigned n)
{
    for (; n; n--, io++) {
        memset(io->local, 0, io->len);
        io->status = 0;
    }
}

static void copy_out(void *space, struct mem_io *io, unsigned n)
{
    for (; n; n--, io++)
        io->status = 0;
}

static int copied_atomic(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                         uint64_t swap_add, uint64_t compare, uint64_t *old)
{
    *old = 0;
    return 0;
}

static const struct mem_backend copied = {
    .copy_in = copy_in, .copy_out = copy_out, .atomic = copied_atomic};

/* Two messages of a program's memory that is not mapped. */
static struct mem_region *copied_region(void)
{
    static struct mem_region mr;

    mr = (struct mem_region){.pd = PD,
                             .iova = (uintptr_t)w.memory,
                             .addr = (uintptr_t)w.memory,
                             .len = 2 * MESSAGE,
                             .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC,
                             .backend = &copied};
    assert_int_equal(mr_insert(&w.mrs, &mr, 2), 0);
    return &mr;
}

static void post_one(struct sender *s, struct sge sge, uint64_t to, uint32_t rkey)
{
    struct sqe *e = work_queue_slot(s->sq, s->size, sqe_stride(1, 0), s->prod++);

    *e = (struct sqe){.opcode = SQE_WRITE, .num_sge = 1, .remote_addr = to, .rkey = rkey};
    *(struct sge *)(e + 1) = sge;
    atomic_store(&s->shared->sq_prod, s->prod);
    engine_doorbell(w.e, s->qp, w.now);
}

static uint64_t spent_since(const struct share *s, uint64_t before)
{
    return counter_get(&s->spent) - before;
}

/* A program whose memory is copied sends less than one whose memory is mapped. */
static void copies_are_charged(void **state)
{
    static struct share program[2];
    struct mem_region *mr = copied_region();
    struct sender *s[2];

    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(&program[i], NULL, 1);
        s[i] = sender_of(&program[i], SLOTS);
    }
    for (unsigned i = 0; i < 4000; i++) {
        while (s[0]->prod - sent_by(s[0]) < SLOTS)
            post_one(s[0], (struct sge){mr->addr, MESSAGE, mr->key}, 0, 0);
        always_send(&s[1], 1, 1);
    }
    /* A packet of 1024 + 74 bytes costs 768 more. */
    assert_ratio(sent_by(s[0]), sent_by(s[1]), 1866.0 / (1866 + COST_COPY));
}

/* Adjacent bytes take one call; and what a program receives is charged to it, as is what it sends.
 */
static void calls_are_charged(void **state)
{
    static struct share program;
    struct mem_region *mr = copied_region();
    const struct sge source = {(uintptr_t)w.memory, MESSAGE, w.mr.key};
    struct sender *s;
    uint64_t before, packet;

    program_init(&program, NULL, 1);
    s = make_sender(&program, QPT_UC, SLOTS, true);
    post_one(s, source, 0, 0);
    assert_int_equal(transmit(), 1);
    packet = counter_get(&program.spent);
    for (unsigned adjacent = 0; adjacent < 2; adjacent++) {
        post_one(s, (struct sge){mr->addr, MESSAGE, mr->key}, 0, 0);
        post_one(s, (struct sge){mr->addr + adjacent * MESSAGE, MESSAGE, mr->key}, 0, 0);
        before = counter_get(&program.spent);
        assert_int_equal(transmit(), 2);
        assert_int_equal(spent_since(&program, before), 2 * packet + (2 - adjacent) * COST_COPY);
    }
    for (unsigned adjacent = 0; adjacent < 2; adjacent++) {
        post_one(s, source, mr->addr, mr->key);
        post_one(s, source, mr->addr + adjacent * MESSAGE, mr->key);
        assert_int_equal(transmit(), 2);
        before = counter_get(&program.spent);
        engine_rx(w.e, w.frame, 2, ++w.now);
        assert_int_equal(spent_since(&program, before), (2 - adjacent) * COST_COPY);
    }
}

/* What an atomic to this memory is charged beside its packet. */
static uint64_t atomic_cost(struct share *program, struct sender *s, uint8_t opcode,
                            const struct mem_region *mr)
{
    struct sqe *e = work_queue_slot(s->sq, s->size, sqe_stride(1, 0), s->prod++);
    uint64_t before;

    *e = (struct sqe){
        .opcode = opcode, .num_sge = 1, .remote_addr = (uintptr_t)w.memory, .rkey = mr->key};
    *(struct sge *)(e + 1) = (struct sge){(uintptr_t)w.memory, 8, w.mr.key};
    atomic_store(&s->shared->sq_prod, s->prod);
    engine_doorbell(w.e, s->qp, w.now);
    assert_int_equal(transmit(), 1);
    before = counter_get(&program->spent);
    engine_rx(w.e, w.frame, 1, ++w.now);
    before = spent_since(program, before);
    assert_int_equal(transmit(), 1); /* the answer */
    engine_rx(w.e, w.frame, 1, ++w.now);
    return before;
}

static void copied_atomics_are_charged(void **state)
{
    static struct share program;
    struct mem_region *mr = copied_region();
    struct sender *s;

    program_init(&program, NULL, 1);
    s = make_sender(&program, QPT_RC, SLOTS, true);
    assert_int_equal(atomic_cost(&program, s, SQE_FETCH_ADD, mr), 2 * COST_COPY);
    assert_int_equal(atomic_cost(&program, s, SQE_CMP_SWP, mr), 2 * COST_COPY);
    assert_int_equal(atomic_cost(&program, s, SQE_ATOMIC_WRITE, mr), COST_COPY);
    assert_int_equal(atomic_cost(&program, s, SQE_FETCH_ADD, &w.mr), 0);
    assert_int_equal(atomic_cost(&program, s, SQE_ATOMIC_WRITE, &w.mr), 0);
}

/* A program whose memory lacks pages sends less. */
static void faults_are_charged(void **state)
{
    static struct share program[2];
    struct sender *s[2];

    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(&program[i], NULL, 1);
        s[i] = sender_of(&program[i], SLOTS);
    }
    w.fault_of_packet = 1000;
    engine_charge_faults(w.e, true);
    always_send(s, 2, 4000);
    assert_ratio(sent_by(s[0]), sent_by(s[1]), 1866.0 / (1866 + 1000 * COST_NS));
    engine_charge_faults(w.e, false);
    w.packets_seen = sent_by(s[0]) + sent_by(s[1]);
    for (unsigned i = 0; i < ARRAY_SIZE(s); i++)
        w.packets_seen -= sent_by(s[i]);
    always_send(s, 2, 4000);
}

/* A burst ends when page faults have taken long: others wait for it. */
static void faults_end_a_burst(void **state)
{
    static struct share program;
    struct sender *s;

    program_init(&program, NULL, 1);
    s = make_sender(&program, QPT_RC, SLOTS, true);
    post_writes(s, SLOTS);
    w.fault_of_packet = 12000;
    engine_charge_faults(w.e, true);
    assert_int_equal(transmit(), 2);
    assert_true(engine_wants_tx(w.e));
    assert_int_equal(transmit(), 2);
    w.fault_of_packet = 0;
    assert_int_equal(transmit(), FRAME_BURST);
}

/* Those of packets that it receives are charged to the one whose memory it is; the time before the
 * call of the engine is not. */
static void received_faults_are_charged(void **state)
{
    static const uint32_t types[] = {QPT_UC, QPT_RC};
    static struct share program;

    program_init(&program, NULL, 1);
    for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
        struct sender *s = make_sender(&program, types[i], SLOTS, true);
        uint64_t before;

        post_one(s, (struct sge){(uintptr_t)w.memory, MESSAGE, w.mr.key}, w.mr.iova, w.mr.key);
        assert_int_equal(transmit(), 1);
        before = counter_get(&program.spent);
        w.fault[0] = 5000;
        w.fault[1] = 700;
        w.fault_calls = 0;
        engine_charge_faults(w.e, true);
        engine_rx(w.e, w.frame, 1, ++w.now);
        engine_charge_faults(w.e, false);
        assert_int_equal(w.fault_calls, 2);
        assert_int_equal(spent_since(&program, before), 700 * COST_NS);
    }
}

/* Others cannot keep a program from its turns by what they send it. */
static void caused_debt_is_bounded(void **state)
{
    static struct share flooded, program;
    struct sender *s[2];

    program_init(&flooded, NULL, 1);
    program_init(&program, NULL, 1);
    s[0] = sender_of(&flooded, SLOTS);
    s[1] = sender_of(&program, SLOTS);
    always_send(s, 2, 10);
    for (unsigned i = 0; i < 10000; i++)
        share_charge_caused(&flooded, COST_COPY);
    assert_in_range(counter_get(&flooded.spent) - flooded.granted, SHARE_QUANTUM,
                    SHARE_QUANTUM + COST_COPY);
}

/* ---- other work ---- */

static void doorbells_are_charged(void **state)
{
    static struct share storm, program;
    struct sender *s;
    unsigned waits = 0, rounds = 4000;

    program_init(&storm, NULL, 1);
    program_init(&program, NULL, 1);
    s = sender_of(&program, SLOTS);
    for (unsigned i = 0; i < 4000; i++) { /* no program competes */
        assert_false(share_must_wait(&storm));
        share_charge(&storm, COST_TURN * 64);
    }
    for (unsigned i = 0; i < rounds; i++) {
        if (share_must_wait(&storm))
            waits++;
        else
            share_charge(&storm, COST_SYSCALL * 64);
        always_send(&s, 1, 1);
    }
    /* A burst costs 32 * (1024 + 98 + 768), a storm's pass 4.3 times as much. */
    assert_in_range(waits, rounds * 76 / 100, rounds * 84 / 100);
}

/* What a round over n queue pairs, a packet each, is charged. */
static uint64_t round_cost(const struct share *program, unsigned n)
{
    uint64_t before = counter_get(&program->spent);

    for (unsigned i = 0; i < n; i++) {
        post_writes(&w.sender[i], 1);
        assert_int_equal(transmit(), 1);
    }
    return spent_since(program, before);
}

/* Queue pairs that have left the cache are charged for coming back; few that take turns, or one
 * that is alone, are not. */
static void cold_queue_pairs_are_charged(void **state)
{
    static struct share program;
    uint64_t one, few;

    program_init(&program, NULL, 1);
    for (unsigned i = 0; i < QUEUES_MAX; i++)
        sender_of(&program, SLOTS);
    one = round_cost(&program, 1);
    few = round_cost(&program, 200);
    assert_int_equal(few, 200 * one);
    for (unsigned i = 0; i < 2 * QUEUES_MAX; i++)
        assert_int_equal(round_cost(&program, 1), one);
    assert_int_equal(round_cost(&program, 200), few);
    round_cost(&program, QUEUES_MAX);
    assert_int_equal(round_cost(&program, QUEUES_MAX), QUEUES_MAX * (one + COST_COLD));
}

static void late_debt_is_forgiven(void **state)
{
    static struct share storm, program;
    struct sender *s;

    program_init(&storm, NULL, 1);
    program_init(&program, NULL, 1);
    s = sender_of(&program, SLOTS);
    always_send(&s, 1, 3);
    share_charge(&storm, SHARE_QUANTUM * 50);
    post_writes(s, 1);
    assert_true(share_must_wait(&storm));
    while (transmit() || engine_wants_tx(w.e)) {
    }
    assert_false(share_must_wait(&storm));
}

/* A long queue of a queue pair in error does not hold up another program's packets. */
static void flushes_take_turns(void **state)
{
    const struct qp_attr error = {.state = QPS_ERR};
    static struct share one, other;
    struct sender *flushed, *s;
    unsigned seen = 0, most = 0, bursts = 0;

    program_init(&one, NULL, 1);
    program_init(&other, NULL, 1);
    flushed = sender_of(&one, LONG_QUEUE);
    s = sender_of(&other, SLOTS);
    flushed->prod = LONG_QUEUE;
    for (unsigned i = 0; i < LONG_QUEUE; i++)
        *(struct sqe *)work_queue_slot(flushed->sq, LONG_QUEUE, sqe_stride(1, 0), i) =
            (struct sqe){.wr_id = i, .opcode = SQE_WRITE};
    atomic_store(&flushed->shared->sq_prod, LONG_QUEUE);
    assert_int_equal(engine_qp_modify(w.e, flushed->qp, &error, QPA_STATE, NULL, 5, w.now), 0);
    for (; seen < LONG_QUEUE; bursts++) {
        const struct cqe *c;
        unsigned n = 0;

        for (; (c = cq_reader_peek(&w.reader)); n++, seen++) {
            assert_int_equal(c->wr_id, seen);
            assert_int_equal(c->status, WC_WR_FLUSH_ERR);
            cq_reader_advance(&w.reader);
        }
        most = max_of(most, n);
        always_send(&s, 1, 1);
    }
    assert_in_range(most, 64, 64 * 64);
    assert_in_range(bursts, 4, 200);
}

/* The send queue error state ends with what was posted in it. */
static void rts_after_a_long_flush(void **state)
{
    const struct qp_attr rts = {.state = QPS_RTS, .cur_state = QPS_SQE};
    struct sender *s = sender_of(NULL, 1024);
    unsigned flushed = 0;

    s->prod = 1024;
    for (unsigned i = 0; i < 1024; i++)
        *(struct sqe *)work_queue_slot(s->sq, 1024, sqe_stride(1, 0), i) =
            (struct sqe){.wr_id = i, .opcode = SQE_WRITE, .num_sge = 9};
    atomic_store(&s->shared->sq_prod, s->prod);
    engine_doorbell(w.e, s->qp, w.now);
    while (qp_current_state(s->qp) != QPS_SQE)
        transmit();
    assert_int_equal(engine_qp_modify(w.e, s->qp, &rts, QPA_STATE | QPA_CUR_STATE, NULL, 5, w.now),
                     0);
    for (; cq_reader_peek(&w.reader); flushed++)
        cq_reader_advance(&w.reader);
    assert_int_equal(flushed, 1024);
    post_writes(s, 5);
    assert_int_equal(transmit(), 5);
}

static void empty_turns_are_bounded(void **state)
{
    static struct share program;
    unsigned calls = 0;

    program_init(&program, NULL, 1);
    for (unsigned i = 0; i < QUEUES_MAX; i++)
        post_writes(sender_of(&program, SLOTS), 0);
    for (; engine_wants_tx(w.e); calls++)
        assert_int_equal(transmit(), 0);
    assert_in_range(calls, QUEUES_MAX / 64, QUEUES_MAX / 64 + 1);
}

/* ---- members ---- */

static void leaves_while_others_wait(void **state)
{
    static struct share user, stays;
    struct share *gone = malloc(sizeof(*gone));
    struct sender *a, *b;

    share_init(&user, w.e, NULL, 1);
    share_init(gone, w.e, &user, 1);
    share_join(gone);
    program_init(&stays, &user, 1);
    a = sender_of(gone, SLOTS);
    b = sender_of(&stays, SLOTS);
    always_send((struct sender *[]){a, b}, 2, 10);
    share_charge(gone, SHARE_QUANTUM * 10);
    assert_true(share_must_wait(gone));
    sender_fini(a);
    share_leave(gone);
    memset(gone, 0xEE, sizeof(*gone));
    free(gone);
    always_send(&b, 1, 10);
    sender_fini(b);
    share_leave(&stays);
    memset(&user, 0xEE, sizeof(user));
    memset(&stays, 0xEE, sizeof(stays));
    b = sender_of(NULL, SLOTS);
    always_send(&b, 1, 10);
}

/* ---- traffic classes ---- */

static struct sender *sender_of_class(struct share *share, uint8_t pcp)
{
    w.pcp = pcp;
    return sender_of(share, SLOTS);
}

/* Programs are equal in a class, whatever they send in others; users' weights count there. */
static void programs_in_classes(void **state)
{
    static struct share user[2][CLASSES], one[CLASSES], many[CLASSES], both[CLASSES];
    struct sender *s[6];

    share_init(user[0], w.e, NULL, 1);
    share_init(user[1], w.e, NULL, 2);
    program_init(one, user[0], 1);
    program_init(many, user[0], 1);
    program_init(both, user[1], 1);
    s[0] = sender_of_class(one, 0);
    s[1] = sender_of_class(many, 0);
    s[2] = sender_of_class(many, 1);
    s[3] = sender_of_class(both, 2);
    s[4] = sender_of_class(both, 3);
    s[5] = sender_of_class(many, 3);
    always_send(s, ARRAY_SIZE(s), 8000);
    assert_ratio(sent_by(s[0]), sent_by(s[1]) + sent_by(s[2]), 1);
    assert_ratio(sent_by(s[3]), sent_by(s[0]), 4);
    assert_ratio(sent_by(s[4]), sent_by(s[5]), 2);
    assert_ratio(sent_by(s[4]) + sent_by(s[5]),
                 sent_by(s[0]) + sent_by(s[1]) + sent_by(s[2]) + sent_by(s[3]), 1.5);
}

/* A strict class goes first, also in the middle of others' work, and without competitors. */
static void strict_class(void **state)
{
    static struct share program[2][CLASSES];
    struct sender *s[2], *first;

    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(program[i], NULL, 1);
        s[i] = sender_of_class(program[i], i ? 3 : 0);
    }
    first = sender_of_class(program[0], 7);
    for (unsigned i = 1; i < 200; i++) {
        always_send(s, ARRAY_SIZE(s), i % 3);
        post_writes(first, 20);
        always_send(s, ARRAY_SIZE(s), 1);
        assert_int_equal(sent_by(first), 20 * i);
    }
}

/* A program that owes in one class does not wait with its doorbells: they may be for another. */
static void doorbells_of_all_classes(void **state)
{
    static struct share program[2][CLASSES];
    struct sender *s[2];
    unsigned waits = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(program[i], NULL, 1);
        s[i] = sender_of_class(program[i], 0);
    }
    always_send(s, ARRAY_SIZE(s), 10);
    share_charge(&program[0][2], SHARE_QUANTUM * 10);
    for (unsigned i = 0; i < 1000; i++)
        assert_false(share_must_wait(program[0]));
    for (unsigned i = 0; i < 1000; i++) { /* a storm waits */
        if (share_must_wait(program[0]))
            waits++;
        else
            share_charge(program[0], SHARE_QUANTUM);
        always_send(s, ARRAY_SIZE(s), 1);
    }
    assert_in_range(waits, 300, 700);
}

/* Nothing of a program is left in any class. */
static void leaves_classes(void **state)
{
    static struct share user[CLASSES], stays[CLASSES];
    struct share *gone = calloc(CLASSES, sizeof(*gone));
    struct sender *s[4];
    uint64_t before;

    share_init(user, w.e, NULL, 1);
    share_init(gone, w.e, user, 1);
    share_join(gone);
    program_init(stays, NULL, 1);
    s[0] = sender_of_class(stays, 0);
    s[1] = sender_of_class(gone, 0);
    s[2] = sender_of_class(gone, 3);
    s[3] = sender_of_class(gone, 7);
    always_send(s, ARRAY_SIZE(s), 10);
    for (unsigned i = 1; i < ARRAY_SIZE(s); i++)
        sender_fini(s[i]);
    share_leave(gone);
    memset(gone, 0xEE, CLASSES * sizeof(*gone));
    memset(user, 0xEE, sizeof(user));
    free(gone);
    before = sent_by(s[0]);
    always_send(s, 1, 100);
    assert_int_equal(sent_by(s[0]) - before, 100 * FRAME_BURST);
}

/* Another program has it from now on, in the same class. */
static void another_program(void **state)
{
    static struct share program[3][CLASSES];
    struct sender *s[3];
    uint64_t before;

    for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
        program_init(program[i], NULL, 1);
        s[i] = sender_of_class(program[i], 3);
    }
    always_send(s, ARRAY_SIZE(s), 10);
    engine_qp_set_shares(w.e, s[0]->qp, program[1]);
    before = sent_by(s[0]);
    always_send(s, ARRAY_SIZE(s), 3000);
    assert_ratio(sent_by(s[2]), 2 * (sent_by(s[0]) - before), 1);
    assert_true(counter_get(&program[0][1].spent) < counter_get(&program[1][1].spent) / 50);
    assert_int_equal(counter_get(&program[1][0].spent) + counter_get(&program[1][2].spent), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(programs_not_queue_pairs),
                                       TEST(users_before_programs),
                                       TEST(weights),
                                       TEST(sparse_comes_first),
                                       TEST(sparse_has_no_more),
                                       TEST(debt_is_kept),
                                       TEST(copies_are_charged),
                                       TEST(calls_are_charged),
                                       TEST(copied_atomics_are_charged),
                                       TEST(faults_are_charged),
                                       TEST(faults_end_a_burst),
                                       TEST(received_faults_are_charged),
                                       TEST(caused_debt_is_bounded),
                                       TEST(doorbells_are_charged),
                                       TEST(cold_queue_pairs_are_charged),
                                       TEST(late_debt_is_forgiven),
                                       TEST(flushes_take_turns),
                                       TEST(rts_after_a_long_flush),
                                       TEST(empty_turns_are_bounded),
                                       TEST(leaves_while_others_wait),
                                       CLASSES_TEST(programs_in_classes),
                                       CLASSES_TEST(strict_class),
                                       CLASSES_TEST(doorbells_of_all_classes),
                                       CLASSES_TEST(leaves_classes),
                                       CLASSES_TEST(another_program)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
