/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's rules, which choose a table of routes by a packet's source and more. A host with
 * several NICs often has a table for the addresses of each, with a default route by this NIC. A
 * rule counts if it takes RoCE packets of one of the interface's addresses to any destination.
 */
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>

#include "common.h"
#include "encap.h"
#include "inet.h"
#include "netdev_internal.h"

#define RULE_DPORT_MASK 29 /* FRA_DPORT_MASK, since Linux 6.15: with each range */

void netdev_default_rules(struct config_reader *r)
{
    static const uint8_t family[] = {AF_INET, AF_INET6};

    r->rules = 0;
    for (unsigned i = 0; i < ARRAY_SIZE(family); i++)
        r->rule[r->rules++] =
            (struct netdev_rule){.family = family[i], .table = RT_TABLE_MAIN, .longer_than = -1};
}

/* Whether the interface has an address of the network. */
static bool is_source(const struct netdev_state *s, const union gid *network, uint8_t prefix)
{
    for (unsigned i = 0; i < s->addresses; i++)
        if (gid_is_ipv4(&s->address[i].addr) == gid_is_ipv4(network) &&
            inet_same_prefix(&s->address[i].addr, network, prefix))
            return true;
    return false;
}

static bool is_interface(const struct config_reader *r, const char *name)
{
    return if_nametoindex(name) == r->ifindex;
}

static bool has_roce_port(const struct nlattr *attr)
{
    const struct fib_rule_port_range *range = mnl_attr_get_payload(attr);

    return mnl_attr_get_payload_len(attr) >= sizeof(*range) && range->start <= ROCE_UDP_PORT &&
           ROCE_UDP_PORT <= range->end;
}

/* Reads an attribute. False: it is a condition that packets of the interface do not meet, or may
 * not meet: a mark, a user, a tunnel, and whatever a later kernel has. */
static bool read_attribute(const struct config_reader *r, const struct fib_rule_hdr *rule,
                           const struct nlattr *attr, struct netdev_rule *to)
{
    union gid source;

    switch (mnl_attr_get_type(attr)) {
    case FRA_PRIORITY:
    case FRA_PROTOCOL:
    case FRA_FLOW:
    case FRA_PAD:
        return true;
    case FRA_TABLE:
        to->table = mnl_attr_get_u32(attr);
        return true;
    case FRA_SUPPRESS_PREFIXLEN:
        to->longer_than = (int)mnl_attr_get_u32(attr);
        return true;
    case FRA_SRC:
        to->by_source = true;
        return netdev_read_gid(&source, rule->family, attr) &&
               is_source(r->state, &source, rule->src_len);
    case FRA_IIFNAME: /* of what the host itself sends */
        return !strcmp(mnl_attr_get_str(attr), "lo");
    case FRA_OIFNAME:
        to->by_source = true;
        return is_interface(r, mnl_attr_get_str(attr));
    case FRA_IP_PROTO:
        return mnl_attr_get_u8(attr) == IPPROTO_UDP;
    case FRA_DPORT_RANGE:
        return has_roce_port(attr);
    case RULE_DPORT_MASK:
        return mnl_attr_get_u16(attr) == UINT16_MAX;
    }
    return false;
}

int netdev_on_rule(const struct nlmsghdr *h, void *arg)
{
    const struct fib_rule_hdr *rule = mnl_nlmsg_get_payload(h);
    struct config_reader *r = arg;
    struct netdev_rule to = {.family = rule->family, .table = rule->table, .longer_than = -1};
    const struct nlattr *attr;

    if (h->nlmsg_type != RTM_NEWRULE || rule->action != FR_ACT_TO_TBL || rule->dst_len ||
        rule->tos || rule->flags & FIB_RULE_INVERT || r->rules == ARRAY_SIZE(r->rule))
        return MNL_CB_OK;
    mnl_attr_for_each(attr, h, sizeof(*rule))
    {
        if (!read_attribute(r, rule, attr, &to))
            return MNL_CB_OK;
    }
    if (to.table != RT_TABLE_LOCAL)
        r->rule[r->rules++] = to;
    return MNL_CB_OK;
}

unsigned netdev_rule_of(const struct config_reader *r, uint8_t family, uint32_t table,
                        uint8_t prefix)
{
    unsigned i = 0;

    while (i < r->rules && (r->rule[i].family != family || r->rule[i].table != table ||
                            prefix <= r->rule[i].longer_than))
        i++;
    return i;
}
