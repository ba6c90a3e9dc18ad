/* SPDX-License-Identifier: BSD-3-Clause */
/* A context in a forked child, before the child uses it: see client_inherit.h. */
#include "client_inherit.h"

#include "client_end.h"

pthread_mutex_t client_inherit_lock = PTHREAD_MUTEX_INITIALIZER;

/* No other thread exists; those of the parent may have held the locks. */
void client_in_child(struct client *c)
{
    pthread_mutex_init(&client_inherit_lock, NULL);
    pthread_mutex_init(&c->qps.lock, NULL);
    pthread_mutex_init(&c->cqs.lock, NULL);
    pthread_mutex_init(&c->srqs.lock, NULL);
    spin_unlock(&c->blocking);
    c->hot.runs = false;
    atomic_store_explicit(&c->tracer_set, false, memory_order_relaxed);
    client_rings_pause(c);
}
