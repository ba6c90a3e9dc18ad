/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of MADs and of the RDMA IP CM header. That the positions are right is for
 * cm_tshark.py and for the kernel's messages to say; here, that fields do not overlap, and are
 * written and read in place.
 */
#include <string.h>

#include "common.h"
#include "ip_cm.h"
#include "mad.h"
#include "unit.h"

static const struct table {
    const struct bit_field *rows;
    unsigned count, bytes;
} tables[] = {
    {mad_fields, MAD_FIELD_COUNT, MAD_HEADER},
    {class_port_info_fields, CPI_FIELD_COUNT, CLASS_PORT_INFO_LEN},
    {ip_cm_fields, IP_CM_FIELD_COUNT, IP_CM_HEADER},
};

static void test_fields_are_apart(void **state)
{
    for (unsigned t = 0; t < ARRAY_SIZE(tables); t++) {
        unsigned end = 0;

        for (unsigned i = 0; i < tables[t].count; i++) {
            const struct bit_field *f = &tables[t].rows[i];
            unsigned start = f->byte * 8u + f->bit;

            assert_true(start >= end && f->bit < 8 && f->bits > 0);
            end = start + f->bits;
        }
        assert_true(end <= tables[t].bytes * 8);
    }
}

/* Each number alone, all ones in zeros and all zeros in ones. */
static void test_numbers(void **state)
{
    for (unsigned t = 0; t < ARRAY_SIZE(tables); t++)
        for (unsigned i = 0; i < tables[t].count * 2; i++) {
            const struct bit_field *f = &tables[t].rows[i / 2];
            uint8_t bytes[CLASS_PORT_INFO_LEN], expected[CLASS_PORT_INFO_LEN];
            bool ones = i & 1;

            if (!bit_field_is_number(f))
                continue;
            memset(bytes, ones ? 0 : 0xFF, sizeof(bytes));
            memcpy(expected, bytes, sizeof(bytes));
            for (unsigned bit = f->byte * 8u + f->bit, n = 0; n < f->bits; n++, bit++)
                expected[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
            bit_field_put(bytes, f, ones ? UINT64_MAX : 0);
            assert_memory_equal(bytes, expected, sizeof(bytes));
            assert_true(bit_field_get(bytes, f) == (ones ? UINT64_MAX >> (64 - f->bits) : 0));
        }
}

static void test_class_port_info_in_a_mad(void **state)
{
    uint8_t mad[MAD_LEN] = {0};

    class_port_info_set(mad, CPI_capability_mask2, 0x5);
    class_port_info_set(mad, CPI_resp_time_value, 18);
    assert_memory_equal(mad + MAD_HEADER, "\0\0\0\0\0\0\0\xB2", 8);
    assert_int_equal(class_port_info_get(mad, CPI_resp_time_value), 18);
    assert_int_equal(class_port_info_get(mad, CPI_capability_mask2), 5);
}

/* ---- RDMA IP CM ---- */

static void test_ip_cm_header_v4(void **state)
{
    static const uint8_t wire[IP_CM_HEADER] = {0, 0x40, 0x12,      0x34, [16] = 10, 9,
                                               0, 1,    [32] = 10, 9,    0,         2};
    struct ip_cm_header h;
    uint8_t built[IP_CM_HEADER];

    assert_true(ip_cm_parse(&h, wire, sizeof(wire)));
    assert_int_equal(h.ip_version, 4);
    assert_int_equal(h.src_port, 0x1234);
    assert_memory_equal(h.src_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x09\0\x01", 16);
    assert_memory_equal(h.dst_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x09\0\x02", 16);
    memset(built, 0xFF, sizeof(built));
    ip_cm_build(built, &h);
    assert_memory_equal(built, wire, sizeof(wire));
}

/* What stands in front of an IPv4 address is not looked at. */
static void test_ip_cm_header_v4_rest(void **state)
{
    uint8_t wire[IP_CM_HEADER];
    struct ip_cm_header h;

    memset(wire, 0xEE, sizeof(wire));
    wire[0] = 0x0F; /* a later minor version */
    wire[1] = 0x4F;
    assert_true(ip_cm_parse(&h, wire, sizeof(wire)));
    assert_memory_equal(h.dst_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xee\xee\xee\xee", 16);
}

static void test_ip_cm_header_v6(void **state)
{
    struct ip_cm_header h = {.ip_version = 6, .src_port = 0xFFFE}, again;
    uint8_t wire[IP_CM_HEADER];

    for (unsigned i = 0; i < 16; i++) {
        h.src_addr[i] = (uint8_t)(0x20 + i);
        h.dst_addr[i] = (uint8_t)(0xA0 + i);
    }
    ip_cm_build(wire, &h);
    assert_memory_equal(wire, "\0\x60\xff\xfe", 4);
    assert_memory_equal(wire + 4, h.src_addr, 16);
    assert_memory_equal(wire + 20, h.dst_addr, 16);
    assert_true(ip_cm_parse(&again, wire, sizeof(wire)));
    assert_int_equal(again.ip_version, 6);
    assert_int_equal(again.src_port, 0xFFFE);
    assert_memory_equal(again.src_addr, h.src_addr, 16);
    assert_memory_equal(again.dst_addr, h.dst_addr, 16);
}

static void test_not_an_ip_cm_header(void **state)
{
    uint8_t wire[IP_CM_HEADER] = {0, 0x40};
    struct ip_cm_header h;

    assert_true(ip_cm_parse(&h, wire, sizeof(wire)));
    assert_false(ip_cm_parse(&h, wire, sizeof(wire) - 1));
    wire[0] = 0x10;
    assert_false(ip_cm_parse(&h, wire, sizeof(wire)));
    wire[0] = 0;
    for (unsigned version = 0; version < 16; version++) {
        wire[1] = (uint8_t)(version << 4);
        assert_int_equal(ip_cm_parse(&h, wire, sizeof(wire)), version == 4 || version == 6);
    }
}

static void test_service_ids(void **state)
{
    assert_true(ip_cm_service_id(IP_CM_PS_TCP, 7174) == UINT64_C(0x01061c06));
    assert_int_equal(ip_cm_port_space_of(0x01061c06), IP_CM_PS_TCP);
    assert_int_equal(ip_cm_port_space_of(0x0111FFFF), IP_CM_PS_UDP);
    assert_int_equal(ip_cm_port_space_of(0x013F0000), IP_CM_PS_IB);
    assert_int_equal(ip_cm_port_space_of(0x00020001), IP_CM_PS_IPOIB);
    assert_int_equal(ip_cm_port_space_of(0x01071c06), IP_CM_PS_NONE);
    assert_int_equal(ip_cm_port_space_of(UINT64_C(0x1000001061c06)), IP_CM_PS_NONE);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_apart),         cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_class_port_info_in_a_mad), cmocka_unit_test(test_ip_cm_header_v4),
        cmocka_unit_test(test_ip_cm_header_v4_rest),     cmocka_unit_test(test_ip_cm_header_v6),
        cmocka_unit_test(test_not_an_ip_cm_header),      cmocka_unit_test(test_service_ids),
    };

    return cmocka_run_group_tests_name("wire_mad", tests, NULL, NULL);
}
