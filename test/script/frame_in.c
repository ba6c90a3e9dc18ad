/* SPDX-License-Identifier: BSD-3-Clause */
/* The statement `in`: a frame from the peer, valid except where the line makes it malformed. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "frame_trim.h"
#include "script.h"

#define MAX_PATCHES 8

/* Bytes written over the frame before it is sealed. */
struct patch {
    char base; /* e l u b: Ethernet, network header, UDP, BTH */
    unsigned off, len;
    uint8_t bytes[8];
};

struct incoming {
    struct pkt p;
    struct address_vector av;
    uint8_t payload[8192];
    unsigned grow, shrink;  /* bytes before the ICRC, in all lengths */
    unsigned chop, trailer; /* bytes at the frame's end, in no length */
    bool bad_icrc, bad_checksum;
    uint8_t trimmed; /* the code point, if a switch cuts it */
    struct patch patch[MAX_PATCHES];
    unsigned patches;
    uint8_t *data;
};

/* From the peer to the queue pair, the reverse of the path of an answer. */
static void address(struct script *s, struct incoming *in, const struct script_qp *qp)
{
    in->av = qp->av;
    in->av.sgid = qp->av.dgid;
    in->av.dgid = qp->av.sgid;
    memcpy(in->av.smac, s->peer->port.mac, 6);
    memcpy(in->av.dmac, s->node->port.mac, 6);
    in->av.udp_sport = 0xC123;
    in->p.dest_qpn = qp_number(qp->qp);
    in->p.psn = psn(qp->in_psn);
    in->p.pkey = PKEY_DEFAULT;
    in->p.deth.qkey = qp->conf.qkey;
    in->p.deth.src_qpn = qp->conf.peer;
    in->p.aeth.syndrome = AETH_ACK | AETH_CREDIT_NONE;
}

static void need_gid(struct script *s, union gid *g)
{
    const char *text = need(s, "an address");

    if (gid_parse(g, text))
        fail(s, "script: '%s' is no address", text);
}

static void take_payload(struct script *s, struct incoming *in)
{
    uint32_t seed, off;

    if (accept(s, "u64")) {
        uint64_t value = need_number(s, "a value");

        memcpy(in->payload, &value, sizeof(value));
        in->p.payload_len = sizeof(value);
        return;
    }
    in->p.payload_len = (uint32_t)need_number(s, "a length");
    if (in->p.payload_len > sizeof(in->payload))
        fail(s, "script: the payload is too long");
    if (!accept(s, "data"))
        return;
    need_data(s, &seed, &off);
    for (uint32_t i = 0; i < in->p.payload_len; i++)
        in->payload[i] = data_byte(seed, off + i);
}

static void take_map(struct script *s, struct incoming *in)
{
    struct kept_map m = need_map(s, in->p.psn);

    in->p.payload_len = (uint32_t)kept_map_build(in->payload, &m);
}

/* BASE+OFF HEXBYTES */
static void take_patch(struct script *s, struct incoming *in)
{
    const char *where = need(s, "BASE+OFFSET"), *hex = need(s, "bytes in hexadecimal");
    struct patch *p = &in->patch[in->patches++];
    char base[8];

    if (in->patches > MAX_PATCHES || sscanf(where, "%7[a-z3]+%u", base, &p->off) != 2 ||
        !strchr("elub", base[0]))
        fail(s, "script: patch eth|l3|udp|bth+OFFSET HEXBYTES");
    p->base = base[0];
    for (; hex[0] && hex[1] && p->len < sizeof(p->bytes); hex += 2) {
        char byte[3] = {hex[0], hex[1]};

        p->bytes[p->len++] = (uint8_t)strtoul(byte, NULL, 16);
    }
}

static bool take_outer(struct script *s, struct incoming *in, const char *word)
{
    if (!strcmp(word, "sip"))
        need_gid(s, &in->av.sgid);
    else if (!strcmp(word, "dip")) {
        need_gid(s, &in->av.dgid);
        if (gid_is_multicast(&in->av.dgid))
            gid_multicast_mac(&in->av.dgid, in->av.dmac);
    } else if (!strcmp(word, "sport"))
        in->av.udp_sport = (uint16_t)need_number(s, "a port");
    else if (!strcmp(word, "tclass"))
        in->av.traffic_class = (uint8_t)need_number(s, "a traffic class");
    else if (!strcmp(word, "vlan"))
        in->av.vlan = (uint16_t)need_number(s, "a VLAN id");
    else if (!strcmp(word, "pcp"))
        in->av.pcp = (uint8_t)need_number(s, "a priority") & 7;
    else if (!strcmp(word, "icrc"))
        in->bad_icrc = !strcmp(need(s, "bad"), "bad");
    else if (!strcmp(word, "ipsum"))
        in->bad_checksum = !strcmp(need(s, "bad"), "bad");
    else if (!strcmp(word, "grow"))
        in->grow = (unsigned)need_number(s, "bytes");
    else if (!strcmp(word, "shrink"))
        in->shrink = (unsigned)need_number(s, "bytes");
    else if (!strcmp(word, "chop"))
        in->chop = (unsigned)need_number(s, "bytes");
    else if (!strcmp(word, "trimmed"))
        in->trimmed = (uint8_t)need_number(s, "a code point");
    else if (!strcmp(word, "trailer"))
        in->trailer = (unsigned)need_number(s, "bytes");
    else if (!strcmp(word, "patch"))
        take_patch(s, in);
    else
        return false;
    return true;
}

