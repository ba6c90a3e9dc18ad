/* SPDX-License-Identifier: BSD-3-Clause */
/* What two ports tell each other: the layout, and each byte that makes it another's. */
#include <string.h>

#include "peer_mad.h"
#include "unit.h"

static void test_layout(void **state)
{
    static const uint8_t want[MAD_LEN] = {
        1, 0x35, 1,    1,    0,   0,   0,   0,   1,   2, 3, 4, 5,   6,   7,   8,  0, 0x10,
        0, 0,    0,    0,    0,   0,   0,   0,   0,   0, 0, 0, 0,   0,   0,   0,  0, 0,
        0, 0x02, 0x75, 0x72, 'u', 'r', 'o', 'c', 'e', 0, 0, 0, 0xA, 0xB, 0xC, 0xD};
    uint8_t mad[MAD_LEN];

    memset(mad, 0xEE, sizeof(mad));
    peer_mad_ask(mad, 0x0102030405060708, 0x0A0B0C0D);
    assert_memory_equal(mad, want, sizeof(want));
}

static void test_answer(void **state)
{
    uint8_t mad[MAD_LEN];
    uint32_t features;

    peer_mad_ask(mad, 7, 1);
    mad_set(mad, MAD_response, 1);
    peer_mad_put(mad, 6);
    assert_true(peer_mad_read(mad, &features));
    assert_int_equal(features, 6);
    mad_set(mad, MAD_status, MAD_STATUS_BAD_METHOD_ATTRIBUTE);
    assert_false(peer_mad_read(mad, &features));
}

/* Of the bytes that it consists of each one, changed, makes it another's; the others do not. */
static void test_every_byte(void **state)
{
    for (unsigned i = 0; i < MAD_LEN; i++) {
        bool counts = (i >= 2 && i <= 5) || i == 16 || i == 17 || (i >= 37 && i < 48);
        uint8_t mad[MAD_LEN];
        uint32_t features;

        peer_mad_ask(mad, 7, 1);
        mad[i] ^= 2;
        assert_int_equal(peer_mad_read(mad, &features), !counts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_every_byte),
    };

    return cmocka_run_group_tests_name("wire_peer_mad", tests, NULL, NULL);
}
