/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends membership reports, in the version of the queriers of the VLAN. */
#include "encap_layout.h"
#include "group_internal.h"

#define IGMP_REPORT_V1 0x12
#define IGMP_REPORT_V2 0x16
#define IGMP_LEAVE     0x17
#define IGMP_REPORT_V3 0x22
#define MLD_REPORT_V1  131
#define MLD_DONE       132
#define MLD_REPORT_V2  143

enum record_type { MODE_IS_EXCLUDE = 2, CHANGE_TO_INCLUDE = 3, CHANGE_TO_EXCLUDE = 4 };

#define REPORT_HEADER   8  /* of IGMPv3 and MLDv2 */
#define RECORD_IPV4     8  /* without sources */
#define RECORD_IPV6     20 /* without sources */
#define OLD_IPV4        8
#define OLD_IPV6        24
#define TOS_NET_CTL     0xC0 /* RFC 3376 4 */
#define UNSOLICITED     NS_PER_SEC
#define UNSOLICITED_OLD (10 * NS_PER_SEC)

static const union gid all_routers_v4 = {.raw = {[10] = 0xFF, 0xFF, 224, 0, 0, 2}};
static const union gid all_igmpv3 = {.raw = {[10] = 0xFF, 0xFF, 224, 0, 0, 22}};
static const union gid all_routers_v6 = {.raw = {0xFF, 2, [15] = 2}};
static const union gid all_mldv2 = {.raw = {0xFF, 2, [15] = 0x16}};

/* Where reports of vlan come from: MLD wants a link-local address, or none (RFC 3810 5.2.13). */
static struct inet_tx report_tx(const struct group_table *t, uint16_t vlan, const union gid *dst)
{
    bool ipv4 = gid_is_ipv4(dst);
    struct inet_tx tx = {.vlan = vlan,
                         .dst = *dst,
                         .proto = ipv4 ? IP_PROTO_IGMP : IP_PROTO_ICMPV6,
                         .hop_limit = 1,
                         .traffic_class = ipv4 ? TOS_NET_CTL : 0,
                         .router_alert = true};
    static const union gid link_local = {.raw = {0xFE, 0x80}};

    if (!address_source(t->addresses, NULL, ipv4 ? dst : &link_local, vlan, &tx.src) ||
        (!ipv4 && !gid_is_link_local(&tx.src)))
        tx.src = inet_unspecified(ipv4);
    gid_multicast_mac(dst, tx.dmac);
    return tx;
}

static void send_message(struct group_table *t, const struct inet_tx *tx, const uint8_t *message,
                         uint32_t len)
{
    if (!net_port_send_ip(t->port, tx, message, len))
        return;
    if (tx->proto == IP_PROTO_IGMP)
        t->port->count.igmp_tx++;
    else
        t->port->count.mld_tx++;
}

/* ---- one group a packet: IGMPv1, IGMPv2, MLDv1 ---- */

static void report_old(struct group_table *t, const struct group *g, unsigned version)
{
    bool ipv4 = gid_is_ipv4(&g->addr), member = group_is_member(g);
    uint8_t message[OLD_IPV6] = {0};
    struct inet_tx tx;

    if (ipv4 && version == 1 && !member)
        return; /* there is no such message */
    if (ipv4) {
        tx = report_tx(t, g->vlan, member ? &g->addr : &all_routers_v4);
        message[0] = !member ? IGMP_LEAVE : version == 1 ? IGMP_REPORT_V1 : IGMP_REPORT_V2;
        memcpy(message + 4, g->addr.raw + 12, 4);
    } else {
        tx = report_tx(t, g->vlan, member ? &g->addr : &all_routers_v6);
        message[0] = member ? MLD_REPORT_V1 : MLD_DONE;
        memcpy(message + 8, g->addr.raw, 16);
    }
    send_message(t, &tx, message, ipv4 ? OLD_IPV4 : OLD_IPV6);
}

/* ---- many groups a packet: IGMPv3, MLDv2 ---- */

