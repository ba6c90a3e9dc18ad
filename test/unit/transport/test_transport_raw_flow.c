/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fields of a frame for flow rules and hashes. The expected values come from the parts that the
 * frame was built of, and from the definition of the hash, bit by bit.
 */
#include <stdlib.h>

#include "unit.h"

#include "bytes.h"
#include "random.h"
#include "raw_kit.h"
#include "raw_private.h"

/* Host order to network order, as a constant. */
#define BE16(x) ((uint16_t)((x) << 8 | (x) >> 8))

static const uint8_t group_mac[6] = {1, 0, 0x5e, 1, 2, 3};

/* Frames of all kinds. */
static const struct raw_spec specs[] = {
    {.payload = 80},
    {.ether_type = 0x0806, .payload = 28, .dmac = group_mac},
    {.version = 4, .proto = 17, .sport = 1000, .dport = 53, .payload = 30, .hop_limit = 64},
    {.version = 4,
     .proto = 6,
     .sport = 0xFFFE,
     .dport = 80,
     .traffic_class = 0xB8,
     .options = 3,
     .src = "198.51.100.7",
     .dst = "203.0.113.200",
     .fragment = 0x4000},
    {.version = 4, .proto = 1, .payload = 40, .hop_limit = 1},
    {.version = 4, .proto = 17, .fragment = 0x2000, .sport = 7, .dport = 9, .payload = 64},
    {.version = 4, .proto = 17, .fragment = 0x2010},
    {.version = 4, .proto = 6, .fragment = 0x0010},
    {.version = 4, .proto = 6, .sport = 1, .dport = 2, .tags = 1, .tci = 0xA123, .options = 10},
    {.version = 6,
     .proto = 17,
     .sport = 5000,
     .dport = 6000,
     .payload = 10,
     .hop_limit = 255,
     .traffic_class = 0x2E,
     .flow_label = 0xABCDE,
     .src = "fe80::1",
     .dst = "ff02::fb",
     .dmac = group_mac},
    {.version = 6,
     .proto = 6,
     .sport = 443,
     .dport = 50000,
     .tags = 2,
     .tag_type = 0x88A8,
     .tci = 0x0064,
     .inner_tci = 0x2FFF},
    {.version = 6,
     .proto = 17,
     .sport = 1,
     .dport = 2,
     .extension = {0, 60, 43, 135, 139, 140, 51},
     .extensions = 7},
    {.version = 6,
     .proto = 6,
     .sport = 3,
     .dport = 4,
     .extension = {44},
     .extensions = 1,
     .v6_fragment = 1},
    {.version = 6,
     .proto = 17,
     .sport = 3,
     .dport = 4,
     .extension = {0, 44},
     .extensions = 2,
     .v6_fragment = 0x0158},
    {.version = 6, /* a fragment header in a packet that is whole */
     .proto = 17,
     .sport = 3,
     .dport = 4,
     .extension = {44},
     .extensions = 1},
    {.version = 6, .proto = 58, .payload = 24},
    {.version = 6, .proto = 17, .tags = 1, .tci = 0, .sport = 9, .dport = 10},
};

static bool has_ports(const struct raw_spec *s)
{
    bool later = s->version == 4 ? s->fragment & 0x1FFF : s->v6_fragment & ~7;

    return s->version && (s->proto == 6 || s->proto == 17) && !later;
}

static uint32_t headers_expected(const struct raw_spec *s)
{
    return (s->tags ? FLOW_HAS_VLAN : 0) | (s->version == 4 ? FLOW_HAS_IPV4 : 0) |
           (s->version == 6 ? FLOW_HAS_IPV6 : 0) |
           (has_ports(s) ? s->proto == 6 ? FLOW_HAS_TCP : FLOW_HAS_UDP : 0);
}

