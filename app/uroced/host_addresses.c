/* SPDX-License-Identifier: BSD-3-Clause */
/* See host_addresses.h. */
#include "host_addresses.h"

uint32_t host_addresses_interface(const struct host_addresses *h, const union gid *addr)
{
    for (unsigned i = 0; i < h->count; i++) {
        if (gid_eq(&h->address[i].addr, addr))
            return h->address[i].ifindex;
    }
    return 0;
}

static bool is_own(const struct host_addresses_limit *limit, const union gid *addr)
{
    for (unsigned i = 0; i < limit->owns; i++) {
        if (limit->own[i].vlan == VLAN_NONE && gid_eq(&limit->own[i].gid, addr))
            return true;
    }
    return false;
}

/* Keeps an address as long as any interface has it. */
static void keep(struct host_addresses *next, const struct netdev_address *a,
                 const struct netdev_address *all, unsigned count)
{
    const struct netdev_address *first = NULL;

    for (unsigned i = 0; i < count; i++) {
        if (!gid_eq(&all[i].addr, &a->addr))
            continue;
        if (all[i].ifindex == a->ifindex) {
            first = a;
            break;
        }
        if (!first)
            first = &all[i];
    }
    if (!first)
        return;
    next->address[next->count] = *a;
    next->address[next->count++].ifindex = first->ifindex;
}

void host_addresses_choose(struct host_addresses *next, const struct host_addresses *now,
                           const struct netdev_address *all, unsigned count,
                           const struct host_addresses_limit *limit)
{
    next->count = 0;
    next->more = false;
    for (unsigned i = 0; i < now->count; i++)
        keep(next, &now->address[i], all, count);
    for (unsigned rank = 0; rank < GID_RANKS; rank++) {
        for (unsigned i = 0; i < count && !next->more; i++) {
            const union gid *addr = &all[i].addr;

            if (gid_rank(addr) != rank || is_own(limit, addr) ||
                host_addresses_interface(next, addr))
                continue;
            if (next->count < limit->room)
                next->address[next->count++] = all[i];
            else
                next->more = true;
        }
    }
}

static bool is_of_host(const union gid *g)
{
    static const union gid ipv6_loopback = {.raw = {[15] = 1}};

    return gid_is_ipv4(g) ? g->raw[12] == 127 : gid_eq(g, &ipv6_loopback);
}

unsigned host_addresses_outside(struct netdev_address *all, unsigned count)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++)
        if (!is_of_host(&all[i].addr) && !gid_is_link_local(&all[i].addr))
            all[kept++] = all[i];
    return kept;
}
