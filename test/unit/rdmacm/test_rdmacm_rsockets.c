/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of rsockets that need no device: the wire, credits, rings, defaults. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dg_socket.h"
#include "rs_config.h"
#include "rs_flow.h"
#include "rs_ring.h"
#include "rs_wire.h"
#include "unit.h"

/* ---- the wire ---- */

static void test_messages(void **state)
{
    static const struct {
        enum rs_msg kind;
        uint32_t value, imm;
    } rows[] = {
        {RS_MSG_DATA, 65536, 0x00010000},
        {RS_MSG_DATA, RS_MSG_VALUE_MAX, 0x1fffffff},
        {RS_MSG_CREDITS, 384, 0x80000180},
        {RS_MSG_IOMAP, 3, 0xc0000003},
        {RS_MSG_CONTROL, RS_DISCONNECT, 0xe0000000},
        {RS_MSG_CONTROL, RS_SHUTDOWN, 0xe0000002},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(rs_msg_imm(rows[i].kind, rows[i].value), rows[i].imm);
        assert_int_equal(rs_msg_kind(rows[i].imm), rows[i].kind);
        assert_int_equal(rs_msg_value(rows[i].imm), rows[i].value);
    }
    assert_int_equal(rs_msg_imm(RS_MSG_DATA, RS_MSG_VALUE_MAX + 1), 0);
}

static const uint8_t hello_bytes[RS_HELLO_SIZE] = {
    1, 2, 0x01, 0x80, 0, 0, 0, 5, /* version, iomap, 384 credits, 5 entries */
    0, 0, 0x7f, 1,    2, 3, 4, 0x40, 0, 0, 0xab, 0xcd, 0, 0, 0, 2, /* the table */
    0, 0, 0x7f, 1,    2, 4, 0, 0,    0, 0, 0x12, 0x34, 0, 1, 0, 0, /* the buffer */
};

static void test_hello(void **state)
{
    struct rs_hello h = {.credits = 384,
                         .iomap_entries = 5,
                         .table = {0x7f0102030440, 0xabcd, 2},
                         .buffer = {0x7f0102040000, 0x1234, 65536}},
                    got;
    uint8_t bytes[56] = {0}; /* of a connection request: more than the hello */

    rs_hello_write(bytes, &h);
    assert_memory_equal(bytes, hello_bytes, sizeof(hello_bytes));
    assert_int_equal(rs_hello_read(&got, bytes, sizeof(bytes)), 0);
    assert_int_equal(got.credits, 384);
    assert_int_equal(got.iomap_entries, 5);
    assert_false(got.big_endian);
    assert_memory_equal(&got.table, &h.table, sizeof(h.table));
    assert_memory_equal(&got.buffer, &h.buffer, sizeof(h.buffer));
}

static void test_hello_of_others(void **state)
{
    uint8_t bytes[RS_HELLO_SIZE];
    struct rs_hello got;

    memcpy(bytes, hello_bytes, sizeof(bytes));
    bytes[1] = 1; /* big endian, and a version that knew no iomap */
    assert_int_equal(rs_hello_read(&got, bytes, sizeof(bytes)), 0);
    assert_true(got.big_endian);
    assert_int_equal(got.iomap_entries, 0);
    assert_int_equal(rs_hello_read(&got, bytes, sizeof(bytes) - 1), -EPROTO);
    assert_int_equal(rs_hello_read(&got, NULL, 0), -EPROTO);
    bytes[23] = 1; /* one buffer is not enough to read from while the other is filled */
    assert_int_equal(rs_hello_read(&got, bytes, sizeof(bytes)), -EPROTO);
    bytes[23] = 2;
    bytes[0] = 2;
    assert_int_equal(rs_hello_read(&got, bytes, sizeof(bytes)), -EPROTO);
}

/* What is announced is what the peer understands. */
static void test_iomap_entries(void **state)
{
    static const struct {
        uint32_t asked, given;
    } rows[] = {{0, 0},     {1, 1},     {128, 128},   {129, 128},     {255, 128},
                {256, 256}, {511, 256}, {1024, 1024}, {32512, 32512}, {UINT32_MAX, 32512}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rs_hello h = {.iomap_entries = rs_iomap_entries_round(rows[i].asked),
                             .table.length = 2},
                        got;
        uint8_t bytes[RS_HELLO_SIZE];

        assert_int_equal(h.iomap_entries, rows[i].given);
        rs_hello_write(bytes, &h);
        assert_int_equal(rs_hello_read(&got, bytes, sizeof(bytes)), 0);
        assert_int_equal(got.iomap_entries, rows[i].given);
    }
}

