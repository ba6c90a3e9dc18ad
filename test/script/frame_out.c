/* SPDX-License-Identifier: BSD-3-Clause */
/* The statement `out`: the next frame that the engine sent, and its expected fields. */
#include <inttypes.h>
#include <string.h>

#include "bytes.h"
#include "script.h"

struct expected {
    const struct sent *f;
    char text[256];
};

static _Noreturn void differs(struct script *s, const struct sent *f, const char *what,
                              uint64_t want, uint64_t got)
{
    char text[256];

    pkt_format(text, sizeof(text), &f->pkt);
    fail(s, "%s: expected %" PRIu64 " (0x%" PRIx64 "), got %" PRIu64 " (0x%" PRIx64 ")\n  in: %s",
         what, want, want, got, got, text);
}

static void check(struct script *s, const struct sent *f, const char *what, uint64_t got)
{
    uint64_t want = need_number(s, what);

    if (got != want)
        differs(s, f, what, want, got);
}

static void check_payload(struct script *s, const struct sent *f)
{
    uint32_t seed, off, want;

    if (accept(s, "u64")) {
        uint64_t value = need_number(s, "a value");

        if (f->pkt.payload_len != 8)
            differs(s, f, "payload length", 8, f->pkt.payload_len);
        if (memcmp(f->pkt.payload, &value, 8))
            differs(s, f, "payload", value, __builtin_bswap64(get_be64(f->pkt.payload)));
        return;
    }
    want = (uint32_t)need_number(s, "a length");
    if (f->pkt.payload_len != want)
        differs(s, f, "payload length", want, f->pkt.payload_len);
    if (!accept(s, "data"))
        return;
    need_data(s, &seed, &off);
    for (uint32_t i = 0; i < want; i++)
        if (f->pkt.payload[i] != data_byte(seed, off + i)) {
            char what[48];

            snprintf(what, sizeof(what), "payload byte %u", i);
            differs(s, f, what, data_byte(seed, off + i), f->pkt.payload[i]);
        }
}

static void check_address(struct script *s, const struct sent *f, const char *what,
                          const union gid *got)
{
    const char *text = need(s, "an address");
    char have[46];
    union gid want;

    if (gid_parse(&want, text))
        fail(s, "script: '%s' is no address", text);
    gid_format(have, got);
    if (!gid_eq(&want, got))
        fail(s, "%s: expected %s, got %s", what, text, have);
}

static void check_syndrome(struct script *s, const struct sent *f, uint8_t want)
{
    if (f->pkt.aeth.syndrome != want)
        differs(s, f, "syndrome", want, f->pkt.aeth.syndrome);
}

/* A field of the outer headers, straight from the bytes: NAME VALUE. */
static bool check_outer(struct script *s, const struct sent *f, const char *word)
{
    const uint8_t *ip = f->view.l3, *udp = f->view.bth - 8;
    bool v4 = f->view.l3_kind == ICRC_IPV4;
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
        {"ethertype", get_be16(ip - 2)},
        {"ipversion", ip[0] >> 4},
        {"ihl", ip[0] & 0xFu},
        {"dscp", (v4 ? ip[1] : f->view.traffic_class) >> 2},
        {"ecn", (v4 ? ip[1] : f->view.traffic_class) & 3u},
        {"totlen", get_be16(ip + 2)},
        {"plen", get_be16(ip + 4)},
        {"ipflags", ip[6] >> 5},
        {"fragoff", get_be16(ip + 6) & 0x1FFFu},
        {"ttl", v4 ? ip[8] : ip[7]},
        {"proto", v4 ? ip[9] : ip[6]},
        {"flow", f->view.flow_label},
        {"sport", get_be16(udp)},
        {"dport", get_be16(udp + 2)},
        {"udplen", get_be16(udp + 4)},
        {"udpsum", get_be16(udp + 6)},
        {"framelen", f->len},
        {"pad", f->pkt.pad},
        {"tver", f->view.bth[1] & 0xFu},
        {"vlan", f->view.vlan_tci == VLAN_NONE ? 0 : f->view.vlan_tci & 0xFFFu},
        {"pcp", f->view.vlan_tci == VLAN_NONE ? 0 : f->view.vlan_tci >> 13},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(fields); i++)
        if (!strcmp(fields[i].name, word)) {
            check(s, f, word, fields[i].value);
            return true;
        }
    if (!strcmp(word, "sip"))
        check_address(s, f, word, &f->view.sgid);
    else if (!strcmp(word, "dip"))
        check_address(s, f, word, &f->view.dgid);
    else
        return false;
    return true;
}

