/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Completion counters: both ends of the memory in which workers count completed work for an
 * application. Pure.
 */
#ifndef UROCE_COMP_COUNTER_H
#define UROCE_COMP_COUNTER_H

#include <stdbool.h>

#include "queue_abi.h"

/** The dataplane's end. */
struct comp_counter {
    struct counter_line *line; /**< by lane */
    bool bytes;                /**< counts bytes of work that is done, not its work requests */
};

/**
 * Count work. The lane's worker. It adds to whatever it finds: an application that writes to its
 * counter has only itself to blame.
 *
 * @param c  The counter.
 * @param lane  The worker's lane.
 * @param done  Work requests that are done; what they have moved is where it belongs.
 * @param bytes  Of these.
 * @param failed  Work requests that have failed.
 */
void comp_counter_add(struct comp_counter *c, uint32_t lane, uint64_t done, uint64_t bytes,
                      uint64_t failed);

/** The application's end. To begin, set the first two fields and zero the rest. */
struct counter_reader {
    const struct counter_line *line;
    uint32_t lines;
    /** What the application has added itself, modulo 2^64. */
    _Atomic uint64_t done, failed;
};

/** One of the two counts. */
enum counter_part { COUNTER_DONE, COUNTER_FAILED };

/**
 * Read a count. Any thread.
 *
 * @param r  The reader.
 * @param part  Which.
 * @return  The count. Of work that it includes, the bytes are there.
 */
uint64_t counter_reader_get(const struct counter_reader *r, enum counter_part part);
/**
 * Add to a count. Any thread.
 *
 * @param r  The reader.
 * @param part  Which.
 * @param n  How much; after 2^64 - 1 comes 0.
 */
void counter_reader_add(struct counter_reader *r, enum counter_part part, uint64_t n);
/**
 * Set a count. Any thread; what is added concurrently may be lost.
 *
 * @param r  The reader.
 * @param part  Which.
 * @param value  The count.
 */
void counter_reader_set(struct counter_reader *r, enum counter_part part, uint64_t value);

#endif
