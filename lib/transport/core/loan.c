/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine lends to the queue pairs of programs: see enum share_loan. */
#include "loan.h"

#include <stdlib.h>

#include "engine_private.h"
#include "invariant.h"

/* How many there are. Memory is taken when it is needed first. */
static unsigned limit_of(const struct engine *e, enum share_loan what)
{
    static const uint16_t limit[LOANS] = {
        [LOAN_ROOM] = ENGINE_REORDER_PACKETS, /* 32 MiB */
        [LOAN_WATCH] = LOSS_WATCHES,
        [LOAN_SACK] = 2048,   /* 34 MiB */
        [LOAN_REPEAT] = 8192, /* 0.8 MiB */
    };

    return what == LOAN_STORE ? min_of(e->cfg.reorder, ENGINE_REORDER_MAX) : limit[what];
}

bool loan_take_more(struct engine *e, struct share *borrower, enum share_loan what)
{
    unsigned for_others = borrower == e->own ? 0 : borrower->lent[what];

    if (e->lent[what] + for_others >= limit_of(e, what))
        return false;
    e->lent[what]++;
    borrower->lent[what]++;
    return true;
}

struct share *loan_take(struct engine *e, const struct qp *qp, enum share_loan what)
{
    struct share *borrower = share_first(e, qp);

    return loan_take_more(e, borrower, what) ? borrower : NULL;
}

void loan_end(struct engine *e, struct share *borrower, enum share_loan what)
{
    invariant(borrower->lent[what]);
    e->lent[what]--;
    borrower->lent[what]--;
}

void *loan_memory(struct engine *e, const struct qp *qp, enum share_loan what, size_t size)
{
    struct share *borrower = loan_take(e, qp, what);
    struct loan *l;

    if (!borrower)
        return NULL;
    l = e->loan_free[what];
    if (l)
        e->loan_free[what] = l->next;
    else
        l = malloc(size);
    if (!l) {
        loan_end(e, borrower, what);
        return NULL;
    }
    *l = (struct loan){.e = e, .borrower = borrower};
    return l;
}

void loan_memory_end(struct loan *l, enum share_loan what)
{
    l->next = l->e->loan_free[what];
    l->e->loan_free[what] = l;
    loan_end(l->e, l->borrower, what);
}

void loan_free_all(struct engine *e)
{
    for (enum share_loan what = 0; what < LOANS; what++) {
        struct loan *l;

        while ((l = e->loan_free[what])) {
            e->loan_free[what] = l->next;
            free(l);
        }
    }
}
