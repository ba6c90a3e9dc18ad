/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames from the wire: outer headers, transport packet, text. Accepted fields lie within the
 * bytes, and the frame can be built again from its values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "common.h"
#include "encap.h"
#include "frame_trim.h"
#include "fuzz.h"
#include "pause.h"
#include "pkt.h"
#include "rss_frame.h"

static struct gid_table gids = {
    .len = 3,
    .entry =
        {
            {.gid.raw = {[10] = 0xFF, 0xFF, 10, 9, 0, 1},
             .type = GID_TYPE_ROCE_V2,
             .valid = true,
             .vlan = VLAN_NONE},
            {.gid.raw = {[10] = 0xFF, 0xFF, 10, 9, 0, 2},
             .type = GID_TYPE_ROCE_V2,
             .valid = true,
             .vlan = 100},
            {.gid.raw = {[15] = 2}, .type = GID_TYPE_ROCE_V1, .valid = true, .vlan = VLAN_NONE},
        },
};

/* A frame that makes the port pause is no packet. */
static void check_pause(const uint8_t *data, size_t size, const struct encap_port *port)
{
    struct encap_view view;
    struct pause p;

    if (!pause_parse(&p, data, (uint32_t)size, port->mac))
        return;
    REQUIRE(size >= (p.by_priority ? 34 : 18) && (p.by_priority || !p.priorities));
    REQUIRE(p.quanta[0] == get_be16(data + (p.by_priority ? 18 : 16)));
    REQUIRE(encap_rx(&view, data, size, port));
}

/* One frame, taken apart. */
struct taken {
    struct encap_view view;
    struct pkt pkt;
    char text[512];
    uint8_t grh[40];
};

static void check_view(const struct encap_view *v, const uint8_t *data, size_t size)
{
    REQUIRE(v->l3 > data && v->l3_len <= size - (size_t)(v->l3 - data));
    REQUIRE(v->bth > v->l3 && v->bth + v->bth_len == v->l3 + v->l3_len);
    REQUIRE(v->vlan_tci == VLAN_NONE || (v->vlan_tci & 0xFFF) != 0xFFF);
    REQUIRE(v->flow_label <= 0xFFFFF);
}

/* Whether it is a packet; fills *t then. */
static bool take(struct taken *t, const uint8_t *data, size_t size, const struct encap_port *port)
{
    enum drop drop = encap_rx(&t->view, data, size, port);
    char cut[16];

    REQUIRE(drop < DROP_COUNT && drop_name(drop));
    if (drop)
        return false;
    check_view(&t->view, data, size);
    REQUIRE(port->promiscuous == (t->view.gid_index < 0));
    encap_grh(t->grh, t->view.l3_kind, t->view.l3);
    drop = pkt_parse(&t->pkt, t->view.bth, t->view.bth_len);
    if (drop) {
        REQUIRE(drop == DROP_truncated || drop == DROP_unknown_opcode ||
                drop == DROP_transport_version || drop == DROP_pad_length);
        return false;
    }
    REQUIRE(pkt_len(t->pkt.opcode, t->pkt.payload_len) == t->view.bth_len);
    REQUIRE(t->pkt.payload + t->pkt.payload_len + t->pkt.pad + ICRC_LEN ==
            t->view.bth + t->view.bth_len);
    REQUIRE(pkt_format(t->text, sizeof(t->text), &t->pkt) < (int)sizeof(t->text));
    REQUIRE(pkt_format(cut, sizeof(cut), &t->pkt) == (int)strlen(t->text));
    REQUIRE(icrc_compute(t->view.l3_kind, t->view.l3, t->view.l3_len - 4) ==
            icrc_reference(t->view.l3_kind, t->view.l3, t->view.l3_len - 4));
    return true;
}

static struct address_vector address_of(const struct encap_view *v)
{
    bool tagged = v->vlan_tci != VLAN_NONE;
    struct address_vector av = {
        .sgid = v->sgid,
        .dgid = v->dgid,
        .gid_type = v->l3_kind == ICRC_GRH ? GID_TYPE_ROCE_V1 : GID_TYPE_ROCE_V2,
        .vlan = tagged ? v->vlan_tci & 0xFFF : VLAN_NONE,
        .pcp = tagged ? v->vlan_tci >> 13 : 0,
        .traffic_class = v->traffic_class,
        .hop_limit = v->hop_limit,
        .flow_label = v->flow_label,
        .udp_sport = v->udp_sport,
    };

    memcpy(av.smac, v->smac, 6);
    memcpy(av.dmac, v->dmac, 6);
    return av;
}

