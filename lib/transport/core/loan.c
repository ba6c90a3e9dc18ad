/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine lends to the queue pairs of programs: see enum share_loan. */
#include "engine_private.h"
#include "invariant.h"

/* Memory is taken when it is needed first: at most 10, 32, 0, 34 and 2 MiB. */
static unsigned limit_of(const struct engine *e, enum share_loan what)
{
    static const uint16_t limit[LOANS] = {
        [LOAN_ROOM] = ENGINE_REORDER_PACKETS,
        [LOAN_WATCH] = LOSS_WATCHES,
        [LOAN_SACK] = 2048,
        [LOAN_REPEAT] = 8192,
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
