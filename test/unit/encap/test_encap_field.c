/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields of a frame: the tables cover each header once, and agree with the parsers. */
#include <string.h>

#include "capture.h"
#include "common.h"
#include "encap.h"
#include "frame_field.h"
#include "pkt.h"
#include "unit.h"

static const struct encap_port any = {.promiscuous = true};

static const struct {
    enum frame_header header;
    unsigned byte, bit, bits;
} rows[] = {
#define X(header, field, byte, bit, bits) {FRAME_HEADER_##header, byte, bit, bits},
    FRAME_FIELDS(X)
#undef X
};

static const unsigned header_bytes[] = {
#define X(header, bytes) bytes,
    FRAME_HEADERS(X)
#undef X
};

static void test_rows_cover_headers(void **state)
{
    unsigned row = 0;

    for (unsigned header = 0; header < FRAME_HEADER_COUNT; header++) {
        unsigned next = 0; /* bit */

        for (; row < FRAME_FIELD_COUNT && rows[row].header == header; row++) {
            assert_true(rows[row].bit < 8);
            assert_int_equal(rows[row].byte * 8 + rows[row].bit, next);
            next += rows[row].bits;
        }
        assert_int_equal(next, header_bytes[header] * 8);
    }
    assert_int_equal(row, FRAME_FIELD_COUNT);
}

/* ---- every frame of the kernel's ---- */

struct walk {
    unsigned frames;
};

/* The headers that a frame has follow each other without a gap, up to the payload. */
static void check_layout(const struct frame_layout *l, const uint8_t *frame, const struct pkt *p)
{
    size_t next = 0;

    for (unsigned header = 0; header < FRAME_HEADER_COUNT; header++) {
        if (!l->has[header])
            continue;
        assert_int_equal(l->at[header], next);
        next += header_bytes[header];
    }
    assert_int_equal(next, p->payload - frame);
}

/* Parses the frame with one field changed. */
static struct pkt parse_changed(const uint8_t *frame, size_t len, const struct frame_layout *l,
                                enum frame_field field, uint64_t value, struct encap_view *v)
{
    static uint8_t copy[8192];
    struct pkt p;

    assert_true(len <= sizeof(copy));
    memcpy(copy, frame, len);
    frame_field_put(copy, l, field, value);
    assert_int_equal(encap_rx(v, copy, len, &any), DROP_NONE);
    assert_int_equal(pkt_parse(&p, v->bth, v->bth_len), DROP_NONE);
    return p;
}

/* What the parsers read is what was put. */
static void check_put(const struct frame_layout *l, const uint8_t *frame, size_t len)
{
    struct encap_view v;

#define PUT(field, value) parse_changed(frame, len, l, FRAME_##field, value, &v)
    assert_int_equal(PUT(BTH_dest_qpn, 0xABCDEF).dest_qpn, 0xABCDEF);
    assert_int_equal(PUT(BTH_psn, 0x123456).psn.v, 0x123456);
    assert_true(PUT(BTH_ack_req, 1).ack_req);
    assert_false(PUT(BTH_ack_req, 0).ack_req);
    assert_true(PUT(BTH_becn, 1).becn);
    assert_int_equal(PUT(BTH_pkey, 0x8123).pkey, 0x8123);
    if (l->has[FRAME_HEADER_DETH])
        assert_int_equal(PUT(DETH_src_qpn, 0x654321).deth.src_qpn, 0x654321);
    if (l->has[FRAME_HEADER_RETH])
        assert_int_equal(PUT(RETH_rkey, 0xCAFE1234).reth.rkey, 0xCAFE1234);
    if (l->has[FRAME_HEADER_ATOMICETH])
        assert_true(PUT(ATOMICETH_compare, UINT64_C(0x123456789ABCDEF0)).atomic.compare ==
                    UINT64_C(0x123456789ABCDEF0));
    if (l->has[FRAME_HEADER_AETH])
        assert_int_equal(PUT(AETH_msn, 0x0A0B0C).aeth.msn, 0x0A0B0C);
    if (l->has[FRAME_HEADER_IETH])
        assert_int_equal(PUT(IETH_rkey, 0xCAFE1234).ieth_rkey, 0xCAFE1234);
    if (l->has[FRAME_HEADER_UDP]) {
        PUT(UDP_sport, 0xD123);
        assert_int_equal(v.udp_sport, 0xD123);
    }
    if (l->has[FRAME_HEADER_IPV6]) {
        PUT(IPV6_flow_label, 0xFEDCB);
        assert_int_equal(v.flow_label, 0xFEDCB);
    }
#undef PUT
}

static void check_frame(const char *file, unsigned number, uint8_t *bytes, size_t len, void *ctx)
{
    struct walk *w = ctx;
    struct frame_layout l;
    struct encap_view v;
    struct pkt p;

    if (len > 2048)
        return;
    assert_int_equal(encap_rx(&v, bytes, len, &any), DROP_NONE);
    assert_int_equal(pkt_parse(&p, v.bth, v.bth_len), DROP_NONE);
    frame_layout(&l, bytes, &v, &p);
    check_layout(&l, bytes, &p);
    check_put(&l, bytes, len);
    assert_true(encap_is_roce(bytes, len));
    w->frames++;
}

static void test_kernel_frames(void **state)
{
    struct walk w = {0};

    assert_true(capture_walk(TEST_VECTORS "/rxe-6.1", check_frame, &w) > 0);
    assert_true(w.frames > 1000);
}

static void test_absent_field(void **state)
{
    struct frame_layout l = {.has[FRAME_HEADER_ETH] = true};
    uint8_t frame[64] = {0}, zeros[64] = {0};
    struct frame_bits at;

    assert_true(frame_field_at(&l, FRAME_ETH_ethertype, &at));
    assert_false(frame_field_at(&l, FRAME_BTH_psn, &at));
    frame_field_put(frame, &l, FRAME_BTH_psn, 0xFFFFFF);
    assert_memory_equal(frame, zeros, sizeof(frame));
}

/* ---- RoCE with an error ---- */

static void test_is_roce(void **state)
{
    /* Ethernet, a tag, IPv4 with UDP: as far as the destination port. */
    static const uint8_t tagged[] = {2, 0,   0,  0, 0,    1, 2,  0, 0, 0, 0,    2, 0x81, 0,
                                     0, 100, 8,  0, 0x45, 0, 0,  0, 0, 0, 0,    0, 0,    17,
                                     0, 0,   10, 0, 0,    1, 10, 0, 0, 2, 0xC0, 0, 0x12, 0xB7};
    uint8_t frame[sizeof(tagged)];

    assert_true(encap_is_roce(tagged, sizeof(tagged)));
    for (size_t len = 0; len < sizeof(tagged); len++)
        assert_false(encap_is_roce(tagged, len));
    for (unsigned i = 0; i < 3; i++) {
        static const size_t at[] = {16, 27, sizeof(tagged) - 1}; /* ethertype, protocol, port */

        memcpy(frame, tagged, sizeof(frame));
        frame[at[i]] ^= 1;
        assert_false(encap_is_roce(frame, sizeof(frame)));
    }
    memcpy(frame, tagged, sizeof(frame));
    frame[16] = 0x89;
    frame[17] = 0x15; /* RoCEv1, whatever follows */
    assert_true(encap_is_roce(frame, 18));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_cover_headers),
        cmocka_unit_test(test_kernel_frames),
        cmocka_unit_test(test_absent_field),
        cmocka_unit_test(test_is_roce),
    };

    return cmocka_run_group_tests_name("encap_field", tests, NULL, NULL);
}
