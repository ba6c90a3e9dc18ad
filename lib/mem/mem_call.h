/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Calls of backends, and who makes them: a call waits when the application's memory does.
 */
#ifndef UROCE_MEM_CALL_H
#define UROCE_MEM_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "mem.h"

#define MEM_BATCH_MAX 64
#define MEM_SMALL     64u /* bytes of a transfer that a call keeps itself */

/** What a call does. */
enum mem_call_kind { MEM_CALL_IN, MEM_CALL_OUT, MEM_CALL_ATOMIC };

/**
 * One call of a backend, with all that it needs except the bytes of longer transfers: the thread
 * that makes it may still be busy with it when its caller goes on.
 */
struct mem_call {
    enum mem_call_kind kind;
    const struct mem_backend *backend;
    void *space;
    void *owner; /**< of the batch */
    unsigned n;
    struct mem_io io[MEM_BATCH_MAX]; /**< an atomic has one */
    enum mem_atomic_op op;
    uint64_t swap_add, compare, old;
    /** The bytes of transfers up to MEM_SMALL, one behind the other: the backend's call gets those
     * of neighbours as one range. */
    uint8_t small[MEM_BATCH_MAX * MEM_SMALL];
    uint8_t *own;                 /**< the bytes of all others: mem_call_own(); or NULL */
    uint8_t *lent[MEM_BATCH_MAX]; /**< where the batch has the bytes of io[i] */
    void *late;                   /**< the owner's, about a late call */
    struct mem_late *regions[MEM_BATCH_MAX]; /**< of a late call; NULL: as of the one before */
};

/**
 * Make a call. Any thread.
 *
 * @param c  The call; the statuses, and old, are set.
 */
void mem_call_run(struct mem_call *c);

/**
 * Give a call its own copy of the bytes that it copies to an application, or its own room for those
 * that it copies from there, unless it has that. Any thread.
 *
 * @param c  The call. c->own is to be freed when the call is over: by the caller if it is late,
 * else by the batch.
 * @return  True; false: out of memory.
 */
bool mem_call_own(struct mem_call *c);

/**
 * A call is late: its caller goes on without it. Keeps its space, and counts it for the space and
 * for its regions (mr_waits). The worker, before it releases a window or passes a quiet point.
 *
 * @param c  The call.
 */
void mem_call_begin_late(struct mem_call *c);

/**
 * A late call has ended. Any thread.
 *
 * @param c  The call.
 */
void mem_call_end_late(struct mem_call *c);

/**
 * Who makes the calls of backends, which wait when the application's memory does: for a file
 * server, for a handler of page faults. NULL in a batch: the thread that flushes it.
 */
struct mem_caller {
    /** Where the next call is prepared; the caller's. Of the batches that share the caller one has
     * transfers queued at a time: they are collected here. */
    struct mem_call *call;
    /**
     * Make the prepared call. False: it goes on without this thread, or is put off. Its transfers
     * then have the status -EINPROGRESS, and `call` is another one. Bytes that the batch lent it
     * (of transfers longer than MEM_SMALL) must stay where they are until it is over, as only run
     * knows; the batch may have given the call its own (bytes_leave).
     */
    bool (*run)(struct mem_caller *caller);
    /** Whether calls for some region cannot be made now; then refuses() says for which. A call that
     * copies from an application is not made at all then: its transfers get -EBUSY. */
    bool full;
    bool (*refuses)(struct mem_caller *caller, const struct mem_region *mr);
};

#endif
