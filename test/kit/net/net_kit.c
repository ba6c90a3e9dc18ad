/* SPDX-License-Identifier: BSD-3-Clause */
#include "net_kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frame_layout.h"
#include "unit.h"

#define SPIN_MAX 200 /* rounds of timers at one instant */

const uint8_t net_broadcast[6] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
const uint8_t net_peer[6] = {2, 0, 0, 0, 0, 0x10}, net_other[6] = {2, 0, 0, 0, 0, 0x20};
struct net_path net_kit_path;

/* ---- callbacks ---- */

static void on_send(void *ctx, const uint8_t *frame, uint32_t len)
{
    struct net_node *n = ctx;
    struct net_kit *k = n->kit;
    struct net_frame *f = &k->frame[k->sent];

    assert_true(k->sent < NET_KIT_FRAMES);
    assert_true(len <= NET_FRAME_MAX + VLAN_LEN);
    memcpy(f->bytes, frame, len);
    f->len = len;
    f->from = n->index;
    f->at = k->now;
    k->sent++;
}

static void on_resolved(void *ctx, const union gid *next_hop, uint16_t vlan, bool found)
{
    struct net_node *n = ctx;

    n->resolved++;
    n->resolved_hop = *next_hop;
    n->resolved_vlan = vlan;
    if (n->on_resolved)
        n->on_resolved(n);
}

static void on_moved(void *ctx, const union gid *next_hop, uint16_t vlan, const uint8_t mac[6])
{
    struct net_node *n = ctx;

    n->moved++;
    n->moved_hop = *next_hop;
    n->moved_vlan = vlan;
    memcpy(n->moved_mac, mac, 6);
}

static void on_state(void *ctx, const struct net_address *a, enum net_address_state state)
{
    struct net_node *n = ctx;

    n->states++;
    n->state_of = *a;
    n->state = state;
}

static const struct net_host_ops ops = {on_send, on_resolved, on_moved, on_state};

/* ---- the kit ---- */

struct net_kit *net_kit_new(unsigned nodes, bool quiet)
{
    return net_kit_make(nodes, &(struct net_host_config){.mtu = 1500, .quiet = quiet});
}

struct net_kit *net_kit_make(unsigned nodes, const struct net_host_config *like)
{
    struct net_kit *k = calloc(1, sizeof(*k));

    assert_non_null(k);
    k->now = 100 * SEC;
    k->nodes = nodes;
    for (unsigned i = 0; i < nodes; i++) {
        struct net_node *n = &k->node[i];
        struct net_host_config config = *like;

        n->kit = k;
        n->index = i;
        memcpy(n->mac, (const uint8_t[]){2, 0, 0, 0, 0, (uint8_t)(i + 1)}, 6);
        memcpy(config.mac, n->mac, 6);
        config.seed = i + 1;
        config.ops = &ops;
        config.ctx = n;
        n->h = net_host_create(&config);
        assert_non_null(n->h);
    }
    return k;
}

void net_kit_free(struct net_kit *k)
{
    for (unsigned i = 0; i < k->nodes; i++)
        net_host_destroy(k->node[i].h);
    free(k);
}

/* From a buffer of the frame's size, so that the sanitizer reports a read beyond it. */
static void rx(struct net_kit *k, unsigned node, const uint8_t *bytes, uint32_t len)
{
    uint8_t *copy = malloc(len ? len : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    net_host_rx(k->node[node].h, copy, len, k->now);
    free(copy);
}

static void deliver(struct net_kit *k)
{
    while (k->delivered < k->sent) {
        const struct net_frame *f = &k->frame[k->delivered++];
        bool lost = k->cut || (k->lose & 1);

        k->lose >>= 1;
        for (unsigned i = 0; i < k->nodes && !lost; i++)
            if (i != f->from || k->echo)
                rx(k, i, f->bytes, f->len);
    }
}

static ns_t next_timer(const struct net_kit *k)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < k->nodes; i++)
        next = min_of(next, net_host_next_timer(k->node[i].h));
    return next;
}

void net_kit_settle(struct net_kit *k)
{
    unsigned rounds = 0;

    deliver(k);
    while (next_timer(k) <= k->now) {
        assert_true(rounds++ < SPIN_MAX);
        for (unsigned i = 0; i < k->nodes; i++)
            net_host_timers(k->node[i].h, k->now);
        deliver(k);
    }
}

void net_kit_run(struct net_kit *k, ns_t duration)
{
    ns_t end = k->now + duration;

    net_kit_settle(k);
    while (next_timer(k) <= end) {
        k->now = next_timer(k);
        net_kit_settle(k);
    }
    k->now = end;
}

void net_kit_clear(struct net_kit *k)
{
    k->sent = k->delivered = 0;
}

void net_kit_rx(struct net_kit *k, const struct net_frame *f)
{
    rx(k, 0, f->bytes, f->len);
}

const struct net_frame *net_kit_sent(const struct net_kit *k, unsigned index)
{
    assert_true(index < k->sent);
    return &k->frame[index];
}

const struct net_counters *net_kit_count(const struct net_kit *k)
{
    return net_host_counters(k->node[0].h);
}

union gid gid_of(const char *text)
{
    union gid g;

    assert_int_equal(gid_parse(&g, text), 0);
    return g;
}

