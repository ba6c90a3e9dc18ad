/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A forked child that goes on with its parent's context: see client_inherit.h. While it is not the
 * child's, rings take no WQEs: the daemon would look for what they point to in the parent's memory.
 */
#include "client_inherit.h"

#include <errno.h>

#include "client_end.h"
#include "mr.h"

/* Also under the regions' lock, so it takes none of those that are held with it. */
static int inherit(struct conn *conn)
{
    struct client *c = container_of(conn, struct client, conn);
    int err = 0;

    pthread_mutex_lock(&client_inherit_lock);
    if (!conn_is_ours(conn)) {
        mr_allow_daemon(c);
        err = conn_inherit(conn, c->shared->join_key);
        if (!err) {
            client_rings_go_on(c); /* before other threads may destroy what has them */
            conn_inherited(conn);
        }
    }
    pthread_mutex_unlock(&client_inherit_lock);
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

bool client_may_use(struct client *c)
{
    return conn_is_ours(&c->conn) || client_inherit(c);
}
