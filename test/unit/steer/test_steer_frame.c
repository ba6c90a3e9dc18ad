/* SPDX-License-Identifier: BSD-3-Clause */
/* The fields that are read from a frame to choose its queue, and frames that are not RoCEv2. */
#include <string.h>

#include "common.h"
#include "encap.h"
#include "frame_layout.h"
#include "roce_frame.h"
#include "unit.h"

static uint8_t frame[ROCE_FRAME_MAX];

static void expect(const struct roce_flow *flow)
{
    struct rss_frame want = roce_flow_tuple(flow), got;
    uint32_t len = roce_frame_write(frame, flow, 1);

    memset(&got, 0xEE, sizeof(got));
    assert_true(rss_frame_read(&got, frame, len));
    assert_true(gid_eq(&got.tuple.src, &want.tuple.src));
    assert_true(gid_eq(&got.tuple.dst, &want.tuple.dst));
    assert_int_equal(got.tuple.sport, want.tuple.sport);
    assert_int_equal(got.tuple.dport, ROCE_UDP_PORT);
    assert_int_equal(got.dest_qpn, want.dest_qpn);
    /* The frame must hold the whole BTH; nothing behind it is read. */
    assert_true(rss_frame_read(&got, frame, len - 8));
    for (uint32_t i = 0; i < len - 8; i++)
        assert_false(rss_frame_read(&got, frame, i));
}

static void test_read(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        struct roce_flow flow = roce_flow_number(100 + i, i & 1);

        flow.tagged = i & 2;
        flow.dest_qpn = 0xABCDEF;
        expect(&flow);
    }
}

static bool changed(bool ipv6, unsigned at, uint8_t value)
{
    struct roce_flow flow = roce_flow_number(1, ipv6);
    uint32_t len = roce_frame_write(frame, &flow, 1);
    struct rss_frame got;

    frame[at] = value;
    return rss_frame_read(&got, frame, len);
}

static void test_others(void **state)
{
    static const struct {
        bool ipv6;
        unsigned at;
        uint8_t value;
    } rows[] = {
        {false, 12, 0x88},                             /* another protocol of Ethernet */
        {false, 13, 0x06},                             /* ARP */
        {false, 14, 0x65},                             /* a version that its type is not */
        {false, 14, 0x44},                             /* a header too short */
        {false, 14, 0x4F},                             /* too long for the frame */
        {false, 14 + 6, 0x20},                         /* the first fragment */
        {false, 14 + 7, 1},                            /* a later one */
        {false, 14 + 9, 6},                            /* TCP */
        {false, 14 + 20 + 3, 0xB8},                    /* another port */
        {true, 14, 0x45},           {true, 14 + 6, 0}, /* an extension header */
        {true, 14 + 40 + 2, 0x13},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
        if (changed(rows[i].ipv6, rows[i].at, rows[i].value))
            fail_msg("row %u", i);
    assert_true(changed(false, 14 + 6, 0x40)); /* may not be fragmented: is whole */
    assert_true(changed(false, 14 + 1, 0xFF));
}

/* IPv4 options move what is behind them. */
static void test_options(void **state)
{
    struct roce_flow flow = roce_flow_number(3, false);
    uint32_t len = roce_frame_write(frame, &flow, 1);
    struct rss_frame got;

    memmove(frame + AT_UDP + 4, frame + AT_UDP, len - AT_UDP);
    frame[AT_IP] = 0x46; /* a header of six words */
    assert_true(rss_frame_read(&got, frame, len + 4));
    assert_int_equal(got.tuple.sport, flow.sport);
    assert_int_equal(got.dest_qpn, flow.dest_qpn);
}

/* Mapped addresses do not occur in IPv6 headers; they would be hashed as IPv4. */
static void test_mapped(void **state)
{
    struct roce_flow flow = roce_flow_number(3, true), mapped = roce_flow_number(3, false);
    uint32_t len = roce_frame_write(frame, &flow, 1);
    struct rss_frame got;

    memcpy(frame + AT_IP + IPV6_SRC_OFF, mapped.src.raw, 16);
    assert_true(rss_frame_read(&got, frame, len));
    memcpy(frame + AT_IP + IPV6_DST_OFF, mapped.dst.raw, 16);
    assert_false(rss_frame_read(&got, frame, len));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
