/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Port numbers of the port spaces, and service IDs: which id has which, by the rules of the
 * kernel's rdma_cm, and which listener a request is for.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm_state.h"

#define FIRST_UNPRIVILEGED 1024

/* Requests are compared with the ids that listen: one for each address. A program may have
 * thousands of others, which connect, or are bound. Those that leave their number to others are not
 * compared with each other. */
enum { LISTENERS, REUSERS, OTHERS, LISTS };

/* How many of these a request is compared with: one that is about to listen was bound just now. */
#define NEWEST 8

/* At most this many of the numbers in use are asked whether they can have one more id, so that one
 * that finds none costs others little time. */
#define SHARED_TRIES 1024u

/* The ids of one service ID. */
struct cm_ports_row {
    struct cm_hash_node node;
    uint64_t service_id;
    LIST_HEAD(, cm_id) ids[LISTS];
    struct cm_share_list shares;
};

/* Beside these: a slot, a place in the heap of timers, buckets of four hash tables (which grow to
 * two for each id), and what the allocator adds to three blocks. */
_Static_assert(sizeof(struct cm_id) + sizeof(struct cm_ports_row) + sizeof(struct cm_share) +
                       2 * (sizeof(struct cm_slot) + (1 + 4) * sizeof(void *)) + 3 * 16 <=
                   CM_ID_BYTES,
               "an id takes no more than cm.h says");

int cm_ports_init(struct cm *cm)
{
    return cm_hash_init(&cm->ports);
}

void cm_ports_destroy(struct cm *cm)
{
    cm_hash_destroy(&cm->ports);
}

/* ---- rows ---- */

/* A bit for each number of the port space, set while ids have it; NULL: there are no numbers. */
static uint64_t *taken_of(struct cm *cm, enum ip_cm_port_space ps)
{
    switch (ps) {
    case IP_CM_PS_IPOIB:
        return cm->taken[0];
    case IP_CM_PS_TCP:
        return cm->taken[1];
    case IP_CM_PS_UDP:
        return cm->taken[2];
    case IP_CM_PS_IB:
        return cm->taken[3];
    default:
        return NULL;
    }
}

static uint64_t hash_of(const struct cm *cm, uint64_t service_id)
{
    return cm_hash_of(cm->config.secret, &service_id, 1);
}

static struct cm_ports_row *find_row(const struct cm *cm, uint64_t service_id)
{
    uint64_t hash = hash_of(cm, service_id);

    for (struct cm_hash_node *n = cm_hash_first(&cm->ports, hash); n; n = cm_hash_next(n)) {
        struct cm_ports_row *row = container_of(n, struct cm_ports_row, node);

        if (row->service_id == service_id)
            return row;
    }
    return NULL;
}

/* Whether it is a port number of the range that is given. */
static bool is_given(const struct cm_id *id, uint64_t service_id)
{
    uint16_t number = (uint16_t)service_id;

    return id->ps != IP_CM_PS_NONE && number >= id->cm->config.first_port &&
           number <= id->cm->config.last_port;
}

/* Notes whether a port number has ids. */
static void mark(struct cm *cm, uint64_t service_id, bool taken)
{
    uint64_t *numbers = taken_of(cm, ip_cm_port_space_of(service_id));
    uint16_t number = (uint16_t)service_id;

    if (!numbers)
        return;
    if (taken)
        numbers[number / 64] |= UINT64_C(1) << number % 64;
    else
        numbers[number / 64] &= ~(UINT64_C(1) << number % 64);
}

static void drop_empty(struct cm *cm, struct cm_ports_row *row)
{
    for (unsigned i = 0; i < LISTS; i++)
        if (!LIST_EMPTY(&row->ids[i]))
            return;
    cm_hash_remove(&cm->ports, &row->node);
    mark(cm, row->service_id, false);
    free(row);
}

static void insert(struct cm_id *id)
{
    LIST_INSERT_HEAD(&id->row->ids[id->bind_flags & CM_BIND_REUSE ? REUSERS : OTHERS], id, in_row);
}

