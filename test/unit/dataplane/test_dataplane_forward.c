/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring that forwards frames from one worker to another. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "common.h"
#include "forward.h"
#include "random.h"

#define RECORD 24u /* bytes in front of each frame */

static uint8_t bytes[FORWARD_FRAME_MAX + 1];
static int here, there;

static uint32_t record_bytes(uint32_t len)
{
    return (uint32_t)round_up(RECORD + len, CACHE_LINE);
}

/* A frame whose content identifies it. */
static struct frame frame_of(uint8_t *room, uint32_t number, uint32_t len)
{
    memset(room, (uint8_t)(number * 31), len);
    memcpy(room, &number, min_of(len, sizeof(number)));
    return (struct frame){.data = room, .len = len};
}

static bool is_frame(const struct frame *f, uint32_t number, uint32_t len)
{
    static uint8_t expected[FORWARD_FRAME_MAX];

    frame_of(expected, number, len);
    return f->len == len && !memcmp(f->data, expected, len);
}

static bool put(struct forward_ring *ring, uint32_t number, uint32_t len)
{
    struct forward_target target = {.to = &here};
    struct frame f = frame_of(bytes, number, len);
    bool taken = forward_put(ring, &target, &f);

    memset(bytes, 0xEE, sizeof(bytes)); /* it is the producer's again */
    return taken;
}

static void takes(struct forward_ring *ring, uint32_t number, uint32_t len)
{
    struct forward_target target;
    struct frame f;

    assert_int_equal(forward_take(ring, &target, &f, 1), 1);
    assert_true(is_frame(&f, number, len));
    assert_ptr_equal(target.to, &here);
    assert_false(target.for_host);
    forward_release(ring);
}

static void takes_nothing(struct forward_ring *ring)
{
    struct forward_target target;
    struct frame f;

    assert_int_equal(forward_take(ring, &target, &f, 1), 0);
    forward_release(ring);
}

static void test_order(void **state)
{
    struct forward_ring *ring = forward_create();

    assert_non_null(ring);
    assert_true(forward_empty(ring));
    takes_nothing(ring);
    for (uint32_t i = 0; i < 50; i++)
        assert_true(put(ring, i, i * 31));
    assert_false(forward_empty(ring));
    for (uint32_t i = 0; i < 50; i++)
        takes(ring, i, i * 31);
    assert_true(forward_empty(ring));
    takes_nothing(ring);
    forward_destroy(ring);
    forward_destroy(NULL);
}

static void test_a_burst_is_at_most_so_many(void **state)
{
    struct forward_ring *ring = forward_create();
    struct forward_target target;
    struct frame f[8];

    for (uint32_t i = 0; i < 7; i++)
        put(ring, i, 100 + i);
    assert_int_equal(forward_take(ring, &target, f, 5), 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(is_frame(&f[i], i, 100 + i));
    forward_release(ring);
    assert_false(forward_empty(ring));
    assert_int_equal(forward_take(ring, &target, f, 8), 2);
    assert_true(is_frame(&f[0], 5, 105));
    assert_true(is_frame(&f[1], 6, 106));
    forward_release(ring);
    assert_true(forward_empty(ring));
    forward_destroy(ring);
}

/* Frames that are read stay in the ring until they are released, and are read again until then. */
static void test_room_comes_back_with_release(void **state)
{
    struct forward_ring *ring = forward_create();
    struct forward_target target;
    struct frame f[2];
    uint32_t each = record_bytes(FORWARD_FRAME_MAX), n = FORWARD_RING_BYTES / each;

    for (uint32_t i = 0; i < n; i++)
        assert_true(put(ring, i, FORWARD_FRAME_MAX));
    assert_false(put(ring, n, FORWARD_FRAME_MAX));
    for (unsigned again = 0; again < 2; again++) {
        assert_int_equal(forward_take(ring, &target, f, 2), 2);
        assert_true(is_frame(&f[0], 0, FORWARD_FRAME_MAX));
        assert_true(is_frame(&f[1], 1, FORWARD_FRAME_MAX));
        assert_false(put(ring, n, FORWARD_FRAME_MAX));
    }
    forward_release(ring);
    forward_release(ring); /* has no more frames */
    assert_true(put(ring, n, FORWARD_FRAME_MAX));
    assert_true(put(ring, n + 1, FORWARD_FRAME_MAX));
    assert_false(put(ring, n + 2, 0));
    for (uint32_t i = 2; i <= n + 1; i++)
        takes(ring, i, FORWARD_FRAME_MAX);
    takes_nothing(ring);
    forward_destroy(ring);
}

/* Full to the last byte, and no further: short frames leave no rest. */
static void test_full(void **state)
{
    struct forward_ring *ring = forward_create();
    uint32_t each = record_bytes(0), n = FORWARD_RING_BYTES / each;

    assert_int_equal(FORWARD_RING_BYTES % each, 0);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < n; i++)
            assert_true(put(ring, i, i % (each - RECORD + 1)));
        assert_false(put(ring, n, 0));
        takes(ring, 0, 0);
        assert_false(put(ring, n, each)); /* which is longer than the one that was released */
        assert_true(put(ring, n, 1));
        assert_false(put(ring, n, 0));
        takes(ring, 1, 1);
        assert_true(put(ring, n + 1, 2)); /* without a refusal in between */
        for (uint32_t i = 2; i < n; i++)
            takes(ring, i, i % (each - RECORD + 1));
        takes(ring, n, 1);
        takes(ring, n + 1, 2);
        assert_true(forward_empty(ring));
    }
    forward_destroy(ring);
}

