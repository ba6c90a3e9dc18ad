/* SPDX-License-Identifier: BSD-3-Clause */
/* What queriers say: when to answer, and which version they speak. */
#include "encap_layout.h"
#include "group_internal.h"

#define IGMP_QUERY     0x11
#define IGMP_V2_LEN    8
#define IGMP_V3_LEN    12
#define MLD_V1_LEN     24
#define MLD_V2_LEN     28
#define OLD_PRESENT    (260 * NS_PER_SEC) /* RFC 3376 8.12, RFC 3810 9.12 with their defaults */
#define V1_RESPONSE    (10 * NS_PER_SEC)
#define DELAY_MIN      (10 * NS_PER_MS) /* bounds what a flood of queries sets off */
#define DELAY_MAX      (3600 * NS_PER_SEC)
#define ROBUSTNESS     2
#define ROBUSTNESS_MAX 7

enum { IGMP, MLD };

/* ---- what is remembered ---- */

static struct group_link *find_link(const struct net_host *h, uint16_t vlan)
{
    for (unsigned i = 0; i < GROUP_LINKS; i++)
        if (h->groups.link[i].used && h->groups.link[i].vlan == vlan)
            return (struct group_link *)&h->groups.link[i];
    return NULL;
}

/* Whether the host is in the VLAN at all. */
static bool in_vlan(const struct net_host *h, uint16_t vlan)
{
    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++)
        if (h->groups.slot[i].used && h->groups.slot[i].vlan == vlan)
            return true;
    return address_in_vlan(h, vlan);
}

/* NULL: the host is not in that VLAN, or in too many: then the present versions are spoken. */
static struct group_link *get_link(struct net_host *h, uint16_t vlan)
{
    struct group_link *l = find_link(h, vlan);

    if (l || !in_vlan(h, vlan))
        return l;
    for (unsigned i = 0; i < GROUP_LINKS && !l; i++)
        if (!h->groups.link[i].used || !in_vlan(h, h->groups.link[i].vlan))
            l = &h->groups.link[i];
    if (l)
        *l =
            (struct group_link){.used = true, .vlan = vlan, .robustness = {ROBUSTNESS, ROBUSTNESS}};
    return l;
}

uint8_t group_robustness(const struct net_host *h, const struct group *g)
{
    const struct group_link *l = find_link(h, g->vlan);

    return l ? l->robustness[gid_is_ipv4(&g->addr) ? IGMP : MLD] : ROBUSTNESS;
}

unsigned group_igmp_version(const struct net_host *h, uint16_t vlan, ns_t now)
{
    const struct group_link *l = find_link(h, vlan);

    if (l && now < l->igmp_v1_until)
        return 1;
    return l && now < l->igmp_v2_until ? 2 : 3;
}

unsigned group_mld_version(const struct net_host *h, uint16_t vlan, ns_t now)
{
    const struct group_link *l = find_link(h, vlan);

    return l && now < l->mld_v1_until ? 1 : 2;
}

static void set_robustness(struct group_link *l, int protocol, uint8_t qrv)
{
    if (l)
        l->robustness[protocol] = qrv ? min_of(qrv, ROBUSTNESS_MAX) : ROBUSTNESS;
}

/* ---- answers ---- */

static ns_t random_delay(struct net_host *h, ns_t most)
{
    most = min_of(most, DELAY_MAX);
    return DELAY_MIN + (most > DELAY_MIN ? host_random(h, most - DELAY_MIN) : 0);
}

/* Schedules answers for group, or if it is unspecified for all of the IP version. One that was to
 * come sooner stays. */
static void schedule(struct net_host *h, uint16_t vlan, const union gid *group, bool ipv4,
                     bool together, ns_t most, ns_t now)
{
    bool general = inet_is_unspecified(group);
    ns_t at = now + random_delay(h, most);

    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        struct group *g = &h->groups.slot[i];

        if (!g->used || g->vlan != vlan || gid_is_ipv4(&g->addr) != ipv4 || !group_is_member(g) ||
            !group_is_reported(g) || (!general && !gid_eq(&g->addr, group)))
            continue;
        g->answer_at = min_of(g->answer_at, at);
        if (!together)
            at = now + random_delay(h, most);
    }
}

