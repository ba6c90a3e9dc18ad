/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The IP host of a port in a hostile network: frames, time, and requests of the daemon in between.
 *
 * Input: steps, each an opcode byte and its operands; see make_net_corpus.py. For every input, sent
 * frames are well-formed and few, tables keep their bounds, and timers do not spin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "encap_layout.h"
#include "fuzz.h"
#include "inet.h"
#include "net_host.h"

#define MTU          1500
#define MAX_STEPS    300
#define ROUNDS_MAX   100  /* of timers at one instant */
#define TIMERS_MAX   3000 /* instants within one step of time */
#define ANSWERS_MAX  2    /* frames sent because of one received */
#define BURST_MAX    2000 /* frames sent by the timers of one instant */
#define CALLBACK_MAX 3    /* resolutions that a callback starts */

enum step {
    STEP_FRAME,
    STEP_TIME,
    STEP_RESOLVE,
    STEP_ADDRESS,
    STEP_GROUP,
    STEP_ROUTE,
    STEP_NEIGHBOUR,
    STEP_LINK,
    STEP_COUNT,
};

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint16_t vlans[] = {VLAN_NONE, 7, VLAN_NONE, 4094};
/* Operands of steps: addresses and groups. */
static const char *const names[] = {"10.0.0.1",  "10.0.0.2",  "10.0.0.3", "fe80::1",
                                    "fe80::2",   "fd00::1",   "fd00::2",  "10.0.9.1",
                                    "fd09::1",   "0.0.0.0",   "::",       "ff02::1",
                                    "224.0.0.1", "239.1.1.1", "ff0e::1",  "ff02::1:ff00:1"};

struct fuzz {
    const uint8_t *p;
    size_t left;
    struct net_host *h;
    ns_t now;
    unsigned sent;
    unsigned asked; /* from within a callback */
    uint64_t frames;
};

static uint8_t u8(struct fuzz *f)
{
    if (!f->left)
        return 0;
    f->left--;
    return *f->p++;
}

static union gid name(struct fuzz *f)
{
    union gid g;

    REQUIRE(!gid_parse(&g, names[u8(f) % ARRAY_SIZE(names)]));
    return g;
}

static uint16_t vlan(struct fuzz *f)
{
    return vlans[u8(f) % ARRAY_SIZE(vlans)];
}

/* ---- what it sends ---- */

static uint16_t sum_of(const uint8_t *p, uint32_t len, uint32_t sum)
{
    for (uint32_t i = 0; i < len; i++)
        sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    return (uint16_t)sum;
}

static void check_message(const struct inet_rx *r)
{
    bool ipv4 = r->ethertype == ETHERTYPE_IPV4;
    uint32_t pseudo =
        ipv4 ? 0 : sum_of(r->src.raw, 16, 0) + sum_of(r->dst.raw, 16, 0) + r->len + 58;

    REQUIRE(sum_of(r->data, r->len, pseudo) == 0xFFFF);
    REQUIRE(r->dmac[0] & 1 || !gid_is_multicast(&r->dst));
    REQUIRE(!gid_is_multicast(&r->src));
    switch (r->data[0]) {
    case 0: /* echo replies */
    case 0x12:
    case 0x16:
    case 0x17:
    case 0x22:
        REQUIRE(ipv4);
        break;
    case 129:
    case 135:
    case 136:
        REQUIRE(!ipv4);
        break;
    case 131:
    case 132:
    case 143:
        REQUIRE(!ipv4 && r->hop_limit == 1 && r->router_alert);
        break;
    default:
        REQUIRE(!"such a message is never sent");
    }
}

static void on_send(void *ctx, const uint8_t *frame, uint32_t len)
{
    struct fuzz *f = ctx;
    uint8_t *copy = malloc(len);
    struct inet_rx r;

    f->sent++;
    REQUIRE(copy && len <= NET_FRAME_MAX + VLAN_LEN);
    memcpy(copy, frame, len);
    REQUIRE(inet_ethernet(&r, copy, len) == INET_OK);
    REQUIRE(!memcmp(r.smac, our_mac, 6));
    REQUIRE(r.len <= MTU);
    if (r.ethertype == ETHERTYPE_ARP) {
        REQUIRE(r.len == 28 && !memcmp(r.data + 8, our_mac, 6));
    } else {
        REQUIRE(inet_ip(&r) == INET_OK);
        check_message(&r);
    }
    free(copy);
}

