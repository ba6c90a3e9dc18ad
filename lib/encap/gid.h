/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * GIDs and the port's GID table (Annex A17.4.1, A17.4.3): each entry an IP address of the port
 * (IPv4 as an IPv4-mapped IPv6 address) with its RoCE version. Pure. The table is written by the
 * control thread before the workers see it, and read by any thread.
 */
#ifndef UROCE_GID_H
#define UROCE_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** A GID in network order, as bytes and, for comparison, as words. */
union gid {
    uint8_t raw[16];
    uint64_t word[2];
};

/** Numeric values of enum ibv_gid_type. */
enum gid_type {
    GID_TYPE_IB = 0,
    GID_TYPE_ROCE_V1 = 1,
    GID_TYPE_ROCE_V2 = 2,
};

#define GID_TABLE_MAX 64
#define VLAN_NONE     0xFFFF
#define VLAN_ID_MAX   4094

/** An entry of the port's GID table. */
struct gid_entry {
    union gid gid;
    uint8_t type; /**< enum gid_type */
    bool valid;
    uint16_t vlan; /**< VLAN id, or VLAN_NONE */
    uint8_t mac[6];
    uint32_t ifindex; /**< the kernel interface below, or 0 */
};

/** A port's GID table. An index stays an address's as long as the entry is valid. */
struct gid_table {
    unsigned len; /**< slots in use or emptied, at most GID_TABLE_MAX */
    struct gid_entry entry[GID_TABLE_MAX];
};

/**
 * Whether two GIDs are equal.
 *
 * @param a  A GID.
 * @param b  Another.
 * @return  True when all bytes are equal.
 */
static inline bool gid_eq(const union gid *a, const union gid *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/**
 * Whether a GID is unspecified.
 *
 * @param g  The GID.
 * @return  True when all bytes are zero.
 */
static inline bool gid_is_zero(const union gid *g)
{
    return !g->word[0] && !g->word[1];
}

/**
 * Whether a GID is an IPv4-mapped address.
 *
 * @param g  The GID.
 * @return  True when its first 12 bytes are those of the IPv4-mapped prefix.
 */
static inline bool gid_is_ipv4(const union gid *g)
{
    static const uint8_t prefix[12] = {[10] = 0xFF, [11] = 0xFF};

    return !memcmp(g->raw, prefix, sizeof(prefix));
}

/**
 * Make the IPv4-mapped GID of an address.
 *
 * @param addr  The four address bytes in network order.
 * @return  The GID.
 */
static inline union gid gid_from_ipv4(const uint8_t addr[4])
{
    union gid g = {.raw = {[10] = 0xFF, [11] = 0xFF, addr[0], addr[1], addr[2], addr[3]}};

    return g;
}

/**
 * Whether a GID is a multicast one.
 *
 * @param g  The GID.
 * @return  True for FF00::/8 and for an IPv4-mapped 224.0.0.0/4.
 */
static inline bool gid_is_multicast(const union gid *g)
{
    return gid_is_ipv4(g) ? (g->raw[12] & 0xF0) == 0xE0 : g->raw[0] == 0xFF;
}

/**
 * Whether a GID is link-local.
 *
 * @param g  The GID.
 * @return  True for fe80::/10 and for an IPv4-mapped 169.254.0.0/16.
 */
static inline bool gid_is_link_local(const union gid *g)
{
    return gid_is_ipv4(g) ? g->raw[12] == 169 && g->raw[13] == 254
                          : g->raw[0] == 0xFE && (g->raw[1] & 0xC0) == 0x80;
}

/**
 * Make the link-local GID of a MAC (RFC 4291, appendix A).
 *
 * @param mac  The MAC.
 * @return  fe80:: and the EUI-64 of the MAC.
 */
union gid gid_link_local(const uint8_t mac[6]);

/** The place of an address among those of a port, best first: 0 routable IPv4, 1 routable IPv6,
 * 2 link-local. */
#define GID_RANKS 3

/**
 * The position of an address among those of a port, the best first.
 *
 * @param g  The GID.
 * @return  0: routable IPv4; 1: routable IPv6; 2: link-local. Less than GID_RANKS.
 */
unsigned gid_rank(const union gid *g);

/**
 * The MAC that frames to a multicast GID carry.
 *
 * @param group  A multicast GID.
 * @param mac  Set to 01:00:5E and 23 bits of an IPv4 group, or 33:33 and 32 bits of an IPv6 one.
 */
void gid_multicast_mac(const union gid *group, uint8_t mac[6]);

/**
 * Parse an IPv4 or IPv6 address, as "10.0.0.1" or "fe80::1".
 *
 * @param g  Set on success.
 * @param text  The text, terminated.
 * @return  0; -EINVAL: the text is no address.
 */
int gid_parse(union gid *g, const char *text);

/**
 * Write an address as people write it: IPv4 dotted, IPv6 compressed.
 *
 * @param out  The text, terminated.
 * @param g  The GID.
 */
void gid_format(char out[46], const union gid *g);

/**
 * Add an entry. It gets the emptied slot that it had before, for the sake of connections that know
 * its index; or the first emptied one, or the one behind the last. The control thread.
 *
 * @param t  The table.
 * @param entry  The entry, copied; it is valid from then on, whatever its own field says.
 * @return  The index; -EEXIST: a valid entry has the same GID, type and VLAN; -ENOSPC: the table is
 *     full.
 */
int gid_table_add(struct gid_table *t, const struct gid_entry *entry);

/**
 * Find a valid entry.
 *
 * @param t  The table.
 * @param gid  The address.
 * @param type  Its RoCE version.
 * @param vlan  The VLAN id, or VLAN_NONE.
 * @return  The index; -ENOENT: there is none.
 */
int gid_table_find(const struct gid_table *t, const union gid *gid, enum gid_type type,
                   uint16_t vlan);

#endif
