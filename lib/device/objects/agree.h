/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which peers have agreed on maps of kept packets (decision 0021). A program or the CM may have
 * said so (ece.h). Else, when a connection gets its path, the peer's port is asked by a MAD
 * (peer_mad.h), at most once in AGREE_HOLDS; until its answer is there, and without one, the
 * connection is one to a stranger, and nothing waits. Control thread.
 */
#ifndef UROCE_DEVICE_AGREE_H
#define UROCE_DEVICE_AGREE_H

#include <sys/queue.h>

#include "cm_types.h"
#include "common.h"

struct address_vector;
struct qp_object;
struct rnic;

#define AGREE_PEERS 64                /* asked, or known, at a time */
#define AGREE_HOLDS (10 * NS_PER_SEC) /* the peer may be another by then */
#define AGREE_TRIES 4                 /* one in AGREE_WAIT */
#define AGREE_WAIT  (50 * NS_PER_MS)

struct agree_peer {
    LIST_HEAD(, qp_object) waiting; /* connections that the answer will be for */
    struct cm_path path;            /* dgid and vlan name the peer */
    uint64_t transaction;
    ns_t at; /* when it was asked last, or answered */
    enum agree_state { AGREE_FREE, AGREE_ASKED, AGREE_ANSWERED } state;
    unsigned asked;
    bool maps; /* it has agreed */
};

int agree_open(struct rnic *r);
void agree_close(struct rnic *r);

/* The queue pair has its path. */
void agree_connected(struct qp_object *q, const struct address_vector *av);
/* It has none any more, or ends. */
void agree_forget(struct qp_object *q);

/* Asks again those that have not answered in time, or gives them up. */
void agree_ask_again(struct rnic *r);

#endif