static void test_byte_order(void **state)
{
    struct rs_iomap m = {1, {2, 3, 4}};

    rs_iomap_to_peer(&m, rs_host_big_endian());
    assert_int_equal(m.offset, 1);
    rs_iomap_to_peer(&m, !rs_host_big_endian());
    assert_true(m.offset == UINT64_C(1) << 56 && m.buffer.addr == UINT64_C(2) << 56);
    assert_true(m.buffer.key == 3u << 24 && m.buffer.length == 4u << 24);
}

static void test_udp_header(void **state)
{
    static const uint8_t v4[] = {0x55, 0x55, 0x55, 0x55, 4,   7, 16, 0,
                                 0,    0xab, 0xcd, 0xef, 192, 0, 2,  1};
    struct rs_udp_header h = {.op = RS_DGRAM_CONTROL, .qpn = 0xffabcdef}, got;
    struct sockaddr_in *in = (struct sockaddr_in *)&h.addr;
    uint8_t bytes[RS_UDP_HEADER_MAX];

    in->sin_family = AF_INET;
    inet_pton(AF_INET, "192.0.2.1", &in->sin_addr);
    assert_int_equal(rs_udp_header_write(bytes, &h), 16);
    assert_memory_equal(bytes, v4, sizeof(v4));
    assert_int_equal(rs_udp_header_read(&got, bytes, 16), 16);
    assert_int_equal(got.op, RS_DGRAM_CONTROL);
    assert_int_equal(got.qpn, 0xabcdef);
    assert_int_equal(rs_udp_header_read(&got, bytes, 15), -EPROTO);
    for (unsigned i = 0; i < 7; i++) { /* tag, version, operation, length */
        memcpy(bytes, v4, sizeof(v4));
        bytes[i] ^= 2;
        assert_int_equal(rs_udp_header_read(&got, bytes, sizeof(bytes)), -EPROTO);
    }
    memset(&h.addr, 0, sizeof(h.addr));
    h.addr.ss_family = AF_INET6;
    ((struct sockaddr_in6 *)&h.addr)->sin6_addr = in6addr_loopback;
    h.op = RS_DGRAM_DATA;
    assert_int_equal(rs_udp_header_write(bytes, &h), 28);
    assert_int_equal(rs_udp_header_read(&got, bytes, 27), -EPROTO);
    assert_int_equal(rs_udp_header_read(&got, bytes, 28), 28);
    assert_memory_equal(&got.addr, &h.addr, sizeof(struct sockaddr_in6));
}

static void test_ud_header(void **state)
{
    static const uint8_t v4[] = {4, 8, 0x1d, 0x2f, 192, 0, 2, 1};
    struct sockaddr_storage from = {0}, got;
    struct sockaddr_in *in = (struct sockaddr_in *)&from;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&from;
    uint8_t bytes[RS_UD_HEADER_MAX];

    in->sin_family = AF_INET;
    in->sin_port = htons(7471);
    inet_pton(AF_INET, "192.0.2.1", &in->sin_addr);
    assert_int_equal(rs_ud_header_write(bytes, &from), 8);
    assert_memory_equal(bytes, v4, sizeof(v4));
    assert_int_equal(rs_ud_header_read(&got, 7, bytes, 100), 8);
    assert_memory_equal(&got, &from, sizeof(*in));
    assert_int_equal(rs_ud_header_read(&got, 7, bytes, 7), -EPROTO);
    bytes[1] = 24;
    assert_int_equal(rs_ud_header_read(&got, 7, bytes, 100), -EPROTO);
    memset(&from, 0, sizeof(from));
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(7471);
    in6->sin6_flowinfo = htonl(0x12345);
    in6->sin6_addr = in6addr_loopback;
    assert_int_equal(rs_ud_header_write(bytes, &from), 24);
    assert_int_equal(rs_ud_header_read(&got, 7, bytes, 23), -EPROTO);
    assert_int_equal(rs_ud_header_read(&got, 7, bytes, 24), 24);
    assert_memory_equal(&got, &from, sizeof(*in6));
    inet_pton(AF_INET6, "fe80::1", &in6->sin6_addr); /* no program can answer without a scope */
    assert_int_equal(rs_ud_header_write(bytes, &from), 24);
    in6->sin6_scope_id = 7;
    assert_int_equal(rs_ud_header_read(&got, 7, bytes, 24), 24);
    assert_memory_equal(&got, &from, sizeof(*in6));
}

