/* SPDX-License-Identifier: BSD-3-Clause */
/* Acts on the queries of routers and switches: when to answer, and in which version. */
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
#define ROBUSTNESS_MAX 7

static void set_robustness(struct group_querier *q, int protocol, uint8_t qrv)
{
    if (q)
        q->robustness[protocol] = qrv ? min_of(qrv, ROBUSTNESS_MAX) : GROUP_ROBUSTNESS;
}

/* ---- answers ---- */

static ns_t random_delay(struct group_table *t, ns_t most)
{
    most = min_of(most, DELAY_MAX);
    return DELAY_MIN + (most > DELAY_MIN ? net_port_random(t->port, most - DELAY_MIN) : 0);
}

/* Schedules answers for group, or if it is unspecified for all groups of the IP version. An answer
 * that is due sooner keeps its time. */
static void schedule_answers(struct group_table *t, uint16_t vlan, const union gid *group,
                             bool ipv4, bool together, ns_t most, ns_t now)
{
    bool general = inet_is_unspecified(group);
    ns_t at = now + random_delay(t, most);

    for (unsigned i = 0; i < t->len; i++) {
        struct group *g = &t->slot[i];

        if (!g->used || g->vlan != vlan || gid_is_ipv4(&g->addr) != ipv4 || !group_is_member(g) ||
            !group_is_reported(g) || (!general && !gid_eq(&g->addr, group)))
            continue;
        g->answer_at = min_of(g->answer_at, at);
        if (!together)
            at = now + random_delay(t, most);
    }
}

/* The version of the queriers in vlan changed: pending reports are of the old one (RFC 3376 7.2.1).
 */
static void cancel_reports(struct group_table *t, uint16_t vlan, bool ipv4)
{
    for (unsigned i = 0; i < t->len; i++) {
        struct group *g = &t->slot[i];

        if (!g->used || g->vlan != vlan || gid_is_ipv4(&g->addr) != ipv4)
            continue;
        g->changes = 0;
        g->change_at = g->answer_at = NS_NEVER;
        if (!group_is_member(g))
            g->used = false;
    }
}

/* RFC 3376 4.1.1 and 4.1.7, RFC 3810 5.1.3: codes from 1 << (bits - 1) on are floating-point. */
static uint32_t decode_response_code(uint32_t code, unsigned mantissa_bits)
{
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);

    if (code < 1u << (mantissa_bits + 3))
        return code;
    return (mantissa | 1u << mantissa_bits) << ((code >> mantissa_bits & 7) + 3);
}

enum inet_verdict group_igmp_rx(struct group_table *t, const struct inet_rx *rx, ns_t now)
{
    unsigned before = group_igmp_version(t, rx->vlan, now);
    union gid group = gid_from_ipv4(rx->data + 4);
    struct group_querier *q;
    ns_t most;

    t->port->count.igmp_rx++;
    /* Reports of other hosts, and packets from beyond the link. */
    if (rx->data[0] != IGMP_QUERY || rx->hop_limit != 1)
        return INET_IGNORED;
    if ((!inet_is_unspecified(&group) && !gid_is_multicast(&group)) ||
        (rx->len != IGMP_V2_LEN &&
         (rx->len < IGMP_V3_LEN || rx->len < IGMP_V3_LEN + get_be16(rx->data + 10) * 4u)))
        return INET_MALFORMED;
    q = group_querier(t, rx->vlan);
    if (rx->len > IGMP_V2_LEN) {
        set_robustness(q, GROUP_IGMP, rx->data[8] & 7);
        most = decode_response_code(rx->data[1], 4) * 100 * NS_PER_MS;
    } else if (rx->data[1]) {
        if (q)
            q->igmp_v2_until = now + OLD_PRESENT;
        most = rx->data[1] * 100 * NS_PER_MS;
    } else {
        if (q)
            q->igmp_v1_until = now + OLD_PRESENT;
        most = V1_RESPONSE;
    }
    if (group_igmp_version(t, rx->vlan, now) != before)
        cancel_reports(t, rx->vlan, true);
    schedule_answers(t, rx->vlan, &group, true, group_igmp_version(t, rx->vlan, now) == 3, most,
                     now);
    return INET_OK;
}

enum inet_verdict group_mld_rx(struct group_table *t, const struct inet_rx *rx, ns_t now)
{
    unsigned before = group_mld_version(t, rx->vlan, now);
    struct group_querier *q;
    union gid group;
    ns_t most;

    t->port->count.mld_rx++;
    /* RFC 3810 6.2 */
    if (rx->hop_limit != 1 || !rx->router_alert || !gid_is_link_local(&rx->src))
        return INET_IGNORED;
    if (rx->len != MLD_V1_LEN &&
        (rx->len < MLD_V2_LEN || rx->len < MLD_V2_LEN + get_be16(rx->data + 26) * 16u))
        return INET_MALFORMED;
    memcpy(group.raw, rx->data + 8, 16);
    if (!gid_is_zero(&group) && (gid_is_ipv4(&group) || !gid_is_multicast(&group)))
        return INET_MALFORMED;
    q = group_querier(t, rx->vlan);
    if (rx->len > MLD_V1_LEN) {
        set_robustness(q, GROUP_MLD, rx->data[24] & 7);
        most = decode_response_code(get_be16(rx->data + 4), 12) * NS_PER_MS;
    } else {
        if (q)
            q->mld_v1_until = now + OLD_PRESENT;
        most = get_be16(rx->data + 4) * NS_PER_MS;
    }
    if (group_mld_version(t, rx->vlan, now) != before)
        cancel_reports(t, rx->vlan, false);
    schedule_answers(t, rx->vlan, &group, false, group_mld_version(t, rx->vlan, now) == 2, most,
                     now);
    return INET_OK;
}
