/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What applications have, as the dataplane knows it: contexts, queue pairs, completion queues and
 * channels, shared receive queues and work queues.
 */
#ifndef UROCE_DP_OBJECTS_H
#define UROCE_DP_OBJECTS_H

#include "dp_events.h"
#include "engine.h"

struct worker_group;
struct worker_port;

#define DP_SLOT_CHUNK 4096

/**
 * An application's queue pairs by doorbell slot, the same for all workers: a directory of chunks,
 * so that no entry moves when it grows. The control thread writes; it frees a removed queue pair
 * after the workers' next quiet point.
 */
struct dp_slots {
    struct dp_qp *_Atomic *_Atomic chunk[DB_SLOTS / DP_SLOT_CHUNK];
    _Atomic uint32_t faults; /**< for worker_ctx.faults */
};

/**
 * An application's context on one worker. The control thread fills it in. From worker_ctx_attach to
 * worker_ctx_detach only the worker touches the fields marked W.
 */
struct worker_ctx {
    struct ctx_shared *shared;
    struct doorbells *doorbells; /**< this worker's, in shared */
    struct share *share;         /**< the program's, at this worker's engine; NULL: no limit */
    void *owner;                 /**< the control thread's */
    struct dp_slots *slots;
    void *space; /**< mem_region.space of its regions */
    /** Counts the times that memory has failed which its queue pairs may use: its own program's,
     * and that of programs that share objects with it. */
    _Atomic uint32_t *faults;
    uint32_t faults_seen;         /**< W: *faults, when its queue pairs were last failed */
    int wake_fd;                  /**< eventfd: the application writes it to wake the worker */
    ns_t rung;                    /**< W: when a doorbell was last taken */
    unsigned place;               /**< W: in the worker's array */
    uint32_t polls_seen;          /**< W: shared->polls at the last sample */
    bool wake_listed;             /**< W: in the worker's list of contexts to wake */
    bool written;                 /**< W: since then, the peer has changed its memory */
    struct worker_ctx *wake_next; /**< W */
    uint8_t pad[CACHE_LINE];      /**< no line in common with the context on another worker */
};

/** A queue pair as the dataplane knows it; qp_init.owner points to it. */
struct dp_qp {
    struct qp *qp;
    struct worker_ctx *ctx;           /**< any worker's: it stands for the application */
    struct worker_ctx **by_worker;    /**< the application's on each worker */
    struct worker_port *_Atomic port; /**< the part that owns it: see worker_migrate_qp */
    uint32_t slot;                    /**< doorbell slot */
    struct dp_events events;
};

/**
 * A completion channel: the dataplane's end of its socket. The worker sends events at once. When
 * the socket is full it counts them at their CQ, and the control thread sends them later.
 */
struct dp_channel {
    int fd;
};

/** Who has a completion queue's unsent events. */
enum dp_cq_late {
    CQ_IN_TIME, /**< there are none, or they wait for the next one: a worker lists the CQ then */
    CQ_LISTED,  /**< the workers' list: dp_cq_take_late() */
    CQ_TAKEN,   /**< the control thread: dp_cq_send_unsent() */
};

/** A completion queue as the dataplane knows it; comp_queue.owner points to it. */
struct dp_cq {
    struct comp_queue cq;
    struct worker_ctx **ctx;    /**< by worker: the context to wake */
    struct dp_channel *channel; /**< or NULL */
    _Atomic uint32_t unsent;    /**< events for the control thread to send */
    _Atomic uint32_t late;      /**< enum dp_cq_late */
    struct dp_cq *next_late;    /**< on the list, and of those that were taken together */
    struct dp_events events;
};

/** A shared receive queue as the dataplane knows it; srq_init.owner points to it. */
struct dp_srq {
    struct dp_events events;
};

/** A work queue for raw packets as the dataplane knows it; wq_init.owner points to it. */
struct dp_wq {
    struct worker_ctx *ctx;
    struct dp_events events; /**< detail: resets when WQ_FATAL was raised last */
    uint32_t resets;         /**< times it was moved to RESET */
};

/* ---- functions ---- */

/**
 * Put a queue pair into a slot. Control thread.
 *
 * @param s  The slots.
 * @param slot  Below DB_SLOTS.
 * @param dq  The queue pair; NULL empties the slot.
 * @return  0; -ENOMEM.
 */
int dp_slots_set(struct dp_slots *s, uint32_t slot, struct dp_qp *dq);

/**
 * Free the directory; no worker may use it any more. Control thread.
 *
 * @param s  The slots.
 */
void dp_slots_fini(struct dp_slots *s);
/**
 * The queue pair of a slot. Workers.
 *
 * @param s  The slots.
 * @param slot  Any number: it comes from the application.
 * @return  The queue pair, valid until the worker's next quiet point; NULL: the slot is empty or
 *     out of range.
 */
struct dp_qp *dp_slots_get(const struct dp_slots *s, uint32_t slot);

/**
 * Send an event of a CQ, or count it as unsent and list the CQ. Any thread.
 *
 * @param g  The workers.
 * @param dq  The CQ, which has a channel and is no longer armed.
 * @param listed  Set: whether this call has listed the CQ, and the control thread has to be told.
 * @return  True when it is sent.
 */
bool dp_cq_send_or_count(struct worker_group *g, struct dp_cq *dq, bool *listed);

/**
 * Take the list of CQs that have unsent events. Control thread.
 *
 * @param g  The workers.
 * @return  The first, whose next_late is the next; NULL: there is none. They are CQ_TAKEN: workers
 *     list none of them again before dp_cq_send_unsent() has sent all of its events, or
 *     dp_cq_allow_listing().
 */
struct dp_cq *dp_cq_take_late(struct worker_group *g);

/**
 * Send the unsent events of a CQ until its channel is full. Control thread.
 *
 * @param dq  The CQ.
 * @return  True when all are sent: workers list the CQ when it has others. False: call again when
 *     the channel has room.
 */
bool dp_cq_send_unsent(struct dp_cq *dq);

/**
 * Let workers list a CQ although it has unsent events: its next event brings it back, when the
 * control thread cannot wait for room in its channel. Control thread.
 *
 * @param dq  The CQ.
 */
void dp_cq_allow_listing(struct dp_cq *dq);

#endif