/* The fields of struct flow_match, and the headers: at least one of the headers is present. */
static const struct {
    size_t offset, len;
    uint32_t any_of;
} fields[] = {
#define FIELD(name, headers)                                                          \
    {                                                                                 \
        offsetof(struct flow_match, value.name) - offsetof(struct flow_match, value), \
            sizeof(((struct flow_match *)0)->value.name), headers                     \
    }
    FIELD(dmac, 0),
    FIELD(smac, 0),
    FIELD(ether_type, 0),
    FIELD(vlan_tci, FLOW_HAS_VLAN),
    FIELD(src, FLOW_HAS_IPV4 | FLOW_HAS_IPV6),
    FIELD(dst, FLOW_HAS_IPV4 | FLOW_HAS_IPV6),
    FIELD(flow_label, FLOW_HAS_IPV6),
    FIELD(traffic_class, FLOW_HAS_IPV4 | FLOW_HAS_IPV6),
    FIELD(hop_limit, FLOW_HAS_IPV4 | FLOW_HAS_IPV6),
    FIELD(next_header, FLOW_HAS_IPV4 | FLOW_HAS_IPV6),
    FIELD(ipv4_flags, FLOW_HAS_IPV4),
    FIELD(sport, FLOW_HAS_TCP | FLOW_HAS_UDP),
    FIELD(dport, FLOW_HAS_TCP | FLOW_HAS_UDP),
#undef FIELD
};

static void fields_expected(struct flow_match *m, const struct raw_spec *s,
                            const struct raw_bytes *b)
{
    const char *any4[2] = {"192.0.2.1", "192.0.2.2"}, *any6[2] = {"2001:db8::1", "2001:db8::2"};
    const char **any = s->version == 4 ? any4 : any6;

    memcpy(m->value.dmac, b->data, 6);
    memcpy(m->value.smac, b->data + 6, 6);
    m->value.vlan_tci = s->tags ? BE16(s->tci) : 0;
    m->value.ether_type = s->version == 4   ? BE16(0x0800)
                          : s->version == 6 ? BE16(0x86DD)
                          : s->ether_type   ? BE16(s->ether_type)
                                            : BE16(0x88B5);
    if (!s->version)
        return;
    raw_address(m->value.src, s->src ? s->src : any[0]);
    raw_address(m->value.dst, s->dst ? s->dst : any[1]);
    m->value.flow_label = __builtin_bswap32(s->version == 6 ? s->flow_label : 0);
    m->value.traffic_class = s->traffic_class;
    m->value.hop_limit = s->hop_limit;
    m->value.next_header = s->proto;
    m->value.ipv4_flags = s->version == 4 ? s->fragment >> 13 : 0;
    m->value.sport = has_ports(s) ? BE16(s->sport) : 0;
    m->value.dport = has_ports(s) ? BE16(s->dport) : 0;
}

static bool matches(const struct flow_match *m, const struct raw_bytes *b)
{
    const struct flow_rule rule = {.type = FLOW_NORMAL, .match = *m};
    struct flow_kit flows = flow_kit_init(&rule, 1);
    uint8_t *copy = malloc(b->len); /* a read beyond it is reported */
    struct flow_keys keys;
    bool yes;

    memcpy(copy, b->data, b->len);
    flow_keys_parse(&keys, &(struct frame){.data = copy, .len = b->len});
    yes = flow_table_match(flows.table, &keys);
    free(copy);
    flow_kit_fini(&flows);
    return yes;
}

/* Each bit of each field is compared, and only when its header is present. */
static void every_bit_of_every_field(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(specs); i++)
        for (unsigned n = 0; n < ARRAY_SIZE(fields); n++)
            for (size_t bit = 0; bit < 8 * fields[n].len; bit++) {
                struct flow_match m = {0};
                size_t at = fields[n].offset + bit / 8;
                bool there = !fields[n].any_of || (headers_expected(&specs[i]) & fields[n].any_of);
                struct raw_bytes b;

                raw_build(&b, &specs[i]);
                fields_expected(&m, &specs[i], &b);
                ((uint8_t *)&m.mask)[at] = (uint8_t)(1 << bit % 8);
                assert_int_equal(matches(&m, &b), there);
                ((uint8_t *)&m.value)[at] ^= (uint8_t)(1 << bit % 8);
                assert_false(matches(&m, &b));
            }
}

static void every_header(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(specs); i++)
        for (uint32_t headers = 0; headers < 32; headers++) {
            struct flow_match m = {.headers = headers};
            struct raw_bytes b;

            raw_build(&b, &specs[i]);
            assert_int_equal(matches(&m, &b), !(headers & ~headers_expected(&specs[i])));
        }
}