static int add_to_row(struct cm_id *id, uint64_t service_id)
{
    struct cm_ports_row *row = find_row(id->cm, service_id);

    if (!row) {
        row = calloc(1, sizeof(*row));
        if (!row)
            return -ENOMEM;
        row->service_id = service_id;
        cm_hash_add(&id->cm->ports, &row->node, hash_of(id->cm, service_id));
        mark(id->cm, service_id, true);
    }
    if (cm_share_add(&row->shares, id->user, is_given(id, service_id))) {
        drop_empty(id->cm, row);
        return -ENOMEM;
    }
    id->row = row;
    id->service_id = service_id;
    insert(id);
    return 0;
}

void cm_ports_unbind(struct cm_id *id)
{
    struct cm_ports_row *row = id->row;

    if (!row)
        return;
    LIST_REMOVE(id, in_row);
    id->row = NULL;
    cm_share_remove(&row->shares, id->user);
    drop_empty(id->cm, row);
}

/* ---- addresses ---- */

static bool is_wildcard(const union gid *gid)
{
    union gid any_v4 = gid_from_ipv4((const uint8_t[4]){0});

    return gid_is_zero(gid) || gid_eq(gid, &any_v4);
}

static bool same_family(const union gid *a, const union gid *b)
{
    return gid_is_ipv4(a) == gid_is_ipv4(b);
}

/* Whether both can mean the same network. */
static bool places_meet(const struct cm_addr *a, const struct cm_addr *b)
{
    return (a->vlan == b->vlan || a->vlan == CM_VLAN_ANY || b->vlan == CM_VLAN_ANY) &&
           (a->port == b->port || a->port == CM_PORT_ANY || b->port == CM_PORT_ANY);
}

/* Whether an id may have a number that another one has: 0, -EADDRINUSE, -EADDRNOTAVAIL. */
static int clash(const struct cm_id *id, const struct cm_id *other)
{
    if (!places_meet(&id->src, &other->src))
        return 0;
    if ((id->bind_flags & other->bind_flags & CM_BIND_AFONLY) &&
        !same_family(&id->src.gid, &other->src.gid))
        return 0;
    if (is_wildcard(&id->src.gid) || is_wildcard(&other->src.gid))
        return -EADDRNOTAVAIL;
    return gid_eq(&id->src.gid, &other->src.gid) ? -EADDRINUSE : 0;
}

static int check_row(const struct cm_id *id, const struct cm_ports_row *row, bool reuse)
{
    const struct cm_id *other;
    int err = 0;

    for (unsigned i = 0; i < LISTS; i++) {
        if (reuse && i == REUSERS)
            continue;
        LIST_FOREACH(other, &row->ids[i], in_row)
        {
            if (other != id)
                err = clash(id, other);
            if (err)
                return err;
        }
    }
    return 0;
}

int cm_ports_listen(struct cm_id *id)
{
    int err = check_row(id, id->row, false);

    if (err)
        return err;
    LIST_REMOVE(id, in_row);
    LIST_INSERT_HEAD(&id->row->ids[LISTENERS], id, in_row);
    return 0;
}

/* ---- binding ---- */

/* Whether the id's user has the number already, or may have one more. */
static bool user_may_have(const struct cm_id *id, struct cm_ports_row *row)
{
    return cm_user_may_take(id->user) || (row && cm_share_exists(&row->shares, id->user));
}

static int refuse_number(struct cm *cm)
{
    cm->counters.numbers_refused++;
    return -EADDRNOTAVAIL;
}

/* Whether two addresses can be one. */
static bool gids_meet(const union gid *a, const union gid *b)
{
    return is_wildcard(a) || is_wildcard(b) || gid_eq(a, b);
}

/* Whether two ids of a number can go from the same address to the same one. One without a
 * destination may listen, or does: it, and the next listener there, need the number to themselves.
 */
static bool ways_meet(const struct cm_id *a, const struct cm_id *b)
{
    if (!gids_meet(&a->src.gid, &b->src.gid) || !places_meet(&a->src, &b->src))
        return false;
    return !b->dst.number ||
           (a->dst.number == b->dst.number && gids_meet(&a->dst.gid, &b->dst.gid));
}

