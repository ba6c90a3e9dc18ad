/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Checks of keys, addresses, lengths and rights, before anything is copied (volume 1, 9.7.4.1.3 to
 * 9.7.4.1.5 and 10.6.3).
 */
#ifndef UROCE_MR_CHECK_H
#define UROCE_MR_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mr_table.h"

#define MR_CACHE 64

/**
 * The regions that one worker found recently: undoing the permutation takes longer than all the
 * rest of a check. By bits of the key; empty whenever a region was removed since. To begin, set the
 * table and zero the rest. Its worker.
 */
struct mr_cache {
    const struct mr_table *table;
    uint64_t removals; /**< of the table, when it was emptied last */
    struct {
        uint32_t key;
        struct mem_region *mr;
    } entry[MR_CACHE];
};

/** What a check found, or a copy. */
enum mr_fault {
    MR_OK,
    MR_BAD_KEY,    /**< no such key */
    MR_BAD_PD,     /**< belongs to another protection domain */
    MR_BAD_ACCESS, /**< lacks a right asked for */
    MR_BAD_RANGE,  /**< not wholly inside the region (overflow-safe) */
    MR_NO_ROOM,    /**< no check's: mem_refuses() */
};

/**
 * Check an access of the application itself. The cache's worker.
 *
 * @param c  The worker's cache.
 * @param key  The L_Key, any number; a window has none.
 * @param pd  The protection domain of the queue pair.
 * @param va  The first address.
 * @param len  Bytes. 0 is checked as a point at or below the region's end; callers skip the check
 *     where the specification exempts zero length (C9-88).
 * @param access  Rights, enum mem_access; all are needed.
 * @param out  Set on MR_OK.
 * @return  MR_OK, or what is wrong.
 */
enum mr_fault mr_check(struct mr_cache *c, uint32_t key, uint32_t pd, uint64_t va, uint64_t len,
                       uint32_t access, struct mem_region **out);

/**
 * Begin to fetch a byte of a mapped region into the processor's cache. Nothing is checked, as
 * nothing is read. The cache's worker. Does not wait.
 *
 * @param c  The worker's cache: a region that is not in it is left alone.
 * @param key  Its key, or any other number.
 * @param va  The byte's address, any number.
 */
void mr_fetch(const struct mr_cache *c, uint32_t key, uint64_t va);

/**
 * The region that a queue pair's packets went to last. What depends on neither address nor length
 * (key, domain, rights) was checked when it was noted, and holds while no region is removed. Zeroed
 * it knows none. One worker at a time.
 */
struct mr_hint {
    struct mem_region *mr;
    uint64_t removals; /**< of the table */
    uint32_t key;
};

/**
 * Note a region, when the queue pair may access it so. The cache's worker.
 *
 * @param h  Set; it knows no region when the result is false.
 * @param c  The worker's cache.
 * @param key  The key.
 * @param pd  The protection domain of the queue pair.
 * @param access  Rights, enum mem_access.
 * @return  False: the access is refused, or the key is a window's, or the region's addresses wrap
 *     around.
 */
bool mr_hint_note(struct mr_hint *h, struct mr_cache *c, uint32_t key, uint32_t pd,
                  uint32_t access);

/**
 * Whether what was noted is still the region with a key. The hint's worker.
 *
 * @param h  The hint.
 * @param t  The table.
 * @param key  The key.
 * @return  True when it is.
 */
bool mr_hint_holds(const struct mr_hint *h, const struct mr_table *t, uint32_t key);

/**
 * Memory that a peer may reach. While a window is held it cannot be bound again or invalidated: the
 * worker that does so waits. Therefore a span ends before its holder binds or invalidates a window
 * itself, and before it waits for another thread; a worker holds none between two passes of its
 * loop.
 */
struct mr_span {
    struct mem_region *mr;     /**< a region, also where the key is a window's */
    uint64_t addr;             /**< the application's virtual address of the first byte */
    struct mem_region *window; /**< held until mr_span_end; NULL: none */
};

/**
 * Check an access of a peer. The cache's worker.
 *
 * @param c  The worker's cache.
 * @param key  The R_Key, any number.
 * @param pd  The protection domain of the queue pair.
 * @param qpn  The queue pair. A type 2 window serves only the one on which it was bound
 *     (MR_BAD_PD).
 * @param va  The first address.
 * @param len  Bytes; 0 as for mr_check().
 * @param access  Rights, enum mem_access; all are needed.
 * @param out  Set on MR_OK; the caller ends it, by mr_span_end() or through a batch.
 * @return  MR_OK, or what is wrong.
 */
enum mr_fault mr_check_remote(struct mr_cache *c, uint32_t key, uint32_t pd, uint32_t qpn,
                              uint64_t va, uint64_t len, uint32_t access, struct mr_span *out);

/**
 * Release a window; mr_span_end() calls it. The span's worker.
 *
 * @param w  The window.
 */
void window_release(struct mem_region *w);

/**
 * End a span. The span's worker.
 *
 * @param s  The span; ending it again does nothing.
 */
static inline void mr_span_end(struct mr_span *s)
{
    if (s->window)
        window_release(s->window);
    s->window = NULL;
}

#endif
