/* SPDX-License-Identifier: BSD-3-Clause */
/* The opcode table against an independent list: names and header lengths written out by hand. */
#include <string.h>

#include "common.h"
#include "opcode.h"
#include "pkt.h"
#include "unit.h"

static const struct {
    uint8_t opcode;
    const char *name;
    uint8_t header_len;
} expected[] = {
    {0x00, "RC_SEND_FIRST", 12},        {0x01, "RC_SEND_MIDDLE", 12},
    {0x02, "RC_SEND_LAST", 12},         {0x03, "RC_SEND_LAST_IMM", 16},
    {0x04, "RC_SEND_ONLY", 12},         {0x05, "RC_SEND_ONLY_IMM", 16},
    {0x06, "RC_WRITE_FIRST", 28},       {0x07, "RC_WRITE_MIDDLE", 12},
    {0x08, "RC_WRITE_LAST", 12},        {0x09, "RC_WRITE_LAST_IMM", 16},
    {0x0A, "RC_WRITE_ONLY", 28},        {0x0B, "RC_WRITE_ONLY_IMM", 32},
    {0x0C, "RC_READ_REQUEST", 28},      {0x0D, "RC_READ_RESP_FIRST", 16},
    {0x0E, "RC_READ_RESP_MIDDLE", 12},  {0x0F, "RC_READ_RESP_LAST", 16},
    {0x10, "RC_READ_RESP_ONLY", 16},    {0x11, "RC_ACK", 16},
    {0x12, "RC_ATOMIC_ACK", 24},        {0x13, "RC_CMP_SWP", 40},
    {0x14, "RC_FETCH_ADD", 40},         {0x16, "RC_SEND_LAST_INV", 16},
    {0x17, "RC_SEND_ONLY_INV", 16},     {0x1C, "RC_FLUSH", 32},
    {0x1D, "RC_ATOMIC_WRITE", 28},      {0x20, "UC_SEND_FIRST", 12},
    {0x21, "UC_SEND_MIDDLE", 12},       {0x22, "UC_SEND_LAST", 12},
    {0x23, "UC_SEND_LAST_IMM", 16},     {0x24, "UC_SEND_ONLY", 12},
    {0x25, "UC_SEND_ONLY_IMM", 16},     {0x26, "UC_WRITE_FIRST", 28},
    {0x27, "UC_WRITE_MIDDLE", 12},      {0x28, "UC_WRITE_LAST", 12},
    {0x29, "UC_WRITE_LAST_IMM", 16},    {0x2A, "UC_WRITE_ONLY", 28},
    {0x2B, "UC_WRITE_ONLY_IMM", 32},    {0x64, "UD_SEND_ONLY", 20},
    {0x65, "UD_SEND_ONLY_IMM", 24},     {0x81, "CNP", 12},
    {0xA0, "XRC_SEND_FIRST", 16},       {0xA1, "XRC_SEND_MIDDLE", 16},
    {0xA2, "XRC_SEND_LAST", 16},        {0xA3, "XRC_SEND_LAST_IMM", 20},
    {0xA4, "XRC_SEND_ONLY", 16},        {0xA5, "XRC_SEND_ONLY_IMM", 20},
    {0xA6, "XRC_WRITE_FIRST", 32},      {0xA7, "XRC_WRITE_MIDDLE", 16},
    {0xA8, "XRC_WRITE_LAST", 16},       {0xA9, "XRC_WRITE_LAST_IMM", 20},
    {0xAA, "XRC_WRITE_ONLY", 32},       {0xAB, "XRC_WRITE_ONLY_IMM", 36},
    {0xAC, "XRC_READ_REQUEST", 32},     {0xAD, "XRC_READ_RESP_FIRST", 16},
    {0xAE, "XRC_READ_RESP_MIDDLE", 12}, {0xAF, "XRC_READ_RESP_LAST", 16},
    {0xB0, "XRC_READ_RESP_ONLY", 16},   {0xB1, "XRC_ACK", 16},
    {0xB2, "XRC_ATOMIC_ACK", 24},       {0xB3, "XRC_CMP_SWP", 44},
    {0xB4, "XRC_FETCH_ADD", 44},        {0xB6, "XRC_SEND_LAST_INV", 20},
    {0xB7, "XRC_SEND_ONLY_INV", 20},    {0xBC, "XRC_FLUSH", 36},
    {0xBD, "XRC_ATOMIC_WRITE", 32},
};

static void test_rows(void **state)
{
    unsigned defined = 0;

    for (unsigned op = 0; op < 256; op++)
        defined += opcode_is_defined((uint8_t)op);
    assert_int_equal(defined, ARRAY_SIZE(expected));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        const struct opcode_info *info = &opcode_table[expected[i].opcode];

        assert_non_null(info->name);
        assert_string_equal(info->name, expected[i].name);
        assert_int_equal(info->header_len, expected[i].header_len);
        assert_true(info->header_len <= PKT_MAX_HEADER);
    }
}

/* The flags of a row must agree with its name. */
static void check_flags_against_name(const struct opcode_info *info)
{
    bool response = strstr(info->name, "_RESP_") || strstr(info->name, "ACK");
    bool first = strstr(info->name, "_FIRST"), middle = strstr(info->name, "_MIDDLE");
    bool last = strstr(info->name, "_LAST");
    bool xrc = !strncmp(info->name, "XRC_", 4);

    assert_int_equal(!!(info->flags & PF_START), !middle && !last);
    assert_int_equal(!!(info->flags & PF_END), !first && !middle);
    if (info->service != PKT_CNP) {
        assert_int_equal(!!(info->flags & PF_RESPONSE), response);
        assert_int_equal(!!(info->flags & PF_REQUEST), !response);
    }
    assert_int_equal(!!(info->flags & PF_IMM), !!strstr(info->name, "_IMM"));
    assert_int_equal(!!(info->flags & PF_IETH), !!strstr(info->name, "_INV"));
    assert_int_equal(!!(info->flags & PF_XRCETH), xrc && !response);
    assert_int_equal(!!(info->flags & PF_DETH), !strncmp(info->name, "UD_", 3));
    assert_int_equal(!!(info->flags & PF_AETH), response && !middle);
}

static void test_flags(void **state)
{
    for (unsigned op = 0; op < 256; op++) {
        const struct opcode_info *info = &opcode_table[op];

        if (!info->name) {
            assert_int_equal(info->kind, KIND_NONE);
            continue;
        }
        assert_int_equal(info->service, op & PKT_SERVICE_MASK);
        assert_int_not_equal(info->kind, KIND_NONE);
        check_flags_against_name(info);
    }
}

static void test_reliable_datagram_is_undefined(void **state)
{
    for (unsigned op = 0; op <= PKT_OP_MASK; op++)
        assert_false(opcode_is_defined(OPCODE(PKT_RD, op)));
}

static void test_fixed_payloads(void **state)
{
    for (unsigned op = 0; op < 256; op++) {
        uint8_t fix = opcode_table[op].payload_fix;

        if (op == OPCODE_CNP)
            assert_int_equal(fix, 16);
        else if (opcode_table[op].kind == KIND_ATOMIC_WRITE)
            assert_int_equal(fix, 8);
        else
            assert_int_equal(fix, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_reliable_datagram_is_undefined),
        cmocka_unit_test(test_fixed_payloads),
    };

    return cmocka_run_group_tests_name("wire_opcode", tests, NULL, NULL);
}
