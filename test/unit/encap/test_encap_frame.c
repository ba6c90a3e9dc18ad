/* SPDX-License-Identifier: BSD-3-Clause */
/* Outer headers: built from a template, accepted by encap_rx, and every reason for which it drops a
 * frame. */
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "common.h"
#include "encap.h"
#include "frame_layout.h"
#include "frame_peek.h"
#include "pkt.h"
#include "unit.h"

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1}, peer_mac[6] = {2, 0, 0, 0, 0, 2};

/* Where the layers of an untagged frame start. */
#define IP   14
#define UDP4 (IP + 20)
#define UDP6 (IP + 40)

static union gid gid(const char *text)
{
    union gid g;

    assert_int_equal(gid_parse(&g, text), 0);
    return g;
}

static void add_gids(struct gid_table *t, const char *text)
{
    static const uint16_t vlans[] = {VLAN_NONE, 100};

    for (size_t v = 0; v < ARRAY_SIZE(vlans); v++)
        for (uint8_t type = GID_TYPE_ROCE_V1; type <= GID_TYPE_ROCE_V2; type++) {
            struct gid_entry e = {.gid = gid(text), .type = type, .vlan = vlans[v]};

            assert_true(gid_table_add(t, &e) >= 0);
        }
}

static struct gid_table gids;
static const struct encap_port port = {.mac = {2, 0, 0, 0, 0, 1}, .gids = &gids};

static int setup(void **state)
{
    add_gids(&gids, "10.0.0.1");
    add_gids(&gids, "fd00::1");
    return 0;
}

static struct address_vector to_us(const char *from, const char *to, uint8_t gid_type)
{
    struct address_vector av = {.sgid = gid(from),
                                .dgid = gid(to),
                                .gid_type = gid_type,
                                .vlan = VLAN_NONE,
                                .sl = 13,
                                .pcp = 5,
                                .traffic_class = 0x6B,
                                .hop_limit = 64,
                                .flow_label = 0xABCDE,
                                .udp_sport = 0xC123};

    memcpy(av.smac, peer_mac, 6);
    memcpy(av.dmac, our_mac, 6);
    return av;
}

struct sample {
    uint8_t bytes[256];
    size_t len;
    struct encap_template t;
};

/* A frame with an RC SEND ONLY of 30 bytes. */
static struct sample make(const struct address_vector *av)
{
    struct pkt p = {
        .opcode = OPCODE(PKT_RC, OP_SEND_ONLY), .pkey = PKEY_DEFAULT, .payload_len = 30};
    size_t bth_len = pkt_len(p.opcode, p.payload_len), at;
    struct sample s = {.len = 0};

    memset(s.bytes, 0xA5, sizeof(s.bytes));
    assert_int_equal(encap_template_make(&s.t, av), 0);
    at = encap_tx(s.bytes, &s.t, bth_len, 0xBEEF);
    assert_int_equal(at, s.t.len);
    at += pkt_build_headers(s.bytes + at, &p);
    memset(s.bytes + at, 'x', p.payload_len);
    pkt_build_pad(s.bytes + at, p.payload_len);
    s.len = encap_seal(s.bytes, &s.t, bth_len);
    assert_int_equal(s.len, s.t.len + bth_len);
    assert_int_equal(s.bytes[s.len], 0xA5);
    return s;
}

static enum drop rx(const struct sample *s)
{
    struct encap_view v;

    return encap_rx(&v, s->bytes, s->len, &port);
}

