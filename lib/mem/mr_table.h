/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The keys of regions and windows: from a key to its region (volume 1, 10.6.3).
 */
#ifndef UROCE_MR_TABLE_H
#define UROCE_MR_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "mem.h"

#define MR_REMOVALS_NOTED 256 /**< the latest ones; a power of two */
#define MR_LEAVING        256 /**< mapped regions; more than are removed at once */

/**
 * Keys are 32 bits: the upper 24 a secret permutation of (slot, generation), the lower 8 a random
 * tag; so live keys are spread over the whole space and an old key is not soon valid again.
 * Key 0 is never issued.
 */
struct mr_table {
    uint32_t slots;     /**< capacity, a power of two, at most 2^20 */
    uint32_t slot_bits; /**< log2 of it */
    uint64_t secret[2]; /**< from getrandom(2), or a seed in tests */
    uint32_t next;      /**< where the search for a free slot starts */
    uint32_t used;
    _Atomic uint32_t top;      /**< no slot from this one on was ever used */
    _Atomic uint64_t removals; /**< ever; read by workers with acquire */
    uint16_t *generation;      /**< per slot: 24 - slot_bits bits of it, at most 16, count */
    struct mem_region *_Atomic *region; /**< per slot; read by workers with acquire */
    _Atomic uint64_t noted;             /**< removals that were noted, ever */
    struct {
        _Atomic uint64_t key, time;
    } removal[MR_REMOVALS_NOTED];
    uint32_t left; /**< regions that began to leave, ever */
    struct mr_leaving {
        _Atomic uintptr_t start; /**< where it is mapped; 0: none, or it is being written */
        _Atomic uint64_t len;
        struct mem_region *_Atomic mr;
    } leaving[MR_LEAVING]; /**< removed, and workers may still use their mappings */
};

#define MR_TABLE_MAX_SLOTS (1u << 20)

/**
 * Make an empty table. Control thread.
 *
 * @param t  Set on success.
 * @param slots  Capacity, rounded up to a power of two.
 * @param secret  Random numbers that order the keys; copied.
 * @return  0; -ENOMEM; -EINVAL: more than MR_TABLE_MAX_SLOTS.
 */
int mr_table_init(struct mr_table *t, uint32_t slots, const uint64_t secret[2]);

/**
 * Free a table; no worker may use it any more. Control thread.
 *
 * @param t  The table. Regions that are in it remain their owner's.
 */
void mr_table_fini(struct mr_table *t);

/**
 * Issue a key for a region, and make the region visible to workers. Control thread.
 *
 * @param t  The table.
 * @param mr  The region, complete except for its key, which is set. Borrowed until mr_remove().
 * @param tag  A random byte.
 * @return  0; -ENOSPC: the table is full.
 */
int mr_insert(struct mr_table *t, struct mem_region *mr, uint8_t tag);

/**
 * Give a region the key of another one, which leaves the table. Control thread.
 *
 * @param t  The table.
 * @param old  A region that is in it. The caller frees it after the workers' next quiet point;
 * until then some accesses may find it.
 * @param mr  The region, complete except for its key. Borrowed until mr_remove().
 */
void mr_replace(struct mr_table *t, struct mem_region *old, struct mem_region *mr);

/**
 * Make a region's key invalid at once. Control thread.
 *
 * @param t  The table.
 * @param mr  The region. The caller frees it after the workers' next quiet point, and mr_left().
 */
void mr_remove(struct mr_table *t, struct mem_region *mr);

/**
 * No worker uses the mapping of a region that was removed or replaced: mr_find_direct() does not
 * find it any more. Control thread, after the workers' quiet point.
 *
 * @param t  The table.
 * @param mr  Any region.
 */
void mr_left(struct mr_table *t, const struct mem_region *mr);

/**
 * Note that the application deregisters a region, for mr_removed_at(): before mr_remove(). Control
 * thread.
 *
 * @param t  The table.
 * @param mr  The region.
 * @param now  ns; 0 is taken for 1.
 */
void mr_note_removal(struct mr_table *t, const struct mem_region *mr, uint64_t now);

/**
 * When the region of a key was deregistered, if that was one of the latest. Any thread.
 *
 * @param t  The table.
 * @param key  Any number.
 * @return  ns; 0: not known.
 */
uint64_t mr_removed_at(const struct mr_table *t, uint32_t key);

/**
 * The region that is mapped at an address, also one that was removed while the worker used it.
 * Workers, also in a signal handler.
 *
 * @param t  The table.
 * @param at  Any address of this process.
 * @return  The region, valid until the worker's next quiet point; NULL: none is mapped there.
 */
struct mem_region *mr_find_direct(const struct mr_table *t, const void *at);

/**
 * Make all accesses to a region, and to the windows that are bound to it, fail from now on as with
 * another protection domain; accesses that were checked before may still be under way. It remains
 * in the table. Workers, also in a signal handler.
 *
 * @param t  The table.
 * @param mr  The region.
 */
void mr_fail(struct mr_table *t, struct mem_region *mr);

/**
 * The region or window with a key. Any thread.
 *
 * @param t  The table.
 * @param key  Any number.
 * @return  The region, valid until the worker's next quiet point; of a window it may be out of
 *     date. NULL: there is none.
 */
struct mem_region *mr_lookup(const struct mr_table *t, uint32_t key);

/**
 * The region or window with a key whose lower byte may be another one: of windows that a bind gave
 * a new key. Any thread.
 *
 * @param t  The table.
 * @param key  Any number.
 * @return  As mr_lookup().
 */
struct mem_region *mr_lookup_any_tag(const struct mr_table *t, uint32_t key);

#endif
