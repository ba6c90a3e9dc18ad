/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of queues: pieces of slabs (struct ctl_place), which are mapped once and stay so until
 * the daemon says that nothing is left in them, or the client is closed.
 */
#ifndef UROCE_CLIENT_SLAB_H
#define UROCE_CLIENT_SLAB_H

#include "conn.h"

struct client_slab {
    uint64_t id;
    void *base; /* NULL: could not be mapped yet, and fd is still open */
    size_t bytes;
    int fd;
};

/* Under the connection's lock. A zeroed one is empty. */
struct client_slabs {
    struct client_slab *slab; /* by id */
    size_t count, room;
};

/* A place in a mapped slab, and how much of the slab there is from it on; NULL and 0: none. */
struct client_piece {
    void *base;
    size_t bytes;
};

/*
 * conn_call for the requests that create or resize a queue; place: that of the reply, in *m.
 * Returns as conn_call. With 0, *piece is where the queue is, or {NULL, 0} when the daemon made it
 * and it cannot be mapped.
 */
int client_slab_create(struct conn *c, struct client_slabs *slabs, enum ctl_type type,
                       struct ctl_msg *m, const struct ctl_place *place,
                       struct client_piece *piece);

/* The requests that destroy a queue. Returns as conn_call. */
int client_slab_destroy(struct conn *c, struct client_slabs *slabs, enum ctl_type type,
                        uint32_t handle);

/* Unmaps all of them, once nobody uses the connection any more. */
void client_slabs_fini(struct client_slabs *slabs);

#endif
