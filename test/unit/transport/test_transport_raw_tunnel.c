/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules about tunnels and the headers inside them. Frames are built header by header. */
#include <stdlib.h>

#include "unit.h"

#include "bytes.h"
#include "flow_kit.h"
#include "raw_private.h"

#define VNI      0x00ABCDEFu
#define GRE_KEY  0x11223344u
#define LABEL    0x12345140u /* with the bottom bit: 0x12345140 | 0x100 */
#define BOTTOM   0x00000100u
#define HEADERS  8
#define IN_BE(n) __builtin_bswap32(n)

/* ---- frames ---- */

struct built {
    uint8_t data[512];
    uint32_t len;
    struct {
        uint32_t at;
        bool v6;
    } ip[HEADERS]; /* headers whose length is not known before the end */
    unsigned ips;
};

static uint8_t *more(struct built *b, uint32_t n)
{
    uint8_t *p = b->data + b->len;

    assert_true(b->len + n <= sizeof(b->data));
    memset(p, 0, n);
    b->len += n;
    return p;
}

static void ethernet(struct built *b, uint8_t last, uint16_t type)
{
    uint8_t *p = more(b, 14);

    p[0] = p[6] = 0x02;
    p[5] = last;
    p[11] = (uint8_t)(last + 1);
    put_be16(p + 12, type);
}

static void tag(struct built *b, uint16_t tci, uint16_t type)
{
    uint8_t *p = more(b, 4);

    put_be16(b->data + b->len - 6, 0x8100);
    put_be16(p, tci);
    put_be16(p + 2, type);
}

static void ipv4(struct built *b, uint8_t last, uint8_t proto)
{
    uint8_t *p;

    b->ip[b->ips].at = b->len;
    b->ip[b->ips++].v6 = false;
    p = more(b, 20);
    p[0] = 0x45;
    p[8] = 64;
    p[9] = proto;
    p[12] = p[16] = 10;
    p[15] = last;
    p[19] = (uint8_t)(last + 1);
}

static void ipv6(struct built *b, uint8_t last, uint8_t next)
{
    uint8_t *p;

    b->ip[b->ips].at = b->len;
    b->ip[b->ips++].v6 = true;
    p = more(b, 40);
    p[0] = 0x60;
    p[6] = next;
    p[7] = 64;
    p[8] = p[24] = 0xFD;
    p[23] = last;
    p[39] = (uint8_t)(last + 1);
}

static void udp(struct built *b, uint16_t sport, uint16_t dport)
{
    uint8_t *p = more(b, 8);

    put_be16(p, sport);
    put_be16(p + 2, dport);
}

static void tcp(struct built *b, uint16_t sport, uint16_t dport)
{
    uint8_t *p = more(b, 20);

    put_be16(p, sport);
    put_be16(p + 2, dport);
}

static void vxlan(struct built *b, uint32_t vni)
{
    uint8_t *p = more(b, 8);

    p[0] = 0x08;
    put_be32(p + 4, vni << 8 | 0x77); /* the last byte is reserved */
}

static void gre(struct built *b, uint16_t flags, uint16_t protocol)
{
    uint8_t *p = more(b, 4);

    put_be16(p, flags);
    put_be16(p + 2, protocol);
    if (flags & 0x8000)
        put_be32(more(b, 4), 0xC5C50000);
    if (flags & 0x2000)
        put_be32(more(b, 4), GRE_KEY);
    if (flags & 0x1000)
        put_be32(more(b, 4), 99);
}

static void mpls(struct built *b, uint32_t label)
{
    put_be32(more(b, 4), label);
}

static void end(struct built *b)
{
    for (unsigned i = 0; i < b->ips; i++) {
        uint8_t *ip = b->data + b->ip[i].at;
        uint32_t len = b->len - b->ip[i].at;

        put_be16(ip + (b->ip[i].v6 ? 4 : 2), (uint16_t)(b->ip[i].v6 ? len - 40 : len));
    }
}