static void test_too_long(void **state)
{
    struct forward_ring *ring = forward_create();

    assert_false(put(ring, 0, FORWARD_FRAME_MAX + 1));
    assert_true(forward_empty(ring));
    assert_true(put(ring, 1, FORWARD_FRAME_MAX));
    takes(ring, 1, FORWARD_FRAME_MAX);
    forward_destroy(ring);
}

/*
 * A record that does not fit before the end begins at the start, and the skipped rest counts as
 * used. All possible rests.
 */
static void test_wrap(void **state)
{
    struct forward_ring *ring = forward_create();
    uint32_t longest = record_bytes(FORWARD_FRAME_MAX);

    for (uint32_t rest = CACHE_LINE; rest <= longest; rest += CACHE_LINE) {
        uint32_t at = 0, skipped = rest < longest ? rest : 0, filled;

        while (at < FORWARD_RING_BYTES - rest) {
            uint32_t len = min_of(FORWARD_RING_BYTES - rest - at - RECORD, FORWARD_FRAME_MAX);

            assert_true(put(ring, at, len));
            takes(ring, at, len);
            at += record_bytes(len);
        }
        assert_true(put(ring, 1, FORWARD_FRAME_MAX));
        filled = skipped + longest;
        for (uint32_t i = 2; filled + longest <= FORWARD_RING_BYTES; i++, filled += longest)
            assert_true(put(ring, i, FORWARD_FRAME_MAX));
        assert_false(put(ring, 0, FORWARD_RING_BYTES - filled < longest ? FORWARD_FRAME_MAX : 0));
        for (uint32_t i = 1; !forward_empty(ring); i++)
            takes(ring, i, FORWARD_FRAME_MAX);
        /* On to the start, for the next rest. */
        forward_destroy(ring);
        ring = forward_create();
    }
    forward_destroy(ring);
}

/* There is enough room for the frame, but in two parts. */
static void test_two_parts_are_no_room(void **state)
{
    struct forward_ring *ring = forward_create();
    uint32_t longest = record_bytes(FORWARD_FRAME_MAX), n = FORWARD_RING_BYTES / longest - 1;
    uint32_t rest = FORWARD_RING_BYTES % longest, first = longest / 4;

    assert_true(record_bytes(first) + rest >= longest);
    assert_true(put(ring, 0, first));
    for (uint32_t i = 1; i <= n; i++)
        assert_true(put(ring, i, FORWARD_FRAME_MAX));
    /* The free room is now the first part's and the rest: leave only the rest. */
    assert_true(put(ring, n + 1, longest - record_bytes(first) - CACHE_LINE));
    takes(ring, 0, first);
    assert_false(put(ring, n + 2, FORWARD_FRAME_MAX));
    takes(ring, 1, FORWARD_FRAME_MAX);
    assert_true(put(ring, n + 2, FORWARD_FRAME_MAX));
    for (uint32_t i = 2; i <= n; i++)
        takes(ring, i, FORWARD_FRAME_MAX);
    takes(ring, n + 1, longest - record_bytes(first) - CACHE_LINE);
    takes(ring, n + 2, FORWARD_FRAME_MAX);
    takes_nothing(ring);
    forward_destroy(ring);
}

