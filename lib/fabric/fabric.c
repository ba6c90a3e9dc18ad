/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes and links: they are added, fail, and are looked at. See fabric.h. */
#include <errno.h>
#include <stdlib.h>

#include "fabric_internal.h"

struct fabric *fabric_create(uint64_t seed, ns_t converge, const struct fabric_hooks *hooks)
{
    struct fabric *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->random.state = seed;
    f->converge = converge;
    f->hooks = *hooks;
    return f;
}

void fabric_destroy(struct fabric *f)
{
    for (unsigned i = 0; i < f->ports; i++) {
        port_clear(f->port[i]);
        free(f->port[i]);
    }
    route_forget(f);
    for (unsigned i = 0; i < f->nodes; i++)
        free(f->node[i]);
    frame_pool_fini(f);
    clock_fini(f);
    free(f->node);
    free(f->port);
    free(f);
}

/* Makes room for two more pointers. */
static bool grow(void *array, unsigned used, unsigned *room)
{
    void **old = *(void ***)array, **grown;
    unsigned more = max_of(2 * *room, 64u);

    if (used + 2 <= *room)
        return true;
    grown = realloc(old, more * sizeof(*grown));
    if (!grown)
        return false;
    *(void ***)array = grown;
    *room = more;
    return true;
}

static struct node *add_node(struct fabric *f)
{
    struct node *n = calloc(1, sizeof(*n));

    if (!n || !grow(&f->node, f->nodes, &f->node_room)) {
        free(n);
        return NULL;
    }
    route_forget(f);
    n->fabric = f;
    n->place = f->nodes;
    f->node[f->nodes++] = n;
    return n;
}

int fabric_add_host(struct fabric *f)
{
    struct node *n = f->hosts < FABRIC_HOSTS_MAX ? add_node(f) : NULL;

    if (!n)
        return f->hosts < FABRIC_HOSTS_MAX ? -ENOMEM : -ENOSPC;
    n->number = f->hosts;
    f->host[f->hosts++] = n->place;
    return (int)n->number;
}

int fabric_add_switch(struct fabric *f, const struct fabric_switch *config)
{
    struct node *n = f->switches < FABRIC_SWITCHES_MAX ? add_node(f) : NULL;

    if (!n)
        return f->switches < FABRIC_SWITCHES_MAX ? -ENOMEM : -ENOSPC;
    n->is_switch = true;
    n->number = FABRIC_HOSTS_MAX + f->switches;
    n->config = *config;
    n->random.state = random_next(&f->random);
    n->seed = random_next(&f->random);
    if (config->seed)
        n->seed = config->seed;
    f->switches_at[f->switches++] = n->place;
    return (int)n->number;
}

static struct node *find_node(const struct fabric *f, unsigned number)
{
    if (number < f->hosts)
        return f->node[f->host[number]];
    if (number >= FABRIC_HOSTS_MAX && number - FABRIC_HOSTS_MAX < f->switches)
        return f->node[f->switches_at[number - FABRIC_HOSTS_MAX]];
    return NULL;
}

static int refuses(const struct node *n)
{
    if (!n->is_switch)
        return n->ports ? -EEXIST : 0;
    return n->ports == FABRIC_PORTS_MAX ? -ENOSPC : 0;
}

static struct port *add_port(struct fabric *f, struct node *n, const struct fabric_link *config)
{
    struct port *p = f->port[f->ports];

    p->fabric = f;
    p->node = n;
    p->ops = n->is_switch ? &switch_ops : &host_ops;
    p->number = f->ports++;
    p->index = n->ports;
    p->bps = config->bps;
    p->delay = config->delay;
    p->loss = config->loss;
    p->routed = true;
    p->random.state = random_next(&f->random);
    p->headroom = n->config.headroom ? n->config.headroom : pfc_headroom(p);
    n->port[n->ports++] = p;
    return p;
}

int fabric_add_link(struct fabric *f, unsigned a, unsigned b, const struct fabric_link *config)
{
    struct node *na = find_node(f, a), *nb = find_node(f, b);
    struct port *pa, *pb;

    if (!na || !nb || na == nb || !config->bps)
        return -EINVAL;
    if (refuses(na) || refuses(nb))
        return refuses(na) ? refuses(na) : refuses(nb);
    pa = calloc(1, sizeof(*pa));
    pb = calloc(1, sizeof(*pb));
    if (!pa || !pb || !grow(&f->port, f->ports, &f->port_room)) {
        free(pa);
        free(pb);
        return -ENOMEM;
    }
    route_forget(f);
    f->port[f->ports] = pa;
    f->port[f->ports + 1] = pb;
    add_port(f, na, config)->peer = pb;
    add_port(f, nb, config)->peer = pa;
    return (int)pa->number / 2;
}

/* ---- links that fail ---- */

static void converged(void *object, uint64_t value)
{
    struct fabric *f = object;

    for (unsigned i = 0; i < f->ports; i++)
        f->port[i]->routed = f->port[i]->state != FABRIC_DOWN;
    route_forget(f);
}

/* Nothing is paused by what the link carried before. */
static void set_port(struct port *p, enum fabric_state state)
{
    static const uint16_t none[FABRIC_PRIORITIES];

    p->state = state;
    p->pausing = 0;
    port_pause(p, UINT8_MAX, none);
}

void fabric_set_link(struct fabric *f, unsigned link, enum fabric_state state)
{
    set_port(f->port[2 * link], state);
    set_port(f->port[2 * link + 1], state);
    fabric_at(f, f->now + f->converge, converged, f, 0);
}

void fabric_mark_next(struct fabric *f, unsigned port, unsigned frames)
{
    f->port[port]->mark_next = frames;
}

void fabric_lose_next(struct fabric *f, unsigned port, unsigned frames)
{
    f->port[port]->lose_next = frames;
}

/* ---- looking ---- */

const struct fabric_counters *fabric_counters(const struct fabric *f, unsigned port)
{
    port_count_pause(f->port[port]); /* a pause that has not ended */
    return &f->port[port]->counters;
}

const struct fabric_totals *fabric_totals(const struct fabric *f)
{
    return &f->totals;
}

unsigned fabric_ports(const struct fabric *f)
{
    return f->ports;
}

uint64_t fabric_queue(const struct fabric *f, unsigned port)
{
    return f->port[port]->queued_all;
}

uint64_t fabric_queue_peak(struct fabric *f, unsigned port)
{
    struct port *p = f->port[port];
    uint64_t peak = p->peak;

    p->peak = p->queued_all;
    return peak;
}

static uint64_t count(const struct frames *l)
{
    uint64_t n = 0;

    for (const struct fabric_frame *frame = l->first; frame; frame = frame->next)
        n += !frame->is_pause;
    return n;
}

uint64_t fabric_frames_inside(const struct fabric *f)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < f->ports; i++) {
        n += count(&f->port[i]->flight);
        for (unsigned j = 0; j < FABRIC_PRIORITIES; j++)
            n += count(&f->port[i]->queue[j]);
    }
    return n;
}

uint64_t fabric_buffer_used(const struct fabric *f, unsigned node)
{
    return find_node(f, node)->shared;
}
