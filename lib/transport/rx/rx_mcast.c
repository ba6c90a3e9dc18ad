/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast (volume 1, 10.5.2; A17.5.6): UD queue pairs in groups. */
#include <errno.h>
#include <stdlib.h>

#include "completion.h"
#include "responder.h"
#include "rx.h"
#include "rx_flush.h"
#include "rx_forward.h"

#define MCAST_ENGINES CQ_MAX_LANES

static struct mcast_member *find(const struct engine *e, const struct qp *qp,
                                 const union gid *group)
{
    struct mcast_member *m;

    LIST_FOREACH(m, &qp->mcast, of_qp)
    if (m->engine == e && gid_eq(&m->group->gid, group))
        return m;
    return NULL;
}

int engine_mcast_join(struct engine *e, struct qp *qp, const union gid *group)
{
    struct mcast_member *m;
    struct mcast_group *g;

    if (qp->service != PKT_UD || !gid_is_multicast(group))
        return -EINVAL;
    if (find(e, qp, group))
        return -EEXIST;
    g = rx_mcast_group_get(e, group);
    if (!g)
        return -ENOMEM;
    m = malloc(sizeof(*m));
    if (!m) {
        rx_mcast_group_put(e, g);
        return -ENOMEM;
    }
    *m = (struct mcast_member){.engine = e, .group = g, .qp = qp};
    LIST_INSERT_HEAD(&g->members, m, link);
    LIST_INSERT_HEAD(&qp->mcast, m, of_qp);
    return 0;
}

static void leave(struct mcast_member *m)
{
    LIST_REMOVE(m, link);
    LIST_REMOVE(m, of_qp);
    rx_mcast_group_put(m->engine, m->group);
    free(m);
}

int engine_mcast_leave(struct engine *e, struct qp *qp, const union gid *group)
{
    struct mcast_member *m = find(e, qp, group);

    if (!m)
        return -ENOENT;
    leave(m);
    return 0;
}

void rx_mcast_forget(struct engine *e, struct qp *qp)
{
    struct mcast_member *m, *next;

    for (m = LIST_FIRST(&qp->mcast); m; m = next) {
        next = LIST_NEXT(m, of_qp);
        if (m->engine == e)
            leave(m);
    }
}

/* ---- packets ---- */

/* An engine that gets a copy of the frame: once, however many members it owns. */
static void add_owner(struct engine *owner[MCAST_ENGINES], unsigned *owners, struct engine *o)
{
    for (unsigned i = 0; i < *owners; i++)
        if (owner[i] == o)
            return;
    if (*owners < MCAST_ENGINES)
        owner[(*owners)++] = o;
}

/* Those that were handed the packet do not hand it on. */
static void serve_others(struct engine *e, const struct mcast_group *g, const struct frame *f)
{
    struct engine *owner[MCAST_ENGINES];
    const struct mcast_member *m;
    unsigned owners = 0;
    bool own = false;

    LIST_FOREACH(m, &g->members, link)
    {
        struct engine *o = qp_owner_engine(m->qp);

        if (o == e)
            own = true;
        else if (o)
            add_owner(owner, &owners, o);
    }
    if (e->rx_from != RX_DIRECT)
        owners = 0;
    for (unsigned i = 0; i < owners; i++)
        rx_forward(e, f, owner[i]);
    if (own || !owners) /* it counts once for us and once for each of them */
        counter_inc(&e->counters.rx_delivered);
    else
        owners--;
    counter_add(&e->counters.rx_copies, owners);
}

/* Each member gets the packet as if it alone had been sent it. */
void rx_mcast(struct engine *e, unsigned job, const struct frame *f)
{
    struct rx_job *rx = &e->rx_job[job];
    struct mcast_group *g = rx_mcast_group(e, &rx->view.dgid); /* rx_validate_mcast has found it */
    struct mcast_member *m;

    serve_others(e, g, f);
    rx->is_response = false; /* another packet was processed in the job before */
    rx->srq = NULL;
    LIST_FOREACH(m, &g->members, link)
    {
        if (qp_owner_engine(m->qp) != e || !qp_can_receive(m->qp) ||
            m->qp->qkey != rx->pkt.deth.qkey)
            continue;
        if (e->batch.n ||
            e->copies_failed) /* a failure is of this job's queue pair, which changes */
            rx_flush(e);
        rx_completion_room(e);
        rx->qp = m->qp;
        rx_count_qp(e, m->qp, 1, rx->pkt.payload_len, encap_is_marked(&rx->view));
        rx_note_established(e, m->qp);
        resp_rx_ud(e, m->qp, job);
    }
}