static void take_fields(struct script *s, struct incoming *in)
{
    const char *word;

    while ((word = next(s))) {
        const struct field *f = find_field(packet_fields, word);
        const struct field *flag = find_field(packet_flags, word);

        if (!f)
            f = packet_remote(&in->p, word);
        if (f)
            field_set(f, &in->p, need_number(s, word));
        else if (flag)
            field_set(flag, &in->p, 1);
        else if (!strcmp(word, "payload"))
            take_payload(s, in);
        else if (!strcmp(word, "kept"))
            take_map(s, in);
        else if (!packet_syndrome(s, word, &in->p.aeth.syndrome) && !take_outer(s, in, word))
            fail(s, "script: a frame has no '%s'", word);
    }
}

/* ---- building ---- */

static void fix_ipv4_checksum(uint8_t *ip, bool bad)
{
    uint32_t sum = 0;

    put_be16(ip + 10, 0);
    for (unsigned i = 0; i < 20; i += 2)
        sum += get_be16(ip + i);
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum += sum >> 16;
    put_be16(ip + 10, (uint16_t)(~sum ^ (bad ? 0x0101 : 0)));
}

static void apply_patches(struct script *s, const struct incoming *in,
                          const struct encap_template *t, size_t len)
{
    for (unsigned i = 0; i < in->patches; i++) {
        const struct patch *p = &in->patch[i];
        unsigned at = p->off + (p->base == 'e'   ? 0
                                : p->base == 'l' ? t->l3_off
                                : p->base == 'u' ? t->len - 8u
                                                 : t->len);

        if (at + p->len > len)
            fail(s, "script: the patch lies outside the frame");
        memcpy(in->data + at, p->bytes, p->len);
    }
}

/* The whole frame; returns its length. */
/* The network's mark, which no sender's template has. */
static void mark(uint8_t *l3, uint8_t l3_kind, uint8_t traffic_class)
{
    l3[1] |= (uint8_t)((traffic_class & 3) << (l3_kind == ICRC_IPV4 ? 0 : 4));
}

static uint32_t build(struct script *s, struct incoming *in)
{
    struct encap_template t;
    size_t natural = pkt_len(in->p.opcode, in->p.payload_len);
    size_t bth_len = natural + in->grow - in->shrink, len, at;

    if (in->shrink > natural - ICRC_LEN)
        fail(s, "script: too much to shrink");
    if (encap_template_make(&t, &in->av))
        fail(s, "script: no such way");
    len = t.len + bth_len;
    in->data = calloc(1, t.len + natural + in->grow + in->trailer);
    at = encap_tx(in->data, &t, bth_len, 0x1234);
    at += pkt_build_headers(in->data + at, &in->p);
    memcpy(in->data + at, in->payload, in->p.payload_len);
    memset(in->data + len - ICRC_LEN, 0, ICRC_LEN);
    mark(in->data + t.l3_off, t.l3_kind, in->av.traffic_class);
    apply_patches(s, in, &t, len);
    if (t.l3_kind == ICRC_IPV4)
        fix_ipv4_checksum(in->data + t.l3_off, in->bad_checksum);
    if (bth_len >= BTH_LEN + ICRC_LEN)
        icrc_seal((enum icrc_l3)t.l3_kind, in->data + t.l3_off, len - t.l3_off - ICRC_LEN);
    if (in->bad_icrc)
        in->data[len - 1] ^= 0x40;
    if (in->trimmed)
        len = frame_trim(in->data, (uint32_t)len, in->trimmed);
    memset(in->data + len, 0, in->trailer);
    return (uint32_t)(len + in->trailer - min_of(in->chop, len));
}

static void deliver(struct script *s, struct incoming *in, uint32_t len)
{
    struct frame frame = {.data = in->data, .len = len};

    if (s->collecting) {
        if (s->bursts == FRAME_BURST)
            fail(s, "script: a burst is at most %u frames", FRAME_BURST);
        s->burst[s->bursts++] = frame;
        return;
    }
    engine_rx(s->engine, &frame, 1, s->now);
    free(in->data);
    if (!s->held)
        pump(s, MAX_FRAMES);
}

/* in [to QP] OPCODE [FIELD VALUE]... */
void st_in(struct script *s)
{
    static struct incoming in;
    struct script_qp *qp = object(s, OBJ_QP, accept(s, "to") ? need(s, "a queue pair") : NULL);

    memset(&in, 0, sizeof(in));
    address(s, &in, qp);
    in.p.opcode = need_opcode(s);
    take_fields(s, &in);
    qp->in_psn = in.p.psn.v + 1;
    deliver(s, &in, build(s, &in));
}
