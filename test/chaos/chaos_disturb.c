/* SPDX-License-Identifier: BSD-3-Clause */
/* Disturbances of applications by the control thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos_world.h"

struct world world;

static struct device *device(void)
{
    return world.dp.rnic->device[0];
}

unsigned below(unsigned n)
{
    return random_below(&world.random, n);
}

/* Any queue pair of any application, or NULL. */
static struct qp_object *any_qp(void)
{
    struct qp_object *found = NULL;
    struct session *c;
    struct object *o;
    unsigned n = 0;

    TAILQ_FOREACH (c, &world.dp.rnic->sessions, link) {
        TAILQ_FOREACH (o, &c->objects[OBJ_QP], link) {
            if (!below(++n))
                found = container_of(o, struct qp_object, o);
        }
    }
    return found;
}

/* The daemon does not migrate group members: a datagram in flight to their group would miss them,
 * or arrive twice. */
static bool is_member(const struct qp_object *q)
{
    return q->group_count;
}

static bool may_move(const struct qp_object *q)
{
    return !is_member(q) && raw_may_move(&world.raw, q);
}

void move_one(void)
{
    struct qp_object *q = any_qp();
    struct worker_port *to = device()->port[below(WORKERS)], *from;

    if (!q || !may_move(q))
        return;
    from = q->dp.port;
    if (!worker_migrate_qp(&q->dp, to)) {
        world.refused++;
        return;
    }
    device()->assigned[from->queue]--;
    device()->assigned[to->queue]++;
    world.moves += from != to;
}

void report_stray(void)
{
    struct qp_object *q = any_qp();

    if (q && may_move(q))
        steer_misplaced(q, below(WORKERS));
}

void look(void)
{
    struct qp_object *q = any_qp();
    char *text = rnic_show(world.dp.rnic, 0);

    require(text);
    free(text);
    if (q)
        require(kit_call_handle(q->o.session, CTL_QUERY_QP, q->o.handle) ==
                (q->ind ? -EOPNOTSUPP : 0));
    world.shows++;
}

void change_address(void)
{
    unsigned i = below(ADDRESSES);
    struct port_address a = {.prefix = 24, .vlan = i % 2 ? (uint16_t)(i + 1) : VLAN_NONE};
    char text[46];

    snprintf(text, sizeof(text), "10.1.%u.1", i);
    require(!gid_parse(&a.gid, text));
    if (world.address[i])
        require(!rnic_remove_address(world.dp.rnic, 0, &a.gid, a.vlan));
    else
        require(!rnic_add_address(world.dp.rnic, 0, &a));
    world.address[i] = !world.address[i];
    world.changes++;
}

static void call_group(unsigned i)
{
    struct ctl_msg m = {.mcast = {.qpn = world.qp[i]}};
    union gid gid;

    require(!gid_parse(&gid, i % 2 ? "239.1.0.7" : "ff05::9"));
    memcpy(m.mcast.gid, gid.raw, sizeof(m.mcast.gid));
    program_call(&world.bystander, world.member[i] ? CTL_DETACH_MCAST : CTL_ATTACH_MCAST, m);
    world.member[i] = !world.member[i];
}

/* A queue pair is created, joins a group, leaves it, is destroyed: one step of that. */
void change_bystander(void)
{
    struct program *p = &world.bystander;
    unsigned i = below(BYSTANDERS);
    struct ctl_msg m = {.create_qp = {.pd = p->pd,
                                      .send_cq = p->cq.handle,
                                      .recv_cq = p->cq.handle,
                                      .type = QPT_UD,
                                      .caps = {1, 1, 1, 1, 0}}};

    if (!world.qp[i]) {
        world.qp[i] = program_call(p, CTL_CREATE_QP, m).create_qp.qpn;
    } else if (below(2) && !world.member[i]) {
        require(!kit_destroy_handle(p->session, CTL_DESTROY_QP, world.qp[i]));
        world.qp[i] = 0;
    } else {
        call_group(i);
    }
}
