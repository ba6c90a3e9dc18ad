/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames: which are, and which are not. */
#include <stdlib.h>
#include <string.h>

#include "pause.h"
#include "unit.h"

static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

/* As it is on the wire: 60 bytes, to the MAC control group. */
static const uint8_t pause[60] = {0x01, 0x80, 0xC2, 0,    0, 1, 2, 0,    0,
                                  0,    0,    2,    0x88, 8, 0, 1, 0x12, 0x34};

/* The bytes at exact length, so that a sanitizer sees what is read behind them. */
static bool parse(const uint8_t *frame, uint32_t len, uint16_t *quanta)
{
    uint8_t *exact = malloc(len + !len);
    bool is;

    memcpy(exact, frame, len);
    is = pause_parse(quanta, exact, len, mac);
    free(exact);
    return is;
}

static void test_accepted(void **state)
{
    uint8_t frame[60];
    uint16_t quanta = 0;

    assert_true(parse(pause, sizeof(pause), &quanta));
    assert_int_equal(quanta, 0x1234);
    memcpy(frame, pause, sizeof(frame));
    memcpy(frame, mac, sizeof(mac));
    assert_true(parse(frame, sizeof(frame), &quanta));
    for (unsigned v = 0; v <= UINT16_MAX; v += 0x1111) {
        frame[16] = (uint8_t)(v >> 8);
        frame[17] = (uint8_t)v;
        assert_true(parse(frame, sizeof(frame), &quanta));
        assert_int_equal(quanta, v);
    }
}

static void test_every_length(void **state)
{
    uint16_t quanta = 7;

    for (uint32_t len = 0; len <= sizeof(pause); len++) {
        assert_int_equal(parse(pause, len, &quanta), len >= 18);
        assert_int_equal(quanta, len >= 18 ? 0x1234 : 7);
    }
}

/* One bit of the destination, the type or the opcode: another frame. So are those in a VLAN, and
 * those to a multicast or unicast address of another. */
static void test_every_bit(void **state)
{
    for (unsigned bit = 0; bit < 16 * 8; bit++) {
        uint8_t frame[60];
        uint16_t quanta = 7;
        bool source = bit / 8 >= 6 && bit / 8 < 12;

        memcpy(frame, pause, sizeof(frame));
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(parse(frame, sizeof(frame), &quanta), source);
        assert_int_equal(quanta, source ? 0x1234 : 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
