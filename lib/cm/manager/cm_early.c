/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that come before their listener. Some programs tell their peer a port number as soon as
 * they are bound, and listen afterwards (qperf): on a busy machine the peer is faster. So a request
 * to a number that an id is bound to waits for cm_listen, for a short time: the peer would repeat
 * it after seconds only, and give up at a REJ.
 */
#include <string.h>

#include "cm_state.h"

#define WAIT (100 * NS_PER_MS)

/* The same address in another VLAN, or at another port, is another peer. */
static bool is_kept(const struct cm *cm, const struct cm_path *way, const uint8_t *mad)
{
    for (unsigned i = 0; i < cm->early_count; i++) {
        const struct cm_early *e = &cm->early[i];

        if (gid_eq(&e->way.dgid, &way->dgid) && e->way.vlan == way->vlan &&
            e->way.port == way->port && !memcmp(e->mad, mad, sizeof(e->mad)))
            return true;
    }
    return false;
}

bool cm_early_keep(struct cm *cm, const struct cm_path *way, const uint8_t *mad,
                   uint64_t service_id, ns_t now)
{
    struct cm_early *e = &cm->early[cm->early_count];

    if (is_kept(cm, way, mad)) {
        cm->counters.ignored++;
        return true;
    }
    if (cm->early_count == CM_EARLY_MAX || !cm_ports_may_listen(cm, service_id, &way->sgid, way))
        return false;
    *e = (struct cm_early){.way = *way, .service_id = service_id, .until = now + WAIT};
    memcpy(e->mad, mad, sizeof(e->mad));
    cm->early_count++;
    return true;
}

void cm_early_listen(struct cm *cm, uint64_t service_id)
{
    for (unsigned i = 0; i < cm->early_count; i++)
        if (cm->early[i].service_id == service_id)
            cm->early[i].until = 0;
}

ns_t cm_early_next(const struct cm *cm)
{
    ns_t next = NS_NEVER;

    for (unsigned i = 0; i < cm->early_count; i++)
        next = min_of(next, cm->early[i].until);
    return next;
}

bool cm_early_take(struct cm *cm, struct cm_early *out, ns_t now)
{
    for (unsigned i = 0; i < cm->early_count; i++)
        if (cm->early[i].until <= now) {
            *out = cm->early[i];
            cm->early_count--;
            memmove(&cm->early[i], &cm->early[i + 1], (cm->early_count - i) * sizeof(*out));
            return true;
        }
    return false;
}
