/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "neighbour.h"

static int find(const struct neighbour_table *t, const union gid *addr)
{
    for (unsigned i = 0; i < t->len; i++)
        if (gid_eq(&t->entry[i].addr, addr))
            return (int)i;
    return -ENOENT;
}

int neighbour_add(struct neighbour_table *t, const union gid *addr, const uint8_t mac[6])
{
    int i = find(t, addr);

    if (i < 0) {
        if (t->len == NEIGHBOUR_MAX)
            return -ENOSPC;
        i = (int)t->len++;
        t->entry[i].addr = *addr;
    }
    memcpy(t->entry[i].mac, mac, 6);
    return 0;
}

void neighbour_multicast_mac(const union gid *group, uint8_t mac[6])
{
    if (gid_is_ipv4(group)) {
        memcpy(mac, (const uint8_t[]){0x01, 0x00, 0x5E, group->raw[13] & 0x7F}, 4);
        memcpy(mac + 4, group->raw + 14, 2);
    } else {
        memset(mac, 0x33, 2);
        memcpy(mac + 2, group->raw + 12, 4);
    }
}

int neighbour_resolve(const struct neighbour_table *t, const union gid *addr, uint8_t mac[6])
{
    int i;

    if (gid_is_multicast(addr)) {
        neighbour_multicast_mac(addr, mac);
        return 0;
    }
    i = find(t, addr);
    if (i < 0)
        return -EHOSTUNREACH;
    memcpy(mac, t->entry[i].mac, 6);
    return 0;
}