/* An IPv6 packet with a mapped address matches IPv6 rules and no IPv4 rule. */
static void mapped_address_in_ipv6(void **state)
{
    static const char *const mapped = "::ffff:192.0.2.1", *const four = "192.0.2.1";

    (void)state;
    for (unsigned is_dst = 0; is_dst < 2; is_dst++) {
        struct flow_match m = {0};
        struct raw_bytes b;

        raw_address(is_dst ? m.value.dst : m.value.src, four);
        memset(is_dst ? m.mask.dst : m.mask.src, 0xFF, 16);
        raw_build(&b, &(struct raw_spec){.version = 6,
                                         .proto = 6,
                                         .src = is_dst ? NULL : mapped,
                                         .dst = is_dst ? mapped : NULL});
        assert_false(matches(&m, &b));
        m.headers = FLOW_HAS_IPV6;
        assert_true(matches(&m, &b));
        raw_build(&b, &(struct raw_spec){.version = 4,
                                         .proto = 6,
                                         .src = is_dst ? NULL : four,
                                         .dst = is_dst ? four : NULL});
        assert_false(matches(&m, &b));
        m.headers = 0;
        assert_true(matches(&m, &b));
    }
}

/* ---- bytes that are not what they say ---- */

static uint32_t headers_of(const uint8_t *data, uint32_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    union flow_key key;

    memcpy(copy, data, len);
    flow_parse(&key, copy, len);
    free(copy);
    return key.headers & 0xFF;
}

/* Truncated at every length: a header is present when all of it is. */
static void truncated(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(specs); i++) {
        const struct raw_spec *s = &specs[i];
        uint32_t l3 = 14 + 4 * s->tags, l4 = l3 + (s->version == 4 ? 20 + 4 * s->options : 40);
        uint32_t end = 0;
        struct raw_bytes b;

        raw_build(&b, s);
        for (unsigned x = 0; x < s->extensions; x++)
            l4 += s->extension[x] == 44 ? 8 : 16;
        if (has_ports(s))
            end = l4 + (s->proto == 6 ? 20 : 8);
        for (uint32_t len = 0; len <= b.len; len++) {
            uint32_t found = headers_of(b.data, len), want = headers_expected(s);

            if (len < 14 + 4)
                want &= ~(uint32_t)FLOW_HAS_VLAN;
            if (s->version == 4 && len < l4)
                want = want & FLOW_HAS_VLAN;
            if (s->version == 6 && len < l3 + 40)
                want &= FLOW_HAS_VLAN;
            if (len < end)
                want &= ~(uint32_t)(FLOW_HAS_TCP | FLOW_HAS_UDP);
            assert_int_equal(found, want);
        }
    }
}

static void contradictions(void **state)
{
    static const struct {
        unsigned spec, at;
        uint8_t byte;
        uint32_t headers;
    } cases[] = {
        {2, 14, 0x44, 0},                          /* a header of 16 bytes */
        {2, 14, 0x4F, FLOW_HAS_IPV4},              /* of 60 bytes; the packet has 58 */
        {2, 14, 0x65, 0},                          /* version 6 behind IPv4's type */
        {2, 17, 19, 0},                            /* a packet shorter than its header */
        {2, 17, 20, FLOW_HAS_IPV4},                /* UDP behind the end of the packet */
        {2, 17, 27, FLOW_HAS_IPV4},                /* one byte of it */
        {2, 17, 28, FLOW_HAS_IPV4 | FLOW_HAS_UDP}, /* just all of it */
        {9, 14, 0x40, 0},                          /* version 4 behind IPv6's type */
        {9, 19, 7, FLOW_HAS_IPV6},                 /* UDP behind the end */
        {9, 19, 8, FLOW_HAS_IPV6 | FLOW_HAS_UDP},  /* just all of it */
        {11, 55, 0xFF, FLOW_HAS_IPV6},             /* an extension longer than the packet */
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        struct raw_bytes b;

        raw_build(&b, &specs[cases[i].spec]);
        b.data[cases[i].at] = cases[i].byte;
        if (i == 1) /* options up to the end of the frame leave no room for UDP */
            put_be16(b.data + 16, 60);
        if (i == 1)
            b.len = 14 + 60;
        assert_int_equal(headers_of(b.data, b.len), cases[i].headers);
    }
}

/* Headers behind a third tag or behind too many extension headers are not parsed. */
static void bounded(void **state)
{
    struct raw_spec s = {.version = 6, .proto = 17, .tags = 3};
    struct raw_bytes b;

    (void)state;
    raw_build(&b, &s);
    assert_int_equal(headers_of(b.data, b.len), FLOW_HAS_VLAN);
    s.tags = 0;
    for (s.extensions = 7; s.extensions <= 9; s.extensions++) {
        raw_build(&b, &s); /* all of them hop by hop */
        assert_int_equal(headers_of(b.data, b.len),
                         FLOW_HAS_IPV6 | (s.extensions < 9 ? FLOW_HAS_UDP : 0));
    }
}

