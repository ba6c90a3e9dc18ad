/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A forked child that goes on with its parent's context: see client_inherit.h. While it is not the
 * child's, rings take no WQEs: the daemon would look for what they point to in the parent's memory.
 */
#include "client_inherit.h"

#include <errno.h>

#include "client_end.h"
#include "mr.h"

static pthread_mutex_t inherit_lock = PTHREAD_MUTEX_INITIALIZER;

/* Also under the regions' lock, so it takes none of those that are held with it. */
static int inherit(struct conn *conn)
{
    struct client *c = container_of(conn, struct client, conn);
    int err = 0;

    pthread_mutex_lock(&inherit_lock);
    if (!conn_is_ours(conn)) {
        mr_allow_daemon(c);
        err = conn_inherit(conn, c->shared->join_key);
        if (!err)
            client_rings_go_on(c);
    }
    pthread_mutex_unlock(&inherit_lock);
    return err;
}

void client_may_be_inherited(struct client *c)
{
    c->conn.inherit = inherit;
}

bool client_inherit(struct client *c)
{
    return !conn_is_ours(&c->conn) && c->conn.inherit && !inherit(&c->conn);
}

/* No other thread exists; those of the parent may have held the locks. */
void client_in_child(struct client *c)
{
    pthread_mutex_init(&inherit_lock, NULL);
    pthread_mutex_init(&c->qps.lock, NULL);
    pthread_mutex_init(&c->cqs.lock, NULL);
    pthread_mutex_init(&c->srqs.lock, NULL);
    c->hot.runs = false;
    atomic_store_explicit(&c->tracer_set, false, memory_order_relaxed);
    client_rings_pause(c);
}