static void add_address(struct net_kit *k, unsigned node, const char *text, uint16_t vlan,
                        bool skip_dad)
{
    struct net_address a = {.vlan = vlan};
    char addr[64];
    const char *slash = strchr(text, '/');

    assert_non_null(slash);
    memcpy(addr, text, (size_t)(slash - text));
    addr[slash - text] = '\0';
    a.addr = gid_of(addr);
    a.prefix = (uint8_t)atoi(slash + 1);
    assert_int_equal(net_host_add_address(k->node[node].h, &a, skip_dad, k->now), 0);
}

void net_kit_address(struct net_kit *k, unsigned node, const char *text, uint16_t vlan)
{
    add_address(k, node, text, vlan, true);
}

void net_kit_detect(struct net_kit *k, unsigned node, const char *text, uint16_t vlan)
{
    add_address(k, node, text, vlan, false);
}

int net_kit_resolve(struct net_kit *k, unsigned node, const char *src, const char *dst,
                    uint16_t vlan)
{
    union gid from = gid_of(src), to = gid_of(dst);

    memset(&net_kit_path, 0, sizeof(net_kit_path));
    return net_host_resolve(k->node[node].h, &from, vlan, &to, k->now, &net_kit_path);
}

struct wanted {
    union gid addr;
    uint16_t vlan;
    int state;
};

static void visit(void *ctx, const union gid *addr, uint16_t vlan, const uint8_t mac[6],
                  enum net_neighbour_state state)
{
    struct wanted *w = ctx;

    if (gid_eq(addr, &w->addr) && vlan == w->vlan) {
        assert_int_equal(w->state, -1); /* once in the table */
        w->state = (int)state;
    }
}

int net_kit_state(struct net_kit *k, unsigned node, const char *addr, uint16_t vlan)
{
    struct wanted w = {.addr = gid_of(addr), .vlan = vlan, .state = -1};

    net_host_each_neighbour(k->node[node].h, &w, visit);
    return w.state;
}

/* ---- frames by hand ---- */

struct net_frame net_arp(uint16_t vlan, const uint8_t *dmac, uint16_t op, const uint8_t *sha,
                         const char *spa, const char *tpa)
{
    struct net_frame f = {.len = 0};
    union gid from = gid_of(spa), to = gid_of(tpa);
    uint32_t at = inet_put_ethernet(f.bytes, dmac, sha, vlan, 0x0806);
    uint8_t *arp = f.bytes + at;

    memcpy(arp, (const uint8_t[]){0, 1, 8, 0, 6, 4, 0, (uint8_t)op}, 8);
    memcpy(arp + ARP_SHA_OFF, sha, 6);
    memcpy(arp + ARP_SPA_OFF, from.raw + 12, 4);
    if (op == ARP_ANSWER)
        memcpy(arp + ARP_THA_OFF, dmac, 6);
    memcpy(arp + ARP_TPA_OFF, to.raw + 12, 4);
    f.len = max_of(at + 28, 60u);
    return f;
}

struct net_frame net_packet(const uint8_t *smac, const struct inet_tx *tx, const uint8_t *message,
                            uint32_t len)
{
    struct net_frame f = {.len = 0};

    f.len = inet_build(f.bytes, smac, tx, message, len);
    assert_true(f.len);
    return f;
}

struct net_frame net_nd(const struct net_nd *nd)
{
    uint8_t message[32] = {nd->type, [4] = nd->flags, [24] = nd->option, 1};
    union gid target = gid_of(nd->target);
    struct inet_tx tx = {.vlan = nd->vlan ? nd->vlan : VLAN_NONE,
                         .src = gid_of(nd->src),
                         .dst = gid_of(nd->dst),
                         .proto = IP_PROTO_ICMPV6,
                         .hop_limit = nd->hops ? nd->hops : 255};

    memcpy(message + 8, target.raw, 16);
    if (nd->mac)
        memcpy(message + 26, nd->mac, 6);
    if (gid_is_multicast(&tx.dst))
        gid_multicast_mac(&tx.dst, tx.dmac);
    else
        memcpy(tx.dmac, (const uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
    return net_packet(nd->mac ? nd->mac : net_peer, &tx, message, nd->option ? 32 : 24);
}

/* ---- frames that were sent, taken apart ---- */

struct inet_rx net_parse(const struct net_frame *f)
{
    struct inet_rx r;

    assert_int_equal(inet_ethernet(&r, f->bytes, f->len), INET_OK);
    assert_true(r.ethertype == ETHERTYPE_IPV4 || r.ethertype == ETHERTYPE_IPV6);
    assert_int_equal(inet_ip(&r), INET_OK);
    return r;
}

struct arp_view net_parse_arp(const struct net_frame *f)
{
    struct inet_rx r;
    struct arp_view a;

    assert_int_equal(inet_ethernet(&r, f->bytes, f->len), INET_OK);
    assert_int_equal(r.ethertype, ETHERTYPE_ARP);
    assert_int_equal(r.len, 28);
    assert_memory_equal(r.data, ((const uint8_t[]){0, 1, 8, 0, 6, 4}), 6);
    a = (struct arp_view){.op = get_be16(r.data + ARP_OP_OFF),
                          .vlan = r.vlan,
                          .spa = gid_from_ipv4(r.data + ARP_SPA_OFF),
                          .tpa = gid_from_ipv4(r.data + ARP_TPA_OFF),
                          .sha = r.data + ARP_SHA_OFF,
                          .tha = r.data + ARP_THA_OFF,
                          .dmac = r.dmac};
    assert_memory_equal(a.sha, r.smac, 6);
    return a;
}