/* ---- the order of rules ---- */

static const uint16_t types[] = {0x88B5, 0x88B6, 0x0806};

/* The index of the rule that matches a frame, by a linear search; `rules` if none does. */
static unsigned winner(const struct flow_rule *rule, unsigned rules, uint16_t type, bool group)
{
    unsigned best = rules;
    unsigned long best_rank = ~0ul;

    for (unsigned i = 0; i < rules; i++) {
        bool fits = !rule[i].match.mask.ether_type || rule[i].match.value.ether_type == BE16(type);
        unsigned last = rule[i].type == FLOW_ALL_DEFAULT ? 2 : rule[i].type == FLOW_MC_DEFAULT;
        unsigned long rank = last * 1000000 + rule[i].priority * 1000ul + i;

        if (rule[i].type == FLOW_SNIFFER || !fits || (rule[i].type == FLOW_MC_DEFAULT && !group))
            continue;
        if (rank < best_rank) {
            best_rank = rank;
            best = i;
        }
    }
    return best;
}

static void first_rule_takes_the_frame(void **state)
{
    struct random r = {.state = 7};
    unsigned taken[4] = {0};

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        unsigned rules = 1 + random_below(&r, 6);
        bool group = random_below(&r, 2);
        uint16_t type = types[random_below(&r, 3)];
        const struct raw_spec s = {.ether_type = type, .dmac = group ? group_mac : NULL};
        struct flow_rule rule[6] = {0};
        struct flow_entry *e;
        struct flow_kit flows;
        struct flow_keys keys;
        struct raw_bytes b;
        unsigned want;

        for (unsigned i = 0; i < rules; i++) {
            rule[i].type = (enum flow_type)random_below(&r, 4);
            rule[i].priority = (uint16_t)random_below(&r, 3);
            rule[i].tagged = true;
            rule[i].tag = i;
            if (rule[i].type == FLOW_NORMAL) {
                rule[i].match.value.ether_type = BE16(types[random_below(&r, 3)]);
                rule[i].match.mask.ether_type = random_below(&r, 4) ? 0xFFFF : 0;
            }
        }
        flows = flow_kit_init(rule, rules);
        raw_build(&b, &s);
        flow_keys_parse(&keys, &(struct frame){.data = b.data, .len = b.len});
        e = flow_table_match(flows.table, &keys);
        want = winner(rule, rules, type, group);
        assert_int_equal(e ? e->tag : rules, want);
        if (e) {
            assert_int_equal(e->is_default, rule[want].type != FLOW_NORMAL);
            taken[rule[want].type]++;
            flow_count(e, round % CQ_MAX_LANES, 60);
            flow_count(e, 0, 1500);
        }
        for (unsigned i = 0; i < rules; i++) {
            struct flow_count count = flow_entry_count(flows.entry[i]);

            assert_int_equal(count.frames, i == want ? 2 : 0);
            assert_int_equal(count.bytes, i == want ? 1560 : 0);
        }
        flow_kit_fini(&flows);
    }
    assert_true(taken[FLOW_NORMAL] > 100 && taken[FLOW_ALL_DEFAULT] > 100 &&
                taken[FLOW_MC_DEFAULT] > 100 && !taken[FLOW_SNIFFER]);
}

#define COMING 64

struct coming {
    struct flow_entry *entry; /* or NULL */
    bool sniffer;
    unsigned priority, made, count;
};

static void make_rule(struct coming *c, struct random *r, unsigned round)
{
    struct flow_rule rule = {.priority = (uint16_t)random_below(r, 8),
                             .type = random_below(r, 4) ? FLOW_NORMAL : FLOW_SNIFFER};

    *c = (struct coming){.entry = flow_entry_create(&rule),
                         .sniffer = rule.type == FLOW_SNIFFER,
                         .priority = rule.priority,
                         .made = round};
}

/* Of rules that match all frames; or NULL. */
static struct coming *first_of(struct coming *c)
{
    struct coming *best = NULL;

    for (unsigned i = 0; i < COMING; i++) {
        if (!c[i].entry || c[i].sniffer)
            continue;
        if (!best || c[i].priority < best->priority ||
            (c[i].priority == best->priority && c[i].made < best->made))
            best = &c[i];
    }
    return best;
}

