/* SPDX-License-Identifier: BSD-3-Clause */
/* A host's port: its frames come from the caller, and go to the caller. */
#include "fabric_internal.h"

static void receive(struct port *p, struct fabric_frame *frame)
{
    struct fabric *f = p->fabric;

    if (frame->is_pause) {
        pfc_receive(p, frame);
    } else if (frame->to == p->node->number) {
        f->totals.delivered++;
        f->hooks.deliver(f->hooks.ctx, p->node->number, frame);
    } else { /* of hosts that are linked directly */
        f->totals.unrouted++;
        fabric_frame_free(f, frame);
    }
}

static void left(struct port *p, const struct fabric_frame *frame)
{
}

static unsigned room(const struct port *p)
{
    unsigned most = p->paused ? HOST_QUEUE : p->fabric->now >= p->busy_until;

    return most > p->frames_queued ? most - p->frames_queued : 0;
}

static void ready(struct port *p)
{
    if (room(p))
        p->fabric->hooks.ready(p->fabric->hooks.ctx, p->node->number);
}

const struct port_ops host_ops = {receive, left, ready};

unsigned fabric_room(const struct fabric *f, unsigned host)
{
    const struct node *n = f->node[f->host[host]];

    return n->ports ? room(n->port[0]) : 0;
}

void fabric_send(struct fabric *f, unsigned host, struct fabric_frame *frame)
{
    const struct node *n = f->node[f->host[host]];

    f->totals.sent++;
    if (n->ports && frame_classify(f, frame)) {
        port_enqueue(n->port[0], frame);
    } else {
        f->totals.misplaced++;
        fabric_frame_free(f, frame);
    }
}
