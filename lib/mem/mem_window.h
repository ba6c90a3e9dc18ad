/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory windows: bound, invalidated and taken off their regions (volume 1, 10.6.7).
 */
#ifndef UROCE_MEM_WINDOW_H
#define UROCE_MEM_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "mr_check.h"

/** What a bind asks for. */
struct window_bind {
    uint32_t window_key; /**< as it is now */
    uint32_t new_key;    /**< only the low byte may differ */
    uint32_t region_key;
    uint32_t pd, qpn; /**< of the queue pair that binds */
    uint64_t va, len; /**< in the region; len 0 unbinds a type 1 window */
    uint32_t access;  /**< remote rights, and MEM_ZERO_BASED */
};

/**
 * Bind a window (10.6.7.2). When it returns, no access by the old key is under way: it waits until
 * other workers' spans have ended. Any worker that holds no span.
 *
 * @param t  The table.
 * @param b  What is asked for.
 * @return  MR_OK, or the fault: no such window or region, another domain, a type 2 window that is
 *     bound already, a region without MEM_MW_BIND (or without local write where the window lets
 *     peers write), a range that is not inside. MR_BAD_ACCESS also while mr_waits() for the region
 *     that it is bound to.
 */
enum mr_fault window_bind(const struct mr_table *t, const struct window_bind *b);

/** Why a window cannot be bound: the first condition that fails. */
enum window_fault {
    WINDOW_OK,
    WINDOW_NO_WINDOW,     /**< its key is no window's, or not the present one */
    WINDOW_NEW_KEY,       /**< the new key differs in more than the low byte */
    WINDOW_OTHER_DOMAIN,  /**< the window is of another domain than the queue pair */
    WINDOW_BOUND,         /**< type 2, and bound already */
    WINDOW_NO_LENGTH,     /**< type 2, and of 0 bytes */
    WINDOW_RIGHTS,        /**< rights that no window has */
    WINDOW_NO_REGION,     /**< the region's key is unknown */
    WINDOW_REGION_DOMAIN, /**< the region is of another domain */
    WINDOW_REGION_BIND,   /**< the region lacks MEM_MW_BIND */
    WINDOW_REGION_RANGE,  /**< the range is not inside the region */
    WINDOW_REGION_WRITE,  /**< peers could write, and the region lacks MEM_LOCAL_WRITE */
    WINDOW_BUSY,          /**< its region, or the new one, is being deregistered or copied to */
    WINDOW_FAULTS
};

/**
 * Why window_bind() has failed. Any worker that holds no span.
 *
 * @param t  The table.
 * @param b  What was asked for.
 * @return  The reason; WINDOW_OK: it is not there any more.
 */
enum window_fault window_bind_why(const struct mr_table *t, const struct window_bind *b);

/**
 * Invalidate a type 2 window, for LOCAL INVALIDATE or a peer's SEND with invalidate. Waits as
 * window_bind(). Any worker that holds no span.
 *
 * @param t  The table.
 * @param key  The window's key.
 * @param pd  The protection domain of the queue pair.
 * @param qpn  The queue pair.
 * @return  MR_OK; MR_BAD_KEY: there is none; MR_BAD_PD: it is another domain's or queue pair's;
 *     MR_BAD_ACCESS: it cannot be invalidated (a region, a type 1 window; or mr_waits() for its
 *     region).
 */
enum mr_fault window_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn);

/**
 * Take a window off its region, before it is deallocated. Waits as window_bind(). Any thread that
 * holds no span.
 *
 * @param w  The window.
 */
void window_unbind(struct mem_region *w);

/**
 * mr_waits() for the region that a window is bound to. Any thread that keeps the window from being
 * bound; while it has users the result may change.
 *
 * @param w  The window.
 * @return  True when it is bound, and the region waits.
 */
bool window_waits(const struct mem_region *w);

/**
 * Bind no window to a region any more, before it is deregistered. Any thread.
 *
 * @param r  The region.
 * @return  False, and nothing has changed: windows are bound to it.
 */
bool region_close(struct mem_region *r);

/**
 * Whether windows are bound to a region. Any thread.
 *
 * @param r  The region.
 * @return  True when there are some.
 */
bool region_has_windows(const struct mem_region *r);

/**
 * window_unbind() if the window is bound to a region that ends. Any thread that holds no span.
 *
 * @param w  The window.
 * @param ends  Says that of a region, which windows are bound to.
 * @param arg  For it.
 */
void window_unbind_if(struct mem_region *w, bool (*ends)(const struct mem_region *r, void *arg),
                      void *arg);

#endif
