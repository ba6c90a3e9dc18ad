/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine lends to queue pairs that lose packets, and how programs share it. */
#include "engine_private.h"
#include "loan.h"
#include "qp.h"
#include "turns_kit.h"

#define HALF  (ENGINE_REORDER_MAX / 2)
#define AWAY  8u
#define LONG  (11 * NS_PER_MS)
#define BURST 3u

static struct share greedy, modest;

static int setup(void **state)
{
    turns_setup(state);
    w.e->cfg.reorder = ENGINE_REORDER_MAX;
    program_init(&greedy, NULL, 1);
    program_init(&modest, NULL, 1);
    return 0;
}

static struct sender *receiver(struct share *program)
{
    return make_sender(program, QPT_RC, SLOTS, true);
}

/* The first of three WRITEs to itself is lost. Whether the others are kept. */
static bool keeps(struct sender *s)
{
    uint64_t before = counter_get(&qp_counters(s->qp)->requests_kept);

    post_writes(s, BURST);
    assert_int_equal(transmit(), BURST);
    engine_rx(w.e, w.frame + 1, BURST - 1, ++w.now);
    assert_int_equal(engine_tx(w.e, w.frame + BURST, AWAY, w.now), 1); /* the NAK */
    return counter_get(&qp_counters(s->qp)->requests_kept) - before == BURST - 1;
}

static unsigned how_many_keep(struct share *program, unsigned n)
{
    unsigned kept = 0;

    while (n--)
        kept += keeps(receiver(program));
    return kept;
}

/* ---- what queue pairs take ---- */

static void stores_are_left_to_others(void **state)
{
    assert_int_equal(how_many_keep(&greedy, HALF + 9), HALF);
    assert_int_equal(how_many_keep(&modest, 20), 20);
    assert_int_equal(how_many_keep(&modest, HALF), HALF / 2 - 20);
    assert_int_equal(how_many_keep(&greedy, 1), 0);
}

/* Their peers are gone. */
static void idle_stores_are_taken_back(void **state)
{
    assert_int_equal(how_many_keep(&greedy, HALF + 1), HALF);
    w.now += LONG;
    assert_int_equal(how_many_keep(&greedy, HALF + 1), HALF);
    assert_int_equal(greedy.lent[LOAN_ROOM], HALF * (BURST - 1));
}

static void queue_pairs_give_back(void **state)
{
    assert_int_equal(how_many_keep(&greedy, HALF), HALF);
    for (unsigned i = 0; i < HALF; i++) {
        assert_int_equal(greedy.lent[LOAN_STORE], HALF - i);
        assert_int_equal(greedy.lent[LOAN_ROOM], (HALF - i) * (BURST - 1));
        sender_fini(&w.sender[i]);
    }
    assert_int_equal(greedy.lent[LOAN_STORE], 0);
    assert_int_equal(greedy.lent[LOAN_ROOM], 0);
    share_leave(&greedy);
}

/* The program that takes over a queue pair has nothing of the former one. */
static void loans_stay_with_their_program(void **state)
{
    struct sender *s = receiver(&greedy);

    assert_true(keeps(s));
    engine_qp_set_shares(w.e, s->qp, &modest);
    for (unsigned i = 0; i < LOANS; i++) {
        assert_int_equal(greedy.lent[i], 0);
        assert_int_equal(modest.lent[i], 0);
    }
    share_leave(&greedy);
}

/* ---- each kind ---- */

static unsigned take_all(struct share *program, enum share_loan what)
{
    unsigned n = 0;

    while (loan_take_more(w.e, program, what))
        n++;
    return n;
}

static void end_all(struct share *program, enum share_loan what)
{
    while (program->lent[what])
        loan_end(w.e, program, what);
}

static void all_kinds_are_left_to_others(void **state)
{
    for (enum share_loan what = 0; what < LOANS; what++) {
        unsigned all = take_all(w.e->own, what);

        assert_true(all >= LOSS_WATCHES);
        assert_int_equal(take_all(&greedy, what), 0);
        end_all(w.e->own, what);
        assert_int_equal(take_all(&greedy, what), all / 2);
        assert_int_equal(take_all(&modest, what), all / 4);
        end_all(&greedy, what);
        end_all(&modest, what);
        assert_int_equal(w.e->lent[what], 0);
    }
}

#define LOANS_TEST(f) cmocka_unit_test_setup_teardown(f, setup, turns_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOANS_TEST(stores_are_left_to_others),    LOANS_TEST(idle_stores_are_taken_back),
        LOANS_TEST(queue_pairs_give_back),        LOANS_TEST(loans_stay_with_their_program),
        LOANS_TEST(all_kinds_are_left_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
