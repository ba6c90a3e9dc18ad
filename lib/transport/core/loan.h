/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine lends to the queue pairs of programs: see enum share_loan. The owner worker. */
#ifndef UROCE_LOAN_H
#define UROCE_LOAN_H

#include <stddef.h>

#include "share.h"

/* The head of memory that is lent. The engine keeps it for the next borrower. */
struct loan {
    struct engine *e;
    struct share *borrower;
    struct loan *next; /* it is free */
};

/* Lends one to qp's program. NULL: that holds as many as are free. Else the program's share, by
 * which it is given back. */
struct share *loan_take(struct engine *e, const struct qp *qp, enum share_loan what);
/* The same for one that has borrowed something else. */
bool loan_take_more(struct engine *e, struct share *borrower, enum share_loan what);
void loan_end(struct engine *e, struct share *borrower, enum share_loan what);

/* Lends memory, which begins with a struct loan; the rest is as the last borrower has left it, or
 * not initialized. `what` says its size. NULL: as above, or there is no memory. */
void *loan_memory(struct engine *e, const struct qp *qp, enum share_loan what, size_t size);
void loan_memory_end(struct loan *l, enum share_loan what);

/* Frees the memory that is lent to none. */
void loan_free_all(struct engine *e);

#endif
