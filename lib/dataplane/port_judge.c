/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests that rules complete with an error: see port_judge.h. */
#include "port_judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue_pair.h"
#include "worker_internal.h"

struct port_judge {
    struct worker_port *port;
    struct inject_live *rule[INJECT_RULES_MAX];
    unsigned rules;
};

/* The status of a work request. The worker. */
static uint8_t judge(void *ctx, const struct qp *qp, uint8_t operation)
{
    const struct port_judge *pj = ctx;
    ns_t now = pj->port->worker->pass_began;
    struct inject_request r = {.qpn = qp_number(qp),
                               .operation = operation,
                               .program = engine_program_of(pj->port->engine, qp_number(qp))};

    for (unsigned i = 0; i < pj->rules; i++) {
        struct inject_live *live = pj->rule[i];

        if (!inject_decide_request(&live->rule, &live->hits, &r, now - min_of(live->since, now)))
            continue;
        atomic_fetch_add_explicit(&live->hits.acted, 1, memory_order_relaxed);
        return live->rule.status;
    }
    return WC_SUCCESS;
}

struct change {
    struct worker_port *port;
    struct inject_live *const *rule;
    unsigned n;
};

/* Between two passes of the worker. */
static void change_rules(struct worker *w, void *arg)
{
    const struct change *c = arg;
    struct port_judge *pj = c->port->judge;

    (void)w;
    memcpy(pj->rule, c->rule, c->n * sizeof(c->rule[0]));
    pj->rules = c->n;
    engine_judge_sends(c->port->engine, c->n ? judge : NULL, pj);
}

int port_judge_set(struct worker_port *port, struct inject_live *const *rule, unsigned n)
{
    struct change c = {.port = port, .rule = rule, .n = n};

    if (!port->judge && n) {
        port->judge = calloc(1, sizeof(*port->judge));
        if (!port->judge)
            return -ENOMEM;
        port->judge->port = port;
    }
    if (port->judge && (n || port->judge->rules))
        worker_call(port->worker, change_rules, &c);
    return 0;
}

void port_judge_free(struct worker_port *port)
{
    free(port->judge);
    port->judge = NULL;
}
