/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the communication manager: the fields of messages that the Linux kernel sent, as
 * tshark shows them. tshark does not take SIDR apart, and cuts the flow label off: that is the one
 * of the port numbers, (52304 * 31 + 7174) mod 2^20.
 */
#include <string.h>

#include "capture.h"
#include "cm_msg.h"
#include "common.h"
#include "encap.h"
#include "ip_cm.h"
#include "pkt.h"
#include "unit.h"

static const struct sample {
    const char *file;
    unsigned frame;
    enum cm_field field;
    uint64_t value;
} samples[] = {
    {"cm-rping-v4.pcap", 1, CM_REQ_local_comm_id, 0xf8968773},
    {"cm-rping-v4.pcap", 1, CM_REQ_service_id, 0x0000000001061c06},
    {"cm-rping-v4.pcap", 1, CM_REQ_local_qkey, 0},
    {"cm-rping-v4.pcap", 1, CM_REQ_local_qpn, 0x63},
    {"cm-rping-v4.pcap", 1, CM_REQ_responder_resources, 1},
    {"cm-rping-v4.pcap", 1, CM_REQ_initiator_depth, 1},
    {"cm-rping-v4.pcap", 1, CM_REQ_remote_cm_response_timeout, 0x14},
    {"cm-rping-v4.pcap", 1, CM_REQ_transport_service_type, 0},
    {"cm-rping-v4.pcap", 1, CM_REQ_end_to_end_flow_control, 0},
    {"cm-rping-v4.pcap", 1, CM_REQ_starting_psn, 0xe6c2cd},
    {"cm-rping-v4.pcap", 1, CM_REQ_local_cm_response_timeout, 0x14},
    {"cm-rping-v4.pcap", 1, CM_REQ_retry_count, 7},
    {"cm-rping-v4.pcap", 1, CM_REQ_partition_key, 0xffff},
    {"cm-rping-v4.pcap", 1, CM_REQ_path_mtu, 5},
    {"cm-rping-v4.pcap", 1, CM_REQ_rnr_retry_count, 7},
    {"cm-rping-v4.pcap", 1, CM_REQ_max_cm_retries, 15},
    {"cm-rping-v4.pcap", 1, CM_REQ_srq, 0},
    {"cm-rping-v4.pcap", 1, CM_REQ_primary_flow_label, 0x8d9b6},
    {"cm-rping-v4.pcap", 1, CM_REQ_primary_traffic_class, 0},
    {"cm-rping-v4.pcap", 1, CM_REQ_primary_hop_limit, 64},
    {"cm-rping-v4.pcap", 1, CM_REQ_primary_sl, 0},
    {"cm-rping-v4.pcap", 1, CM_REQ_primary_local_ack_timeout, 0x13},
    {"cm-rping-v4.pcap", 2, CM_REP_local_comm_id, 0x80113545},
    {"cm-rping-v4.pcap", 2, CM_REP_remote_comm_id, 0xf8968773},
    {"cm-rping-v4.pcap", 2, CM_REP_local_qkey, 0},
    {"cm-rping-v4.pcap", 2, CM_REP_local_qpn, 0x63},
    {"cm-rping-v4.pcap", 2, CM_REP_starting_psn, 0x320860},
    {"cm-rping-v4.pcap", 2, CM_REP_responder_resources, 1},
    {"cm-rping-v4.pcap", 2, CM_REP_initiator_depth, 1},
    {"cm-rping-v4.pcap", 2, CM_REP_target_ack_delay, 15},
    {"cm-rping-v4.pcap", 2, CM_REP_end_to_end_flow_control, 0},
    {"cm-rping-v4.pcap", 2, CM_REP_rnr_retry_count, 7},
    {"cm-rping-v4.pcap", 2, CM_REP_srq, 0},
    {"cm-rping-v4.pcap", 3, CM_RTU_local_comm_id, 0xf8968773},
    {"cm-rping-v4.pcap", 3, CM_RTU_remote_comm_id, 0x80113545},
    {"cm-rping-v4.pcap", 28, CM_DREQ_local_comm_id, 0xf8968773},
    {"cm-rping-v4.pcap", 28, CM_DREQ_remote_comm_id, 0x80113545},
    {"cm-rping-v4.pcap", 28, CM_DREQ_remote_qpn, 0x63},
    {"cm-rping-v4.pcap", 29, CM_DREP_local_comm_id, 0x80113545},
    {"cm-rping-v4.pcap", 29, CM_DREP_remote_comm_id, 0xf8968773},
    {"cm-reject-v4.pcap", 2, CM_REJ_local_comm_id, 0},
    {"cm-reject-v4.pcap", 2, CM_REJ_remote_comm_id, 0xfc968773},
    {"cm-reject-v4.pcap", 2, CM_REJ_message_rejected, 0},
    {"cm-reject-v4.pcap", 2, CM_REJ_reason, 8},
    {"cm-udaddy-v4.pcap", 1, CM_SIDR_REQ_request_id, 0xfe968773},
    {"cm-udaddy-v4.pcap", 1, CM_SIDR_REQ_partition_key, 0xffff},
    {"cm-udaddy-v4.pcap", 1, CM_SIDR_REQ_service_id, 0x0000000001111c06},
    {"cm-udaddy-v4.pcap", 2, CM_SIDR_REP_request_id, 0xfe968773},
    {"cm-udaddy-v4.pcap", 2, CM_SIDR_REP_status, 0},
    {"cm-udaddy-v4.pcap", 2, CM_SIDR_REP_qpn, 0x67},
    {"cm-udaddy-v4.pcap", 2, CM_SIDR_REP_service_id, 0x0000000001111c06},
    {"cm-udaddy-v4.pcap", 2, CM_SIDR_REP_qkey, 0x01234567},
};