static bool is_unique(const struct cm_id *id, const struct cm_ports_row *row)
{
    const struct cm_id *other;

    for (unsigned i = 0; i < LISTS; i++)
        LIST_FOREACH(other, &row->ids[i], in_row)
        {
            if (ways_meet(id, other))
                return false;
        }
    return true;
}

/* An id that does not say where it is going to connect to may listen, for which it needs the number
 * to itself. */
static bool number_is_free(const struct cm_id *id, uint16_t number)
{
    struct cm_ports_row *row = find_row(id->cm, ip_cm_service_id(id->ps, number));

    if (!user_may_have(id, row))
        return false;
    if (!row)
        return true;
    return id->dst.number ? is_unique(id, row) : !check_row(id, row, false);
}

/* The first number from one on, up to another, that no id has; 0: none. */
static uint32_t first_unused(const uint64_t *taken, uint32_t from, uint32_t last)
{
    for (uint32_t n = from; n <= last; n = (n | 63) + 1) {
        uint64_t unused = ~taken[n / 64] & UINT64_MAX << n % 64;

        if (!unused)
            continue;
        n = n / 64 * 64 + (uint32_t)__builtin_ctzll(unused);
        return n <= last ? n : 0;
    }
    return 0;
}

/* The same of the range, which is looked at from `start` on and around. */
static uint32_t unused_from(struct cm *cm, enum ip_cm_port_space ps, uint32_t start)
{
    const uint64_t *taken = taken_of(cm, ps);
    uint32_t number = first_unused(taken, start, cm->config.last_port);

    return number ? number : first_unused(taken, cm->config.first_port, start - 1);
}

/* The number that was given last comes last. 0: none. */
static uint32_t unused_number(struct cm *cm, enum ip_cm_port_space ps, uint32_t start)
{
    uint32_t number = unused_from(cm, ps, start);

    if (!number || number != cm->last_port)
        return number;
    return unused_from(cm, ps, number < cm->config.last_port ? number + 1 : cm->config.first_port);
}

/* One that ids have, and that is free for this one; the one given last only if there is no other.
 * 0: none. */
static uint32_t shared_number(const struct cm_id *id, uint32_t start)
{
    const struct cm_config *c = &id->cm->config;
    uint32_t range = c->last_port - c->first_port + 1u, last = id->cm->last_port;

    for (uint32_t i = 0; i < min_of(range, SHARED_TRIES); i++) {
        uint32_t number = c->first_port + (start - c->first_port + i) % range;

        if (number != last && number_is_free(id, (uint16_t)number))
            return number;
    }
    if (last < c->first_port || last > c->last_port || !number_is_free(id, (uint16_t)last))
        return 0;
    return last;
}

/* A free number of the range, from a random one on. */
static int bind_any(struct cm_id *id)
{
    struct cm *cm = id->cm;
    uint32_t first = cm->config.first_port, range = cm->config.last_port - first + 1u;
    uint32_t start = first + cm_random(cm) % range, number = 0;
    bool may_take = cm_user_may_take(id->user);

    if (may_take)
        number = unused_number(cm, id->ps, start);
    if (!number && (may_take || id->dst.number))
        number = shared_number(id, start);
    if (!number)
        return may_take ? -EADDRNOTAVAIL : refuse_number(cm);
    cm->last_port = id->src.number = (uint16_t)number;
    return add_to_row(id, ip_cm_service_id(id->ps, id->src.number));
}

static int bind_number(struct cm_id *id)
{
    uint64_t service_id = ip_cm_service_id(id->ps, id->src.number);
    struct cm_ports_row *row = find_row(id->cm, service_id);
    int err;

    if (id->src.number < FIRST_UNPRIVILEGED && !(id->bind_flags & CM_BIND_PRIVILEGED))
        return -EACCES;
    if (is_given(id, service_id) && !user_may_have(id, row))
        return refuse_number(id->cm);
    err = row ? check_row(id, row, id->bind_flags & CM_BIND_REUSE) : 0;
    return err ? err : add_to_row(id, service_id);
}

