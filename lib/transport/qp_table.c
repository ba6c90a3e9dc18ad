/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPN -> queue pair: one load. Numbers are handed out in turn, so that packets on their way to a
 * destroyed queue pair do not meet a new one soon.
 */
#include <stdlib.h>

#include "qp_table.h"
#include "transport.h"

struct qp_table {
    uint32_t next, used;
    struct qp *slot[QP_TABLE_SLOTS];
};

struct qp_table *qp_table_create(void)
{
    struct qp_table *t = calloc(1, sizeof(*t));

    if (t)
        t->next = QPN_FIRST;
    return t;
}

void qp_table_destroy(struct qp_table *t)
{
    free(t);
}

struct qp *qp_table_lookup(const struct qp_table *t, uint32_t qpn)
{
    return qpn < QP_TABLE_SLOTS ? __atomic_load_n(&t->slot[qpn], __ATOMIC_ACQUIRE) : NULL;
}

int qp_table_insert(struct qp_table *t, struct qp *qp)
{
    if (t->used == QP_TABLE_SLOTS - QPN_FIRST)
        return -ENOSPC;
    while (t->slot[t->next])
        t->next = t->next + 1 < QP_TABLE_SLOTS ? t->next + 1 : QPN_FIRST;
    qp->qpn = t->next;
    qp->table = t;
    t->used++;
    t->next = t->next + 1 < QP_TABLE_SLOTS ? t->next + 1 : QPN_FIRST;
    __atomic_store_n(&t->slot[qp->qpn], qp, __ATOMIC_RELEASE);
    return 0;
}

void qp_table_remove(struct qp_table *t, struct qp *qp)
{
    if (t->slot[qp->qpn] != qp)
        return;
    __atomic_store_n(&t->slot[qp->qpn], NULL, __ATOMIC_RELEASE);
    t->used--;
}
