/* SPDX-License-Identifier: BSD-3-Clause */
/* A completion queue as its pollers see it. */
#ifndef UROCE_CLIENT_CQ_H
#define UROCE_CLIENT_CQ_H

#include <pthread.h>

#include "client.h"
#include "client_qp.h"
#include "comp_queue.h"

/* The uidx of a completion whose queue pair is gone or was reset. */
#define UIDX_DEAD UINT32_MAX

struct client_cq {
    struct cq_reader reader; /* under lock */
    struct spin lock;
    /* Taken after lock: holds the reader's segment, for those that look at it without lock. */
    struct spin place;
    /* &client_idle of the thread that has the lock from ibv_start_poll to ibv_end_poll, which may
     * destroy queue pairs and the queue there; or NULL. */
    const struct client_idle *_Atomic reading;
    bool single_threaded; /* the application has promised this: no locking */
    bool has_channel;
    pthread_mutex_t resizing; /* the daemon resizes it for one thread at a time */
    struct client *client;
    uint32_t id, handle;
    _Atomic int users; /* queue pairs and work queues, which lead to it */
    /* What had been consumed when the application got an event, + 1, if a completion waited; else
     * 0. While it is the same, the application has yet to poll for what the event was about. */
    _Atomic uint64_t told;
};

/*
 * Creates a queue of at least `cqe` CQEs; channel: a channel's handle or 0; flags: enum
 * ctl_cq_flag. Returns 0 or a negative errno. Events name the queue by slot_id_to_cookie(cq->id).
 */
int client_cq_create(struct client *c, struct client_cq *cq, uint32_t cqe, uint32_t channel,
                     uint32_t vector, uint32_t flags);

/* Destroys the queue, which no thread may poll any more but one that has an event to acknowledge:
 * it finds nothing. Returns 0, also when the daemon is gone; -EBUSY while queue pairs use it; or
 * -EIO: the daemon does not answer, and the queue is destroyed too. */
int client_cq_destroy(struct client_cq *cq);

/*
 * Resizes the queue to at least `cqe` CQEs, and writes to *size how many it has, before another
 * thread may resize it; what waits in it stays. 0; -EINVAL: more than that waits; -EBUSY: the
 * calling thread is between start_poll and end_poll, and reads a CQE where it lies; or another
 * negative errno. After an error the queue and *size are as they were. Any thread; takes the lock.
 */
int client_cq_resize(struct client_cq *cq, uint32_t cqe, int *size);

/* An event waits for `count` completions or `period_us`: transport/moderation.h. 0 or a negative
 * errno. */
int client_cq_moderate(struct client_cq *cq, uint16_t count, uint16_t period_us);

/* Hides the outstanding completions of queue pair `uidx`, for which the daemon must have stopped
 * posting. Takes the lock, unless the calling thread is between start_poll and end_poll: the CQE
 * that it reads keeps its other fields. */
void client_cq_clean(struct client_cq *cq, uint32_t uidx);

/* Whether it is being destroyed: it reads from an empty segment. Under the lock. */
bool client_cq_is_leaving(const struct client_cq *cq);

/* Whether a completion waits. Without the lock: a hint. Any thread, as long as the queue is in the
 * table. */
bool client_cq_pending(struct client_cq *cq);

/* The application gets an event of the queue. Any thread. */
void client_cq_tell(struct client_cq *cq);

/*
 * Arms the queue. The next completion raises an event; so does, as of NICs, one that waits already,
 * if the application does not know of it: it may sleep without polling again (UCX does). It knows
 * when it has got an event and has not polled since. Any thread.
 */
void client_cq_arm(struct client_cq *cq, enum cq_arm arm);

static inline void client_cq_lock(struct client_cq *cq)
{
    if (!cq->single_threaded)
        spin_lock(&cq->lock);
}

static inline void client_cq_unlock(struct client_cq *cq)
{
    if (!cq->single_threaded)
        spin_unlock(&cq->lock);
}

/* The calling thread has the lock until it says client_cq_reads(cq, NULL): &client_idle. */
static inline void client_cq_reads(struct client_cq *cq, const struct client_idle *thread)
{
    atomic_store_explicit(&cq->reading, thread, memory_order_relaxed);
}

/*
 * The next completion, or NULL. The WQEs that it completes are free again. Under the lock; valid
 * until client_cq_advance.
 *
 * The lock also keeps the queue pair alive here: before its memory is freed, client_cq_clean takes
 * the locks of its completion queues.
 */
static inline const struct cqe *client_cq_next(struct client_cq *cq)
{
    const struct cqe *e;

    while ((e = cq_reader_peek(&cq->reader))) {
        struct client_qp *qp = slot_table_get(&cq->client->qps, e->uidx);

        if (unlikely(e->uidx == CQE_UIDX_NONE)) /* of an XRC SRQ, whose WQEs the daemon frees */
            return e;
        if (likely(qp != NULL)) {
            client_qp_retire(qp, e);
            return e;
        }
        cq_reader_advance(&cq->reader);
    }
    return NULL;
}

static inline void client_cq_advance(struct client_cq *cq)
{
    cq_reader_advance(&cq->reader);
}

#endif