static uint8_t effective_flags(const struct cm_id *id, unsigned flags)
{
    return (uint8_t)(flags | (gid_is_ipv4(&id->src.gid) ? CM_BIND_AFONLY : 0u));
}

int cm_set_bind_flags(struct cm_id *id, unsigned flags)
{
    if (!id->row || id->state != CM_IDLE)
        return -EINVAL;
    LIST_REMOVE(id, in_row);
    id->bind_flags = effective_flags(id, flags);
    insert(id);
    return 0;
}

int cm_bind(struct cm_id *id, const struct cm_addr *addr, const struct cm_addr *dst, unsigned flags)
{
    int err;

    if (id->row || id->ps == IP_CM_PS_NONE || id->state != CM_IDLE)
        return -EINVAL;
    id->src = *addr;
    id->dst = dst ? *dst : (struct cm_addr){.vlan = VLAN_NONE};
    id->bind_flags = effective_flags(id, flags);
    err = addr->number ? bind_number(id) : bind_any(id);
    if (err) {
        id->src = id->dst = (struct cm_addr){.vlan = VLAN_NONE};
        id->bind_flags = 0;
    }
    return err;
}

int cm_bind_service(struct cm_id *id, uint64_t service_id)
{
    if (id->row || id->ps != IP_CM_PS_NONE || id->state != CM_IDLE ||
        ip_cm_port_space_of(service_id) != IP_CM_PS_NONE)
        return -EINVAL;
    if (find_row(id->cm, service_id))
        return -EADDRINUSE;
    return add_to_row(id, service_id);
}

/* ---- finding ---- */

/* How well a listener fits: 0 not at all, more for an exact address, VLAN or port. */
static unsigned fit(const struct cm_id *id, const union gid *dst, const struct cm_path *way)
{
    bool wildcard = is_wildcard(&id->src.gid);

    if ((id->src.vlan != CM_VLAN_ANY && id->src.vlan != way->vlan) ||
        (id->src.port != CM_PORT_ANY && id->src.port != way->port))
        return 0;
    if (wildcard ? (id->bind_flags & CM_BIND_AFONLY) && !same_family(&id->src.gid, dst)
                 : !gid_eq(&id->src.gid, dst))
        return 0;
    return 1u + 8u * !wildcard + 4u * (id->src.vlan != CM_VLAN_ANY) +
           2u * (id->src.port != CM_PORT_ANY);
}

static bool has_fit(const struct cm_ports_row *row, unsigned list, const union gid *dst,
                    const struct cm_path *way)
{
    const struct cm_id *id;
    unsigned n = 0;

    LIST_FOREACH(id, &row->ids[list], in_row)
    {
        if (++n > NEWEST)
            return false;
        if (id->state == CM_IDLE && !id->dst.number && fit(id, dst, way))
            return true;
    }
    return false;
}

bool cm_ports_may_listen(const struct cm *cm, uint64_t service_id, const union gid *dst,
                         const struct cm_path *way)
{
    const struct cm_ports_row *row = find_row(cm, service_id);

    if (!row || ip_cm_port_space_of(service_id) == IP_CM_PS_NONE)
        return false;
    return has_fit(row, REUSERS, dst, way) || has_fit(row, OTHERS, dst, way);
}

struct cm_id *cm_ports_find(const struct cm *cm, uint64_t service_id, const union gid *dst,
                            const struct cm_path *way)
{
    const struct cm_ports_row *row = find_row(cm, service_id);
    struct cm_id *id, *best = NULL;
    unsigned best_fit = 0;

    if (!row)
        return NULL;
    if (ip_cm_port_space_of(service_id) == IP_CM_PS_NONE)
        return LIST_FIRST(&row->ids[LISTENERS]);
    LIST_FOREACH(id, &row->ids[LISTENERS], in_row)
    {
        unsigned this_fit = fit(id, dst, way);

        if (this_fit > best_fit) {
            best = id;
            best_fit = this_fit;
        }
    }
    return best;
}