static unsigned take_all(struct forward_ring *ring, const struct forward_target *expected,
                         uint32_t first, unsigned n)
{
    struct forward_target target;
    struct frame f[FRAME_BURST];
    unsigned got = forward_take(ring, &target, f, FRAME_BURST);

    assert_int_equal(got, n);
    assert_ptr_equal(target.to, expected->to);
    assert_int_equal(target.for_host, expected->for_host);
    assert_int_equal(target.for_sniffers, expected->for_sniffers);
    for (unsigned i = 0; i < n; i++)
        assert_true(is_frame(&f[i], first + i, 60));
    forward_release(ring);
    return got;
}

/* A burst is for one engine, or for its sniffers, or for one host. */
static void test_notes_that_change(void **state)
{
    const struct forward_target target[] = {
        {&here, false}, {&here, true}, {&there, true}, {&there, false}, {&there, false, true}};
    static const unsigned each[] = {3, 1, 2, 4, 2};
    struct forward_ring *ring = forward_create();
    uint32_t number = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(target); i++)
        for (unsigned j = 0; j < each[i]; j++) {
            struct frame f = frame_of(bytes, number++, 60);

            assert_true(forward_put(ring, &target[i], &f));
        }
    number = 0;
    for (unsigned i = 0; i < ARRAY_SIZE(target); i++)
        number += take_all(ring, &target[i], number, each[i]);
    assert_true(forward_empty(ring));
    forward_destroy(ring);
}

#ifndef __SANITIZE_THREAD__ /* which is unused here */
/* The positions count bytes and begin anew after 4 GiB. */
static void test_positions_wrap(void **state)
{
    struct forward_target target = {.to = &here};
    struct frame frame = frame_of(bytes, 7, FORWARD_FRAME_MAX), f[4];
    struct forward_ring *ring = forward_create();
    uint64_t passed = 0;

    while (passed <= UINT32_MAX) {
        for (unsigned i = 0; i < ARRAY_SIZE(f); i++) {
            assert_true(forward_put(ring, &target, &frame));
            passed += record_bytes(FORWARD_FRAME_MAX);
        }
        assert_int_equal(forward_take(ring, &target, f, ARRAY_SIZE(f)), ARRAY_SIZE(f));
        forward_release(ring);
    }
    assert_true(is_frame(&f[0], 7, FORWARD_FRAME_MAX));
    forward_destroy(ring);
}
#endif

/* ---- two threads ---- */

#define FRAMES 60000u

struct lane {
    struct forward_ring *ring;
    unsigned refused;
};

/* Both ends know it. */
static uint32_t nth_len(uint32_t i)
{
    struct random r = {.state = i};
    uint32_t most = random_below(&r, 8) ? 200 : FORWARD_FRAME_MAX + 1;

    return random_below(&r, most);
}

static void *produce(void *arg)
{
    static uint8_t room[FORWARD_FRAME_MAX];
    struct lane *l = arg;

    for (uint32_t i = 0; i < FRAMES; i++) {
        struct forward_target target = {.to = i / 7 % 2 ? &here : &there, .for_host = i / 50 % 2};
        struct frame f = frame_of(room, i, nth_len(i));

        while (!forward_put(l->ring, &target, &f)) {
            l->refused++;
            sched_yield();
        }
    }
    return NULL;
}

static uint32_t consume(struct forward_ring *ring, uint32_t next)
{
    struct forward_target target;
    struct frame f[FRAME_BURST];
    unsigned n = forward_take(ring, &target, f, FRAME_BURST);

    for (unsigned i = 0; i < n; i++, next++) {
        assert_ptr_equal(target.to, next / 7 % 2 ? &here : &there);
        assert_int_equal(target.for_host, next / 50 % 2);
        assert_true(is_frame(&f[i], next, nth_len(next)));
    }
    forward_release(ring);
    return next;
}

static void test_two_threads(void **state)
{
    struct lane l = {.ring = forward_create()};
    pthread_t producer;
    uint32_t next = 0;

    assert_int_equal(pthread_create(&producer, NULL, produce, &l), 0);
    while (next < FRAMES) {
        uint32_t before = next;

        next = consume(l.ring, next);
        if (next == before)
            sched_yield();
    }
    pthread_join(producer, NULL);
    assert_int_equal(next, FRAMES);
    assert_true(forward_empty(l.ring));
    forward_destroy(l.ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_a_burst_is_at_most_so_many),
        cmocka_unit_test(test_room_comes_back_with_release),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_two_parts_are_no_room),
        cmocka_unit_test(test_notes_that_change),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_positions_wrap),
#endif
        cmocka_unit_test(test_two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