static const struct {
    enum cm_message message;
    unsigned byte, bit, bits;
} rows[] = {
#define X(message, field, byte, bit, bits) {CM_##message, byte, bit, bits},
    CM_FIELDS(X)
#undef X
};

static const struct {
    unsigned attribute, private_data;
} messages[] = {
#define X(message, attribute, private_data) {attribute, private_data},
    CM_MESSAGES(X)
#undef X
};

/* A MAD with this message, whose bytes all have this value. */
static const uint8_t *make_mad(enum cm_message message, uint8_t byte)
{
    static uint8_t mad[MAD_LEN];

    memset(mad, byte, sizeof(mad));
    mad[0] = 1;
    mad[1] = 0x07;
    mad[2] = 2;
    mad[3] = 3;
    mad[16] = (uint8_t)(messages[message].attribute >> 8);
    mad[17] = (uint8_t)messages[message].attribute;
    return mad;
}

/* ---- messages of the kernel ---- */

static void check_frame(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx)
{
    static const struct encap_port any = {.promiscuous = true};
    unsigned *checked = ctx;
    struct encap_view v;
    struct cm_msg m;
    struct pkt p;

    for (unsigned i = 0; i < ARRAY_SIZE(samples); i++) {
        const struct sample *s = &samples[i];

        if (strcmp(s->file, file) || s->frame != number)
            continue;
        assert_int_equal(encap_rx(&v, bytes, len, &any), DROP_NONE);
        assert_int_equal(pkt_parse(&p, v.bth, v.bth_len), DROP_NONE);
        assert_int_equal(p.dest_qpn, 1);
        assert_true(cm_msg_parse(&m, p.payload, p.payload_len));
        assert_int_equal(m.message, rows[s->field].message);
        if (cm_msg_get(&m, s->field) != s->value)
            fail_msg("%s frame %u, row %u: 0x%lx", file, number, i, cm_msg_get(&m, s->field));
        ++*checked;
    }
}

static void test_kernel_messages(void **state)
{
    unsigned checked = 0;

    assert_true(capture_walk(TEST_VECTORS "/rxe-6.1", check_frame, &checked) > 0);
    assert_int_equal(checked, ARRAY_SIZE(samples));
}

/* Behind the RDMA IP CM header (A11), which begins with its version, the user's bytes. */
static void check_private_data(const char *file, unsigned number, uint8_t *bytes, size_t len,
                               void *ctx)
{
    static const struct encap_port any = {.promiscuous = true};
    const uint8_t *data;
    struct encap_view v;
    struct cm_msg m;
    struct pkt p;
    size_t n;

    if (strcmp(file, "cm-rping-v4.pcap") || number != 1)
        return;
    assert_int_equal(encap_rx(&v, bytes, len, &any), DROP_NONE);
    assert_int_equal(pkt_parse(&p, v.bth, v.bth_len), DROP_NONE);
    assert_true(cm_msg_parse(&m, p.payload, p.payload_len));
    data = cm_msg_private_data(&m, &n);
    assert_int_equal(n, 92);
    assert_memory_equal(data, "\x00\x40\xcc\x50", 4);
    assert_memory_equal(data + 32, "\x0a\x09\x00\x02", 4);
    *(bool *)ctx = true;
}