static void on_resolved(void *ctx, const union gid *next_hop, uint16_t v, bool found)
{
    struct fuzz *f = ctx;
    struct net_path path;

    /* As a daemon would: from within the callback. */
    if (f->asked++ < CALLBACK_MAX)
        net_host_resolve(f->h, next_hop, v, next_hop, f->now, &path);
}

static void on_moved(void *ctx, const union gid *next_hop, uint16_t v, const uint8_t mac[6])
{
    REQUIRE(!(mac[0] & 1));
    on_resolved(ctx, next_hop, v, true);
}

static void on_state(void *ctx, const struct net_address *a, enum net_address_state state)
{
    struct fuzz *f = ctx;

    REQUIRE(state == NET_PREFERRED || state == NET_DUPLICATE);
    if (state == NET_DUPLICATE && a->prefix & 1)
        net_host_remove_address(f->h, &a->addr, a->vlan);
}

static const struct net_host_ops ops = {on_send, on_resolved, on_moved, on_state};

/* ---- what it keeps ---- */

static void count_neighbour(void *ctx, const union gid *addr, uint16_t v, const uint8_t mac[6],
                            enum net_neighbour_state state)
{
    (*(unsigned *)ctx)++;
    REQUIRE(inet_is_unicast(addr) && state <= NET_STATIC && !(mac[0] & 1));
}

static void count_group(void *ctx, const union gid *group, uint16_t v, unsigned members)
{
    (*(unsigned *)ctx)++;
    REQUIRE(gid_is_multicast(group) && members);
}

static void count_pmtu(void *ctx, const union gid *dst, uint16_t vlan, uint32_t mtu)
{
    (*(unsigned *)ctx)++;
    REQUIRE(mtu < MTU && mtu >= (gid_is_ipv4(dst) ? 576 : 1280));
}

static void check_tables(const struct fuzz *f)
{
    const struct net_counters *c = net_host_counters(f->h);
    unsigned n = 0;

    net_host_each_neighbour(f->h, &n, count_neighbour);
    REQUIRE(n <= NET_NEIGHBOUR_MAX);
    n = 0;
    net_host_each_group(f->h, &n, count_group);
    REQUIRE(n <= NET_GROUP_MAX * NET_VLAN_MAX + NET_ADDRESS_MAX);
    n = 0;
    net_host_each_pmtu(f->h, &n, count_pmtu);
    REQUIRE(n <= 1024);
    REQUIRE(c->malformed + c->ignored <= f->frames);
    REQUIRE(c->echo_tx <= c->echo_rx);
}

/* ---- steps ---- */

/* Makes the checksums of an untagged packet right, which nearly every mutation breaks. */
static void mend(uint8_t *frame, uint32_t len)
{
    uint8_t *ip = frame + 14, *l4;
    uint32_t header, total, pseudo = 0;

    if (len < 14 + 20)
        return;
    if (get_be16(frame + 12) == 0x0800) {
        header = (ip[0] & 15u) * 4;
        total = get_be16(ip + 2);
        if (header < 20 || 14 + header > len)
            return;
        put_be16(ip + 10, 0);
        put_be16(ip + 10, (uint16_t)~sum_of(ip, header, 0));
    } else if (get_be16(frame + 12) == 0x86DD && len >= 14 + 40) {
        header = ip[6] || len < 14 + 48 ? 40 : 40 + 8 * (ip[41] + 1u);
        total = 40u + get_be16(ip + 4);
        pseudo = sum_of(ip + 8, 32, 0) + total - header + 58;
    } else {
        return;
    }
    if (total > len - 14 || total < header + 4)
        return;
    l4 = ip + header;
    put_be16(l4 + 2, 0);
    put_be16(l4 + 2, (uint16_t)~sum_of(l4, total - header, pseudo));
}

/* Length, whether to mend it, and bytes. */
static void receive(struct fuzz *f)
{
    uint32_t len = u8(f);
    uint8_t how = u8(f);
    uint8_t *frame;

    len |= (how & 7u) << 8;
    len = min_of(len, (uint32_t)f->left);
    frame = malloc(len ? len : 1);
    REQUIRE(frame);
    memcpy(frame, f->p, len);
    f->p += len;
    f->left -= len;
    if (how & 0x80)
        mend(frame, len);
    f->sent = f->asked = 0;
    f->frames++;
    net_host_rx(f->h, frame, len, f->now);
    REQUIRE(f->sent <= ANSWERS_MAX + CALLBACK_MAX);
    free(frame);
}

