/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection expects against encap_rx, which knows no connections: a frame that is expected
 * passes there too, from the same address to the same, with the same view; and of the frames that
 * pass there from the peer, those are expected that are of the usual kind. Each form of headers.
 */
#include <stdlib.h>

#include "encap_layout.h"
#include "hdr_template.h"
#include "random.h"
#include "unit.h"

#define BTH_BYTES 44
#define ROOM      256
#define VLAN      7
#define PRIORITY  (5 << 13)

static enum hdr_form form;
static struct gid_table gids;
static struct encap_port port;
static struct address_vector ours, peers; /* from us to the peer, and back */

static union gid address(uint8_t last)
{
    const uint8_t v6[16] = {0xFD, [15] = last};
    union gid gid = gid_from_ipv4((uint8_t[]){10, 0, 0, last});

    if (hdr_is_ipv6(form))
        memcpy(gid.raw, v6, sizeof(v6));
    return gid;
}

static void make_vectors(void)
{
    struct gid_entry own = {.gid = address(1),
                            .type = GID_TYPE_ROCE_V2,
                            .valid = true,
                            .vlan = form < HDR_VLAN_IPV4 ? VLAN_NONE : VLAN};

    gids = (struct gid_table){0};
    memcpy(port.mac, (uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
    assert_int_equal(gid_table_add(&gids, &own), 0);
    port.gids = &gids;
    ours = (struct address_vector){.sgid = own.gid,
                                   .dgid = address(2),
                                   .gid_type = GID_TYPE_ROCE_V2,
                                   .vlan = own.vlan,
                                   .hop_limit = 64};
    peers = ours;
    peers.sgid = ours.dgid;
    peers.dgid = ours.sgid;
    peers.udp_sport = 0xC123;
    memcpy(peers.dmac, port.mac, 6);
    memcpy(peers.smac, (uint8_t[]){2, 0, 0, 0, 0, 2}, 6);
}

/* A frame of the peer's; returns its length. */
static uint32_t make_frame(uint8_t frame[ROOM], const struct address_vector *av, uint16_t ip_id)
{
    struct encap_template t;

    memset(frame, 0, ROOM);
    assert_int_equal(encap_template_make(&t, av), 0);
    encap_tx(frame, &t, BTH_BYTES, ip_id);
    return t.len + BTH_BYTES;
}

static void mend_sum(uint8_t *frame)
{
    uint8_t *ip = frame + hdr_l3_at(form);

    if (hdr_is_ipv6(form))
        return;
    memset(ip + 10, 0, 2);
    put_be16(ip + 10, (uint16_t)~ipv4_sum(ip));
}

/* encap_rx passes the frame as one between the two. */
static void check_passes(const uint8_t *frame, uint32_t len, struct encap_view *v)
{
    assert_int_equal(encap_rx(v, frame, len, &port), DROP_NONE);
    assert_true(gid_eq(&v->sgid, &ours.dgid));
    assert_true(gid_eq(&v->dgid, &ours.sgid));
    assert_int_equal(v->vlan_tci == VLAN_NONE ? VLAN_NONE : v->vlan_tci & VLAN_ID_MASK, ours.vlan);
}

static void check_same(const struct encap_view *a, const struct encap_view *b)
{
    assert_int_equal(a->l3_kind, b->l3_kind);
    assert_ptr_equal(a->l3, b->l3);
    assert_int_equal(a->l3_len, b->l3_len);
    assert_ptr_equal(a->bth, b->bth);
    assert_int_equal(a->bth_len, b->bth_len);
    assert_int_equal(a->traffic_class, b->traffic_class);
    assert_int_equal(a->vlan_tci, b->vlan_tci);
}

/* Whether it is expected; if so encap_rx agrees in everything. IPv4 without a tag. */
static bool judge(const struct hdr_template *x, const uint8_t *frame, uint32_t len)
{
    struct encap_view fast, slow;

    if (!hdr_template_parse(x, frame, len, &fast))
        return false;
    check_passes(frame, len, &slow);
    check_same(&fast, &slow);
    return true;
}

/* Whether it is like the frame that was learnt from. What is is expected, too, and its fields are
 * those that encap_rx finds. */
static bool judge_alike(const struct hdr_template *x, const uint8_t *frame, uint32_t len)
{
    const uint8_t *bth = frame + hdr_bth_at(form);
    struct encap_view v;
    uint32_t total;

    if (len < hdr_min_len(form) || !hdr_template_matches(form, x, frame) ||
        !hdr_template_sum_ok(form, x, frame))
        return false;
    total = hdr_ip_len(form, frame);
    if (!hdr_lengths_ok(form, frame, len, total) || total < hdr_l3_len(form))
        return false;
    check_passes(frame, len, &v);
    assert_int_equal(hdr_form_of(frame), form);
    assert_int_equal(v.l3_kind, hdr_is_ipv6(form) ? ICRC_IPV6 : ICRC_IPV4);
    assert_int_equal(v.l3_len, total);
    assert_ptr_equal(v.bth, bth);
    assert_int_equal(v.traffic_class, hdr_traffic_class(form, frame));
    assert_int_equal(v.vlan_tci, hdr_vlan_tci(form, frame));
    assert_int_equal(bth[1] & 0x0F, 0);
    assert_int_equal(get_be16(bth + 2) & 0x7FFF, 0x7FFF);
    return true;
}

/* A frame with the BTH that every packet has. */
static uint32_t make_packet(uint8_t frame[ROOM], const struct address_vector *av, uint16_t ip_id)
{
    uint32_t len = make_frame(frame, av, ip_id);

    frame[hdr_bth_at(form)] = 0x0A;
    put_be16(frame + hdr_bth_at(form) + 2, 0xFFFF);
    return len;
}

/* As the general path does with a frame that passes. */
static void learn(struct hdr_template *x, const uint8_t *frame, uint32_t len)
{
    if (form == HDR_IPV4)
        hdr_template_update(x, frame);
    else
        hdr_template_learn(x, frame, len);
}

static void learnt(struct hdr_template *x)
{
    uint8_t frame[ROOM];
    uint32_t len;

    make_vectors();
    hdr_template_make(x, &port, &ours);
    assert_int_equal(x->form, form);
    len = make_packet(frame, &peers, 7);
    assert_false(hdr_template_matches(form, x, frame)); /* its TTL is not known yet */
    learn(x, frame, len);
    assert_true(hdr_template_matches(form, x, frame));
}

static void each_form(void (*test)(void))
{
    for (form = HDR_IPV4; form < HDR_FORMS; form++)
        test();
}

static void learning(void)
{
    struct random r = {3};
    struct hdr_template x;
    uint8_t frame[ROOM];

    learnt(&x);
    for (unsigned i = 0; i < 2000; i++) {
        struct address_vector av = peers;
        uint32_t len;

        av.udp_sport = (uint16_t)random_next(&r);
        len = make_packet(frame, &av, (uint16_t)random_next(&r));
        assert_true(judge_alike(&x, frame, len + i % 20));
        av.traffic_class = (uint8_t)random_next(&r) & 0xFC;
        av.hop_limit = (uint8_t)random_next(&r);
        len = make_packet(frame, &av, (uint16_t)random_next(&r));
        assert_int_equal(judge_alike(&x, frame, len),
                         !av.traffic_class && av.hop_limit == peers.hop_limit);
        learn(&x, frame, len);
        assert_true(judge_alike(&x, frame, len));
        learn(&x, frame, make_packet(frame, &peers, 7));
    }
}

static void test_learning(void **state)
{
    each_form(learning);
}

/* The priority of a tag is learnt as the traffic class is; a frame that is not the peer's is not
 * learnt from. */
static void learning_priority(void)
{
    uint8_t frame[ROOM];
    struct hdr_template x, before;
    uint32_t len;

    if (form == HDR_IPV4)
        return;
    learnt(&x);
    len = make_packet(frame, &peers, 7);
    if (form >= HDR_VLAN_IPV4) {
        put_be16(frame + ETH_LEN, PRIORITY | VLAN);
        assert_false(judge_alike(&x, frame, len));
        learn(&x, frame, len);
        assert_true(judge_alike(&x, frame, len));
        put_be16(frame + ETH_LEN, PRIORITY | (VLAN + 1));
        before = x;
        learn(&x, frame, len);
        assert_memory_equal(&x, &before, sizeof(x));
    }
    len = make_packet(frame, &peers, 7);
    frame[hdr_udp_at(form) - 1] ^= 1; /* our address */
    frame[hdr_l3_at(form) + (hdr_is_ipv6(form) ? 7 : 8)] ^= 1;
    mend_sum(frame);
    before = x;
    learn(&x, frame, len);
    assert_memory_equal(&x, &before, sizeof(x));
    learn(&x, frame, hdr_min_len(form) - 1);
    assert_memory_equal(&x, &before, sizeof(x));
}

static void test_learning_priority(void **state)
{
    each_form(learning_priority);
}

/* Bits that may differ, of every bit of the headers and the first of the BTH, up to the P_Key.
 * Anyhow: source MAC and port, UDP checksum, opcode, four flags, membership. */
static unsigned free_bits(void)
{
    unsigned bits = 2 * (48 + 16 + 16 + 8 + 4 + 1);

    if (hdr_is_ipv6(form))
        return bits + 2 * (2 + 20); /* ECN, flow label */
    /* With the checksum mended: identification, the checksum itself, ECN. */
    return bits + 16 + 16 + 2;
}

static void every_bit_alike(void)
{
    struct hdr_template x;
    uint8_t frame[ROOM], good[ROOM];
    unsigned alike = 0, same = 0;
    struct hdr_head head;
    uint32_t len;

    learnt(&x);
    len = make_packet(good, &peers, 7);
    hdr_head_take(form, &head, good);
    for (unsigned bit = 0; bit < (hdr_bth_at(form) + 4) * 8; bit++) {
        for (unsigned mend = 0; mend < 2; mend++) {
            memcpy(frame, good, ROOM);
            frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (mend)
                mend_sum(frame);
            alike += judge_alike(&x, frame, len);
            same += hdr_same(form, &head, frame);
            if (hdr_same_layout(form, &head, frame) && hdr_template_sum_ok(form, &x, frame)) {
                assert_true(judge_alike(&x, frame, len));
                assert_int_equal(frame[hdr_bth_at(form)], good[hdr_bth_at(form)]);
                assert_int_equal(hdr_ip_len(form, frame), hdr_ip_len(form, good));
            }
            if (hdr_same_but_mark(form, &head, frame))
                assert_int_equal(hdr_traffic_class(form, frame) & ~ECN_MASK, 0);
        }
    }
    assert_int_equal(alike, free_bits());
    assert_int_equal(same, hdr_is_ipv6(form) ? 0 : 16); /* the mended checksum */
}

static void test_every_bit_alike(void **state)
{
    each_form(every_bit_alike);
}

/* A mark, with the checksum that covers it, and nothing else. */
static void marks(void)
{
    uint8_t frame[ROOM], good[ROOM];
    struct hdr_template x;
    struct hdr_head head;
    uint32_t len;

    learnt(&x);
    make_packet(good, &peers, 7);
    hdr_head_take(form, &head, good);
    for (unsigned tclass = 0; tclass < 256; tclass++) {
        struct address_vector av = peers;
        bool marked_alone = tclass <= ECN_MASK;

        av.traffic_class = (uint8_t)tclass;
        len = make_packet(frame, &av, 7);
        frame[hdr_l3_at(form) + 1] |= (uint8_t)((tclass & ECN_MASK) << (hdr_is_ipv6(form) ? 4 : 0));
        mend_sum(frame);
        assert_int_equal(hdr_same_but_mark(form, &head, frame), marked_alone);
        assert_int_equal(judge_alike(&x, frame, len), marked_alone);
        assert_int_equal(hdr_is_ce(form, frame), (tclass & ECN_MASK) == ECN_CE);
    }
}

static void test_marks(void **state)
{
    each_form(marks);
}

static void test_usual_frames(void **state)
{
    struct random r = {1};
    struct hdr_template x;
    uint8_t frame[ROOM];

    form = HDR_IPV4;
    make_vectors();
    hdr_template_make(&x, &port, &ours);
    for (unsigned i = 0; i < 2000; i++) {
        struct address_vector av = peers;
        uint32_t len;

        av.udp_sport = (uint16_t)random_next(&r);
        av.traffic_class = (uint8_t)random_next(&r);
        av.hop_limit = (uint8_t)random_next(&r);
        len = make_frame(frame, &av, (uint16_t)random_next(&r));
        assert_true(judge(&x, frame, len + i % 20)); /* Ethernet padding */
    }
}

/* Every bit of the headers: the frame is expected only if encap_rx has nothing against it. Bits
 * that the checksum covers change with it, and without. */
static void test_every_bit(void **state)
{
    struct hdr_template x;
    uint8_t frame[ROOM];
    unsigned expected = 0;
    uint32_t len;

    form = HDR_IPV4;
    make_vectors();
    hdr_template_make(&x, &port, &ours);
    for (unsigned bit = 0; bit < hdr_bth_at(form) * 8; bit++) {
        for (unsigned mend = 0; mend < 2; mend++) {
            len = make_frame(frame, &peers, 7);
            frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (mend)
                mend_sum(frame);
            expected += judge(&x, frame, len);
        }
    }
    /* With the checksum mended: TOS, TTL, identification, DF and the reserved bit beside it, the
     * checksum itself; source port and UDP checksum, source MAC anyhow. */
    assert_int_equal(expected, (8 + 8 + 16 + 2 + 16) + 2 * (16 + 16 + 48));
}

static void random_damage(void)
{
    struct random r = {2};
    struct hdr_template x, like;
    uint8_t frame[ROOM];
    unsigned expected = 0, alike = 0, bth_at = hdr_bth_at(form);

    learnt(&like);
    hdr_template_make(&x, &port, &ours);
    for (unsigned i = 0; i < 100000; i++) {
        uint32_t len = make_packet(frame, &peers, (uint16_t)i);

        for (unsigned n = (unsigned)random_next(&r) % 4; n > 0; n--)
            frame[random_next(&r) % bth_at] = (uint8_t)random_next(&r);
        if (random_next(&r) % 4 == 0)
            len = bth_at + (uint32_t)random_next(&r) % (ROOM - bth_at);
        if (form == HDR_IPV4)
            expected += judge(&x, frame, len);
        alike += judge_alike(&like, frame, len);
    }
    assert_true(form != HDR_IPV4 || (expected > 10000 && expected < 90000));
    assert_true(alike > 10000 && alike < 90000);
}

static void test_random_damage(void **state)
{
    each_form(random_damage);
}

/* Connections of another kind expect nothing, whatever comes; nor does one whose address has gone,
 * or is that of another VLAN now. */
static void test_other_kinds(void **state)
{
    struct hdr_template x;
    uint8_t frame[ROOM];
    uint32_t len;

    form = HDR_IPV4;
    make_vectors();
    len = make_frame(frame, &peers, 1);
    for (unsigned kind = 0; kind < 4; kind++) {
        struct encap_port any = {.promiscuous = kind == 3};
        struct address_vector av = ours;
        struct encap_view v;

        if (kind == 0)
            av.gid_type = GID_TYPE_ROCE_V1;
        else if (kind < 3)
            (kind == 1 ? &av.sgid : &av.dgid)->raw[0] = 0xFD; /* one of IPv6 */
        hdr_template_make(&x, kind == 3 ? &any : &port, &av);
        assert_int_equal(x.form, HDR_NONE);
        assert_false(hdr_template_parse(&x, frame, len, &v));
        assert_false(hdr_template_is_ours(&x, &gids));
    }
}

static void address_goes(void)
{
    struct hdr_template x;

    learnt(&x);
    assert_true(hdr_template_is_ours(&x, &gids));
    gids.entry[0].vlan = 9;
    assert_false(hdr_template_is_ours(&x, &gids));
    gids.entry[0].vlan = ours.vlan;
    gids.entry[0].gid.raw[0] ^= 1;
    assert_false(hdr_template_is_ours(&x, &gids));
    gids.entry[0].gid.raw[0] ^= 1;
    gids.entry[0].valid = false;
    assert_false(hdr_template_is_ours(&x, &gids));
}

static void test_address_goes(void **state)
{
    each_form(address_goes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_frames),  cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_learning),      cmocka_unit_test(test_learning_priority),
        cmocka_unit_test(test_marks),         cmocka_unit_test(test_every_bit_alike),
        cmocka_unit_test(test_random_damage), cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_address_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
