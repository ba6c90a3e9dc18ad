/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules about tunnels, and about the headers inside. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "raw_kit.h"
#include "raw_tests.h"
#include "unit.h"
#include "verbs_pair.h"

#define NUMBER 0x00012345u /* of the tunnel */
#define BOTTOM 0x00000100u

enum tunnel { VXLAN, GRE, MPLS, ESP, TUNNELS };

/* ---- frames ---- */

static uint8_t *put16(uint8_t *p, uint32_t n)
{
    p[0] = (uint8_t)(n >> 8);
    p[1] = (uint8_t)n;
    return p + 2;
}

static uint8_t *put32(uint8_t *p, uint32_t n)
{
    return put16(put16(p, n >> 16), n);
}

static uint8_t *put_ipv4(uint8_t *p, uint8_t protocol)
{
    memset(p, 0, 20);
    p[0] = 0x45;
    p[8] = 64;
    p[9] = protocol;
    p[12] = p[16] = 10;
    p[15] = 1;
    p[19] = 2;
    return p + 20;
}

static uint8_t *put_header(uint8_t *p, enum tunnel tunnel, uint32_t number)
{
    switch (tunnel) {
    case VXLAN:
        p = put32(put_ipv4(p, 17), 5555 << 16 | 4789);
        return put32(put32(put32(p, 0), 0x08000000), number << 8);
    case GRE:
        return put32(put32(put_ipv4(p, 47), 0x20006558), number);
    case MPLS:
        return put32(p, number << 12 | BOTTOM);
    default:
        return put32(put32(put_ipv4(p, 50), number), 1);
    }
}

/* The frame in the tunnel; the id is at the end, as raw_id reads it. Returns its length. */
static unsigned wrap(uint8_t out[RAW_ROOM], enum tunnel tunnel, uint32_t number,
                     const struct raw_frame *inner)
{
    uint8_t frame[RAW_ROOM], *p = out;
    unsigned len = raw_build(frame, inner), skip = tunnel == MPLS ? 14 : 0;

    memcpy(p, frame, 12);
    p = put_header(put16(p + 12, tunnel == MPLS ? 0x8847 : RAW_IPV4), tunnel, number);
    memcpy(p, frame + skip, len - skip);
    p += len - skip;
    if (tunnel != MPLS)
        put16(out + 16, (uint32_t)(p - out) - 14); /* the outer packet's length */
    return (unsigned)(p - out);
}

static void send_wrapped(struct raw *r, enum tunnel tunnel, uint32_t number,
                         const struct raw_frame *inner)
{
    uint8_t bytes[RAW_ROOM];

    raw_send_bytes(r, bytes, wrap(bytes, tunnel, number, inner));
}

static void arrives(struct raw *r, uint32_t id)
{
    struct ibv_wc wc = raw_await(r->cq);

    assert_int_equal(raw_id(r, &wc), id);
}

/* ---- rules ---- */

union spec {
    struct {
        uint32_t type;
        uint16_t size;
    } hdr;
    struct ibv_flow_spec_tunnel vxlan;
    struct ibv_flow_spec_gre gre;
    struct ibv_flow_spec_mpls mpls;
    struct ibv_flow_spec_esp esp;
};

/* About the kind of tunnel; exact: and its number. */
static union spec spec_of(enum tunnel tunnel, bool exact)
{
    union spec s = {.hdr = {IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(s.vxlan)}};
    uint32_t mask = exact ? UINT32_MAX : 0;

    switch (tunnel) {
    case VXLAN:
        s.vxlan.val.tunnel_id = htonl(NUMBER);
        s.vxlan.mask.tunnel_id = mask & htonl(0xFFFFFF);
        break;
    case GRE:
        s.gre = (struct ibv_flow_spec_gre){.type = IBV_FLOW_SPEC_GRE, .size = sizeof(s.gre)};
        s.gre.val = (struct ibv_flow_gre_filter){htons(0x2000), htons(0x6558), htonl(NUMBER)};
        s.gre.mask = (struct ibv_flow_gre_filter){(uint16_t)mask, (uint16_t)mask, mask};
        break;
    case MPLS:
        s.mpls = (struct ibv_flow_spec_mpls){.type = IBV_FLOW_SPEC_MPLS, .size = sizeof(s.mpls)};
        s.mpls.val.label = htonl(NUMBER << 12);
        s.mpls.mask.label = mask & htonl(0xFFFFF000);
        break;
    default:
        s.esp = (struct ibv_flow_spec_esp){.type = IBV_FLOW_SPEC_ESP, .size = sizeof(s.esp)};
        s.esp.val = (struct ibv_flow_esp_filter){htonl(NUMBER), htonl(1)};
        s.esp.mask = (struct ibv_flow_esp_filter){mask, mask};
    }
    return s;
}

static struct ibv_flow *rule(struct raw *r, const void *const spec[], unsigned n)
{
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(raw_post_qp(r, r->sender), 0);
    return raw_rule(r->sender, IBV_FLOW_ATTR_NORMAL, 0, n, spec);
}

static uint64_t packets(struct ibv_counters *c)
{
    uint64_t value[1] = {0};

    assert_int_equal(ibv_read_counters(c, value, 1, 0), 0);
    return value[0];
}