struct report {
    struct inet_tx tx;
    uint32_t room, len;
    uint16_t records;
    uint8_t message[INET_FRAME_ROOM];
};

static void report_begin(const struct group_table *t, struct report *r, uint16_t vlan, bool ipv4)
{
    r->tx = report_tx(t, vlan, ipv4 ? &all_igmpv3 : &all_mldv2);
    r->room = inet_message_room(&r->tx, t->port->cfg.mtu);
    r->len = REPORT_HEADER;
    r->records = 0;
    memset(r->message, 0, REPORT_HEADER);
    r->message[0] = ipv4 ? IGMP_REPORT_V3 : MLD_REPORT_V2;
}

static void report_end(struct group_table *t, struct report *r)
{
    put_be16(r->message + 6, r->records);
    if (r->records)
        send_message(t, &r->tx, r->message, r->len);
    r->len = REPORT_HEADER;
    r->records = 0;
}

static void report_add(struct group_table *t, struct report *r, const struct group *g,
                       enum record_type type)
{
    bool ipv4 = gid_is_ipv4(&g->addr);
    uint32_t size = ipv4 ? RECORD_IPV4 : RECORD_IPV6;
    uint8_t *record;

    if (r->len + size > r->room)
        report_end(t, r);
    record = r->message + r->len;
    memset(record, 0, size);
    record[0] = (uint8_t)type;
    if (ipv4)
        memcpy(record + 4, g->addr.raw + 12, 4);
    else
        memcpy(record + 4, g->addr.raw, 16);
    r->len += size;
    r->records++;
}

/* ---- reports that are due ---- */

static enum record_type record_of(const struct group *g, ns_t now)
{
    if (g->change_at > now)
        return MODE_IS_EXCLUDE;
    return group_is_member(g) ? CHANGE_TO_EXCLUDE : CHANGE_TO_INCLUDE;
}

/* A report of g went out: a change is also the answer to a query. */
static void was_reported(struct group_table *t, struct group *g, bool old, ns_t now)
{
    g->answer_at = NS_NEVER;
    if (g->change_at > now)
        return;
    g->changes--;
    if (old && !group_is_member(g))
        g->changes = 0; /* one message says that the host leaves */
    g->change_at = NS_NEVER;
    if (g->changes)
        g->change_at = now + 1 + net_port_random(t->port, old ? UNSOLICITED_OLD : UNSOLICITED);
    else if (!group_is_member(g))
        g->used = false;
}

/* Sends what is due in a VLAN, in as few packets as possible, and sets the timers anew. */
static void send_due_reports(struct group_table *t, uint16_t vlan, bool ipv4, ns_t now)
{
    unsigned version = ipv4 ? group_igmp_version(t, vlan, now) : group_mld_version(t, vlan, now);
    bool old = version < (ipv4 ? 3 : 2);
    struct report r;

    report_begin(t, &r, vlan, ipv4);
    for (unsigned i = 0; i < t->len; i++) {
        struct group *g = &t->slot[i];

        if (!g->used || g->vlan != vlan || gid_is_ipv4(&g->addr) != ipv4 ||
            min_of(g->change_at, g->answer_at) > now)
            continue;
        if (old)
            report_old(t, g, version);
        else
            report_add(t, &r, g, record_of(g, now));
        was_reported(t, g, old, now);
    }
    report_end(t, &r);
}

ns_t group_next(const struct group_table *t)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < t->len; i++) {
        const struct group *g = &t->slot[i];

        if (g->used)
            next = min_of(next, min_of(g->change_at, g->answer_at));
    }
    return next;
}

void group_timers(struct group_table *t, ns_t now)
{
    for (unsigned i = 0; i < t->len; i++) {
        struct group *g = &t->slot[i];

        if (g->used && min_of(g->change_at, g->answer_at) <= now)
            send_due_reports(t, g->vlan, gid_is_ipv4(&g->addr), now);
    }
}
