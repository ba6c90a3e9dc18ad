/* SPDX-License-Identifier: BSD-3-Clause */
/* A network for tests: hosts that send frames of UDP to port 4791 as fast as their port takes them.
 */
#ifndef UROCE_TEST_FABRIC_KIT_H
#define UROCE_TEST_FABRIC_KIT_H

#include <stdlib.h>
#include <string.h>

#include "encap.h"
#include "encap_layout.h"
#include "fabric.h"
#include "unit.h"

#define HOSTS 64
#define GBPS  UINT64_C(1000000000)

/* What a host sends: `left` frames. */
struct source {
    unsigned to, left, flows; /* n source ports, one after the other; 0: one */
    uint32_t len;
    uint8_t dscp, ecn;
    unsigned sent;
};

struct seen {
    unsigned frames, marked;
    uint64_t bytes;
    ns_t last;
};

struct net {
    struct fabric *f;
    struct source source[HOSTS][2]; /* they take turns */
    unsigned turn[HOSTS];
    struct seen seen[HOSTS][FABRIC_PRIORITIES];
    unsigned port_frames[1024]; /* begun to leave, by port; no pause frames */
    unsigned port_pauses[1024];
    uint64_t order; /* a hash of all that arrived, in order */
};

static inline uint32_t fill_frame(uint8_t *data, unsigned from, const struct source *s)
{
    struct address_vector av = {
        .sgid = gid_from_ipv4((const uint8_t[]){10, 0, (uint8_t)(from >> 8), (uint8_t)from}),
        .dgid = gid_from_ipv4((const uint8_t[]){10, 0, (uint8_t)(s->to >> 8), (uint8_t)s->to}),
        .gid_type = GID_TYPE_ROCE_V2,
        .vlan = VLAN_NONE,
        .traffic_class = (uint8_t)(s->dscp << 2 | s->ecn),
        .hop_limit = 64,
        .udp_sport = (uint16_t)(0xC000 + (s->flows ? s->sent % s->flows : 0)),
    };
    struct encap_template t;

    fabric_host_mac(from, av.smac);
    fabric_host_mac(s->to, av.dmac);
    assert_int_equal(encap_template_make(&t, &av), 0);
    if (s->ecn == ECN_ECT0)
        encap_template_set_ect(&t);
    memset(data, 0, s->len);
    encap_tx(data, &t, s->len - t.len, 0);
    return s->len;
}

static inline void pump(struct net *n, unsigned host)
{
    while (fabric_room(n->f, host)) {
        struct source *s = &n->source[host][n->turn[host]++ % 2];
        struct fabric_frame *frame;

        if (!s->left)
            s = &n->source[host][n->turn[host] % 2];
        if (!s->left)
            return;
        frame = fabric_frame_get(n->f);
        assert_non_null(frame);
        frame->len = fill_frame(frame->data, host, s);
        s->left--;
        s->sent++;
        fabric_send(n->f, host, frame);
    }
}

static inline void kit_deliver(void *ctx, unsigned host, struct fabric_frame *frame)
{
    struct net *n = ctx;
    const uint8_t *ip = frame->data + ETH_LEN;
    struct seen *s = &n->seen[host][ip[1] >> 5];

    s->frames++;
    s->bytes += frame->len;
    s->marked += (ip[1] & ECN_MASK) == ECN_CE;
    s->last = fabric_now(n->f);
    assert_int_equal(ipv4_sum(ip), 0xFFFF); /* marks keep the checksum right */
    n->order = n->order * 31 + fabric_now(n->f) + host * 7 + frame->data[35];
    fabric_frame_free(n->f, frame);
}

static inline void kit_ready(void *ctx, unsigned host)
{
    pump(ctx, host);
}

static inline void kit_tap(void *ctx, unsigned port, const uint8_t *data, uint32_t len)
{
    struct net *n = ctx;

    if (get_be16(data + 12) == 0x8808)
        n->port_pauses[port]++;
    else
        n->port_frames[port]++;
}

static inline struct net *net_create(uint64_t seed)
{
    struct net *n = calloc(1, sizeof(*n));
    struct fabric_hooks hooks = {n, kit_deliver, kit_ready, kit_tap};

    assert_non_null(n);
    n->f = fabric_create(seed, 100 * NS_PER_US, &hooks);
    assert_non_null(n->f);
    return n;
}

static inline void net_destroy(struct net *n)
{
    fabric_destroy(n->f);
    free(n);
}

/* Its number. */
static inline unsigned connect_nodes(struct net *n, unsigned a, unsigned b, uint64_t bps,
                                     ns_t delay)
{
    int link = fabric_add_link(n->f, a, b, &(struct fabric_link){.bps = bps, .delay = delay});

    assert_true(link >= 0);
    return (unsigned)link;
}

static inline unsigned add_host(struct net *n)
{
    int host = fabric_add_host(n->f);

    assert_true(host >= 0);
    return (unsigned)host;
}

static inline unsigned add_switch(struct net *n, const struct fabric_switch *config)
{
    int node = fabric_add_switch(n->f, config);

    assert_true(node >= 0);
    return (unsigned)node;
}

/* Hosts 0 to hosts - 1 at one switch: link i is host i's. Its node number. */
static inline unsigned make_star(struct net *n, unsigned hosts, const struct fabric_switch *config,
                                 uint64_t bps, ns_t delay)
{
    unsigned s = add_switch(n, config);

    for (unsigned i = 0; i < hosts; i++)
        connect_nodes(n, add_host(n), s, bps, delay);
    return s;
}

static inline void run_until(struct net *n, ns_t until)
{
    for (unsigned i = 0; i < HOSTS; i++)
        if (n->source[i][0].left || n->source[i][1].left)
            pump(n, i);
    while (fabric_step(n->f, until))
        ;
    assert_false(fabric_failed(n->f));
}

/* Every frame that was sent is somewhere. */
static inline void check_conserved(const struct net *n)
{
    const struct fabric_totals *t = fabric_totals(n->f);

    assert_int_equal(t->sent, t->delivered + t->dropped + t->lost + t->unrouted + t->misplaced +
                                  fabric_frames_inside(n->f));
}

static inline unsigned frames_at(const struct net *n, unsigned host)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < FABRIC_PRIORITIES; i++)
        sum += n->seen[host][i].frames;
    return sum;
}

#endif