static void test_private_data(void **state)
{
    bool seen = false;

    assert_true(capture_walk(TEST_VECTORS "/rxe-6.1", check_private_data, &seen) > 0);
    assert_true(seen);
}

/* ---- the tables ---- */

static void test_private_data_ends_the_message(void **state)
{
    struct cm_msg m;
    size_t n;

    for (unsigned i = 0; i < CM_MESSAGE_COUNT; i++) {
        const uint8_t *mad = make_mad((enum cm_message)i, 0);

        assert_true(cm_msg_parse(&m, mad, MAD_LEN));
        assert_int_equal(m.message, i);
        assert_ptr_equal(cm_msg_private_data(&m, &n) + n, mad + MAD_LEN);
        assert_int_equal(n, CM_MSG_LEN - messages[i].private_data);
    }
}

/* Fields lie in front of the private data, in order, and do not overlap. */
static void test_fields_are_apart(void **state)
{
    for (unsigned i = 0; i < CM_FIELD_COUNT; i++) {
        unsigned start = rows[i].byte * 8 + rows[i].bit, end = start + rows[i].bits;
        const struct cm_field_info *info = cm_field_info((enum cm_field)i);

        assert_true(rows[i].bits > 0 && rows[i].bit < 8);
        if (bit_field_is_number(&info->field))
            assert_true(rows[i].bit + rows[i].bits <= 64);
        else
            assert_true(rows[i].bit == 0 && rows[i].bits % 8 == 0);
        assert_int_equal(info->message, rows[i].message);
        assert_true(end <= messages[rows[i].message].private_data * 8);
        if (i + 1 < CM_FIELD_COUNT && rows[i + 1].message == rows[i].message)
            assert_true(end <= rows[i + 1].byte * 8 + rows[i + 1].bit);
    }
}

/* Writes `ones` into the bits of a field, and its opposite into all others of the message. */
static void fill_field(uint8_t *mad, unsigned row, bool ones)
{
    unsigned start = rows[row].byte * 8 + rows[row].bit;

    memcpy(mad, make_mad(rows[row].message, ones ? 0 : 0xFF), MAD_LEN);
    for (unsigned bit = start; bit < start + rows[row].bits; bit++)
        mad[MAD_HEADER + bit / 8] ^= 0x80 >> bit % 8;
}

static void test_bits_of_a_field(void **state)
{
    uint8_t mad[MAD_LEN];
    struct cm_msg m;

    for (unsigned i = 0; i < CM_FIELD_COUNT; i++) {
        if (!bit_field_is_number(&cm_field_info((enum cm_field)i)->field))
            continue;
        fill_field(mad, i, true);
        assert_true(cm_msg_parse(&m, mad, MAD_LEN));
        assert_true(cm_msg_get(&m, (enum cm_field)i) == UINT64_MAX >> (64 - rows[i].bits));
        fill_field(mad, i, false);
        assert_true(cm_msg_parse(&m, mad, MAD_LEN));
        assert_true(cm_msg_get(&m, (enum cm_field)i) == 0);
    }
}

/* A number that is written changes no bit beside its own, whatever these are. */
static void test_writing_a_field(void **state)
{
    uint8_t mad[MAD_LEN], expected[MAD_LEN];

    for (unsigned i = 0; i < CM_FIELD_COUNT * 2; i++) {
        bool ones = i & 1;

        if (!bit_field_is_number(&cm_field_info((enum cm_field)(i / 2))->field))
            continue;
        fill_field(expected, i / 2, ones);
        memcpy(mad, make_mad(rows[i / 2].message, ones ? 0 : 0xFF), MAD_LEN);
        cm_msg_set(mad, (enum cm_field)(i / 2), ones ? UINT64_MAX : 0);
        assert_memory_equal(mad, expected, MAD_LEN);
    }
}