/* What every inner frame ends with. */
static void inside(struct built *b, bool v6)
{
    if (v6)
        ipv6(b, 0x61, 17);
    else
        ipv4(b, 0x41, 6);
    if (v6)
        udp(b, 5000, 6000);
    else
        tcp(b, 7000, 8000);
    more(b, 10);
}

enum shape {
    VXLAN_V4,
    VXLAN_V6_TAGGED,
    GRE_V4,
    GRE_V6_ALL_FIELDS,
    GRE_BRIDGE,
    GRE_LABELS,
    LABEL_V4,
    LABELS_V6,
    LABEL_IN_UDP,
    LABEL_IN_IP,
    ESP,
    SHAPES
};

/* A tunnel of each kind, in IPv4 and IPv6. */
static struct built build(enum shape shape)
{
    struct built b = {.len = 0};

    switch (shape) {
    case VXLAN_V4:
        ethernet(&b, 1, 0x0800), ipv4(&b, 1, 17), udp(&b, 1234, 4789), vxlan(&b, VNI);
        ethernet(&b, 5, 0x0800), inside(&b, false);
        break;
    case VXLAN_V6_TAGGED:
        ethernet(&b, 1, 0x86DD), ipv6(&b, 1, 17), udp(&b, 1234, 4789), vxlan(&b, VNI);
        ethernet(&b, 5, 0), tag(&b, 0x2007, 0x86DD), inside(&b, true);
        break;
    case GRE_V4:
        ethernet(&b, 1, 0x0800), ipv4(&b, 1, 47), gre(&b, 0, 0x0800), inside(&b, false);
        break;
    case GRE_V6_ALL_FIELDS:
        ethernet(&b, 1, 0x86DD), ipv6(&b, 1, 47), gre(&b, 0xB000, 0x86DD), inside(&b, true);
        break;
    case GRE_BRIDGE:
        ethernet(&b, 1, 0x0800), ipv4(&b, 1, 47), gre(&b, 0x2000, 0x6558);
        ethernet(&b, 5, 0x0800), inside(&b, false);
        break;
    case GRE_LABELS:
        ethernet(&b, 1, 0x0800), ipv4(&b, 1, 47), gre(&b, 0, 0x8847), mpls(&b, LABEL & ~BOTTOM);
        mpls(&b, 0x55555140 | BOTTOM), inside(&b, false);
        break;
    case LABEL_V4:
        ethernet(&b, 1, 0x8847), mpls(&b, LABEL | BOTTOM), inside(&b, false);
        break;
    case LABELS_V6:
        ethernet(&b, 1, 0x8848), mpls(&b, LABEL & ~BOTTOM), mpls(&b, 0x55555140 | BOTTOM);
        inside(&b, true);
        break;
    case LABEL_IN_UDP:
        ethernet(&b, 1, 0x0800), ipv4(&b, 1, 17), udp(&b, 1234, 6635), mpls(&b, LABEL | BOTTOM);
        inside(&b, false);
        break;
    case LABEL_IN_IP:
        ethernet(&b, 1, 0x0800), ipv4(&b, 1, 137), mpls(&b, LABEL | BOTTOM), inside(&b, true);
        break;
    default:
        ethernet(&b, 1, 0x0800), ipv4(&b, 1, 50), put_be32(more(&b, 4), 0xA1A2A3A4);
        put_be32(more(&b, 4), 17), more(&b, 30);
        break;
    }
    end(&b);
    return b;
}

