/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums of frames that scapy has built, and of frames that are damaged, cut or fragments. */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "encap_layout.h"
#include "frame_csum.h"
#include "unit.h"

#define FRAME_MAX 100

struct vector {
    const char *what;
    unsigned len, ip, body_sum, header_sum; /* where; 0: it has none */
    uint8_t bytes[FRAME_MAX];
};

static const struct vector vectors[] = {
    {"UDP, an odd length", 45, 14, 40, 24, {0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00,
                                            0x00, 0x00, 0x01, 0x08, 0x00, 0x45, 0x00, 0x00, 0x1F,
                                            0x00, 0x07, 0x00, 0x00, 0x40, 0x11, 0x62, 0xBF, 0x0A,
                                            0x01, 0x02, 0x03, 0x0A, 0x01, 0x02, 0x04, 0x03, 0xE8,
                                            0x07, 0xD0, 0x00, 0x0B, 0x08, 0xB3, 0x6F, 0x64, 0x64}},
    {"TCP, a tag, options of IPv4",
     69,
     18,
     58,
     28,
     {0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x81, 0x00,
      0x00, 0x05, 0x08, 0x00, 0x46, 0x00, 0x00, 0x33, 0x00, 0x01, 0x00, 0x00, 0x40, 0x06,
      0xAB, 0x16, 0xC0, 0xA8, 0xFF, 0xFE, 0x0A, 0x01, 0x02, 0x04, 0x01, 0x01, 0x01, 0x01,
      0x00, 0x50, 0xEA, 0x60, 0xFE, 0xDC, 0xBA, 0x98, 0x00, 0x00, 0x00, 0x05, 0x50, 0x18,
      0x20, 0x00, 0x65, 0x02, 0x00, 0x00, 0x73, 0x65, 0x76, 0x65, 0x6E, 0x20, 0x62}},
    {"UDP over IPv6", 66, 14, 60, 0, {0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00,
                                      0x00, 0x01, 0x86, 0xDD, 0x60, 0x00, 0x00, 0x00, 0x00, 0x0C,
                                      0x11, 0x40, 0xFE, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x20, 0x01,
                                      0x0D, 0xB8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                      0x00, 0x00, 0xFF, 0xFF, 0x00, 0x01, 0xFF, 0xFF, 0x00, 0x0C,
                                      0xD3, 0x9B, 0xFF, 0xFF, 0xFF, 0xFE}},
    {"TCP over IPv6, two tags",
     82,
     22,
     78,
     0,
     {0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x88, 0xA8,
      0x00, 0x09, 0x81, 0x00, 0x00, 0x05, 0x86, 0xDD, 0x60, 0x00, 0x00, 0x00, 0x00, 0x14,
      0x06, 0x40, 0xFE, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x01, 0x20, 0x01, 0x0D, 0xB8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0x00, 0x01, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x50, 0x02, 0x20, 0x00, 0x63, 0xA7, 0x00, 0x00}},
    {"UDP whose sum would be 0", 44, 14, 40, 24, {0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00,
                                                  0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x45, 0x00,
                                                  0x00, 0x1E, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11,
                                                  0x62, 0xC6, 0x0A, 0x01, 0x02, 0x03, 0x0A, 0x01,
                                                  0x02, 0x04, 0x00, 0x01, 0x00, 0x02, 0x00, 0x0A,
                                                  0xFF, 0xFF, 0xE7, 0xCE}},
};

enum { UDP4, TCP4, UDP6, TCP6, ZERO };

/* The bytes at exact length, so that a sanitizer sees what is touched behind them. */
static uint8_t *exact(const uint8_t *bytes, unsigned len)
{
    uint8_t *copy = malloc(len + !len);

    memcpy(copy, bytes, len);
    return copy;
}

static bool is_right(const uint8_t *bytes, unsigned len)
{
    uint8_t *copy = exact(bytes, len);
    bool right = frame_csum_is_right(copy, len);

    free(copy);
    return right;
}

/* What was in their place does not matter. */
static void test_written(void **state)
{
    static const uint16_t before[] = {0, 0xFFFF, 0x1234};

    for (unsigned i = 0; i < ARRAY_SIZE(vectors) * ARRAY_SIZE(before); i++) {
        const struct vector *v = &vectors[i % ARRAY_SIZE(vectors)];
        uint8_t *frame = exact(v->bytes, v->len);

        put_be16(frame + v->body_sum, before[i / ARRAY_SIZE(vectors)]);
        if (v->header_sum)
            put_be16(frame + v->header_sum, before[i / ARRAY_SIZE(vectors)]);
        frame_csum_write(frame, v->len);
        if (memcmp(frame, v->bytes, v->len))
            fail_msg("%s", v->what);
        free(frame);
    }
}

/* No bit of the packet can be another one. */
static void test_damage(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(vectors); i++) {
        const struct vector *v = &vectors[i];
        uint8_t frame[FRAME_MAX];

        assert_int_equal(is_right(v->bytes, v->len), v->header_sum != 0); /* of IPv4 alone */
        for (unsigned bit = v->ip * 8; bit < v->len * 8; bit++) {
            memcpy(frame, v->bytes, v->len);
            frame[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
            if (is_right(frame, v->len))
                fail_msg("%s: bit %u", v->what, bit);
        }
    }
}