/* Rules come and go in any order: the others keep their order and their counts. */
static void rules_come_and_go(void **state)
{
    struct coming c[COMING] = {0}, *best;
    struct flow_table *t = NULL;
    struct random r = {.state = 11};
    struct raw_bytes b;
    struct flow_keys keys;

    (void)state;
    raw_build(&b, &(struct raw_spec){.ether_type = types[0]});
    flow_keys_parse(&keys, &(struct frame){.data = b.data, .len = b.len});
    for (unsigned round = 1; round <= 5000; round++) {
        struct coming *now = &c[random_below(&r, COMING)];
        struct flow_entry *gone = now->entry, *e;
        struct flow_table *old = t;

        if (gone) {
            flow_table_remove(old, gone);
            now->entry = NULL;
            if (random_below(&r, 2)) /* else its place stays empty until the next rule */
                t = flow_table_with(old, NULL);
        } else {
            make_rule(now, &r, round);
            t = flow_table_with(old, now->entry);
        }
        if (old != t)
            flow_table_free(old);
        flow_entry_free(gone);
        best = first_of(c);
        e = flow_table_match(t, &keys);
        assert_ptr_equal(e, best ? best->entry : NULL);
        if (!e)
            continue;
        flow_count(e, round % CQ_MAX_LANES, 60);
        assert_int_equal(flow_entry_count(e).frames, ++best->count);
    }
    flow_table_free(t);
    for (unsigned i = 0; i < COMING; i++)
        flow_entry_free(c[i].entry);
}

/* ---- hashes ---- */

/* The definition: for every bit that is set, the 32 bits of the key from there on. */
static uint32_t toeplitz(const uint8_t *key, const uint8_t *input, unsigned len)
{
    uint32_t hash = 0;

    for (unsigned bit = 0; bit < 8 * len; bit++)
        for (unsigned k = 0; k < 32 && input[bit / 8] >> (7 - bit % 8) & 1; k++)
            hash ^= (uint32_t)(key[(bit + k) / 8] >> (7 - (bit + k) % 8) & 1) << (31 - k);
    return hash;
}

static uint32_t xor_words(const uint8_t *input, unsigned len)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < len; i++)
        sum ^= (uint32_t)input[i] << (i % 2 ? 0 : 8);
    return sum;
}

/* One of several: with more fragments behind it, or an offset. */
static bool is_fragment(const struct raw_spec *s)
{
    return s->version == 4 ? s->fragment & 0x3FFF : s->v6_fragment & ~6;
}

/* The chosen fields of a frame in their order. False: their headers are missing, or not all
 * fragments of its packet have them. */
static bool hash_input(uint8_t *out, unsigned *len, uint32_t chosen, const struct raw_spec *s,
                       const struct raw_bytes *b)
{
    const uint32_t v4 = RX_HASH_SRC_IPV4 | RX_HASH_DST_IPV4;
    const uint32_t v6 = RX_HASH_SRC_IPV6 | RX_HASH_DST_IPV6;
    const uint32_t tcp = RX_HASH_SRC_PORT_TCP | RX_HASH_DST_PORT_TCP;
    const uint32_t udp = RX_HASH_SRC_PORT_UDP | RX_HASH_DST_PORT_UDP;
    bool ports = has_ports(s) && !is_fragment(s);
    unsigned skip = s->version == 4 ? 12 : 0;
    struct flow_match m = {0};

    *len = 0;
    fields_expected(&m, s, b);
    if (((chosen & v4) && s->version != 4) || ((chosen & v6) && s->version != 6) ||
        ((chosen & tcp) && (!ports || s->proto != 6)) ||
        ((chosen & udp) && (!ports || s->proto != 17)))
        return false;
    if (chosen & (RX_HASH_SRC_IPV4 | RX_HASH_SRC_IPV6)) {
        memcpy(out, m.value.src + skip, 16 - skip);
        *len += 16 - skip;
    }
    if (chosen & (RX_HASH_DST_IPV4 | RX_HASH_DST_IPV6)) {
        memcpy(out + *len, m.value.dst + skip, 16 - skip);
        *len += 16 - skip;
    }
    if (chosen & (RX_HASH_SRC_PORT_TCP | RX_HASH_SRC_PORT_UDP)) {
        put_be16(out + *len, s->sport);
        *len += 2;
    }
    if (chosen & (RX_HASH_DST_PORT_TCP | RX_HASH_DST_PORT_UDP)) {
        put_be16(out + *len, s->dport);
        *len += 2;
    }
    return true;
}