/* What flow_parse_deep should find in it. */
static union flow_deep_key expected(enum shape shape)
{
    static const uint32_t tunnels[SHAPES] = {
        [VXLAN_V4] = FLOW_HAS_VXLAN,
        [VXLAN_V6_TAGGED] = FLOW_HAS_VXLAN,
        [GRE_V4] = FLOW_HAS_GRE,
        [GRE_V6_ALL_FIELDS] = FLOW_HAS_GRE | KEY_HAS_GRE_KEY,
        [GRE_BRIDGE] = FLOW_HAS_GRE | KEY_HAS_GRE_KEY,
        [GRE_LABELS] = FLOW_HAS_GRE | FLOW_HAS_MPLS,
        [LABEL_V4] = FLOW_HAS_MPLS,
        [LABELS_V6] = FLOW_HAS_MPLS,
        [LABEL_IN_UDP] = FLOW_HAS_MPLS,
        [LABEL_IN_IP] = FLOW_HAS_MPLS,
        [ESP] = FLOW_HAS_ESP,
    };
    static const uint16_t protocol[SHAPES] = {[GRE_V4] = 0x0800,
                                              [GRE_V6_ALL_FIELDS] = 0x86DD,
                                              [GRE_BRIDGE] = 0x6558,
                                              [GRE_LABELS] = 0x8847};
    static const uint16_t flags[SHAPES] = {[GRE_V6_ALL_FIELDS] = 0xB000, [GRE_BRIDGE] = 0x2000};
    bool v6 = shape == VXLAN_V6_TAGGED || shape == GRE_V6_ALL_FIELDS || shape == LABELS_V6 ||
              shape == LABEL_IN_IP;
    bool bridged = shape == VXLAN_V4 || shape == VXLAN_V6_TAGGED || shape == GRE_BRIDGE;
    union flow_deep_key k = {.tunnels = tunnels[shape]};
    bool last = shape == LABEL_V4 || shape == LABEL_IN_UDP || shape == LABEL_IN_IP;

    if (k.tunnels & FLOW_HAS_VXLAN)
        k.vni = IN_BE(VNI);
    k.gre_flags = __builtin_bswap16(flags[shape]);
    k.gre_protocol = __builtin_bswap16(protocol[shape]);
    if (k.tunnels & KEY_HAS_GRE_KEY)
        k.gre_key = IN_BE(GRE_KEY);
    if (k.tunnels & FLOW_HAS_MPLS)
        k.mpls = IN_BE(last ? LABEL | BOTTOM : LABEL & ~BOTTOM);
    if (shape == ESP) {
        k.esp_spi = IN_BE(0xA1A2A3A4);
        k.esp_seq = IN_BE(17);
        return k;
    }
    k.inner_headers = KEY_HAS_IP | KEY_HAS_PORTS |
                      (v6 ? FLOW_HAS_IPV6 | FLOW_HAS_UDP : FLOW_HAS_IPV4 | FLOW_HAS_TCP);
    if (bridged)
        k.inner_headers |= FLOW_HAS_ETHERNET | (shape == VXLAN_V6_TAGGED ? FLOW_HAS_VLAN : 0);
    if (bridged) {
        memcpy(k.inner.dmac, (uint8_t[]){2, 0, 0, 0, 0, 5}, 6);
        memcpy(k.inner.smac, (uint8_t[]){2, 0, 0, 0, 0, 6}, 6);
        k.inner.ether_type = __builtin_bswap16(v6 ? 0x86DD : 0x0800);
    }
    if (shape == VXLAN_V6_TAGGED)
        k.inner.vlan_tci = __builtin_bswap16(0x2007);
    memcpy(k.inner.src,
           v6 ? (uint8_t[16]){0xFD, [15] = 0x61} : (uint8_t[16]){[10] = 0xFF, 0xFF, 10, 0, 0, 0x41},
           16);
    memcpy(k.inner.dst,
           v6 ? (uint8_t[16]){0xFD, [15] = 0x62} : (uint8_t[16]){[10] = 0xFF, 0xFF, 10, 0, 0, 0x42},
           16);
    k.inner.hop_limit = 64;
    k.inner.next_header = v6 ? 17 : 6;
    k.inner.sport = __builtin_bswap16(v6 ? 5000 : 7000);
    k.inner.dport = __builtin_bswap16(v6 ? 6000 : 8000);
    return k;
}

/* The bytes are in memory of their own: a read beyond them is reported. */
static union flow_deep_key parse(const uint8_t *data, uint32_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    union flow_deep_key k;

    memcpy(copy, data, len);
    flow_parse_deep(&k, copy, len);
    free(copy);
    return k;
}

static bool matches(const struct flow_rule *rule, const struct built *b)
{
    struct flow_kit flows = flow_kit_init(rule, 1);
    struct frame f = {.data = (uint8_t *)(uintptr_t)b->data, .len = b->len};
    struct flow_keys keys;
    bool yes;

    flow_keys_parse(&keys, &f);
    yes = flow_table_match(flows.table, &keys);
    flow_kit_fini(&flows);
    return yes;
}

