/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GIDs and the port's GID table (Annex A17.4.1, A17.4.3): each entry an IP address of the port
 * (IPv4 as ::ffff:a.b.c.d) with its RoCE version. Pure. The table is written by the control thread
 * before the workers see it, and read by any thread.
 */
#ifndef UROCE_GID_H
#define UROCE_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

union gid {
    uint8_t raw[16];
    uint64_t word[2];
};

/* Numeric values of enum ibv_gid_type. */
enum gid_type {
    GID_TYPE_IB = 0,
    GID_TYPE_ROCE_V1 = 1,
    GID_TYPE_ROCE_V2 = 2,
};

#define GID_TABLE_MAX 64
#define VLAN_NONE     0xFFFF
#define VLAN_ID_MAX   4094

struct gid_entry {
    union gid gid;
    uint8_t type; /* enum gid_type */
    bool valid;
    uint16_t vlan; /* VLAN id, or VLAN_NONE */
    uint8_t mac[6];
    uint32_t ifindex; /* the kernel interface below, or 0 */
};

struct gid_table {
    unsigned len; /* slots in use or emptied, at most GID_TABLE_MAX */
    struct gid_entry entry[GID_TABLE_MAX];
};

static inline bool gid_eq(const union gid *a, const union gid *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static inline bool gid_is_zero(const union gid *g)
{
    return !g->word[0] && !g->word[1];
}

/* An IPv4-mapped GID. */
static inline bool gid_is_ipv4(const union gid *g)
{
    static const uint8_t prefix[12] = {[10] = 0xFF, [11] = 0xFF};

    return !memcmp(g->raw, prefix, sizeof(prefix));
}

/* ::ffff:a.b.c.d from the four address bytes in network order. */
static inline union gid gid_from_ipv4(const uint8_t addr[4])
{
    union gid g = {.raw = {[10] = 0xFF, [11] = 0xFF, addr[0], addr[1], addr[2], addr[3]}};

    return g;
}

/* A multicast GID: FFxx::/8, or an IPv4-mapped 224.0.0.0/4. */
static inline bool gid_is_multicast(const union gid *g)
{
    return gid_is_ipv4(g) ? (g->raw[12] & 0xF0) == 0xE0 : g->raw[0] == 0xFF;
}

/* fe80::/10, or an IPv4-mapped 169.254.0.0/16. */
static inline bool gid_is_link_local(const union gid *g)
{
    return gid_is_ipv4(g) ? g->raw[12] == 169 && g->raw[13] == 254
                          : g->raw[0] == 0xFE && (g->raw[1] & 0xC0) == 0x80;
}

/* fe80:: and the EUI-64 of the MAC (RFC 4291, appendix A). */
union gid gid_link_local(const uint8_t mac[6]);

/* The place of an address among those of a port, best first: 0 routable IPv4, 1 routable IPv6,
 * 2 link-local. */
#define GID_RANKS 3
unsigned gid_rank(const union gid *g);

/* The MAC that frames to a multicast GID carry: 01:00:5E and 23 bits, or 33:33 and 32 bits. */
void gid_multicast_mac(const union gid *group, uint8_t mac[6]);

/* Parses "10.0.0.1", "fe80::1" or "::ffff:10.0.0.1". Returns 0 or -EINVAL. */
int gid_parse(union gid *g, const char *text);

/* Writes the address as people write it (IPv4 dotted, IPv6 compressed) into out[46]. */
void gid_format(char out[46], const union gid *g);

/* Adds an entry, valid, in the emptied slot that it had before, for the sake of connections that
 * know its index; or in the first emptied one, or behind the last. Returns its index, -EEXIST (same
 * gid, type and vlan), -ENOSPC. */
int gid_table_add(struct gid_table *t, const struct gid_entry *entry);

/* The index of a valid entry with this address, type and VLAN, or -ENOENT. */
int gid_table_find(const struct gid_table *t, const union gid *gid, enum gid_type type,
                   uint16_t vlan);

#endif
