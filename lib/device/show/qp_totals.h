/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of all queue pairs of a port together, also of those that are gone. */
#ifndef UROCE_DEVICE_QP_TOTALS_H
#define UROCE_DEVICE_QP_TOTALS_H

#include <jansson.h>

#include "engine.h"

struct qp_totals {
#define X(name) uint64_t name;
    QP_COUNTERS(X)
#undef X
};

/* Adds those of a queue pair. */
void qp_totals_add(struct qp_totals *t, const struct qp *qp);
/* As JSON, which the caller owns. */
json_t *qp_totals_show(const struct qp_totals *t);

#endif
