/* SPDX-License-Identifier: BSD-3-Clause */
/* GIDs as text, and the GID table: see gid.h. */
#include <arpa/inet.h>
#include <errno.h>

#include "gid.h"

int gid_parse(union gid *g, const char *text)
{
    uint8_t v4[4];

    if (inet_pton(AF_INET, text, v4) == 1) {
        *g = gid_from_ipv4(v4);
        return 0;
    }
    return inet_pton(AF_INET6, text, g->raw) == 1 ? 0 : -EINVAL;
}

void gid_format(char out[46], const union gid *g)
{
    if (gid_is_ipv4(g))
        inet_ntop(AF_INET, g->raw + 12, out, 46);
    else
        inet_ntop(AF_INET6, g->raw, out, 46);
}

union gid gid_link_local(const uint8_t mac[6])
{
    union gid g = {
        .raw = {0xFE, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5]}};

    return g;
}

unsigned gid_rank(const union gid *g)
{
    return gid_is_link_local(g) ? 2 : !gid_is_ipv4(g);
}

static bool gid_entry_matches(const struct gid_entry *a, const struct gid_entry *b)
{
    return gid_eq(&a->gid, &b->gid) && a->type == b->type && a->vlan == b->vlan;
}

int gid_table_add(struct gid_table *t, const struct gid_entry *entry)
{
    unsigned slot = t->len;

    if (gid_table_find(t, &entry->gid, (enum gid_type)entry->type, entry->vlan) >= 0)
        return -EEXIST;
    for (unsigned i = t->len; i-- > 0;)
        if (!t->entry[i].valid && (slot == t->len || !gid_entry_matches(&t->entry[slot], entry)))
            slot = i;
    if (slot == GID_TABLE_MAX)
        return -ENOSPC;
    t->entry[slot] = *entry;
    t->entry[slot].valid = true;
    if (slot == t->len)
        t->len++;
    return (int)slot;
}

int gid_table_find(const struct gid_table *t, const union gid *gid, enum gid_type type,
                   uint16_t vlan)
{
    for (unsigned i = 0; i < t->len; i++) {
        const struct gid_entry *e = &t->entry[i];

        if (gid_eq(&e->gid, gid) && e->type == type && e->vlan == vlan && e->valid)
            return (int)i;
    }
    return -ENOENT;
}

void gid_multicast_mac(const union gid *group, uint8_t mac[6])
{
    if (gid_is_ipv4(group)) {
        memcpy(mac, (const uint8_t[]){0x01, 0x00, 0x5E, group->raw[13] & 0x7F}, 4);
        memcpy(mac + 4, group->raw + 14, 2);
    } else {
        memset(mac, 0x33, 2);
        memcpy(mac + 2, group->raw + 12, 4);
    }
}
