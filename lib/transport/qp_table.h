/* SPDX-License-Identifier: BSD-3-Clause */
/* The writing half of the queue pair table; control thread only. */
#ifndef UROCE_QP_TABLE_H
#define UROCE_QP_TABLE_H

#include <errno.h>

#include "engine.h"

/* Gives qp the next free number and makes it visible. 0 or -ENOSPC. */
int qp_table_insert(struct qp_table *t, struct qp *qp);
void qp_table_remove(struct qp_table *t, struct qp *qp);

#endif
