/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs without a store whose next request may be lost: the engine watches some of them. */
#include "resp_store.h"

/* A queue pair that has not come to its loss for that long may lose its watch to another one. */
#define WATCH_IDLE (10 * NS_PER_MS)

static struct loss_watch *watch_of(struct engine *e, const struct qp *qp)
{
    struct loss_watch *idle = NULL;
    struct share *borrower;

    for (unsigned i = 0; i < e->watches; i++) {
        if (e->watch[i].qp == qp)
            return &e->watch[i];
        if (e->now - e->watch[i].since > WATCH_IDLE)
            idle = &e->watch[i];
    }
    if (idle)
        resp_watch_no_more(idle->qp);
    borrower = loan_take(e, qp, LOAN_WATCH);
    if (!borrower)
        return NULL;
    e->stores_used++;
    e->watch[e->watches].borrower = borrower;
    return &e->watch[e->watches++];
}

void resp_watch(struct engine *e, struct qp *qp, psn_t p)
{
    struct loss_watch *w = watch_of(e, qp);

    if (!w || (qp->resp.watcher && !psn_before(p, w->lost)))
        return;
    w->qp = qp;
    w->lost = p;
    w->since = e->now;
    qp->resp.watcher = e;
}

void resp_watch_no_more(struct qp *qp)
{
    struct engine *e = qp->resp.watcher;
    unsigned i = 0;

    while (e->watch[i].qp != qp)
        i++;
    loan_end(e, e->watch[i].borrower, LOAN_WATCH);
    e->watch[i] = e->watch[--e->watches];
    e->stores_used--;
    qp->resp.watcher = NULL;
}