static void check_round_trip(const struct address_vector *av, enum icrc_l3 kind)
{
    struct sample s = make(av);
    struct encap_view v;
    struct pkt p;

    memset(&v, 0xA5, sizeof(v));
    assert_int_equal(encap_rx(&v, s.bytes, s.len, &port), DROP_NONE);
    assert_int_equal(v.l3_kind, kind);
    assert_memory_equal(v.smac, av->smac, 6);
    assert_memory_equal(v.dmac, av->dmac, 6);
    assert_true(gid_eq(&v.sgid, &av->sgid));
    assert_true(gid_eq(&v.dgid, &av->dgid));
    assert_true(gid_eq(&v.dgid, &gids.entry[v.gid_index].gid));
    assert_int_equal(gids.entry[v.gid_index].type, av->gid_type);
    assert_int_equal(gids.entry[v.gid_index].vlan, av->vlan);
    assert_int_equal(v.vlan_tci, av->vlan == VLAN_NONE ? VLAN_NONE : av->pcp << 13 | av->vlan);
    assert_int_equal(v.traffic_class, av->traffic_class & 0xFC);
    assert_int_equal(v.hop_limit, av->hop_limit);
    assert_int_equal(v.flow_label, kind == ICRC_IPV4 ? 0 : av->flow_label);
    assert_int_equal(v.udp_sport, kind == ICRC_GRH ? 0 : av->udp_sport);
    assert_int_equal(v.ip_id, kind == ICRC_IPV4 ? 0xBEEF : 0);
    assert_ptr_equal(v.l3 + v.l3_len, s.bytes + s.len);
    assert_ptr_equal(v.bth + v.bth_len, s.bytes + s.len);
    assert_true(icrc_verify(v.l3_kind, v.l3, v.l3_len));
    assert_int_equal(pkt_parse(&p, v.bth, v.bth_len), DROP_NONE);
    assert_int_equal(p.payload_len, 30);
}