/* Builds the frame again on the heap; NULL when its addresses cannot be an address vector. */
static uint8_t *rebuild(const struct taken *t, size_t *len)
{
    struct address_vector av = address_of(&t->view);
    struct encap_template tmpl;
    uint8_t *frame, *at;

    if (encap_template_make(&tmpl, &av))
        return NULL;
    *len = tmpl.len + t->view.bth_len;
    frame = malloc(*len);
    REQUIRE(frame);
    at = frame + encap_tx(frame, &tmpl, t->view.bth_len, t->view.ip_id);
    at += pkt_build_headers(at, &t->pkt);
    memcpy(at, t->pkt.payload, t->pkt.payload_len);
    pkt_build_pad(at, t->pkt.payload_len);
    REQUIRE(encap_seal(frame, &tmpl, t->view.bth_len) == *len);
    return frame;
}

static void check_same(const struct taken *a, const struct taken *b)
{
    REQUIRE(a->view.l3_kind == b->view.l3_kind);
    REQUIRE(gid_eq(&a->view.sgid, &b->view.sgid) && gid_eq(&a->view.dgid, &b->view.dgid));
    REQUIRE((a->view.traffic_class & 0xFC) == b->view.traffic_class);
    REQUIRE(a->view.hop_limit == b->view.hop_limit && a->view.ip_id == b->view.ip_id);
    REQUIRE(a->view.udp_sport == b->view.udp_sport);
    REQUIRE(a->view.flow_label == b->view.flow_label);
    REQUIRE(!strcmp(a->text, b->text));
    REQUIRE(a->pkt.payload_len == b->pkt.payload_len);
    REQUIRE(!memcmp(a->pkt.payload, b->pkt.payload, a->pkt.payload_len));
}

/* The parser that selects a queue sees the same headers. */
static void check_spread(const struct taken *t, bool taken, const uint8_t *data, size_t size)
{
    struct rss_frame r;
    bool read = rss_frame_read(&r, data, (uint32_t)size);

    if (!taken || t->view.l3_kind == ICRC_GRH)
        return;
    REQUIRE(read && r.tuple.dport == ROCE_UDP_PORT && r.tuple.sport == t->view.udp_sport);
    REQUIRE(gid_eq(&r.tuple.src, &t->view.sgid) && gid_eq(&r.tuple.dst, &t->view.dgid));
    REQUIRE(r.dest_qpn == t->pkt.dest_qpn);
}

/* What is left of a frame when a switch trims it is one of IP and UDP, ends behind its headers, and
 * is no packet. */
static void check_trim(const uint8_t *data, size_t size, const struct encap_port *any)
{
    uint8_t *frame = malloc(size + !size);
    uint32_t len;
    struct encap_view v;
    struct pkt p;

    REQUIRE(frame);
    memcpy(frame, data, size);
    len = frame_trim(frame, (uint32_t)size, 50);
    REQUIRE(len <= size && len <= FRAME_TRIM_MAX);
    if (len) {
        REQUIRE(frame_dscp(frame, len) == 50);
        /* Only addresses and tags may be wrong. */
        if (!encap_rx(&v, frame, len, any)) {
            REQUIRE(v.bth_len == opcode_table[v.bth[0]].header_len);
            REQUIRE(pkt_parse(&p, v.bth, v.bth_len) != DROP_NONE && !frame_may_be_trimmed(&v));
        }
        REQUIRE(frame_trim(frame, len, 50) == len);
    } else {
        REQUIRE(!size || !memcmp(frame, data, size));
    }
    free(frame);
}

static void try_frame(const uint8_t *data, size_t size)
{
    static const struct encap_port any = {.promiscuous = true};
    const struct encap_port port = {.mac = {0x52, 0x54, 0, 0, 0, 0x0A}, .gids = &gids};
    struct taken first, second, third;
    size_t len, len2;
    uint8_t *frame, *again;
    bool taken = take(&first, data, size, &any);

    check_pause(data, size, &port);
    check_trim(data, size, &any);
    if (take(&second, data, size, &port))
        REQUIRE(taken);
    check_spread(&first, taken, data, size);
    if (!taken)
        return;
    frame = rebuild(&first, &len);
    if (!frame)
        return;
    REQUIRE(take(&third, frame, len, &any));
    REQUIRE(icrc_verify(third.view.l3_kind, third.view.l3, third.view.l3_len));
    check_same(&first, &third);
    /* Frames that uroce sends have one form only. */
    again = rebuild(&third, &len2);
    REQUIRE(again && len == len2 && !memcmp(frame, again, len));
    free(again);
    free(frame);
}

/* Mends the header checksum of an untagged IPv4 frame, which nearly every mutation breaks. */
static void mend_checksum(uint8_t *frame, size_t size)
{
    uint32_t sum = 0;

    if (size < 34 || get_be16(frame + 12) != 0x0800)
        return;
    put_be16(frame + 24, 0);
    for (int i = 14; i < 34; i += 2)
        sum += get_be16(frame + i);
    sum = (sum & 0xFFFF) + (sum >> 16);
    put_be16(frame + 24, (uint16_t) ~(sum + (sum >> 16)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    REQUIRE(copy);
    try_frame(data, size);
    memcpy(copy, data, size);
    mend_checksum(copy, size);
    try_frame(copy, size);
    free(copy);
    return 0;
}