static void test_cut_short(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(vectors); i++) {
        for (unsigned len = 0; len < vectors[i].len; len++) {
            uint8_t *frame = exact(vectors[i].bytes, len);

            if (len > vectors[i].body_sum + 1)
                put_be16(frame + vectors[i].body_sum, 0x5555);
            frame_csum_write(frame, len);
            if (len > vectors[i].body_sum + 1)
                assert_int_equal(get_be16(frame + vectors[i].body_sum), 0x5555);
            assert_false(frame_csum_is_right(frame, len));
            free(frame);
        }
    }
}

/* What is behind the packet is not of it. */
static void test_padding(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(vectors); i++) {
        uint8_t frame[FRAME_MAX + 18];

        memset(frame, 0xA5, sizeof(frame));
        memcpy(frame, vectors[i].bytes, vectors[i].len);
        put_be16(frame + vectors[i].body_sum, 0);
        frame_csum_write(frame, vectors[i].len + 18);
        assert_memory_equal(frame, vectors[i].bytes, vectors[i].len);
        assert_int_equal(is_right(frame, vectors[i].len + 18), vectors[i].header_sum != 0);
    }
}

/* The sum of a packet's body is in its first fragment, and is not known there. */
static void test_fragments(void **state)
{
    static const uint16_t fragment[] = {0x2000, 0x0001, 0x2005};

    for (unsigned i = 0; i < ARRAY_SIZE(fragment); i++) {
        const struct vector *v = &vectors[TCP4];
        uint8_t *frame = exact(v->bytes, v->len);

        put_be16(frame + v->ip + 6, fragment[i]);
        put_be16(frame + v->body_sum, 0x5555);
        frame_csum_write(frame, v->len);
        assert_int_equal(get_be16(frame + v->body_sum), 0x5555);
        assert_int_equal(words_sum(0, frame + v->ip, 24), UINT16_MAX);
        put_be16(frame + v->body_sum, get_be16(v->bytes + v->body_sum));
        assert_false(is_right(frame, v->len));
        free(frame);
    }
}

static void test_udp_without(void **state)
{
    const struct vector *v = &vectors[UDP4];
    uint8_t frame[FRAME_MAX];

    memcpy(frame, v->bytes, v->len);
    put_be16(frame + v->body_sum, 0);
    assert_true(is_right(frame, v->len));
    frame[v->header_sum] ^= 1;
    assert_false(is_right(frame, v->len));
    memcpy(frame, vectors[TCP4].bytes, vectors[TCP4].len); /* in TCP 0 is a sum */
    put_be16(frame + vectors[TCP4].body_sum, 0);
    assert_false(is_right(frame, vectors[TCP4].len));
}

/* UDP's own length counts: shorter than the packet, or impossible. */
static void test_udp_length(void **state)
{
    const struct vector *v = &vectors[UDP4];

    for (uint16_t len = 0; len < 14; len++) {
        uint8_t frame[FRAME_MAX];
        bool possible = len >= UDP_LEN && len <= 11;

        memcpy(frame, v->bytes, v->len);
        put_be16(frame + v->body_sum - 2, len);
        put_be16(frame + v->body_sum, 0x5555);
        frame_csum_write(frame, v->len);
        assert_int_equal(is_right(frame, v->len), possible);
        assert_int_equal(get_be16(frame + v->body_sum) != 0x5555, possible);
        frame[v->len - 1] ^= 1; /* the last of 11 bytes */
        assert_int_equal(is_right(frame, v->len), possible && len < 11);
    }
}

/* ICMP, and IPv6 with an extension header: nothing but IPv4's header. */
static void test_others(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(vectors); i++) {
        const struct vector *v = &vectors[i];
        uint8_t frame[FRAME_MAX], before[FRAME_MAX];

        memcpy(frame, v->bytes, v->len);
        frame[v->ip + (v->header_sum ? 9 : 6)] = v->header_sum ? 1 : 0;
        put_be16(frame + v->body_sum, 0x5555);
        memcpy(before, frame, v->len);
        frame_csum_write(frame, v->len);
        assert_false(is_right(frame, v->len));
        if (v->header_sum) {
            assert_int_not_equal(get_be16(frame + v->header_sum), get_be16(before + v->header_sum));
            put_be16(before + v->header_sum, get_be16(frame + v->header_sum));
        }
        assert_memory_equal(frame, before, v->len);
        memcpy(frame, v->bytes, v->len);
        frame[v->ip - 1] ^= 1; /* another EtherType */
        put_be16(frame + v->body_sum, 0x5555);
        frame_csum_write(frame, v->len);
        assert_int_equal(get_be16(frame + v->body_sum), 0x5555);
    }
}

/* Against the definition, at every length and from every address. */
static void test_words_sum(void **state)
{
    uint8_t bytes[80];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 151 + (i < 40 ? 0xF0 : 0));
    for (unsigned from = 0; from < 8; from++)
        for (unsigned len = 0; len <= 70; len++) {
            uint32_t sum = 0xABCDE;

            for (unsigned i = 0; i < len; i++)
                sum += i % 2 ? bytes[from + i] : (uint32_t)bytes[from + i] << 8;
            assert_int_equal(words_sum(0xABCDE, bytes + from, len), sum_fold(sum));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),    cmocka_unit_test(test_damage),
        cmocka_unit_test(test_cut_short),  cmocka_unit_test(test_padding),
        cmocka_unit_test(test_fragments),  cmocka_unit_test(test_udp_without),
        cmocka_unit_test(test_udp_length), cmocka_unit_test(test_others),
        cmocka_unit_test(test_words_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