static void run_timers(struct fuzz *f)
{
    unsigned rounds = 0;

    f->sent = 0;
    while (net_host_next_timer(f->h) <= f->now) {
        REQUIRE(rounds++ < ROUNDS_MAX);
        f->asked = 0;
        net_host_timers(f->h, f->now);
    }
    REQUIRE(f->sent <= BURST_MAX);
}

/* From a millisecond to nine hours. */
static void pass_time(struct fuzz *f)
{
    ns_t end = f->now + (NS_PER_MS << u8(f) % 26);
    unsigned instants = 0;

    run_timers(f);
    while (net_host_next_timer(f->h) <= end) {
        REQUIRE(instants++ < TIMERS_MAX);
        f->now = net_host_next_timer(f->h);
        run_timers(f);
    }
    f->now = end;
}

static void resolve(struct fuzz *f)
{
    uint16_t v = vlan(f);
    union gid src = name(f), dst = name(f);
    uint8_t last = u8(f);
    struct net_path path;

    if (last) /* one of many */
        dst.raw[15] = last;
    f->sent = 0;
    if (!net_host_resolve(f->h, &src, v, &dst, f->now, &path))
        REQUIRE(path.mtu <= MTU && path.mtu >= 576 &&
                !(path.mac[0] & 1) == !gid_is_multicast(&dst));
    REQUIRE(f->sent <= 1);
}

static void change_address(struct fuzz *f)
{
    uint8_t how = u8(f);
    struct net_address a = {.addr = name(f), .prefix = u8(f), .vlan = vlan(f)};

    if (how & 4)
        net_host_set_quiet(f->h, &a.addr, a.vlan, how & 1, f->now);
    else if (how & 1)
        net_host_remove_address(f->h, &a.addr, a.vlan);
    else
        net_host_add_address(f->h, &a, how & 2, f->now);
}

static void change_group(struct fuzz *f)
{
    uint8_t how = u8(f);
    union gid group = name(f);
    uint16_t v = vlan(f);

    if (how & 2)
        group.raw[15] = u8(f);
    if (how & 1)
        net_host_leave(f->h, &group, v, f->now);
    else
        net_host_join(f->h, &group, v, f->now);
}

static void change_route(struct fuzz *f)
{
    uint8_t how = u8(f);
    struct net_route r = {.dst = name(f), .via = name(f), .prefix = u8(f), .vlan = vlan(f)};

    if (how & 1)
        net_host_remove_route(f->h, &r);
    else
        net_host_add_route(f->h, &r);
}

static void add_neighbour(struct fuzz *f)
{
    union gid addr = name(f);
    uint16_t v = vlan(f);
    uint8_t mac[6] = {2, 0, 0, 0, 1, u8(f)};

    f->asked = 0;
    net_host_add_neighbour(f->h, &addr, v, mac);
}

static void step(struct fuzz *f)
{
    switch ((enum step)(u8(f) % STEP_COUNT)) {
    case STEP_FRAME:
        receive(f);
        break;
    case STEP_TIME:
        pass_time(f);
        break;
    case STEP_RESOLVE:
        resolve(f);
        break;
    case STEP_ADDRESS:
        change_address(f);
        break;
    case STEP_GROUP:
        change_group(f);
        break;
    case STEP_ROUTE:
        change_route(f);
        break;
    case STEP_NEIGHBOUR:
        add_neighbour(f);
        break;
    case STEP_LINK:
        net_host_link(f->h, u8(f) & 1, f->now);
        break;
    case STEP_COUNT:
        break;
    }
}

/* Addresses of a host that came up long ago. */
static void finish(struct fuzz *f)
{
    static const char *const addresses[] = {"10.0.0.1", "fe80::1", "fd00::1"};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        struct net_address a = {.prefix = i ? 64 : 24, .vlan = VLAN_NONE};

        REQUIRE(!gid_parse(&a.addr, addresses[i]));
        REQUIRE(!net_host_add_address(f->h, &a, true, f->now));
    }
    f->now += 20 * NS_PER_SEC;
    run_timers(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {.p = data, .left = size, .now = NS_PER_SEC};
    uint8_t how = u8(&f);
    struct net_host_config config = {
        .mtu = MTU, .quiet = how & 1, .optimistic = how & 4, .ops = &ops, .ctx = &f};

    memcpy(config.mac, our_mac, 6);
    config.seed = how;
    f.h = net_host_create(&config);
    REQUIRE(f.h);
    if (!(how & 2))
        finish(&f);
    for (unsigned i = 0; i < MAX_STEPS && f.left; i++)
        step(&f);
    pass_time(&f);
    check_tables(&f);
    net_host_destroy(f.h);
    return 0;
}
