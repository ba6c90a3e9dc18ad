/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shortest paths: for each last switch (that of a frame's host) the links to it from every node,
 * and from these the ports that lead nearer. Both are computed when a frame asks first, by the
 * links that were up when routes converged last.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric_internal.h"

#define FAR UINT16_MAX

void route_forget(struct fabric *f)
{
    for (unsigned i = 0; i < f->nodes; i++) {
        struct node *n = f->node[i];

        for (unsigned j = 0; n->ways && j < f->nodes; j++)
            free(n->ways[j]);
        free(n->ways);
        free(n->distance);
        n->ways = NULL;
        n->distance = NULL;
    }
}

struct node *route_last(const struct fabric *f, unsigned host)
{
    const struct node *n = f->node[f->host[host]];

    return n->ports ? n->port[0]->peer->node : NULL;
}

/* Breadth first, back from the last switch; hosts forward nothing. */
static bool measure(struct node *last)
{
    struct fabric *f = last->fabric;
    uint16_t *distance = malloc(f->nodes * sizeof(*distance));
    struct node **queue = malloc(f->nodes * sizeof(struct node *));
    unsigned head = 0, tail = 0;

    if (!distance || !queue) {
        free(distance);
        free(queue);
        f->failed = true;
        return false;
    }
    memset(distance, 0xFF, f->nodes * sizeof(*distance));
    distance[last->place] = 0;
    queue[tail++] = last;
    while (head < tail) {
        const struct node *n = queue[head++];

        for (unsigned i = 0; i < n->ports; i++) {
            struct node *next = n->port[i]->peer->node;

            if (!n->port[i]->routed || !next->is_switch || distance[next->place] != FAR)
                continue;
            distance[next->place] = (uint16_t)(distance[n->place] + 1);
            queue[tail++] = next;
        }
    }
    free(queue);
    last->distance = distance;
    return true;
}

static bool leads_nearer(const struct port *p, const struct node *last)
{
    uint16_t here = last->distance[p->node->place], there = last->distance[p->peer->node->place];

    return p->routed && p->peer->node->is_switch && here != FAR && there + 1 == here;
}

static struct ways *find_ways(struct node *s, const struct node *last)
{
    struct ways *w = malloc(sizeof(*w) + s->ports * sizeof(w->port[0]));

    if (!w)
        return NULL;
    w->n = 0;
    for (unsigned i = 0; i < s->ports; i++)
        if (leads_nearer(s->port[i], last))
            w->port[w->n++] = (uint16_t)i;
    return w;
}

const struct ways *route_ways(struct node *s, struct node *last)
{
    if (!s->ways)
        s->ways = calloc(s->fabric->nodes, sizeof(struct ways *));
    if (s->ways && !s->ways[last->place] && (last->distance || measure(last)))
        s->ways[last->place] = find_ways(s, last);
    if (!s->ways || !s->ways[last->place]) {
        s->fabric->failed = true;
        return NULL;
    }
    return s->ways[last->place];
}

static void add_link(struct fabric_path *path, const struct port *p, uint32_t len)
{
    path->bps = path->links++ ? min_of(path->bps, p->bps) : p->bps;
    path->delay += p->delay;
    path->frame += (uint64_t)(len + FABRIC_GAP) * 8 * NS_PER_SEC / p->bps;
}

bool fabric_path(struct fabric *f, unsigned from, unsigned to, uint32_t len,
                 struct fabric_path *path)
{
    struct node *at = route_last(f, from), *last = route_last(f, to);
    struct node *target = f->node[f->host[to]];

    *path = (struct fabric_path){0};
    if (!at || !last)
        return false;
    add_link(path, f->node[f->host[from]]->port[0], len);
    if (at == target)
        return true;
    while (at->is_switch && at != last) {
        const struct ways *w = route_ways(at, last);

        if (!w || !w->n)
            return false;
        add_link(path, at->port[w->port[0]], len);
        at = at->port[w->port[0]]->peer->node;
    }
    add_link(path, target->port[0], len);
    return at == last && last->is_switch;
}
