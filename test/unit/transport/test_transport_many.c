/* SPDX-License-Identifier: BSD-3-Clause */
/* More queue pairs than a cache holds, in turn: what they need is fetched ahead of their turns and
 * of their frames. Reliable connections to themselves receive what they sent. */
#include <string.h>

#include "bth.h"
#include "hdr_template.h"
#include "turns_kit.h"

#define MANY QUEUES_MAX
#define FEW  8u

static struct share program;

static void make_many(void)
{
    program_init(&program, NULL, 1);
    for (unsigned i = 0; i < MANY; i++)
        make_sender(&program, QPT_RC, SLOTS, true);
}

static void exchange(void)
{
    while (engine_wants_tx(w.e)) {
        unsigned n = transmit();

        engine_rx(w.e, w.frame, n, ++w.now);
    }
}

static void exchange_round(unsigned n, unsigned messages)
{
    for (unsigned i = 0; i < n; i++)
        post_writes(&w.sender[i], messages);
    exchange();
}

static uint64_t received_by(const struct sender *s)
{
    return counter_get(&qp_counters(s->qp)->rx_packets);
}

/* Longer than the queues: slots and entries are free again. */
static void all_go_on(void **state)
{
    const unsigned rounds = 3 * SLOTS, messages = 1;

    make_many();
    for (unsigned i = 0; i < rounds; i++)
        exchange_round(MANY, messages);
    for (unsigned i = 0; i < MANY; i++) {
        assert_in_range(received_by(&w.sender[i]), rounds * messages + 1, 2 * rounds * messages);
    }
}

/* Those of few stay in the wheel, disarmed: they are mostly armed again. */
static void timers_of_many_are_removed(void **state)
{
    make_many();
    exchange_round(FEW, 1);
    exchange_round(FEW, 1);
    assert_true(engine_next_timer(w.e) != NS_NEVER);
    engine_timers(w.e, w.now += NS_PER_SEC);
    assert_true(engine_next_timer(w.e) == NS_NEVER);
    exchange_round(MANY, 1); /* the last ones are many turns behind their first turn */
    engine_timers(w.e, w.now += NS_PER_SEC);
    exchange_round(MANY, 1);
    assert_true(engine_next_timer(w.e) == NS_NEVER);
}

static uint8_t *bth_of(const struct frame *f)
{
    return f->data + hdr_bth_at(HDR_IPV4);
}

static void set_qpn(struct frame *f, uint32_t qpn)
{
    bth_put_flow(bth_of(f), 0, qpn);
}

/* Frames of no queue pair, and too short ones, between those of many. */
static void odd_frames_among_many(void **state)
{
    unsigned n;

    make_many();
    for (unsigned i = 0; i < 3; i++)
        exchange_round(MANY, 1);
    for (unsigned i = 0; i < FRAME_BURST; i++)
        post_writes(&w.sender[i], 1);
    n = transmit();
    assert_int_equal(n, FRAME_BURST);
    set_qpn(&w.frame[0], 0);
    set_qpn(&w.frame[1], 0);
    set_qpn(&w.frame[3], 0xFFFFFF);
    w.frame[5].len = 20;
    w.frame[6].len = 0;
    w.frame[8].len = hdr_min_len(HDR_IPV4);
    memset(w.frame[10].data, 0xFF, w.frame[10].len);
    engine_rx(w.e, w.frame, n, ++w.now);
    for (unsigned i = 0; i < FRAME_BURST; i++) {
        bool odd = i < 2 || i == 3 || i == 5 || i == 6 || i == 8 || i == 10;

        assert_int_equal(received_by(&w.sender[i]) - 2 * 3, odd ? 0 : 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(all_go_on), TEST(timers_of_many_are_removed),
                                       TEST(odd_frames_among_many)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
