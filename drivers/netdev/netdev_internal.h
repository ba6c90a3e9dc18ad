/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this directory share: reading the kernel's configuration, message by message.
 */
#ifndef UROCE_NETDEV_INTERNAL_H
#define UROCE_NETDEV_INTERNAL_H

#include <libmnl/libmnl.h>
#include <string.h>
#include <sys/socket.h>

#include "netdev.h"

#define NETDEV_RULES_MAX 64

/* A rule (ip-rule(8)) by which packets of the interface's addresses find a table of routes. */
struct netdev_rule {
    uint8_t family;
    uint32_t table;
    int longer_than; /* a route's prefix, or the rule does not take it; -1: any */
    bool by_source;  /* it asks for the packet's source or interface */
};

/* A dump in progress. Addresses come first, then rules, and routes last. */
struct config_reader {
    uint32_t ifindex;
    struct netdev_state *state;
    struct netdev_rule rule[NETDEV_RULES_MAX]; /* by priority */
    unsigned rules;
    /* Of each route: the index of its rule, and the kernel's metric. */
    uint8_t rank[NET_ROUTE_MAX];
    uint32_t metric[NET_ROUTE_MAX];
};

static inline bool netdev_read_gid(union gid *gid, uint8_t family, const struct nlattr *attr)
{
    const uint8_t *bytes = mnl_attr_get_payload(attr);

    if (family == AF_INET && mnl_attr_get_payload_len(attr) == 4)
        *gid = gid_from_ipv4(bytes);
    else if (family == AF_INET6 && mnl_attr_get_payload_len(attr) == 16)
        memcpy(gid->raw, bytes, 16);
    else
        return false;
    return true;
}

/* What a route is to without RTA_DST: everything. */
static inline union gid netdev_any_destination(uint8_t family)
{
    return family == AF_INET ? gid_from_ipv4((const uint8_t[4]){0}) : (union gid){0};
}

/* ---- netdev_route.c ---- */

/* The index of the route to the same destination, or s->routes. */
unsigned netdev_find_route(const struct netdev_state *s, const union gid *dst, uint8_t prefix);
/* For mnl_cb_run: takes a message of a dump of routes. arg: the reader. */
int netdev_on_route(const struct nlmsghdr *h, void *arg);
/* After the dump: a route by a gateway that no packet finds, as a table that is asked earlier has
 * one for its destination, gets that one's gateway. */
void netdev_apply_ranks(struct config_reader *r);

/* ---- netdev_rule.c ---- */

/* The rules of a kernel that has none: the main table alone. */
void netdev_default_rules(struct config_reader *r);
/* For mnl_cb_run: takes a message of a dump of rules. arg: the reader. */
int netdev_on_rule(const struct nlmsghdr *h, void *arg);
/* The index of the first rule that takes a route of a table, or r->rules. */
unsigned netdev_rule_of(const struct config_reader *r, uint8_t family, uint32_t table,
                        uint8_t prefix);

#endif
