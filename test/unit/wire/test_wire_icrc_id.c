/* SPDX-License-Identifier: BSD-3-Clause */
/* The identification is found by the ICRC, and damage seldom passes for one. */
#include <string.h>

#include "bytes.h"
#include "icrc.h"
#include "icrc_id.h"
#include "random.h"
#include "unit.h"

#define PACKETS 20000

/* A packet of IPv4 and UDP whose ICRC is right. */
static size_t make(uint8_t *ip, struct random *r)
{
    size_t len = 44 + 4 * random_below(r, 280);

    for (size_t i = 0; i < len; i++)
        ip[i] = (uint8_t)random_next(r);
    ip[0] = 0x45;
    put_be16(ip + 6, random_below(r, 2) ? 0x4000 : 0);
    icrc_seal(ICRC_IPV4, ip, len - 4);
    return len;
}

static void test_found(void **state)
{
    struct random r = {1};
    uint8_t sent[44 + 4 * 280], ip[sizeof(sent)];

    for (unsigned i = 0; i < PACKETS; i++) {
        size_t len = make(sent, &r);

        memcpy(ip, sent, len);
        put_be16(ip + 4, i % 3 ? (uint16_t)random_next(&r) : 0);
        put_be16(ip + 6, 0x4000);
        assert_true(icrc_find_id(ip, len));
        assert_memory_equal(ip, sent, len);
        assert_true(icrc_find_id(ip, len)); /* right already */
        assert_memory_equal(ip, sent, len);
    }
}

/* One in 2^15 is taken for another identification, and nothing else changes. */
static void test_damage(void **state)
{
    struct random r = {2};
    uint8_t sent[44 + 4 * 280], ip[sizeof(sent)];
    unsigned accepted = 0;

    for (unsigned i = 0; i < PACKETS; i++) {
        size_t len = make(sent, &r), at = 12 + random_below(&r, (uint32_t)len - 12);

        if (at == 26 || at == 27 || at == 32) /* UDP checksum, resv8a: not covered */
            continue;
        sent[at] ^= (uint8_t)(1 + random_below(&r, 255));
        memcpy(ip, sent, len);
        accepted += icrc_find_id(ip, len);
        memcpy(ip + 4, sent + 4, 4);
        assert_memory_equal(ip, sent, len);
    }
    assert_in_range(accepted, 0, 5);
}

static void test_no_answer_changes_nothing(void **state)
{
    struct random r = {3};
    uint8_t sent[44 + 4 * 280], ip[sizeof(sent)];
    size_t len = make(sent, &r);

    sent[len - 1] ^= 1;
    memcpy(ip, sent, len);
    assert_false(icrc_find_id(ip, len));
    assert_memory_equal(ip, sent, len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_no_answer_changes_nothing),
    };

    return cmocka_run_group_tests_name("wire_icrc_id", tests, NULL, NULL);
}
