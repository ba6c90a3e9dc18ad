/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of `uroce fault`, in JSON. */
#include "control/fault_rules.h"
#include "show/show.h"

json_t *show_fault(const struct rnic *r, unsigned number)
{
    const struct fault_rule *f = TAILQ_FIRST(&r->faults);
    json_t *o;

    while (f && number--)
        f = TAILQ_NEXT(f, link);
    if (!f)
        return NULL;
    o = json_object();
    json_object_set_new(o, "number", show_number(f->number));
    json_object_set_new(o, "device",
                        json_string(f->device < 0 ? "all" : r->device[f->device]->name));
    json_object_set_new(o, "rule", json_string(f->text));
    json_object_set_new(o, "matched", show_number(f->live.hits.matched));
    json_object_set_new(o, "acted", show_number(f->live.hits.acted));
    json_object_set_new(o, "missed", show_number(f->live.hits.missed));
    return o;
}