static bool check_flag(struct script *s, const struct sent *f, const char *word)
{
    bool absent = !strncmp(word, "no", 2);
    const struct field *flag = find_field(packet_flags, absent ? word + 2 : word);

    if (flag && field_get(flag, &f->pkt) == absent)
        differs(s, f, word, !absent, absent);
    return flag;
}

static bool check_map(struct script *s, const struct sent *f)
{
    bool nak = (f->pkt.aeth.syndrome & AETH_CLASS_MASK) == AETH_NAK;
    struct kept_map want = need_map(s, psn_add(f->pkt.psn, !nak)), got;

    if (!f->pkt.payload_len)
        differs(s, f, "bytes of a map", kept_map_len(&want), 0);
    kept_map_parse(&got, f->pkt.payload, f->pkt.payload_len);
    if (!psn_eq(want.first, got.first))
        differs(s, f, "the map's first PSN", want.first.v, got.first.v);
    if (want.duplicates != got.duplicates)
        differs(s, f, "duplicates", want.duplicates, got.duplicates);
    if (want.words != got.words)
        differs(s, f, "words", want.words, got.words);
    for (unsigned i = 0; i < KEPT_MAP_WORDS; i++)
        if (want.bits[i] != got.bits[i])
            differs(s, f, "kept", want.bits[i], got.bits[i]);
    return true;
}

static void check_fields(struct script *s, const struct sent *f)
{
    const char *word;
    bool has_map = false;

    while ((word = next(s))) {
        const struct field *field = find_field(packet_fields, word);
        uint8_t syndrome;

        if (!field)
            field = packet_remote(&f->pkt, word);
        if (field)
            check(s, f, word, field_get(field, &f->pkt));
        else if (!strcmp(word, "payload"))
            check_payload(s, f);
        else if (!strcmp(word, "kept"))
            has_map = check_map(s, f);
        else if (packet_syndrome(s, word, &syndrome))
            check_syndrome(s, f, syndrome);
        else if (!check_flag(s, f, word) && !check_outer(s, f, word))
            fail(s, "script: a frame has no '%s'", word);
    }
    if (!has_map && f->pkt.payload_len && pkt_info(&f->pkt)->kind == KIND_ACK)
        differs(s, f, "bytes of a map", 0, f->pkt.payload_len);
}

/* Waits, if the line says so: within T [and not before T], both from now. */
static const struct sent *take(struct script *s, const char *what)
{
    ns_t from = s->now, early = 0;

    if (accept(s, "after"))
        early = need_time(s);
    if (accept(s, "within"))
        advance(s, s->now + need_time(s), true);
    if (s->taken == s->sents)
        fail(s, "expected %s, but nothing was sent", what);
    if (early && s->sent[s->taken].at < from + early)
        fail(s, "expected %s, but it came %.3f us too early", what,
             (double)(from + early - s->sent[s->taken].at) / 1000);
    return &s->sent[s->taken++];
}

/* out OPCODE [after T] [within T] [FIELD VALUE]... */
void st_out(struct script *s)
{
    uint8_t opcode = need_opcode(s);
    const struct sent *f = take(s, opcode_table[opcode].name);

    if (f->pkt.opcode != opcode) {
        char text[256];

        pkt_format(text, sizeof(text), &f->pkt);
        fail(s, "expected %s, got %s", opcode_table[opcode].name, text);
    }
    check_fields(s, f);
}
