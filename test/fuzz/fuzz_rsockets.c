/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an rsocket's peer sends: the hello of a stream, the headers of datagrams, and the messages
 * of a stream, with a program that reads in between. The first byte says which.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "fuzz_input.h"
#include "rs_flow.h"
#include "rs_ring.h"
#include "rs_wire.h"

#define ENTRIES_MAX 0x7f00u

static bool same_buffer(const struct rs_buffer *a, const struct rs_buffer *b)
{
    return a->addr == b->addr && a->key == b->key && a->length == b->length;
}

/* What has been read can be written, and is then the same. */
static void hello(const struct input *in)
{
    struct rs_hello h, again;
    uint8_t bytes[RS_HELLO_SIZE];

    if (rs_hello_read(&h, in->p, in->left))
        return;
    REQUIRE(h.table.length > 1 && h.iomap_entries <= ENTRIES_MAX);
    REQUIRE(rs_iomap_entries_round(h.iomap_entries) == h.iomap_entries);
    rs_hello_write(bytes, &h);
    REQUIRE(!rs_hello_read(&again, bytes, sizeof(bytes)));
    REQUIRE(h.big_endian == again.big_endian && h.credits == again.credits);
    REQUIRE(h.iomap_entries == again.iomap_entries && same_buffer(&h.table, &again.table));
    REQUIRE(same_buffer(&h.buffer, &again.buffer));
}

static void udp_header(const struct input *in)
{
    struct rs_udp_header h, again;
    uint8_t bytes[RS_UDP_HEADER_MAX];
    int n = rs_udp_header_read(&h, in->p, in->left);

    if (n < 0) {
        REQUIRE(n == -EPROTO);
        return;
    }
    REQUIRE((size_t)n <= in->left && rs_udp_header_write(bytes, &h) == (size_t)n);
    REQUIRE(rs_udp_header_read(&again, bytes, (size_t)n) == n);
    REQUIRE(!memcmp(&h.addr, &again.addr, sizeof(h.addr)) && h.op == again.op &&
            h.qpn == again.qpn);
}

static void ud_header(const struct input *in)
{
    struct sockaddr_storage source;
    uint8_t bytes[RS_UD_HEADER_MAX];
    int n = rs_ud_header_read(&source, 0, in->p, in->left);

    if (n < 0) {
        REQUIRE(n == -EPROTO);
        return;
    }
    REQUIRE((size_t)n <= in->left && rs_ud_header_write(bytes, &source) == (size_t)n);
    REQUIRE(!memcmp(bytes, in->p, (size_t)n));
}

/* Each byte of the ring is in one state, and a half is announced as a whole. */
static void check_ring(const struct rs_recv_ring *r)
{
    REQUIRE(r->open <= r->size && r->filled <= r->size && r->free <= r->size);
    REQUIRE(r->open + r->filled + r->free == r->size);
    REQUIRE(r->read < r->size && (r->announce == 0 || r->announce == r->half));
}

/* The program reads up to n bytes, in one piece or two. */
static void consume(struct rs_recv_ring *r, uint32_t n)
{
    uint32_t first = rs_recv_ring_span(r, 0, n), second = rs_recv_ring_span(r, first, n - first);

    REQUIRE(first + second <= r->filled && r->read + first <= r->size);
    rs_recv_ring_consume(r, first + second);
}

static void messages(struct input *in)
{
    struct rs_recv_ring ring;
    struct rs_flow flow;

    rs_recv_ring_init(&ring, 2 * (take(in) + 1u));
    rs_flow_init(&flow, (uint16_t)(take(in) + 1), 8);
    while (in->left) {
        uint8_t bytes[4] = {0};
        uint32_t imm, value;

        take_bytes(in, bytes, sizeof(bytes));
        memcpy(&imm, bytes, sizeof(imm));
        value = rs_msg_value(imm);
        switch (rs_msg_kind(imm)) {
        case RS_MSG_DATA:
            flow.received++;
            if (!rs_recv_ring_fill(&ring, value)) {
                REQUIRE(value > ring.open);
                return; /* the connection ends */
            }
            break;
        case RS_MSG_CREDITS:
            rs_flow_limit(&flow, value);
            break;
        case RS_MSG_IOMAP:
            flow.received++;
            break;
        default: /* the program's turn */
            consume(&ring, value);
            if (rs_recv_ring_announce_due(&ring))
                REQUIRE(rs_recv_ring_announce(&ring) % ring.half == 0);
            flow.controls = 0;
            if (rs_flow_grant_due(&flow) && rs_flow_can_control(&flow))
                rs_flow_grant(&flow);
            if (rs_flow_can_send(&flow))
                rs_flow_sent(&flow);
        }
        check_ring(&ring);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    switch (take(&in) % 4) {
    case 0:
        hello(&in);
        break;
    case 1:
        udp_header(&in);
        break;
    case 2:
        ud_header(&in);
        break;
    default:
        messages(&in);
    }
    return 0;
}
