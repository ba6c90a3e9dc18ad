/* SPDX-License-Identifier: BSD-3-Clause */
/* Secret permutations: every number once, back again, and in no order that an outsider could use.
 */
#include <stdlib.h>

#include "permute.h"
#include "unit.h"

static const uint64_t secret[2] = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};

static void test_is_a_permutation(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 16, 17, 1000, 65535, 65536, 131056, 1u << 20};

    for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
        uint8_t *seen = calloc(sizes[s], 1);
        struct permutation p;

        permutation_init(&p, sizes[s], secret);
        for (uint32_t i = 0; i < sizes[s]; i++) {
            uint32_t number = permute(&p, i);

            assert_true(number < sizes[s]);
            assert_int_equal(seen[number]++, 0);
            assert_int_equal(unpermute(&p, number), i);
        }
        free(seen);
    }
}

/* Tests count on numbers in order. */
static void test_without_secret(void **state)
{
    struct permutation p;

    permutation_init(&p, 1000, NULL);
    assert_int_equal(permute(&p, 7), 7);
    assert_int_equal(unpermute(&p, 7), 7);
    permutation_init(&p, 1000, (uint64_t[2]){0, 0});
    assert_int_equal(permute(&p, 999), 999);
}

/* Neither the next number nor the distance to it follows from those before. */
static void test_distances(void **state)
{
    static uint16_t times[131056];
    struct permutation p, other;
    uint32_t most = 0, equal = 0;

    permutation_init(&p, 131056, secret);
    permutation_init(&other, 131056, (uint64_t[2]){secret[0], secret[1] ^ 1});
    for (uint32_t i = 0; i + 1 < 131056; i++) {
        uint32_t distance = (permute(&p, i + 1) + 131056 - permute(&p, i)) % 131056;

        times[distance]++;
        most = max_of(most, times[distance]);
        equal += permute(&p, i) == permute(&other, i);
    }
    assert_true(most < 20); /* 1 on average */
    assert_true(equal < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_a_permutation),
        cmocka_unit_test(test_without_secret),
        cmocka_unit_test(test_distances),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