static void test_round_trips(void **state)
{
    static const struct {
        const char *from, *to;
        uint8_t type;
        enum icrc_l3 kind;
    } cases[] = {
        {"10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2, ICRC_IPV4},
        {"fd00::2", "fd00::1", GID_TYPE_ROCE_V2, ICRC_IPV6},
        {"fd00::2", "fd00::1", GID_TYPE_ROCE_V1, ICRC_GRH},
        {"10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V1, ICRC_GRH},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct address_vector av = to_us(cases[i].from, cases[i].to, cases[i].type);

        check_round_trip(&av, cases[i].kind);
        av.vlan = 100;
        for (av.pcp = 0; av.pcp < 8; av.pcp++)
            check_round_trip(&av, cases[i].kind);
    }
}

/* The same address in another VLAN, in another version, or without a tag, is another entry. */
static void test_every_vlan_and_version(void **state)
{
    static const uint16_t vlans[] = {VLAN_NONE, 100, 101, 4094};

    for (unsigned v6 = 0; v6 < 2; v6++)
        for (uint8_t type = GID_TYPE_ROCE_V1; type <= GID_TYPE_ROCE_V2; type++)
            for (unsigned v = 0; v < ARRAY_SIZE(vlans); v++) {
                struct address_vector av =
                    to_us(v6 ? "fd00::2" : "10.0.0.2", v6 ? "fd00::1" : "10.0.0.1", type);
                struct gid_table one = {.len = 1};
                struct encap_port alone = {.mac = {2, 0, 0, 0, 0, 1}, .gids = &one};
                struct encap_view view;
                struct sample s;

                av.vlan = vlans[v];
                s = make(&av);
                for (uint8_t t = GID_TYPE_ROCE_V1; t <= GID_TYPE_ROCE_V2; t++)
                    for (unsigned i = 0; i < ARRAY_SIZE(vlans); i++) {
                        one.entry[0] = (struct gid_entry){
                            .gid = av.dgid, .type = t, .valid = true, .vlan = vlans[i]};
                        assert_int_equal(encap_rx(&view, s.bytes, s.len, &alone),
                                         t == type && i == v ? DROP_NONE : DROP_wrong_destination);
                        assert_int_equal(qos_frame_priority(view.vlan_tci, view.traffic_class),
                                         s.t.priority);
                    }
            }
}

/* A dropped frame has a priority as soon as it is long enough to hold its tag. */
static void test_priority_of_any_frame(void **state)
{
    struct address_vector av = to_us("10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2);
    struct encap_view v;
    struct sample s;

    av.vlan = 7;
    s = make(&av);
    for (size_t len = 0; len < s.len; len++) {
        memset(&v, 0xA5, sizeof(v));
        assert_int_equal(encap_rx(&v, s.bytes, len, &port), DROP_truncated);
        assert_int_equal(qos_frame_priority(v.vlan_tci, v.traffic_class), len < 18 ? 0 : 5);
    }
    put_be16(s.bytes + TAG_TYPE_OFF, 0x0806 /* ARP */);
    assert_int_equal(encap_rx(&v, s.bytes, s.len, &port), DROP_not_roce);
    assert_int_equal(qos_frame_priority(v.vlan_tci, v.traffic_class), 5);
    s.bytes[0] ^= 2;
    assert_int_equal(encap_rx(&v, s.bytes, s.len, &port), DROP_not_our_mac);
    assert_int_equal(qos_frame_priority(v.vlan_tci, v.traffic_class), 5);
}

/* Of a frame without a tag the traffic class counts, of other protocols too, and as soon as it is
 * there. */
static void test_traffic_class_of_any_frame(void **state)
{
    static const struct {
        const char *from, *to;
        uint8_t type;
        unsigned protocol_off; /* 0: RoCEv1 has no other protocol */
    } cases[] = {
        {"10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2, 14 + 9},
        {"fd00::2", "fd00::1", GID_TYPE_ROCE_V2, 14 + 6},
        {"fd00::2", "fd00::1", GID_TYPE_ROCE_V1, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct address_vector av = to_us(cases[i].from, cases[i].to, cases[i].type);
        struct encap_view v;
        struct sample s;

        av.traffic_class = 0x68;
        s = make(&av);
        for (size_t len = 0; len < s.len; len++) {
            memset(&v, 0xA5, sizeof(v));
            assert_int_equal(encap_rx(&v, s.bytes, len, &port), DROP_truncated);
            assert_int_equal(v.vlan_tci, VLAN_NONE);
            assert_int_equal(v.traffic_class, len < 16 ? 0 : 0x68);
        }
        if (cases[i].protocol_off) {
            s.bytes[cases[i].protocol_off] = 6 /* TCP */;
            assert_int_equal(encap_rx(&v, s.bytes, s.len, &port), DROP_not_roce);
            assert_int_equal(v.traffic_class, 0x68);
        }
        s.bytes[0] ^= 2;
        assert_int_equal(encap_rx(&v, s.bytes, s.len, &port), DROP_not_our_mac);
        assert_int_equal(v.traffic_class, 0x68);
    }
}

/* The bytes of an IPv4 frame, with a header checksum computed elsewhere. */
static void test_ipv4_bytes(void **state)
{
    static const uint8_t expected[] = {
        2,    0,    0,    0,    0, 1,  2,    0,    0,    0,    0,  2,  0x81, 0x00, 0xA0, 100,
        0x08, 0x00, 0x45, 0x68, 0, 76, 0xBE, 0xEF, 0x40, 0,    64, 17, 0x67, 0x47, 10,   0,
        0,    2,    10,   0,    0, 1,  0xC1, 0x23, 0x12, 0xB7, 0,  56, 0,    0};
    struct address_vector av = to_us("10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2);
    struct sample s;

    av.vlan = 100;
    s = make(&av);
    assert_int_equal(s.t.len, sizeof(expected));
    assert_memory_equal(s.bytes, expected, sizeof(expected));
}

/* The checksum that is made from a template is right for every identification. */
static void test_ipv4_checksum_of_every_id(void **state)
{
    struct address_vector av = to_us("10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2);
    struct encap_template t;
    uint8_t frame[128];

    assert_int_equal(encap_template_make(&t, &av), 0);
    for (unsigned id = 0; id < 65536; id++) {
        struct encap_view v;

        memset(frame, 0, sizeof(frame));
        encap_tx(frame, &t, 16 + id % 60 / 4 * 4, (uint16_t)id);
        assert_int_equal(encap_rx(&v, frame, sizeof(frame), &port), DROP_NONE);
        assert_int_equal(v.ip_id, id);
    }
}

static void test_template_errors(void **state)
{
    struct address_vector av = to_us("10.0.0.2", "fd00::1", GID_TYPE_ROCE_V2);
    struct encap_template t;

    assert_int_equal(encap_template_make(&t, &av), -EINVAL);
    av = to_us("fd00::2", "10.0.0.1", GID_TYPE_ROCE_V1);
    assert_int_equal(encap_template_make(&t, &av), -EINVAL);
    av = to_us("10.0.0.2", "ff0e::ffff:239.1.2.3", GID_TYPE_ROCE_V2);
    assert_int_equal(encap_template_make(&t, &av), -EINVAL);
    av = to_us("10.0.0.2", "10.0.0.1", GID_TYPE_IB);
    assert_int_equal(encap_template_make(&t, &av), -EINVAL);
    av.gid_type = 77;
    assert_int_equal(encap_template_make(&t, &av), -EINVAL);
}

static struct sample sample_v4(void)
{
    struct address_vector av = to_us("10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2);

    return make(&av);
}

static struct sample sample_v6(void)
{
    struct address_vector av = to_us("fd00::2", "fd00::1", GID_TYPE_ROCE_V2);

    return make(&av);
}

static struct sample sample_v1(void)
{
    struct address_vector av = to_us("fd00::2", "fd00::1", GID_TYPE_ROCE_V1);

    return make(&av);
}

/* Makes an IPv4 header's checksum right again. */
static void resum(struct sample *s)
{
    uint32_t sum = 0;

    put_be16(s->bytes + IP + 10, 0);
    for (int i = 0; i < 20; i += 2)
        sum += get_be16(s->bytes + IP + i);
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    put_be16(s->bytes + IP + 10, (uint16_t)~sum);
}

static void test_truncated(void **state)
{
    struct sample samples[] = {sample_v4(), sample_v6(), sample_v1()};

    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        size_t whole = samples[i].len;

        assert_int_equal(rx(&samples[i]), DROP_NONE);
        for (samples[i].len = 0; samples[i].len < whole; samples[i].len++)
            assert_int_equal(rx(&samples[i]), DROP_truncated);
    }
}

static void test_truncated_by_its_own_length(void **state)
{
    struct sample s = sample_v4();

    put_be16(s.bytes + IP + IPV4_TOTAL_OFF, IPV4_LEN + UDP_LEN - 1);
    resum(&s);
    assert_int_equal(rx(&s), DROP_truncated);
    s = sample_v6();
    put_be16(s.bytes + IP + IPV6_PAYLOAD_OFF, UDP_LEN - 1);
    assert_int_equal(rx(&s), DROP_truncated);
}

static void test_truncated_tag(void **state)
{
    struct sample s = sample_v4();

    put_be16(s.bytes + ETH_TYPE_OFF, ETHERTYPE_VLAN);
    s.len = ETH_LEN + VLAN_LEN - 1;
    assert_int_equal(rx(&s), DROP_truncated);
}

static void test_ethernet_padding_is_ignored(void **state)
{
    struct sample samples[] = {sample_v4(), sample_v6(), sample_v1()};

    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        struct encap_view v;
        size_t len = samples[i].len;

        assert_int_equal(encap_rx(&v, samples[i].bytes, len + 20, &port), DROP_NONE);
        assert_ptr_equal(v.bth + v.bth_len, samples[i].bytes + len);
    }
}

static void test_not_our_mac(void **state)
{
    struct sample s = sample_v4();

    s.bytes[5] = 9;
    assert_int_equal(rx(&s), DROP_not_our_mac);
    memset(s.bytes, 0xFF, 6); /* a broadcast is for this host, but never RoCE */
    assert_int_equal(rx(&s), DROP_wrong_destination);
    put_be16(s.bytes + ETH_TYPE_OFF, 0x0806 /* ARP */);
    assert_int_equal(rx(&s), DROP_not_roce);
}

static void test_not_roce(void **state)
{
    struct sample s = sample_v4();

    put_be16(s.bytes + ETH_TYPE_OFF, 0x0806 /* ARP */);
    assert_int_equal(rx(&s), DROP_not_roce);
    s = sample_v4();
    s.bytes[IP + IPV4_PROTO_OFF] = 6; /* TCP with a wrong checksum: not the engine's concern */
    assert_int_equal(rx(&s), DROP_not_roce);
    s = sample_v4();
    put_be16(s.bytes + UDP4 + UDP_DPORT_OFF, 4790);
    assert_int_equal(rx(&s), DROP_not_roce);
    s = sample_v6();
    s.bytes[IP + IPV6_NEXT_OFF] = 58; /* ICMPv6 */
    assert_int_equal(rx(&s), DROP_not_roce);
    s = sample_v6();
    put_be16(s.bytes + UDP6 + UDP_DPORT_OFF, 53);
    assert_int_equal(rx(&s), DROP_not_roce);
    s = sample_v6();
    s.bytes[IP + IPV6_NEXT_OFF] = IPV6_NEXT_FRAGMENT; /* of TCP */
    s.bytes[IP + IPV6_LEN] = 6;
    assert_int_equal(rx(&s), DROP_not_roce);
}

static void test_reserved_vlan_id(void **state)
{
    struct address_vector av = to_us("10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2);
    struct sample s;

    av.vlan = 100;
    s = make(&av);
    put_be16(s.bytes + TAG_TCI_OFF, 0xFFFF);
    assert_int_equal(rx(&s), DROP_not_roce);
}

/* An answer would go to many hosts, or to none. */
static void test_source_is_no_host(void **state)
{
    static const uint8_t none[16],
        v4[][4] = {{0}, {224, 0, 0, 0}, {239, 255, 255, 255}, {255, 255, 255, 255}};
    static const uint8_t group[16] = {0xFF, 0x02, [15] = 1};

    for (size_t i = 0; i < ARRAY_SIZE(v4); i++) {
        struct sample s = sample_v4();

        memcpy(s.bytes + IP + IPV4_SRC_OFF, v4[i], 4);
        resum(&s);
        assert_int_equal(rx(&s), DROP_bad_ip_header);
    }
    for (int i = 0; i < 4; i++) {
        struct sample s = i % 2 ? sample_v6() : sample_v1();

        memcpy(s.bytes + IP + IPV6_SRC_OFF, i / 2 ? none : group, 16);
        assert_int_equal(rx(&s), DROP_bad_ip_header);
    }
}

static void test_bad_ip_header(void **state)
{
    struct sample s = sample_v4();

    s.bytes[IP + 10] ^= 1;
    assert_int_equal(rx(&s), DROP_bad_ip_header);
    s = sample_v4();
    s.bytes[IP] = 0x65;
    assert_int_equal(rx(&s), DROP_bad_ip_header);
    s = sample_v4();
    s.bytes[IP] = 0x44;
    assert_int_equal(rx(&s), DROP_bad_ip_header);
    s = sample_v4();
    put_be16(s.bytes + IP + 2, 19);
    resum(&s);
    assert_int_equal(rx(&s), DROP_bad_ip_header);
    s = sample_v6();
    s.bytes[IP] = 0x45;
    assert_int_equal(rx(&s), DROP_bad_ip_header);
    s = sample_v1();
    s.bytes[IP] = 0x50;
    assert_int_equal(rx(&s), DROP_bad_ip_header);
    s = sample_v1();
    s.bytes[IP + 6] = 17;
    assert_int_equal(rx(&s), DROP_bad_ip_header);
}

/* An IPv6 frame to ::ffff:10.0.0.1 is not one to the IPv4 GID of the same bytes. */
static void test_ipv4_mapped_in_ipv6(void **state)
{
    static const size_t addresses[] = {IP + 8, IP + 24};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        union gid mapped = gid("10.0.0.1");
        struct sample s = sample_v6();

        memcpy(s.bytes + addresses[i], mapped.raw, 16);
        assert_int_equal(rx(&s), DROP_bad_ip_header);
    }
}

/* With options the UDP header is elsewhere; RoCE allows none (CA17-3). */
static void test_ipv4_options(void **state)
{
    struct sample s = sample_v4();

    memmove(s.bytes + UDP4 + 4, s.bytes + UDP4, s.len - UDP4);
    memset(s.bytes + UDP4, 1, 4); /* no-operations */
    s.len += 4;
    s.bytes[IP] = 0x46;
    assert_int_equal(rx(&s), DROP_bad_ip_header);
    put_be16(s.bytes + UDP4 + 4 + 2, 53);
    assert_int_equal(rx(&s), DROP_not_roce);
}

static void test_ip_fragment(void **state)
{
    struct sample s = sample_v4();

    put_be16(s.bytes + IP + 6, 0x2000); /* the first */
    resum(&s);
    assert_int_equal(rx(&s), DROP_ip_fragment);
    put_be16(s.bytes + IP + 6, 0x2010); /* one in between */
    resum(&s);
    assert_int_equal(rx(&s), DROP_ip_fragment);
    put_be16(s.bytes + IP + 6, 0x0010); /* the last */
    resum(&s);
    assert_int_equal(rx(&s), DROP_ip_fragment);
    put_be16(s.bytes + IP + 6, 0x0000); /* may be fragmented, but is whole */
    resum(&s);
    assert_int_equal(rx(&s), DROP_NONE);
    s = sample_v6();
    s.bytes[IP + 6] = 44;
    s.bytes[IP + 40] = 17;
    assert_int_equal(rx(&s), DROP_ip_fragment);
}

static void test_udp_length(void **state)
{
    struct sample s = sample_v4();

    for (unsigned len = 0; len < 80; len++) {
        put_be16(s.bytes + UDP4 + 4, (uint16_t)len);
        assert_int_equal(rx(&s), len == s.len - UDP4 ? DROP_NONE : DROP_udp_length);
    }
    s = sample_v6();
    put_be16(s.bytes + UDP6 + 4, 0);
    assert_int_equal(rx(&s), DROP_udp_length);
}

static void test_udp_checksum_and_source_port_do_not_matter(void **state)
{
    struct sample s = sample_v4();

    put_be16(s.bytes + UDP4 + 6, 0x1234);
    put_be16(s.bytes + UDP4, 0);
    assert_int_equal(rx(&s), DROP_NONE);
}

static void test_wrong_destination(void **state)
{
    struct address_vector av = to_us("10.0.0.2", "10.0.0.3", GID_TYPE_ROCE_V2);
    struct sample s = make(&av);

    assert_int_equal(rx(&s), DROP_wrong_destination);
    av = to_us("fd00::2", "fd00::3", GID_TYPE_ROCE_V1);
    s = make(&av);
    assert_int_equal(rx(&s), DROP_wrong_destination);
    av = to_us("10.0.0.2", "10.0.0.1", GID_TYPE_ROCE_V2);
    av.vlan = 101; /* this host's address, but in another VLAN */
    s = make(&av);
    assert_int_equal(rx(&s), DROP_wrong_destination);
    av.vlan = 0; /* a priority without a VLAN */
    s = make(&av);
    assert_int_equal(rx(&s), DROP_NONE);
}

static void test_emptied_entry_is_no_destination(void **state)
{
    struct sample s = sample_v4();
    int i = gid_table_find(&gids, &(union gid){.raw = {[10] = 0xFF, 0xFF, 10, 0, 0, 1}},
                           GID_TYPE_ROCE_V2, VLAN_NONE);

    assert_true(i >= 0);
    gids.entry[i].valid = false;
    assert_int_equal(rx(&s), DROP_wrong_destination);
    gids.entry[i].valid = true;
    assert_int_equal(rx(&s), DROP_NONE);
}

static void check_group(const char *from, const char *group, uint8_t type)
{
    struct address_vector av = to_us(from, group, type);
    struct encap_view v;
    struct sample s;

    gid_multicast_mac(&av.dgid, av.dmac);
    s = make(&av);
    assert_int_equal(encap_rx(&v, s.bytes, s.len, &port), DROP_NONE);
    assert_int_equal(gids.entry[v.gid_index].type, type);
    s.bytes[5] ^= 1; /* another group's MAC */
    assert_int_equal(rx(&s), DROP_wrong_destination);
    av.vlan = 200; /* a VLAN without a member */
    s = make(&av);
    assert_int_equal(rx(&s), DROP_wrong_destination);
}

static void test_multicast(void **state)
{
    struct sample s = sample_v4();

    check_group("10.0.0.2", "239.1.2.3", GID_TYPE_ROCE_V2);
    check_group("fd00::2", "ff12::1234", GID_TYPE_ROCE_V2);
    check_group("fd00::2", "ff12::1234", GID_TYPE_ROCE_V1);
    check_group("10.0.0.2", "239.1.2.3", GID_TYPE_ROCE_V1);
    check_group("10.0.0.2", "ff0e::ffff:239.1.2.3", GID_TYPE_ROCE_V1);
    check_group("fd00::2", "239.1.2.3", GID_TYPE_ROCE_V1);
    memcpy(s.bytes, (const uint8_t[]){0x01, 0x00, 0x5E, 0, 0, 1}, 6);
    assert_int_equal(rx(&s), DROP_wrong_destination); /* our address in a group's frame */
}

/* A port with one address receives groups of its IP version. RoCEv1 groups have no version. */
static void test_groups_of_one_address(void **state)
{
    static const struct {
        const char *own, *group;
        uint8_t type;
        enum drop drop;
    } row[] = {
        {"10.0.0.1", "239.1.2.3", GID_TYPE_ROCE_V2, DROP_NONE},
        {"10.0.0.1", "ff12::1234", GID_TYPE_ROCE_V2, DROP_wrong_destination},
        {"fd00::1", "ff12::1234", GID_TYPE_ROCE_V2, DROP_NONE},
        {"fd00::1", "239.1.2.3", GID_TYPE_ROCE_V2, DROP_wrong_destination},
        {"10.0.0.1", "239.1.2.3", GID_TYPE_ROCE_V1, DROP_NONE},
        {"10.0.0.1", "ff0e::ffff:239.1.2.3", GID_TYPE_ROCE_V1, DROP_NONE},
        {"fd00::1", "239.1.2.3", GID_TYPE_ROCE_V1, DROP_NONE},
        {"fd00::1", "ff12::1234", GID_TYPE_ROCE_V1, DROP_NONE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
        bool ipv4 = !strchr(row[i].group, ':');
        struct address_vector av = to_us(ipv4 ? "10.0.0.2" : "fd00::2", row[i].group, row[i].type);
        struct gid_table one = {.len = 1};
        struct encap_port alone = {.mac = {2, 0, 0, 0, 0, 1}, .gids = &one};
        struct encap_view v;
        struct sample s;

        one.entry[0] = (struct gid_entry){
            .gid = gid(row[i].own), .type = row[i].type, .valid = true, .vlan = VLAN_NONE};
        gid_multicast_mac(&av.dgid, av.dmac);
        s = make(&av);
        assert_int_equal(encap_rx(&v, s.bytes, s.len, &alone), row[i].drop);
    }
}

static void test_promiscuous(void **state)
{
    struct encap_port any = {.promiscuous = true};
    struct sample s = sample_v6();
    struct encap_view v;

    s.bytes[0] = 0x42;
    s.bytes[IP + 39] = 77;
    assert_int_equal(encap_rx(&v, s.bytes, s.len, &any), DROP_NONE);
    assert_int_equal(v.gid_index, -1);
}

static void test_grh_of_receive_buffers(void **state)
{
    struct sample s4 = sample_v4(), s6 = sample_v6(), s1 = sample_v1();
    static const uint8_t zeros[20];
    struct encap_view v;
    uint8_t grh[40];

    assert_int_equal(encap_rx(&v, s4.bytes, s4.len, &port), DROP_NONE);
    encap_grh(grh, v.l3_kind, v.l3);
    assert_memory_equal(grh, zeros, 20);
    assert_memory_equal(grh + 20, s4.bytes + IP, 20);
    assert_int_equal(encap_rx(&v, s6.bytes, s6.len, &port), DROP_NONE);
    encap_grh(grh, v.l3_kind, v.l3);
    assert_memory_equal(grh, s6.bytes + IP, 40);
    assert_int_equal(encap_rx(&v, s1.bytes, s1.len, &port), DROP_NONE);
    encap_grh(grh, v.l3_kind, v.l3);
    assert_memory_equal(grh, s1.bytes + IP, 40);
}

/* The mark is there, the header's checksum is right, and no other byte has changed; the ICRC does
 * not cover it. */
static void test_marks(void **state)
{
    struct sample before, s[3] = {sample_v4(), sample_v6(), sample_v1()};
    struct encap_view v;

    for (unsigned i = 0; i < 2; i++) {
        before = s[i];
        assert_true(frame_mark(s[i].bytes, (uint32_t)s[i].len));
        assert_int_equal(encap_rx(&v, s[i].bytes, s[i].len, &port), DROP_NONE);
        assert_true(encap_is_ce(v.traffic_class));
        s[i].bytes[IP + 1] = before.bytes[IP + 1];
        if (!i)
            memcpy(s[i].bytes + IP + 10, before.bytes + IP + 10, 2);
        assert_memory_equal(s[i].bytes, before.bytes, s[i].len);
    }
    assert_false(frame_mark(s[0].bytes, IP + 19));
    assert_false(frame_mark(s[1].bytes, IP + 39));
    assert_false(frame_mark(s[0].bytes, 4));
    assert_false(frame_mark(s[2].bytes, (uint32_t)s[2].len));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_ipv4_bytes),
        cmocka_unit_test(test_ipv4_checksum_of_every_id),
        cmocka_unit_test(test_template_errors),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_truncated_by_its_own_length),
        cmocka_unit_test(test_truncated_tag),
        cmocka_unit_test(test_ethernet_padding_is_ignored),
        cmocka_unit_test(test_not_our_mac),
        cmocka_unit_test(test_not_roce),
        cmocka_unit_test(test_every_vlan_and_version),
        cmocka_unit_test(test_priority_of_any_frame),
        cmocka_unit_test(test_traffic_class_of_any_frame),
        cmocka_unit_test(test_reserved_vlan_id),
        cmocka_unit_test(test_bad_ip_header),
        cmocka_unit_test(test_source_is_no_host),
        cmocka_unit_test(test_ipv4_mapped_in_ipv6),
        cmocka_unit_test(test_ipv4_options),
        cmocka_unit_test(test_ip_fragment),
        cmocka_unit_test(test_udp_length),
        cmocka_unit_test(test_udp_checksum_and_source_port_do_not_matter),
        cmocka_unit_test(test_wrong_destination),
        cmocka_unit_test(test_emptied_entry_is_no_destination),
        cmocka_unit_test(test_multicast),
        cmocka_unit_test(test_groups_of_one_address),
        cmocka_unit_test(test_promiscuous),
        cmocka_unit_test(test_grh_of_receive_buffers),
        cmocka_unit_test(test_marks),
    };

    return cmocka_run_group_tests_name("encap_frame", tests, setup, NULL);
}