/* ---- tests ---- */

static void test_fields(void **state)
{
    for (unsigned i = 0; i < SHAPES; i++) {
        struct built b = build((enum shape)i);
        union flow_deep_key found = parse(b.data, b.len), want = expected((enum shape)i);

        assert_memory_equal(&found, &want, sizeof(found));
    }
}

/* A rule of a frame's own fields matches it; one with any other bit does not. */
static void test_every_bit(void **state)
{
    for (unsigned i = 0; i < SHAPES; i++) {
        struct built b = build((enum shape)i);
        union flow_deep_key k = expected((enum shape)i);
        struct flow_rule rule = {
            .deep = {.tunnels = k.tunnels & 0xFF, .inner_headers = k.inner_headers & 0xFF}};
        struct flow_deep_fields *value = &rule.deep.value, *mask = &rule.deep.mask;

        memcpy(value, &k, sizeof(*value));
        assert_true(matches(&rule, &b));
        for (unsigned bit = 0; bit < 8 * sizeof(*value); bit++) {
            uint8_t one = (uint8_t)(1 << bit % 8);

            ((uint8_t *)mask)[bit / 8] = one;
            ((uint8_t *)value)[bit / 8] ^= one;
            assert_false(matches(&rule, &b));
            ((uint8_t *)value)[bit / 8] ^= one;
            ((uint8_t *)mask)[bit / 8] = 0;
        }
    }
}

/* A rule about the kind of tunnel alone matches the frames that have one of these. */
static void test_kinds(void **state)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        const struct flow_rule rule = {.deep = {.tunnels = 1u << kind}};

        for (unsigned i = 0; i < SHAPES; i++) {
            struct built b = build((enum shape)i);

            assert_int_equal(matches(&rule, &b), expected((enum shape)i).tunnels >> kind & 1);
        }
    }
}

/* Fields that are compared with 0 require that they are there. */
static void test_absent_fields(void **state)
{
    struct flow_rule key = {.deep = {.mask.gre_key = UINT32_MAX}};
    struct flow_rule inner = {.deep = {.mask.inner.dport = UINT16_MAX}};
    struct flow_rule label = {.deep = {.mask.mpls = UINT32_MAX}};
    struct flow_rule vni = {.deep = {.mask.vni = UINT32_MAX}};
    struct built without_key = build(GRE_V4), no_inner = build(ESP), b = {.len = 0};

    assert_false(matches(&key, &without_key));
    assert_false(matches(&inner, &no_inner));
    assert_false(matches(&label, &without_key));
    assert_false(matches(&vni, &without_key));
    ethernet(&b, 1, 0x0800), ipv4(&b, 1, 47), gre(&b, 0x2000, 0x0800), inside(&b, false);
    memset(b.data + 38, 0, 4); /* the key */
    end(&b);
    assert_true(matches(&key, &b));
}

/* At every length: what is there is found, and nothing else. */
static void test_truncated(void **state)
{
    for (unsigned i = 0; i < SHAPES; i++) {
        struct built b = build((enum shape)i);
        union flow_deep_key whole = expected((enum shape)i);

        for (uint32_t len = 0; len < b.len; len++) {
            union flow_deep_key k = parse(b.data, len);

            assert_int_equal(k.tunnels & ~whole.tunnels, 0);
            assert_int_equal(k.inner_headers & ~whole.inner_headers, 0);
            assert_true(!(k.inner_headers & KEY_HAS_PORTS) || len + 10 >= b.len);
        }
    }
}

/* The length of the outer packet counts, not that of the frame. */
static void test_padding(void **state)
{
    struct built b = build(VXLAN_V4);
    union flow_deep_key k;

    put_be16(b.data + 16, 20 + 8 + 7); /* a byte less than the VXLAN header */
    k = parse(b.data, b.len);
    assert_int_equal(k.tunnels, 0);
    put_be16(b.data + 16, 20 + 8 + 8);
    k = parse(b.data, b.len);
    assert_int_equal(k.tunnels, FLOW_HAS_VXLAN);
    assert_int_equal(k.inner_headers, 0);
}

