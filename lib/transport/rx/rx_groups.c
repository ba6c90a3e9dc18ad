/* SPDX-License-Identifier: BSD-3-Clause */
/* The multicast groups of an engine: found by bisection, as any host may send to them, and programs
 * may join many. */
#include <stdlib.h>
#include <string.h>

#include "rx.h"

/* Of the first one whose GID is not less. */
static unsigned position_of(const struct engine *e, const union gid *gid)
{
    unsigned first = 0, end = e->mcast_groups;

    while (first != end) {
        unsigned middle = first + (end - first) / 2;

        if (memcmp(&e->mcast[middle]->gid, gid, sizeof(*gid)) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

struct mcast_group *rx_mcast_group(const struct engine *e, const union gid *gid)
{
    unsigned i = position_of(e, gid);
    struct mcast_group *g;

    if (i == e->mcast_groups)
        return NULL;
    g = e->mcast[i];
    if (gid_eq(&g->gid, gid))
        return g;
    return NULL;
}

/* Room for one more: there is room for as many as the next power of two. */
static bool make_room(struct engine *e)
{
    unsigned n = e->mcast_groups;
    struct mcast_group **all;

    if (n & (n - 1))
        return true;
    all = realloc(e->mcast, (n ? 2 * n : 1) * sizeof(*all));
    if (all)
        e->mcast = all;
    return all;
}

static bool insert_group(struct engine *e, struct mcast_group *g)
{
    unsigned at = position_of(e, &g->gid), behind = e->mcast_groups - at;

    if (!make_room(e))
        return false;
    memmove(e->mcast + at + 1, e->mcast + at, behind * sizeof(*e->mcast));
    e->mcast[at] = g;
    e->mcast_groups++;
    return true;
}

static void remove_group(struct engine *e, const struct mcast_group *g)
{
    unsigned at = position_of(e, &g->gid), behind = --e->mcast_groups - at;

    memmove(e->mcast + at, e->mcast + at + 1, behind * sizeof(*e->mcast));
    if (e->mcast_groups)
        return;
    free(e->mcast);
    e->mcast = NULL;
}

struct mcast_group *rx_mcast_group_get(struct engine *e, const union gid *gid)
{
    struct mcast_group *g = rx_mcast_group(e, gid);

    if (g)
        return g;
    g = malloc(sizeof(*g));
    if (!g)
        return NULL;
    g->gid = *gid;
    LIST_INIT(&g->members);
    if (insert_group(e, g))
        return g;
    free(g);
    return NULL;
}

void rx_mcast_group_put(struct engine *e, struct mcast_group *g)
{
    if (!LIST_EMPTY(&g->members))
        return;
    remove_group(e, g);
    free(g);
}
