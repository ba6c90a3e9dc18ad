/* SPDX-License-Identifier: BSD-3-Clause */
/* Path MTUs that routers report (RFC 1191, RFC 8201), if the report is about a RoCE packet of the
 * host. */
#ifndef UROCE_NET_PMTU_H
#define UROCE_NET_PMTU_H

#include "address.h"
#include "net_port.h"

#define PMTU_MAX 256

struct learned_pmtu {
    union gid dst;
    uint16_t vlan; /* the same address in another one is another host */
    uint32_t mtu;
    ns_t until;
};

struct pmtu_table {
    struct net_port *port;
    const struct address_table *addresses;
    unsigned len;
    struct learned_pmtu slot[PMTU_MAX];
};

/* ICMP destination unreachable; ICMPv6 packet too big. */
enum inet_verdict pmtu_unreachable_rx(struct pmtu_table *t, const struct inet_rx *rx, ns_t now);
enum inet_verdict pmtu_too_big_rx(struct pmtu_table *t, const struct inet_rx *rx, ns_t now);

/* Lowers the MTU to dst for a while. */
enum inet_verdict pmtu_learn(struct pmtu_table *t, const union gid *dst, uint16_t vlan,
                             uint32_t mtu, ns_t now);

/* The MTU to dst: the port's, or less. */
uint32_t pmtu_of(const struct pmtu_table *t, const union gid *dst, uint16_t vlan, ns_t now);

ns_t pmtu_next(const struct pmtu_table *t);
void pmtu_timers(struct pmtu_table *t, ns_t now);

#endif
