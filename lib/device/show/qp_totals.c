/* SPDX-License-Identifier: BSD-3-Clause */
/* See qp_totals.h. */
#include "show/qp_totals.h"

#include "show/show.h"

void qp_totals_add(struct qp_totals *t, const struct qp *qp)
{
    const struct qp_counters *c = qp_counters(qp);

#define X(name) t->name += counter_get(&c->name);
    QP_COUNTERS(X)
#undef X
}

json_t *qp_totals_show(const struct qp_totals *t)
{
    json_t *o = json_object();

#define X(name) json_object_set_new(o, #name, show_number(t->name));
    QP_COUNTERS(X)
#undef X
    return o;
}