/* Its number, and its kind alone; other tunnels and plain frames pass by. */
void tunnels_are_matched(void **state)
{
    struct raw *r = *state;
    struct ibv_counters_init_attr init = {0};
    struct ibv_counter_attach_attr point = {IBV_COUNTER_PACKETS, 0, 0};
    struct raw_frame f = raw_flow(7);

    for (unsigned t = 0; t < 2 * TUNNELS; t++) {
        enum tunnel tunnel = (enum tunnel)(t % TUNNELS);
        bool exact = t < TUNNELS;
        struct ibv_counters *c = ibv_create_counters(r->ctx, &init);
        struct ibv_flow_spec_counter_action count = {
            .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(count), .counters = c};
        union spec s = spec_of(tunnel, exact);
        const void *spec[2] = {&s, &count};
        struct ibv_flow *flow;

        assert_int_equal(ibv_attach_counters_point_flow(c, &point, NULL), 0);
        flow = rule(r, spec, 2);
        assert_non_null(flow);
        f.id = 100 * t;
        send_wrapped(r, tunnel, NUMBER, &f);
        arrives(r, 100 * t);
        f.id++;
        send_wrapped(r, (enum tunnel)((tunnel + 1) % TUNNELS), NUMBER, &f);
        raw_send(r, &f);
        if (exact)
            send_wrapped(r, tunnel, NUMBER + 1, &f);
        f.id++;
        send_wrapped(r, tunnel, NUMBER, &f);
        arrives(r, 100 * t + 2);
        assert_int_equal(packets(c), 2);
        assert_int_equal(ibv_destroy_flow(flow), 0);
        assert_int_equal(ibv_destroy_counters(c), 0);
    }
}

/* One with another value of one inner field passes by; so does a plain frame with the same. */
static void inner_takes(struct raw *r, enum tunnel tunnel, const void *const spec[], unsigned n,
                        void (*change)(struct raw_frame *f))
{
    struct ibv_flow *flow = rule(r, spec, n);
    struct raw_frame good = raw_flow(9), other = raw_flow(9);

    assert_non_null(flow);
    change(&other);
    good.id = 5;
    other.id = 6;
    send_wrapped(r, tunnel, NUMBER, &good);
    arrives(r, 5);
    send_wrapped(r, tunnel, NUMBER, &other);
    raw_send(r, &good);
    good.id = 7;
    send_wrapped(r, tunnel, NUMBER, &good);
    arrives(r, 7);
    assert_int_equal(ibv_destroy_flow(flow), 0);
}

static void change_smac(struct raw_frame *f)
{
    f->smac[5]++;
}

static void change_dst(struct raw_frame *f)
{
    f->dst[15]++;
}

static void change_dport(struct raw_frame *f)
{
    f->dport++;
}

void inner_headers_are_matched(void **state)
{
    struct raw *r = *state;
    struct raw_frame f = raw_flow(9);
    struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER,
                                    .size = sizeof(eth)};
    struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4 | IBV_FLOW_SPEC_INNER,
                                    .size = sizeof(ip)};
    struct ibv_flow_spec_tcp_udp udp = {.type = IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER,
                                        .size = sizeof(udp)};
    struct ibv_flow_spec_ipv4 outer = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(outer)};
    union spec vxlan = spec_of(VXLAN, true), gre = spec_of(GRE, true);

    memcpy(eth.val.src_mac, f.smac, 6);
    memset(eth.mask.src_mac, 0xFF, 6);
    memcpy(&ip.val.dst_ip, f.dst + 12, 4);
    ip.mask.dst_ip = UINT32_MAX;
    udp.val.dst_port = htons(f.dport);
    udp.mask.dst_port = UINT16_MAX;
    outer.val.src_ip = htonl(0x0A000001);
    outer.mask.src_ip = UINT32_MAX;
    inner_takes(r, VXLAN, (const void *[]){&vxlan, &eth}, 2, change_smac);
    inner_takes(r, VXLAN, (const void *[]){&outer, &vxlan, &eth, &ip}, 4, change_dst);
    inner_takes(r, VXLAN, (const void *[]){&outer, &vxlan, &eth, &ip, &udp}, 5, change_dport);
    inner_takes(r, GRE, (const void *[]){&outer, &gre, &udp}, 3, change_dport);
    inner_takes(r, MPLS, (const void *[]){&ip}, 1, change_dst); /* of any tunnel */
    inner_takes(r, MPLS, (const void *[]){&udp}, 1, change_dport);
}

void inner_rules_refused(void **state)
{
    static const struct ibv_flow_spec_tcp_udp udp = {
        .type = IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER, .size = sizeof(udp)};
    static const struct ibv_flow_spec_tcp_udp tcp = {
        .type = IBV_FLOW_SPEC_TCP | IBV_FLOW_SPEC_INNER, .size = sizeof(tcp)};
    static const struct ibv_flow_spec_action_drop drop = {
        .type = IBV_FLOW_SPEC_ACTION_DROP | IBV_FLOW_SPEC_INNER, .size = sizeof(drop)};
    struct raw *r = *state;

    for (unsigned t = 0; t < TUNNELS; t++) {
        union spec s = spec_of((enum tunnel)t, false), inner = s, cut = s;

        inner.hdr.type |= IBV_FLOW_SPEC_INNER; /* no tunnel in a tunnel */
        cut.hdr.size -= 4;
        assert_null(rule(r, (const void *[]){&inner}, 1));
        assert_int_equal(errno, EOPNOTSUPP);
        assert_null(rule(r, (const void *[]){&s, &s}, 2));
        assert_int_equal(errno, EINVAL);
        assert_null(rule(r, (const void *[]){&cut}, 1));
        assert_int_equal(errno, EINVAL);
        assert_null(raw_rule(r->sender, IBV_FLOW_ATTR_SNIFFER, 0, 1, (const void *[]){&s}));
        assert_int_equal(errno, EINVAL);
    }
    assert_null(rule(r, (const void *[]){&udp, &tcp}, 2));
    assert_int_equal(errno, EINVAL);
    assert_null(rule(r, (const void *[]){&drop}, 1));
    assert_int_equal(errno, EOPNOTSUPP);
}
