/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that answers late: a mem_caller that puts off some calls of the kit's copying backend, as
 * the dataplane's copiers do. Calls of one engine end in their order; those that copy to the engine
 * have no bytes for it. */
#include <stdlib.h>

#include "kit_internal.h"

#define LATE_MAX (100 * NS_PER_US)

struct kit_late_call {
    struct mem_call call;
    ns_t due;
    struct kit_late_call *next;
};

static struct kit_late_call *new_call(void)
{
    return kit_alloc(sizeof(struct kit_late_call));
}

static void free_call(struct kit_late_call *c)
{
    free(c->call.own);
    free(c);
}

static void end_first(struct kit_engine *p)
{
    struct kit_late_call *c = p->late;

    p->late = c->next;
    mem_call_run(&c->call);
    engine_call_ended(p->engine, &c->call, true, p->node->kit->now);
    free_call(c);
}

void kit_late_end_all(struct kit_node *n)
{
    for (unsigned i = 0; i < n->engines; i++)
        while (n->part[i].late)
            end_first(&n->part[i]);
}

static bool run_call(struct mem_caller *caller)
{
    struct kit_engine *p = container_of(caller, struct kit_engine, caller);
    struct kit_late_call *c = container_of(caller->call, struct kit_late_call, call);
    struct kit *k = p->node->kit;
    struct mem_region *mr[MEM_BATCH_MAX];
    bool windows = false;

    /* Windows are bound and invalidated at any time. */
    for (unsigned i = 0; i < c->call.n; i++)
        windows |= c->call.io[i].window != NULL;
    if (windows ||
        (k->now >= p->late_until && random_below(&k->late_random, 1000) >= k->config.late)) {
        mem_call_run(&c->call);
        return true;
    }
    for (unsigned i = 0; i < c->call.n; i++)
        mr[i] = c->call.io[i].mr;
    if (!mem_call_own(&c->call))
        kit_fail("out of memory");
    for (unsigned i = 0; i < c->call.n; i++) /* the kit's regions live longer than its calls */
        c->call.io[i].mr = mr[i];
    if (k->now >= p->late_until) /* calls follow this one, for a time */
        p->late_until = k->now + random_below(&k->late_random, LATE_MAX);
    c->due = k->now + random_below(&k->late_random, LATE_MAX);
    if (p->late && c->due < p->late_last->due)
        c->due = p->late_last->due;
    *(p->late ? &p->late_last->next : &p->late) = c;
    p->late_last = c;
    p->caller.call = &new_call()->call;
    p->late_calls++;
    return false;
}

void kit_late_init(struct kit_engine *p, struct engine_config *config)
{
    p->caller = (struct mem_caller){.call = &new_call()->call, .run = run_call};
    config->host.mem_caller = &p->caller;
}

void kit_late_fini(struct kit_engine *p)
{
    struct kit_late_call *next;

    for (struct kit_late_call *c = p->late; c; c = next) {
        next = c->next;
        free_call(c);
    }
    p->late = NULL;
    if (p->caller.call)
        free(container_of(p->caller.call, struct kit_late_call, call));
}

ns_t kit_late_next(const struct kit_engine *p)
{
    return p->late ? p->late->due : NS_NEVER;
}

bool kit_late_end(struct kit *k, struct kit_engine *p)
{
    if (!p->late || p->late->due > k->now)
        return false;
    end_first(p);
    return true;
}
