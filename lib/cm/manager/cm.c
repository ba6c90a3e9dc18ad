/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager as a whole: its life, its timers, and what can be asked of it. */
#include <errno.h>
#include <stdlib.h>

#include "cm_state.h"

#define MAX_IDS           (UINT32_C(1) << 17)
#define DEFAULT_HALF_OPEN 1024
#define DEFAULT_BACKLOG   1024
#define DEFAULT_ANSWERS   4096
#define FIRST_PORT        32768
#define LAST_PORT         60999

static void set_defaults(struct cm_config *c)
{
    c->max_ids = c->max_ids ? min_of(c->max_ids, MAX_IDS) : MAX_IDS;
    c->half_open = c->half_open ? c->half_open : DEFAULT_HALF_OPEN;
    c->backlog = c->backlog ? c->backlog : DEFAULT_BACKLOG;
    c->answers = c->answers ? c->answers : DEFAULT_ANSWERS;
    if (c->first_port && c->first_port <= c->last_port)
        return;
    c->first_port = FIRST_PORT;
    c->last_port = LAST_PORT;
}

struct cm *cm_create(const struct cm_config *config)
{
    struct cm *cm = calloc(1, sizeof(*cm));

    if (!cm)
        return NULL;
    cm->config = *config;
    set_defaults(&cm->config);
    if (cm_ids_init(cm) || cm_hash_init(&cm->by_remote_id) || cm_hash_init(&cm->by_remote_qpn) ||
        cm_hash_init(&cm->by_service) || cm_ports_init(cm)) {
        cm_destroy(cm);
        return NULL;
    }
    return cm;
}

void cm_destroy(struct cm *cm)
{
    if (!cm)
        return;
    cm_ids_destroy(cm);
    cm_hash_destroy(&cm->by_remote_id);
    cm_hash_destroy(&cm->by_remote_qpn);
    cm_hash_destroy(&cm->by_service);
    cm_ports_destroy(cm);
    free(cm);
}

/* ---- timers ---- */

static ns_t next_of_ids(const struct cm *cm)
{
    const struct cm_timer *first = cm_timers_first(&cm->timers);

    return first ? first->deadline : NS_NEVER;
}

ns_t cm_next_timer(const struct cm *cm)
{
    return min_of(next_of_ids(cm), cm_early_next(cm));
}

/* A step leaves its timer disarmed or later: every one is run once. */
void cm_timers(struct cm *cm, ns_t now)
{
    cm_rx_early(cm, now);
    for (unsigned n = 0; n < CM_TIMERS_MAX && next_of_ids(cm) <= now; n++) {
        struct cm_id *id = container_of(cm_timers_first(&cm->timers), struct cm_id, timer);
        bool again = id->state != CM_TIMEWAIT && id->retries_left;

        cm_step(id, again ? CM_IN_RETRY : CM_IN_EXPIRED, NULL, now);
    }
}

/* ---- ids ---- */

struct cm_id *cm_id_create(struct cm *cm, enum ip_cm_port_space ps, void *owner, int *err)
{
    struct cm_id *id;

    if (ps != IP_CM_PS_NONE && ip_cm_port_space_of(ip_cm_service_id(ps, 0)) != ps) {
        *err = -EINVAL;
        return NULL;
    }
    id = cm_ids_new(cm, err);
    if (!id)
        return NULL;
    id->ps = ps;
    id->owner = owner;
    id->src.vlan = id->dst.vlan = VLAN_NONE;
    return id;
}

enum cm_state cm_id_state(const struct cm_id *id)
{
    return (enum cm_state)id->state;
}

void *cm_id_owner(const struct cm_id *id)
{
    return id->owner;
}

void cm_id_set_owner(struct cm_id *id, void *owner)
{
    id->owner = owner;
}

const struct cm_path *cm_id_path(const struct cm_id *id)
{
    return &id->path;
}

const struct cm_addr *cm_id_src(const struct cm_id *id)
{
    return &id->src;
}

const struct cm_addr *cm_id_dst(const struct cm_id *id)
{
    return &id->dst;
}

void cm_id_query(const struct cm_id *id, struct cm_id_info *info)
{
    *info = (struct cm_id_info){
        .ps = id->ps,
        .service_id = id->service_id,
        .local_comm_id = id->local_comm_id,
        .remote_comm_id = id->remote_comm_id,
        .remote_qpn = id->remote_qpn,
        .remote_ca_guid = id->remote_ca_guid,
        .conn = id->conn,
        .passive = id->role == CM_PASSIVE,
        .lingers = id->lingers,
    };
}

void cm_each_id(const struct cm *cm, void *ctx, void (*visit)(void *ctx, const struct cm_id *id))
{
    for (uint32_t i = 0; i < cm->slots_used; i++)
        if (cm->slot[i].id)
            visit(ctx, cm->slot[i].id);
}

const struct cm_counters *cm_counters(const struct cm *cm)
{
    return &cm->counters;
}
