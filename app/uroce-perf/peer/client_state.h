/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's connections: for its two files alone. */
#ifndef UROCE_PERF_CLIENT_STATE_H
#define UROCE_PERF_CLIENT_STATE_H

#include "peer/client.h"
#include "peer/verbs_calls.h"

/* A queue pair, and the server's at its other end. */
struct client_conn {
    struct rdma_cm_id *id;
    uint64_t local, remote; /* the memory that its messages use in turn */
    uint32_t rkey;
    struct cursor out;
    uint32_t prod, done; /* messages posted, completed */
    uint64_t quota;      /* messages left to post */
    uint64_t *posted;    /* TSC, by message modulo the ring */
};

struct client {
    const struct verbs_calls *calls;
    struct rdma_event_channel *channel;
    int signals;                /* readable: the run is to end; -1: none yet */
    struct ibv_context *device; /* of the first connection, and so of all */
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *memory;
    uint64_t part;    /* of the memory, of a connection */
    uint32_t stride;  /* of its messages */
    uint32_t ring;    /* a power of two: messages that may be outstanding */
    uint64_t *posted; /* of all connections */
    unsigned conns;
    struct client_conn conn[];
};

#endif