static void hash_with_all_fields(const struct rx_hash *hash)
{
    struct rx_spread *spread = rx_spread_create(hash, NULL);

    for (unsigned i = 0; i < ARRAY_SIZE(specs); i++) {
        uint8_t input[RSS_INPUT_MAX];
        union flow_key key;
        struct raw_bytes b;
        uint32_t want = 0;
        unsigned len;

        raw_build(&b, &specs[i]);
        flow_parse(&key, b.data, b.len);
        if (hash_input(input, &len, hash->fields, &specs[i], &b))
            want =
                hash->function == RSS_XOR ? xor_words(input, len) : toeplitz(hash->key, input, len);
        assert_int_equal(rx_spread_hash(spread, &key), want);
    }
    free(spread);
}

static void every_choice_of_fields(void **state)
{
    struct random r = {.state = 5};
    struct rx_hash hash;
    unsigned valid = 0;

    (void)state;
    for (unsigned i = 0; i < TOEPLITZ_KEY_LEN; i++)
        hash.key[i] = (uint8_t)random_next(&r);
    for (hash.fields = 0; hash.fields < 512; hash.fields++) {
        bool both_versions = (hash.fields & 3) && (hash.fields & 12);
        bool both_protocols = (hash.fields & 0x30) && (hash.fields & 0xC0);

        assert_int_equal(rx_hash_fields_valid(hash.fields),
                         !both_versions && !both_protocols && hash.fields < 256);
        if (!rx_hash_fields_valid(hash.fields))
            continue;
        valid++;
        hash.function = RSS_TOEPLITZ;
        hash_with_all_fields(&hash);
        hash.function = RSS_XOR;
        hash_with_all_fields(&hash);
    }
    assert_int_equal(valid, 7 * 7);
}

/* Microsoft's "Verifying the RSS Hash Calculation", as frames. */
static const struct {
    const char *src, *dst;
    uint16_t sport, dport;
    uint32_t addresses, ports;
} published[] = {
    {"66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {"199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
    {"24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {"38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f},
    {"153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2},
    {"3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
    {"3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
    {"3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x4b61e985,
     0x02d1feef},
};

static uint32_t hash_of(const struct raw_spec *s, uint32_t chosen)
{
    struct rx_hash hash = {.function = RSS_TOEPLITZ, .fields = chosen};
    struct rx_spread *spread;
    union flow_key key;
    struct raw_bytes b;
    uint32_t result;

    memcpy(hash.key, toeplitz_key_microsoft, sizeof(hash.key));
    spread = rx_spread_create(&hash, NULL);
    raw_build(&b, s);
    flow_parse(&key, b.data, b.len);
    result = rx_spread_hash(spread, &key);
    free(spread);
    return result;
}

static void published_hashes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(published); i++) {
        bool v4 = strchr(published[i].src, '.');
        uint32_t addresses =
            v4 ? RX_HASH_SRC_IPV4 | RX_HASH_DST_IPV4 : RX_HASH_SRC_IPV6 | RX_HASH_DST_IPV6;
        struct raw_spec s = {.version = v4 ? 4 : 6,
                             .src = published[i].src,
                             .dst = published[i].dst,
                             .sport = published[i].sport,
                             .dport = published[i].dport,
                             .payload = 33};

        for (unsigned tags = 0; tags < 3; tags++) {
            s.tags = tags;
            s.proto = 6;
            assert_int_equal(hash_of(&s, addresses), published[i].addresses);
            assert_int_equal(hash_of(&s, addresses | RX_HASH_SRC_PORT_TCP | RX_HASH_DST_PORT_TCP),
                             published[i].ports);
            assert_int_equal(hash_of(&s, addresses | RX_HASH_SRC_PORT_UDP | RX_HASH_DST_PORT_UDP),
                             0);
            s.proto = 17;
            assert_int_equal(hash_of(&s, addresses | RX_HASH_SRC_PORT_UDP | RX_HASH_DST_PORT_UDP),
                             published[i].ports);
            s.proto = 1;
            assert_int_equal(hash_of(&s, addresses), published[i].addresses);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_of_every_field),
        cmocka_unit_test(every_header),
        cmocka_unit_test(mapped_address_in_ipv6),
        cmocka_unit_test(truncated),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(bounded),
        cmocka_unit_test(first_rule_takes_the_frame),
        cmocka_unit_test(rules_come_and_go),
        cmocka_unit_test(every_choice_of_fields),
        cmocka_unit_test(published_hashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
