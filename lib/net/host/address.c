/* SPDX-License-Identifier: BSD-3-Clause */
/* See address.h. */
#include "address.h"

#include "inet.h"

bool address_is_quiet(const struct address_table *t, const struct own_address *o)
{
    return t->quiet || o->a.quiet;
}

struct own_address *address_find(const struct address_table *t, const union gid *addr,
                                 uint16_t vlan)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct own_address *o = &t->slot[i];

        if (o->used && o->a.vlan == vlan && gid_eq(&o->a.addr, addr))
            return (struct own_address *)o;
    }
    return NULL;
}

bool address_is_used(const struct address_table *t, const struct own_address *o)
{
    return o->state == NET_PREFERRED || (t->optimistic && o->state == NET_TENTATIVE && !o->doubted);
}

bool address_is_usable(const struct address_table *t, const union gid *addr, uint16_t vlan)
{
    const struct own_address *o = address_find(t, addr, vlan);

    return o && address_is_used(t, o);
}

bool address_in_vlan(const struct address_table *t, uint16_t vlan)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++)
        if (t->slot[i].used && t->slot[i].a.vlan == vlan)
            return true;
    return false;
}

bool address_is_awaited(const struct address_table *t, bool ipv4, uint16_t vlan)
{
    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct own_address *o = &t->slot[i];

        if (o->used && o->a.vlan == vlan && o->state == NET_TENTATIVE &&
            gid_is_ipv4(&o->a.addr) == ipv4)
            return true;
    }
    return false;
}

/* ---- the best source address ---- */

enum {
    SCOPE_DIFFERS = 1,
    SCOPE_MATCHES,
    NETWORK_MATCHES,
    ADDRESS_MATCHES,
};

/* How well the address suits dst; wanted or NULL. */
static int suitability(const struct own_address *o, const union gid *wanted, const union gid *dst)
{
    if (wanted && gid_eq(&o->a.addr, wanted))
        return ADDRESS_MATCHES;
    if (inet_same_prefix(&o->a.addr, dst, o->a.prefix))
        return NETWORK_MATCHES;
    return gid_is_link_local(&o->a.addr) == gid_is_link_local(dst) ? SCOPE_MATCHES : SCOPE_DIFFERS;
}

/* A request from a tentative address may teach the neighbours a wrong MAC (RFC 4429 3.2), so a
 * preferred address is better; but not one of another IPv4 network, as hosts would not answer. */
static int grade_of(const struct address_table *t, const struct own_address *o,
                    const union gid *wanted, const union gid *dst)
{
    bool ipv4 = gid_is_ipv4(dst);
    int grade;

    if (!address_is_used(t, o) || gid_is_ipv4(&o->a.addr) != ipv4)
        return 0;
    grade = suitability(o, wanted, dst);
    return o->state == NET_PREFERRED && (!ipv4 || grade >= NETWORK_MATCHES)
               ? ADDRESS_MATCHES + grade
               : grade;
}

bool address_source(const struct address_table *t, const union gid *wanted, const union gid *dst,
                    uint16_t vlan, union gid *src)
{
    int best = 0;

    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct own_address *o = &t->slot[i];
        int grade = o->used && o->a.vlan == vlan ? grade_of(t, o, wanted, dst) : 0;

        if (grade > best) {
            best = grade;
            *src = o->a.addr;
        }
    }
    return best;
}

/* ---- connected networks ---- */

bool address_is_connected(const struct own_address *o, uint16_t vlan)
{
    return o->used && o->a.vlan == vlan && o->state != NET_DUPLICATE;
}

int address_connected_bits(const struct address_table *t, const union gid *addr, uint16_t vlan)
{
    int best = -1;

    for (unsigned i = 0; i < NET_ADDRESS_MAX; i++) {
        const struct own_address *o = &t->slot[i];

        if (address_is_connected(o, vlan) && inet_same_prefix(&o->a.addr, addr, o->a.prefix))
            best = max_of(best, (int)o->a.prefix);
    }
    return best;
}

bool address_on_link(const struct address_table *t, const union gid *addr, uint16_t vlan)
{
    return gid_is_link_local(addr) || address_connected_bits(t, addr, vlan) >= 0;
}
