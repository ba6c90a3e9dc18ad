/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection expects against encap_rx, which knows no connections: a frame that is expected
 * passes there too, from the same address to the same, with the same view; and of the frames that
 * pass there from the peer, those are expected that are of the usual kind.
 */
#include <stdlib.h>

#include "encap_layout.h"
#include "hdr_template.h"
#include "random.h"
#include "unit.h"

#define BTH_BYTES 44
#define ROOM      256

static struct gid_table gids;
static struct encap_port port;
static struct address_vector ours, peers; /* from us to the peer, and back */

static void make_vectors(void)
{
    struct gid_entry own = {.type = GID_TYPE_ROCE_V2, .valid = true, .vlan = VLAN_NONE};

    gids = (struct gid_table){0};
    own.gid = gid_from_ipv4((uint8_t[]){10, 0, 0, 1});
    memcpy(port.mac, (uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
    assert_int_equal(gid_table_add(&gids, &own), 0);
    port.gids = &gids;
    ours = (struct address_vector){.sgid = own.gid,
                                   .dgid = gid_from_ipv4((uint8_t[]){10, 0, 0, 2}),
                                   .gid_type = GID_TYPE_ROCE_V2,
                                   .vlan = VLAN_NONE,
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

/* Whether it is expected; if so encap_rx agrees in everything. */
static bool judge(const struct hdr_template *x, const uint8_t *frame, uint32_t len)
{
    struct encap_view fast, slow;

    if (!hdr_template_parse(x, frame, len, &fast))
        return false;
    assert_int_equal(encap_rx(&slow, frame, len, &port), DROP_NONE);
    assert_true(gid_eq(&slow.sgid, &ours.dgid));
    assert_true(gid_eq(&slow.dgid, &ours.sgid));
    check_same(&fast, &slow);
    return true;
}

/* Whether it is like the frame that was learnt from. What is is expected, too. */
static bool judge_alike(const struct hdr_template *x, const uint8_t *frame, uint32_t len)
{
    uint32_t total = get_be16(frame + 16);
    struct encap_view v;

    if (!hdr_template_matches(x, frame) || !hdr_template_sum_ok(x, frame) ||
        !hdr_lengths_ok(frame, len, total) || total < 28)
        return false;
    assert_true(hdr_template_parse(x, frame, len, &v));
    assert_int_equal(v.l3_len, total);
    assert_int_equal(frame[43] & 0x0F, 0);
    assert_int_equal(get_be16(frame + 44) & 0x7FFF, 0x7FFF);
    return true;
}

/* A frame with the BTH that every packet has. */
static uint32_t make_packet(uint8_t frame[ROOM], const struct address_vector *av, uint16_t ip_id)
{
    uint32_t len = make_frame(frame, av, ip_id);

    frame[42] = 0x0A;
    put_be16(frame + 44, 0xFFFF);
    return len;
}

static void learnt(struct hdr_template *x)
{
    uint8_t frame[ROOM];

    make_vectors();
    hdr_template_make(x, &port, &ours);
    make_packet(frame, &peers, 7);
    assert_false(hdr_template_matches(x, frame)); /* its TTL is not known yet */
    hdr_template_update(x, frame);
    assert_true(hdr_template_matches(x, frame));
}

static void test_learning(void **state)
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
        hdr_template_update(&x, frame);
        assert_true(judge_alike(&x, frame, len));
        make_packet(frame, &peers, 7);
        hdr_template_update(&x, frame);
    }
}

/* Every bit of the headers and the first of the BTH. */
static void test_every_bit_alike(void **state)
{
    struct hdr_template x;
    uint8_t frame[ROOM], good[ROOM];
    unsigned alike = 0, same = 0;
    struct hdr_head head;
    uint32_t len;

    learnt(&x);
    len = make_packet(good, &peers, 7);
    hdr_head_take(&head, good);
    for (unsigned bit = 0; bit < 48 * 8; bit++) {
        for (unsigned mend = 0; mend < 2; mend++) {
            memcpy(frame, good, ROOM);
            frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (mend) {
                memset(frame + 24, 0, 2);
                put_be16(frame + 24, (uint16_t)~ipv4_sum(frame + ETH_LEN));
            }
            alike += judge_alike(&x, frame, len);
            same += hdr_same(&head, frame);
            if (hdr_same_layout(&head, frame) && hdr_template_sum_ok(&x, frame)) {
                assert_true(judge_alike(&x, frame, len));
                assert_int_equal(frame[42], good[42]);
                assert_memory_equal(frame + 16, good + 16, 2);
            }
        }
    }
    /* With the checksum mended: identification, the checksum itself, ECN; anyhow source MAC and
     * port, UDP checksum, opcode, four flags, membership, and what is behind the P_Key. */
    assert_int_equal(alike, (16 + 16 + 2) + 2 * (48 + 16 + 16 + 8 + 4 + 1 + 16));
    assert_int_equal(same, 2 * 16 + 16); /* the mended checksum */
}

static void test_usual_frames(void **state)
{
    struct random r = {1};
    struct hdr_template x;
    uint8_t frame[ROOM];

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

    make_vectors();
    hdr_template_make(&x, &port, &ours);
    for (unsigned bit = 0; bit < HDR_BTH * 8; bit++) {
        for (unsigned mend = 0; mend < 2; mend++) {
            len = make_frame(frame, &peers, 7);
            frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (mend) {
                memset(frame + 24, 0, 2);
                put_be16(frame + 24, (uint16_t)~ipv4_sum(frame + ETH_LEN));
            }
            expected += judge(&x, frame, len);
        }
    }
    /* With the checksum mended: TOS, TTL, identification, DF and the reserved bit beside it, the
     * checksum itself; source port and UDP checksum, source MAC anyhow. */
    assert_int_equal(expected, (8 + 8 + 16 + 2 + 16) + 2 * (16 + 16 + 48));
}

static void test_random_damage(void **state)
{
    struct random r = {2};
    struct hdr_template x, like;
    uint8_t frame[ROOM];
    unsigned expected = 0;

    learnt(&like);
    hdr_template_make(&x, &port, &ours);
    for (unsigned i = 0; i < 200000; i++) {
        uint32_t len = make_packet(frame, &peers, (uint16_t)i);

        for (unsigned n = (unsigned)random_next(&r) % 4; n > 0; n--)
            frame[random_next(&r) % HDR_BTH] = (uint8_t)random_next(&r);
        if (random_next(&r) % 4 == 0)
            len = HDR_BTH + (uint32_t)random_next(&r) % (ROOM - HDR_BTH);
        expected += judge(&x, frame, len);
        judge_alike(&like, frame, len);
    }
    assert_true(expected > 20000 && expected < 180000);
}

/* Connections of another kind expect nothing, whatever comes. */
static void test_other_kinds(void **state)
{
    struct hdr_template x;
    uint8_t frame[ROOM];
    uint32_t len;

    make_vectors();
    len = make_frame(frame, &peers, 1);
    for (unsigned kind = 0; kind < 5; kind++) {
        struct encap_port any = {.promiscuous = kind == 4};
        struct address_vector av = ours;
        struct encap_view v;

        if (kind == 0)
            av.vlan = 7;
        else if (kind == 1)
            av.gid_type = GID_TYPE_ROCE_V1;
        else if (kind < 4)
            (kind == 2 ? &av.sgid : &av.dgid)->raw[0] = 0xFD;
        hdr_template_make(&x, kind == 4 ? &any : &port, &av);
        assert_false(hdr_template_parse(&x, frame, len, &v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_frames),  cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_learning),      cmocka_unit_test(test_every_bit_alike),
        cmocka_unit_test(test_random_damage), cmocka_unit_test(test_other_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
