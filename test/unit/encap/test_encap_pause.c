/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames: which are, and which are not. */
#include <stdlib.h>
#include <string.h>

#include "pause.h"
#include "unit.h"

static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

/* As they are on the wire: 60 bytes, to the MAC control group. */
static const uint8_t pause[60] = {0x01, 0x80, 0xC2, 0,    0, 1, 2, 0,    0,
                                  0,    0,    2,    0x88, 8, 0, 1, 0x12, 0x34};
static const uint8_t pfc[60] = {0x01, 0x80, 0xC2, 0, 0, 1,    2,    0, 0,    0,   0, 2,
                                0x88, 8,    1,    1, 0, 0x85, 0x10, 0, 0x11, 1,   0, 2,
                                0x33, 3,    0x44, 4, 0, 5,    0,    6, 0xFF, 0xFF};

/* The bytes at exact length, so that a sanitizer sees what is read behind them. */
static bool parse(struct pause *p, const uint8_t *frame, uint32_t len)
{
    uint8_t *exact = malloc(len + !len);
    bool is;

    memcpy(exact, frame, len);
    is = pause_parse(p, exact, len, mac);
    free(exact);
    return is;
}

static void test_of_the_link(void **state)
{
    uint8_t frame[60];
    struct pause p;

    assert_true(parse(&p, pause, sizeof(pause)));
    assert_int_equal(p.quanta[0], 0x1234);
    memcpy(frame, pause, sizeof(frame));
    memcpy(frame, mac, sizeof(mac));
    assert_true(parse(&p, frame, sizeof(frame)));
    for (unsigned v = 0; v <= UINT16_MAX; v += 0x1111) {
        frame[16] = (uint8_t)(v >> 8);
        frame[17] = (uint8_t)v;
        assert_true(parse(&p, frame, sizeof(frame)));
        assert_int_equal(p.quanta[0], v);
        assert_false(p.by_priority || p.priorities);
    }
}

static void test_of_priorities(void **state)
{
    static const uint16_t quanta[8] = {0x1000, 0x1101, 2, 0x3303, 0x4404, 5, 6, 0xFFFF};
    struct pause p;

    assert_true(parse(&p, pfc, sizeof(pfc)));
    assert_true(p.by_priority);
    assert_int_equal(p.priorities, 0x85);
    assert_memory_equal(p.quanta, quanta, sizeof(quanta));
}

static void test_every_length(void **state)
{
    struct pause p;

    for (uint32_t len = 0; len <= sizeof(pause); len++) {
        assert_int_equal(parse(&p, pause, len), len >= 18);
        assert_int_equal(parse(&p, pfc, len), len >= 34);
    }
}

/* One bit of the destination, the type or the opcode: another frame. So are those in a VLAN, and
 * those to a multicast or unicast address of another. */
static void test_every_bit(void **state)
{
    for (unsigned bit = 0; bit < 16 * 8; bit++)
        for (unsigned by_priority = 0; by_priority < 2; by_priority++) {
            uint8_t frame[60];
            struct pause p;
            bool source = bit / 8 >= 6 && bit / 8 < 12;
            bool other = bit == 14 * 8; /* from one opcode to the other */

            memcpy(frame, by_priority ? pfc : pause, sizeof(frame));
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(parse(&p, frame, sizeof(frame)), source || other);
            if (source || other)
                assert_int_equal(p.by_priority, by_priority != other);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_the_link),
        cmocka_unit_test(test_of_priorities),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
