/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of queues: pieces of slabs (struct ctl_place). A slab is mapped once, and unmapped
 * when the daemon reports that it is empty, or the client is closed.
 */
#ifndef UROCE_CLIENT_SLAB_H
#define UROCE_CLIENT_SLAB_H

#include "conn.h"

struct client_slab {
    uint64_t id;
    void *base; /* NULL: not mapped so far, and fd is still open */
    size_t bytes;
    int fd;
};

/* Under the connection's lock. A zeroed one is empty. */
struct client_slabs {
    struct client_slab *slab; /* by id */
    size_t count, room;
};

/* A position in a mapped slab, and the bytes of the slab from there on; NULL and 0: none. */
struct client_piece {
    void *base;
    size_t bytes;
};

/*
 * conn_call for a request that creates or resizes a queue; place: the reply's, in *m. Returns as
 * conn_call. With 0, *piece is the queue's memory, or {NULL, 0}: the daemon has made the queue, and
 * it cannot be mapped.
 */
int client_slab_create(struct conn *c, struct client_slabs *slabs, enum ctl_type type,
                       struct ctl_msg *m, const struct ctl_place *place,
                       struct client_piece *piece);

/* conn_call for a request that destroys a queue. */
int client_slab_destroy(struct conn *c, struct client_slabs *slabs, enum ctl_type type,
                        uint32_t handle);

/* A kind of queue: its requests, and where the reply to `create` has its place and handle. */
struct client_queue_kind {
    enum ctl_type create, destroy;
    size_t place, handle; /* offsets in struct ctl_msg */
    bool (*reply_fits)(const struct ctl_msg *reply, const struct client_piece *piece);
};

/* Creates a queue: client_slab_create; -EIO if the reply does not fit the piece, and then the queue
 * is destroyed again. */
int client_queue_create(struct conn *c, struct client_slabs *slabs,
                        const struct client_queue_kind *kind, struct ctl_msg *m,
                        struct client_piece *piece);

/* Unmaps all slabs. No thread uses the connection any more. */
void client_slabs_fini(struct client_slabs *slabs);

#endif
