/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a key is that a check has refused: for explanations.
 */
#ifndef UROCE_MR_ABOUT_H
#define UROCE_MR_ABOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "mr_table.h"

/** What a key is, as one protection domain and queue pair sees it. */
enum mr_key_is {
    MR_KEY_NONE = 1,    /**< no key, or another domain's: one cannot be told from the other */
    MR_KEY_REMOVED,     /**< of a region that was deregistered lately */
    MR_KEY_REGION,      /**< a region's */
    MR_KEY_WINDOW_1,    /**< a type 1 window's, which is bound */
    MR_KEY_WINDOW_2,    /**< a type 2 window's, bound on the queue pair */
    MR_KEY_OF_OTHER_QP, /**< a type 2 window's, bound on another queue pair */
    MR_KEY_UNBOUND,     /**< a window's that is not bound */
    MR_KEY_OLD,         /**< a window's that has another key now */
};

/** What a key is, and what it gives access to; the rest is 0 if that is nothing. */
struct mr_about {
    enum mr_key_is is;
    uint32_t access;
    uint64_t va, len;
};

/**
 * What a key is that a check has refused. A worker that holds no span.
 *
 * @param t  The table.
 * @param key  Any number.
 * @param pd  The protection domain of the queue pair: nothing is said of another one's keys.
 * @param qpn  The queue pair.
 * @param out  Set.
 */
void mr_about(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn,
              struct mr_about *out);

/**
 * A region of a protection domain that has an address; one that has all the bytes, if one has. It
 * looks at a bounded number of regions. Workers.
 *
 * @param t  The table.
 * @param pd  The protection domain.
 * @param va  The first address.
 * @param len  Bytes.
 * @param out  Set: the region, valid until the worker's next quiet point, or NULL.
 * @return  False: *out is NULL, and there may be one.
 */
bool mr_find_address(const struct mr_table *t, uint32_t pd, uint64_t va, uint64_t len,
                     const struct mem_region **out);

#endif