static void test_no_tunnels(void **state)
{
    static const struct {
        enum shape shape;
        uint32_t at; /* a byte of the frame, */
        uint8_t is;  /* and its value */
    } rows[] = {
        {VXLAN_V4, 42, 0x00},     /* no VNI */
        {VXLAN_V4, 37, 0x00},     /* another port */
        {VXLAN_V4, 23, 6},        /* TCP */
        {VXLAN_V4, 21, 0x01},     /* the middle of a packet */
        {GRE_V4, 35, 0x01},       /* another version */
        {GRE_V4, 34, 0x40},       /* routes */
        {GRE_V4, 35, 0x04},       /* reserved */
        {GRE_V4, 23, 48},         /* another protocol */
        {LABEL_IN_UDP, 37, 0x00}, /* another port */
        {LABEL_V4, 12, 0x89},     /* another type */
        {ESP, 23, 52},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
        struct built b = build(rows[i].shape);
        union flow_deep_key k, none = {.tunnels = 0};

        b.data[rows[i].at] = rows[i].is;
        k = parse(b.data, b.len);
        assert_memory_equal(&k, &none, sizeof(k));
    }
}

/* A long stack of labels is not followed to its end. */
static void test_many_labels(void **state)
{
    for (unsigned labels = 1; labels <= 10; labels++) {
        struct built b = {.len = 0};
        union flow_deep_key k;

        ethernet(&b, 1, 0x8847);
        for (unsigned i = 1; i <= labels; i++)
            mpls(&b, i << 12 | (i == labels ? BOTTOM : 0));
        inside(&b, false);
        end(&b);
        k = parse(b.data, b.len);
        assert_int_equal(k.tunnels, FLOW_HAS_MPLS);
        assert_int_equal(k.mpls, IN_BE(1u << 12 | (labels == 1 ? BOTTOM : 0)));
        assert_int_equal(k.inner_headers != 0, labels <= 8);
    }
}

/* Rules about tunnels, and others, are tried in their order. */
static void test_order(void **state)
{
    const struct flow_rule rule[] = {
        {.priority = 1, .tagged = true, .tag = 1, .deep = {.tunnels = FLOW_HAS_VXLAN}},
        {.priority = 2, .tagged = true, .tag = 2, .match.headers = FLOW_HAS_UDP},
        {.priority = 0,
         .tagged = true,
         .tag = 3,
         .deep = {.value.inner.dport = __builtin_bswap16(6000), .mask.inner.dport = UINT16_MAX}},
        {.priority = 3, .tagged = true, .tag = 4},
    };
    static const uint32_t winner[SHAPES] = {
        [VXLAN_V4] = 1,     [VXLAN_V6_TAGGED] = 3, [GRE_V4] = 4,   [GRE_V6_ALL_FIELDS] = 3,
        [GRE_BRIDGE] = 4,   [GRE_LABELS] = 4,      [LABEL_V4] = 4, [LABELS_V6] = 3,
        [LABEL_IN_UDP] = 2, [LABEL_IN_IP] = 3,     [ESP] = 4};
    struct flow_kit flows = flow_kit_init(rule, ARRAY_SIZE(rule));

    for (unsigned i = 0; i < SHAPES; i++) {
        struct built b = build((enum shape)i);
        struct flow_keys keys;

        flow_keys_parse(&keys, &(struct frame){.data = b.data, .len = b.len});
        assert_int_equal(flow_table_match(flows.table, &keys)->tag, winner[i]);
    }
    flow_kit_fini(&flows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),     cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_kinds),      cmocka_unit_test(test_absent_fields),
        cmocka_unit_test(test_truncated),  cmocka_unit_test(test_padding),
        cmocka_unit_test(test_no_tunnels), cmocka_unit_test(test_many_labels),
        cmocka_unit_test(test_order),
    };

    return cmocka_run_group_tests_name("transport_raw_tunnel", tests, NULL, NULL);
}