/* ---- credits ---- */

/* Two ends: no message is sent that the peer has not given a credit for, and all get through. */
static void test_credits(void **state)
{
    struct rs_flow a, b;
    unsigned grants = 0;

    rs_flow_init(&a, 16, 8);
    rs_flow_init(&b, 16, 8);
    rs_flow_limit(&a, 16);                  /* of the hello */
    for (uint32_t i = 0; i < 200000; i++) { /* the counts wrap */
        assert_true(rs_flow_can_send(&a));
        rs_flow_sent(&a);
        a.slots++;
        b.received++;
        if (rs_flow_grant_due(&b)) {
            grants++;
            rs_flow_limit(&a, rs_flow_grant(&b));
            b.controls--;
        }
    }
    assert_int_equal(grants, 200000 / 8);
}

static void test_credits_end(void **state)
{
    struct rs_flow f;

    rs_flow_init(&f, 16, 8);
    assert_false(rs_flow_can_send(&f)); /* before the hello */
    rs_flow_limit(&f, 3);
    for (int i = 0; i < 3; i++)
        rs_flow_sent(&f);
    assert_false(rs_flow_can_send(&f));
    rs_flow_limit(&f, 0xfffe); /* of a peer with a long queue */
    for (int i = 0; i < 5; i++) {
        assert_true(rs_flow_can_send(&f));
        rs_flow_sent(&f);
    }
    assert_false(rs_flow_can_send(&f)); /* the send queue is full */
    for (int i = 0; i < RS_CONTROL_SLOTS; i++) {
        assert_true(rs_flow_can_control(&f));
        assert_int_equal(rs_flow_grant(&f), 16);
    }
    assert_false(rs_flow_can_control(&f));
}

/* ---- rings ---- */

/* A peer that writes as it may, and a program that reads pieces of other sizes: bytes in order. */
static void test_recv_ring(void **state)
{
    struct rs_recv_ring r;
    uint8_t bytes[256];
    uint32_t at[3] = {0, 128, 0}, written = 0, read = 0, target = 0, left = 128, next = 0,
             queued = 0;

    rs_recv_ring_init(&r, sizeof(bytes));
    for (unsigned step = 1; read < 100000; step++) {
        uint32_t n, span;

        while (rs_recv_ring_announce_due(&r))
            at[next + queued++] = rs_recv_ring_announce(&r);
        assert_in_range(queued, 0, 2);
        if (!left && queued) {
            target = at[0];
            at[0] = at[1];
            queued--;
            left = 128;
        }
        n = step * 7 % 60 < left ? step * 7 % 60 : left;
        assert_true(rs_recv_ring_fill(&r, n));
        for (uint32_t i = 0; i < n; i++)
            bytes[target++] = (uint8_t)written++;
        left -= n;
        for (n = step * 13 % 90; n && (span = rs_recv_ring_span(&r, 0, n)); n -= span) {
            for (uint32_t i = 0; i < span; i++)
                assert_int_equal(bytes[r.read + i], (uint8_t)read++);
            rs_recv_ring_consume(&r, span);
        }
        assert_int_equal(r.open + r.filled + r.free, r.size);
    }
}

static void test_recv_ring_liar(void **state)
{
    struct rs_recv_ring r;

    rs_recv_ring_init(&r, 256);
    assert_false(rs_recv_ring_fill(&r, 129)); /* one half is announced */
    assert_true(rs_recv_ring_announce_due(&r));
    assert_int_equal(rs_recv_ring_announce(&r), 128);
    assert_false(rs_recv_ring_announce_due(&r));
    assert_true(rs_recv_ring_fill(&r, 256));
    assert_false(rs_recv_ring_fill(&r, 1));
    assert_int_equal(rs_recv_ring_span(&r, 200, 1000), 56);
    rs_recv_ring_consume(&r, 127);
    assert_false(rs_recv_ring_announce_due(&r));
    rs_recv_ring_consume(&r, 1);
    assert_int_equal(rs_recv_ring_announce(&r), 0);
}