/* Fields that are no numbers are bytes in place. */
static void test_bytes_of_a_field(void **state)
{
    uint8_t mad[MAD_LEN], expected[MAD_LEN], bytes[MAD_LEN];
    unsigned found = 0;
    struct cm_msg m;

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i + 1);
    for (unsigned i = 0; i < CM_FIELD_COUNT; i++) {
        const struct bit_field *f = &cm_field_info((enum cm_field)i)->field;

        memcpy(mad, make_mad(rows[i].message, 0), MAD_LEN);
        assert_true(cm_msg_parse(&m, mad, MAD_LEN));
        if (bit_field_is_number(f)) {
            assert_null(cm_msg_bytes(&m, (enum cm_field)i));
            continue;
        }
        memcpy(expected, mad, MAD_LEN);
        memcpy(expected + MAD_HEADER + f->byte, bytes, f->bits / 8);
        cm_msg_set_bytes(mad, (enum cm_field)i, bytes, sizeof(bytes));
        assert_memory_equal(mad, expected, MAD_LEN);
        assert_ptr_equal(cm_msg_bytes(&m, (enum cm_field)i), mad + MAD_HEADER + f->byte);
        assert_int_equal(cm_msg_get(&m, (enum cm_field)i), 0);
        found++;
    }
    assert_int_equal(found, 9); /* four GIDs of REQ, two of LAP, three of additional information */
}

static void test_beginning_a_message(void **state)
{
    uint8_t mad[MAD_LEN];
    struct cm_msg m;
    size_t n;

    for (unsigned i = 0; i < CM_MESSAGE_COUNT; i++) {
        memset(mad, 0xFF, sizeof(mad));
        cm_msg_init(mad, (enum cm_message)i, UINT64_C(0x123456789abcdef0));
        assert_memory_equal(mad, "\x01\x07\x02\x03\0\0\0\0\x12\x34\x56\x78\x9a\xbc\xde\xf0\0", 17);
        assert_int_equal(mad[17], messages[i].attribute);
        for (unsigned k = 18; k < sizeof(mad); k++)
            assert_int_equal(mad[k], 0);
        assert_true(cm_msg_parse(&m, mad, sizeof(mad)));
        assert_int_equal(m.message, i);
        assert_ptr_equal(cm_msg_private_room(mad, m.message), cm_msg_private_data(&m, &n));
    }
}

/* The sizes that the manual pages of rdma_cm say, without the header of RDMA IP CM. */
static void test_private_data_sizes(void **state)
{
    static const uint8_t sizes[CM_MESSAGE_COUNT] = {
        [CM_REQ] = 56 + IP_CM_HEADER,
        [CM_MRA] = 222,
        [CM_REJ] = 148,
        [CM_REP] = 196,
        [CM_RTU] = 224,
        [CM_DREQ] = 220,
        [CM_DREP] = 224,
        [CM_SIDR_REQ] = 180 + IP_CM_HEADER,
        [CM_SIDR_REP] = 136,
        [CM_LAP] = 168,
        [CM_APR] = 148,
    };

    for (unsigned i = 0; i < CM_MESSAGE_COUNT; i++)
        assert_int_equal(cm_msg_private_data_max((enum cm_message)i), sizes[i]);
}

static void test_other_message(void **state)
{
    struct cm_msg m;

    assert_true(cm_msg_parse(&m, make_mad(CM_RTU, 0xFF), MAD_LEN));
    assert_int_equal(cm_msg_get(&m, CM_REP_local_qpn), 0);
    assert_null(cm_msg_bytes(&m, CM_REJ_info));
}

static void test_not_a_message(void **state)
{
    static const struct {
        unsigned at;
        uint8_t value;
    } wrong[] = {{0, 2}, {1, 0x03}, {2, 1}, {3, 1}, {3, 0x83}, {16, 0x01}, {17, 0x0F}, {17, 0x1B}};
    uint8_t mad[MAD_LEN];
    struct cm_msg m;

    memcpy(mad, make_mad(CM_REQ, 0), sizeof(mad));
    assert_true(cm_msg_parse(&m, mad, sizeof(mad)));
    assert_false(cm_msg_parse(&m, mad, sizeof(mad) - 1));
    for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
        memcpy(mad, make_mad(CM_REQ, 0), sizeof(mad));
        mad[wrong[i].at] = wrong[i].value;
        assert_false(cm_msg_parse(&m, mad, sizeof(mad)));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_messages),
        cmocka_unit_test(test_private_data),
        cmocka_unit_test(test_private_data_ends_the_message),
        cmocka_unit_test(test_fields_are_apart),
        cmocka_unit_test(test_bits_of_a_field),
        cmocka_unit_test(test_writing_a_field),
        cmocka_unit_test(test_bytes_of_a_field),
        cmocka_unit_test(test_beginning_a_message),
        cmocka_unit_test(test_private_data_sizes),
        cmocka_unit_test(test_other_message),
        cmocka_unit_test(test_not_a_message),
    };

    return cmocka_run_group_tests_name("wire_cm_msg", tests, NULL, NULL);
}
