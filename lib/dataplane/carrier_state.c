/* SPDX-License-Identifier: BSD-3-Clause */
/* Carriers and calls as objects: see carrier.h. */
#include "carrier.h"

#include <stdlib.h>

struct worker_mem_call *worker_mem_call_create(void)
{
    return calloc(1, sizeof(struct worker_mem_call));
}

void worker_mem_call_free(struct worker_mem_call *call)
{
    if (call)
        free(call->call.own);
    free(call);
}

struct carrier *carrier_create(void)
{
    struct carrier *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->call = worker_mem_call_create();
    if (!c->call) {
        free(c);
        return NULL;
    }
    TAILQ_INIT(&c->queue);
    TAILQ_INIT(&c->held_back);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    return c;
}

void carrier_destroy(struct carrier *c)
{
    worker_mem_call_free(c->call);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->wake);
    free(c);
}