static void test_send_ring(void **state)
{
    struct rs_send_ring r;
    struct rs_pieces p;

    rs_send_ring_init(&r, 100);
    p = rs_send_ring_take(&r, 70);
    assert_true(p.offset[0] == 0 && p.length[0] == 70 && p.length[1] == 0);
    assert_int_equal(rs_send_ring_room(&r), 30);
    rs_send_ring_release(&r, 50);
    p = rs_send_ring_take(&r, 60);
    assert_true(p.offset[0] == 70 && p.length[0] == 30 && p.offset[1] == 0 && p.length[1] == 30);
    assert_int_equal(rs_send_ring_room(&r), 20);
    rs_send_ring_cancel(&r, 60);
    assert_int_equal(rs_send_ring_room(&r), 80);
    p = rs_send_ring_take(&r, 1);
    assert_true(p.offset[0] == 70 && p.length[0] == 1);
}

/* ---- defaults ---- */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void remove_file(const char *folder, const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static void test_config(void **state)
{
    static const char *const names[] = {"mem_default",    "wmem_default",   "rqsize_default",
                                        "sqsize_default", "inline_default", "polling_time",
                                        "iomap_size"};
    char folder[] = "/tmp/rsockets-XXXXXX";
    struct rs_config c;

    assert_non_null(mkdtemp(folder));
    rs_config_read(&c, folder);
    assert_true(c.recv_buffer == 1 << 17 && c.send_buffer == 1 << 17 && c.polling_us == 10);
    assert_true(c.send_queue == 384 && c.recv_queue == 384 && c.inline_size == 64 &&
                c.wake_up_ms == 500);
    assert_int_equal(c.iomap_entries, 0);
    write_file(folder, "mem_default", "1000000\n");
    write_file(folder, "wmem_default", "1");
    write_file(folder, "rqsize_default", "-5");
    write_file(folder, "sqsize_default", "99999999");
    write_file(folder, "inline_default", "many");
    write_file(folder, "polling_time", "0");
    write_file(folder, "iomap_size", "200");
    rs_config_read(&c, folder);
    assert_true(c.recv_buffer >= 1000000 && c.recv_buffer < 1001000 && c.recv_buffer % 2 == 0);
    assert_int_equal(c.send_buffer, 4096);
    assert_int_equal(c.recv_queue, 384);
    assert_int_equal(c.send_queue, 16380); /* the device's limit, less those for control messages */
    assert_int_equal(c.inline_size, 64);
    assert_int_equal(c.polling_us, 0);
    assert_int_equal(c.iomap_entries, 128);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        remove_file(folder, names[i]);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- addresses of peers ---- */

static struct sockaddr_storage six(const char *text, uint16_t number, uint32_t scope)
{
    struct sockaddr_in6 in = {
        .sin6_family = AF_INET6, .sin6_port = htons(number), .sin6_scope_id = scope};
    struct sockaddr_storage out = {0};

    assert_int_equal(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
    memcpy(&out, &in, sizeof(in));
    return out;
}

/* A link-local address is another peer's at each interface. */
static void test_scope(void **state)
{
    const struct sockaddr_storage at1 = six("fe80::1", 7, 1), at2 = six("fe80::1", 7, 2);
    const struct sockaddr_storage bound = six("fe80::1", 7, 0);
    const struct sockaddr_storage far = six("fd00::1", 7, 1), again = six("fd00::1", 7, 2);

    assert_true(dg_same_addr(&at1, &at1));
    assert_false(dg_same_addr(&at1, &at2));
    assert_true(dg_same_addr(&at1, &bound) && dg_same_addr(&bound, &at2));
    assert_true(dg_same_addr(&far, &again));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_hello_of_others), cmocka_unit_test(test_iomap_entries),
        cmocka_unit_test(test_byte_order),      cmocka_unit_test(test_udp_header),
        cmocka_unit_test(test_ud_header),       cmocka_unit_test(test_credits),
        cmocka_unit_test(test_credits_end),     cmocka_unit_test(test_recv_ring),
        cmocka_unit_test(test_recv_ring_liar),  cmocka_unit_test(test_send_ring),
        cmocka_unit_test(test_config),          cmocka_unit_test(test_scope),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
