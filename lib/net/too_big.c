/* SPDX-License-Identifier: BSD-3-Clause */
/* Path MTUs that routers tell (RFC 1191, RFC 8201), if it was about a RoCE packet of ours. */
#include "encap.h"
#include "encap_layout.h"
#include "net_internal.h"

#define ICMP_LEN           8
#define FRAGMENTATION_NEED 4 /* code of destination unreachable */
#define PMTU_LIFETIME      (600 * NS_PER_SEC)
#define PMTU_MIN_IPV4      576
#define PMTU_MIN_IPV6      1280

/* ---- what is known ---- */

static struct learned_pmtu *find(struct net_host *h, const union gid *dst)
{
    for (unsigned i = 0; i < h->pmtus; i++)
        if (gid_eq(&h->pmtu[i].dst, dst))
            return &h->pmtu[i];
    return NULL;
}

uint32_t pmtu_of(const struct net_host *h, const union gid *dst, ns_t now)
{
    const struct learned_pmtu *p = find((struct net_host *)h, dst);

    return p && now < p->until ? min_of(p->mtu, h->cfg.mtu) : h->cfg.mtu;
}

/* Takes the place of the one that is soonest forgotten. */
static struct learned_pmtu *add(struct net_host *h, const union gid *dst)
{
    struct learned_pmtu *p = &h->pmtu[0];

    if (h->pmtus < PMTU_MAX) {
        p = &h->pmtu[h->pmtus++];
    } else {
        for (unsigned i = 1; i < PMTU_MAX; i++)
            if (h->pmtu[i].until < p->until)
                p = &h->pmtu[i];
    }
    *p = (struct learned_pmtu){.dst = *dst, .mtu = h->cfg.mtu};
    return p;
}

/* Never raised by a message: only by being forgotten. */
static enum inet_verdict learn(struct net_host *h, const union gid *dst, uint32_t mtu, ns_t now)
{
    struct learned_pmtu *p;

    if (mtu >= h->cfg.mtu)
        return INET_IGNORED;
    p = find(h, dst);
    if (!p)
        p = add(h, dst);
    if (p->until <= now)
        p->mtu = h->cfg.mtu;
    if (mtu > p->mtu)
        return INET_IGNORED;
    p->mtu = mtu;
    p->until = now + PMTU_LIFETIME;
    return INET_OK;
}

ns_t pmtu_next(const struct net_host *h)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < h->pmtus; i++)
        next = min_of(next, h->pmtu[i].until);
    return next;
}

void pmtu_timers(struct net_host *h, ns_t now)
{
    for (unsigned i = 0; i < h->pmtus;) {
        if (h->pmtu[i].until <= now)
            h->pmtu[i] = h->pmtu[--h->pmtus];
        else
            i++;
    }
}

void net_host_each_pmtu(const struct net_host *h, void *ctx,
                        void (*visit)(void *ctx, const union gid *dst, uint32_t mtu))
{
    for (unsigned i = 0; i < h->pmtus; i++)
        visit(ctx, &h->pmtu[i].dst, h->pmtu[i].mtu);
}

/* ---- what routers say ---- */

/* Which MTU a router means that does not know RFC 1191: the next below the packet's (7.1). */
static uint32_t plateau_below(uint32_t len)
{
    static const uint16_t plateaus[] = {32000, 17914, 8166, 4352, 2002, 1492, 1006, 508};

    for (size_t i = 0; i < ARRAY_SIZE(plateaus); i++)
        if (plateaus[i] < len)
            return plateaus[i];
    return PMTU_MIN_IPV4;
}

/* The quoted packet: ours, and to whom? */
static bool quoted_ipv4(struct net_host *h, const struct inet_rx *rx, union gid *dst)
{
    const uint8_t *ip = rx->data + ICMP_LEN;
    uint32_t len = rx->len - ICMP_LEN;
    union gid src;

    if (len < IPV4_LEN + UDP_LEN || ip[0] != IPV4_VERSION_IHL || ip[9] != IP_PROTO_UDP ||
        get_be16(ip + 6) & IPV4_OFFSET_MASK || get_be16(ip + IPV4_LEN + 2) != ROCE_UDP_PORT)
        return false;
    src = gid_from_ipv4(ip + 12);
    *dst = gid_from_ipv4(ip + 16);
    return gid_eq(&src, &rx->dst) && inet_is_unicast(dst);
}

static bool quoted_ipv6(struct net_host *h, const struct inet_rx *rx, union gid *dst)
{
    const uint8_t *ip = rx->data + ICMP_LEN;
    uint32_t len = rx->len - ICMP_LEN;

    if (len < IPV6_LEN + UDP_LEN || ip[0] >> 4 != 6 || ip[6] != IP_PROTO_UDP ||
        get_be16(ip + IPV6_LEN + 2) != ROCE_UDP_PORT)
        return false;
    memcpy(dst->raw, ip + 24, 16);
    return !memcmp(ip + 8, rx->dst.raw, 16) && inet_is_unicast(dst) && !gid_is_ipv4(dst);
}

enum inet_verdict unreachable_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    uint32_t mtu = get_be16(rx->data + 6);
    union gid dst;

    if (rx->data[1] != FRAGMENTATION_NEED) {
        h->count.unreachable_rx++;
        return INET_OK;
    }
    h->count.too_big_rx++;
    if (!address_is_usable(h, &rx->dst, rx->vlan) || !quoted_ipv4(h, rx, &dst))
        return INET_IGNORED;
    if (!mtu)
        mtu = plateau_below(min_of(get_be16(rx->data + ICMP_LEN + 2), h->cfg.mtu));
    /* A lower one would only be somebody's means of making us slow. */
    return learn(h, &dst, max_of(mtu, (uint32_t)PMTU_MIN_IPV4), now);
}

enum inet_verdict too_big_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    uint32_t mtu = get_be32(rx->data + 4);
    union gid dst;

    h->count.too_big_rx++;
    if (!address_is_usable(h, &rx->dst, rx->vlan) || !quoted_ipv6(h, rx, &dst) ||
        mtu < PMTU_MIN_IPV6) /* RFC 8201 4: such a message is discarded */
        return INET_IGNORED;
    return learn(h, &dst, mtu, now);
}