/* The version spoken in vlan changed: what is pending was meant for the other (RFC 3376 7.2.1). */
static void cancel(struct net_host *h, uint16_t vlan, bool ipv4)
{
    for (unsigned i = 0; i < ARRAY_SIZE(h->groups.slot); i++) {
        struct group *g = &h->groups.slot[i];

        if (!g->used || g->vlan != vlan || gid_is_ipv4(&g->addr) != ipv4)
            continue;
        g->changes = 0;
        g->change_at = g->answer_at = NS_NEVER;
        if (!group_is_member(g))
            g->used = false;
    }
}

/* RFC 3376 4.1.1 and 4.1.7, RFC 3810 5.1.3: codes from 1 << (bits - 1) on are floating-point. */
static uint32_t decode(uint32_t code, unsigned mantissa_bits)
{
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);

    if (code < 1u << (mantissa_bits + 3))
        return code;
    return (mantissa | 1u << mantissa_bits) << ((code >> mantissa_bits & 7) + 3);
}

enum inet_verdict group_igmp_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    unsigned before = group_igmp_version(h, rx->vlan, now);
    union gid group = gid_from_ipv4(rx->data + 4);
    struct group_link *l;
    ns_t most;

    h->count.igmp_rx++;
    /* Reports of others, and what comes from beyond the link. */
    if (rx->data[0] != IGMP_QUERY || rx->hop_limit != 1)
        return INET_IGNORED;
    if ((!inet_is_unspecified(&group) && !gid_is_multicast(&group)) ||
        (rx->len != IGMP_V2_LEN &&
         (rx->len < IGMP_V3_LEN || rx->len < IGMP_V3_LEN + get_be16(rx->data + 10) * 4u)))
        return INET_MALFORMED;
    l = get_link(h, rx->vlan);
    if (rx->len > IGMP_V2_LEN) {
        set_robustness(l, IGMP, rx->data[8] & 7);
        most = decode(rx->data[1], 4) * 100 * NS_PER_MS;
    } else if (rx->data[1]) {
        if (l)
            l->igmp_v2_until = now + OLD_PRESENT;
        most = rx->data[1] * 100 * NS_PER_MS;
    } else {
        if (l)
            l->igmp_v1_until = now + OLD_PRESENT;
        most = V1_RESPONSE;
    }
    if (group_igmp_version(h, rx->vlan, now) != before)
        cancel(h, rx->vlan, true);
    schedule(h, rx->vlan, &group, true, group_igmp_version(h, rx->vlan, now) == 3, most, now);
    return INET_OK;
}

enum inet_verdict group_mld_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    unsigned before = group_mld_version(h, rx->vlan, now);
    struct group_link *l;
    union gid group;
    ns_t most;

    h->count.mld_rx++;
    /* RFC 3810 6.2 */
    if (rx->hop_limit != 1 || !rx->router_alert || !inet_is_link_local(&rx->src))
        return INET_IGNORED;
    if (rx->len != MLD_V1_LEN &&
        (rx->len < MLD_V2_LEN || rx->len < MLD_V2_LEN + get_be16(rx->data + 26) * 16u))
        return INET_MALFORMED;
    memcpy(group.raw, rx->data + 8, 16);
    if (!gid_is_zero(&group) && (gid_is_ipv4(&group) || !gid_is_multicast(&group)))
        return INET_MALFORMED;
    l = get_link(h, rx->vlan);
    if (rx->len > MLD_V1_LEN) {
        set_robustness(l, MLD, rx->data[24] & 7);
        most = decode(get_be16(rx->data + 4), 12) * NS_PER_MS;
    } else {
        if (l)
            l->mld_v1_until = now + OLD_PRESENT;
        most = get_be16(rx->data + 4) * NS_PER_MS;
    }
    if (group_mld_version(h, rx->vlan, now) != before)
        cancel(h, rx->vlan, false);
    schedule(h, rx->vlan, &group, false, group_mld_version(h, rx->vlan, now) == 2, most, now);
    return INET_OK;
}
