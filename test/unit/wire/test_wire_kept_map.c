/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps of kept packets: their layout, byte by byte, and every length. */
#include <string.h>

#include "kept_map.h"
#include "unit.h"

static void test_layout(void **state)
{
    const struct kept_map m = {
        .first = psn(0x123456), .duplicates = 0x78, .words = 2, .bits = {0x8000000000000201, 1}};
    static const uint8_t want[] = {0x78, 0x12, 0x34, 0x56, 0x01, 0x02, 0, 0, 0, 0,
                                   0,    0x80, 0x01, 0,    0,    0,    0, 0, 0, 0};
    uint8_t bytes[KEPT_MAP_MAX_LEN];

    assert_int_equal(kept_map_len(&m), sizeof(want));
    assert_int_equal(kept_map_build(bytes, &m), sizeof(want));
    assert_memory_equal(bytes, want, sizeof(want));
}

static void test_lengths(void **state)
{
    for (size_t len = 0; len < 200; len++)
        assert_int_equal(kept_map_len_ok(len),
                         len >= 12 && len <= 68 && (len == 12 || (len - 12) % 8 == 0));
}

static void test_round_trip_of_every_length(void **state)
{
    for (unsigned words = 1; words <= KEPT_MAP_WORDS; words++) {
        struct kept_map m = {.first = psn(words), .duplicates = 200, .words = words}, back;
        uint8_t bytes[KEPT_MAP_MAX_LEN];

        memset(&back, 0xEE, sizeof(back));
        for (unsigned i = 0; i < words; i++)
            m.bits[i] = UINT64_C(0x0123456789ABCDEF) * (i + 1);
        assert_true(kept_map_len_ok(kept_map_build(bytes, &m)));
        kept_map_parse(&back, bytes, kept_map_len(&m));
        assert_int_equal(back.first.v, m.first.v);
        assert_int_equal(back.words, m.words);
        assert_int_equal(back.duplicates, m.duplicates);
        assert_memory_equal(back.bits, m.bits, sizeof(m.bits));
        assert_false(kept_map_is_empty(&back));
        memset(bytes + KEPT_MAP_HEAD, 0, 8 * words);
        kept_map_parse(&back, bytes, kept_map_len(&m));
        assert_true(kept_map_is_empty(&back));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_round_trip_of_every_length),
    };

    return cmocka_run_group_tests_name("wire_kept_map", tests, NULL, NULL);
}
