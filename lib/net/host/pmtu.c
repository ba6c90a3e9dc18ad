/* SPDX-License-Identifier: BSD-3-Clause */
/* See pmtu.h. */
#include "pmtu.h"

#include "encap.h"
#include "encap_layout.h"

#define ICMP_LEN           8
#define FRAGMENTATION_NEED 4 /* code of destination unreachable */
#define PMTU_LIFETIME      (600 * NS_PER_SEC)
#define PMTU_MIN_IPV4      576
#define PMTU_MIN_IPV6      1280

/* ---- the table ---- */

static const struct learned_pmtu *find_pmtu(const struct pmtu_table *t, const union gid *dst,
                                            uint16_t vlan)
{
    for (unsigned i = 0; i < t->len; i++)
        if (gid_eq(&t->slot[i].dst, dst) && t->slot[i].vlan == vlan)
            return &t->slot[i];
    return NULL;
}

uint32_t pmtu_of(const struct pmtu_table *t, const union gid *dst, uint16_t vlan, ns_t now)
{
    const struct learned_pmtu *p = find_pmtu(t, dst, vlan);

    return p && now < p->until ? min_of(p->mtu, t->port->cfg.mtu) : t->port->cfg.mtu;
}

/* Replaces the entry that expires first when the table is full. */
static struct learned_pmtu *add_pmtu(struct pmtu_table *t, const union gid *dst, uint16_t vlan)
{
    struct learned_pmtu *p = &t->slot[0];

    if (t->len < PMTU_MAX) {
        p = &t->slot[t->len++];
    } else {
        for (unsigned i = 1; i < PMTU_MAX; i++)
            if (t->slot[i].until < p->until)
                p = &t->slot[i];
    }
    *p = (struct learned_pmtu){.dst = *dst, .vlan = vlan, .mtu = t->port->cfg.mtu};
    return p;
}

/* A message never raises a path MTU; only expiry does. */
enum inet_verdict pmtu_learn(struct pmtu_table *t, const union gid *dst, uint16_t vlan,
                             uint32_t mtu, ns_t now)
{
    struct learned_pmtu *p;

    if (mtu >= t->port->cfg.mtu)
        return INET_IGNORED;
    p = (struct learned_pmtu *)find_pmtu(t, dst, vlan);
    if (!p)
        p = add_pmtu(t, dst, vlan);
    if (p->until <= now)
        p->mtu = t->port->cfg.mtu;
    if (mtu > p->mtu)
        return INET_IGNORED;
    p->mtu = mtu;
    p->until = now + PMTU_LIFETIME;
    return INET_OK;
}

ns_t pmtu_next(const struct pmtu_table *t)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < t->len; i++)
        next = min_of(next, t->slot[i].until);
    return next;
}

void pmtu_timers(struct pmtu_table *t, ns_t now)
{
    for (unsigned i = 0; i < t->len;) {
        if (t->slot[i].until <= now)
            t->slot[i] = t->slot[--t->len];
        else
            i++;
    }
}

/* ---- messages of routers ---- */

/* The MTU that a router without RFC 1191 means: the next plateau below the packet's length (7.1).
 */
static uint32_t plateau_below(uint32_t len)
{
    static const uint16_t plateaus[] = {32000, 17914, 8166, 4352, 2002, 1492, 1006, 508};

    for (size_t i = 0; i < ARRAY_SIZE(plateaus); i++)
        if (plateaus[i] < len)
            return plateaus[i];
    return PMTU_MIN_IPV4;
}

/* True: the message quotes a RoCE packet of this host, which went to *dst. */
static bool quotes_ours_ipv4(const struct inet_rx *rx, union gid *dst)
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

static bool quotes_ours_ipv6(const struct inet_rx *rx, union gid *dst)
{
    const uint8_t *ip = rx->data + ICMP_LEN;
    uint32_t len = rx->len - ICMP_LEN;

    if (len < IPV6_LEN + UDP_LEN || ip[0] >> 4 != 6 || ip[6] != IP_PROTO_UDP ||
        get_be16(ip + IPV6_LEN + 2) != ROCE_UDP_PORT)
        return false;
    memcpy(dst->raw, ip + 24, 16);
    return !memcmp(ip + 8, rx->dst.raw, 16) && inet_is_unicast(dst) && !gid_is_ipv4(dst);
}

/* The owner of the host judges the report, if it wants to. */
static enum inet_verdict report(struct pmtu_table *t, const struct inet_rx *rx, uint32_t header,
                                const union gid *dst, uint32_t mtu, ns_t now)
{
    const struct net_host_config *cfg = &t->port->cfg;
    uint32_t before = ICMP_LEN + header + UDP_LEN;
    struct net_quote quote = {.src = rx->dst,
                              .dst = *dst,
                              .vlan = rx->vlan,
                              .mtu = mtu,
                              .roce = rx->data + before,
                              .len = rx->len - before};

    if (!cfg->ops->too_big)
        return pmtu_learn(t, dst, rx->vlan, mtu, now);
    if (mtu < cfg->mtu)
        cfg->ops->too_big(cfg->ctx, &quote);
    return INET_OK;
}

enum inet_verdict pmtu_unreachable_rx(struct pmtu_table *t, const struct inet_rx *rx, ns_t now)
{
    uint32_t mtu = get_be16(rx->data + 6);
    union gid dst;

    if (rx->data[1] != FRAGMENTATION_NEED) {
        t->port->count.unreachable_rx++;
        return INET_OK;
    }
    t->port->count.too_big_rx++;
    if (!address_is_usable(t->addresses, &rx->dst, rx->vlan) || !quotes_ours_ipv4(rx, &dst))
        return INET_IGNORED;
    if (!mtu)
        mtu = plateau_below(min_of(get_be16(rx->data + ICMP_LEN + 2), t->port->cfg.mtu));
    /* An attacker would report a lower one to slow the host down. */
    return report(t, rx, IPV4_LEN, &dst, max_of(mtu, (uint32_t)PMTU_MIN_IPV4), now);
}

enum inet_verdict pmtu_too_big_rx(struct pmtu_table *t, const struct inet_rx *rx, ns_t now)
{
    uint32_t mtu = get_be32(rx->data + 4);
    union gid dst;

    t->port->count.too_big_rx++;
    if (!address_is_usable(t->addresses, &rx->dst, rx->vlan) || !quotes_ours_ipv6(rx, &dst) ||
        mtu < PMTU_MIN_IPV6) /* RFC 8201 4: such a message is discarded */
        return INET_IGNORED;
    return report(t, rx, IPV6_LEN, &dst, mtu, now);
}
