/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory regions: who may touch which bytes of an application, and how the bytes are reached.
 *
 * Every access by a local or remote peer goes check first, then copy: mr_check and mr_check_remote
 * (mr_check.h) turn (key, address, length, access) into a region or a fault; only then do the mem_*
 * calls (mem_batch.h) move bytes. Clauses: volume 1, 10.6.3 (keys and access), 9.7.4.1.3
 * to 9.7.4.1.5 (R_Key validation).
 *
 * Threads: the control thread inserts and removes regions; workers look them up. A removed
 * region's memory may be freed only after every worker has passed a quiet point. The table itself
 * never moves. A published region does not change; only its `direct`, `space` and `backend` may,
 * and only while no worker runs. A window does change, by work requests of any worker, but not
 * while a worker reaches memory through it: see struct mr_span in mr_check.h.
 */
#ifndef UROCE_MEM_H
#define UROCE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Numeric values of enum ibv_access_flags. */
enum mem_access {
    MEM_LOCAL_WRITE = 1 << 0,
    MEM_REMOTE_WRITE = 1 << 1,
    MEM_REMOTE_READ = 1 << 2,
    MEM_REMOTE_ATOMIC = 1 << 3,
    MEM_MW_BIND = 1 << 4,
    MEM_ZERO_BASED = 1 << 5,
    MEM_ON_DEMAND = 1 << 6,
    MEM_FLUSH_GLOBAL = 1 << 8,
    MEM_FLUSH_PERSISTENT = 1 << 9,
    MEM_LOCAL_READ = 0, /**< always granted */
};
#define MEM_ACCESS_OPTIONAL                                                \
    UINT32_C(0x3ff00000) /**< IBV_ACCESS_OPTIONAL_RANGE: accepted, ignored \
                          */

/** The atomic operations. */
enum mem_atomic_op { MEM_CMP_SWP, MEM_FETCH_ADD };

struct mem_region;

/**
 * One transfer between application memory (addr, a virtual address of the application inside the
 * region) and dataplane memory (local).
 */
struct mem_io {
    struct mem_region *mr;
    uint64_t addr;
    uint8_t *local;
    uint32_t len;
    int32_t status; /**< set by the transfer: 0, -EFAULT (bad page), -ESRCH (application gone),
                       -EPERM, -EINPROGRESS or -EBUSY (struct mem_caller) */
    uint64_t tag;   /**< the caller's own */
    struct mem_region *window; /**< held until the transfer is done, or NULL; the batch's */
};

/**
 * How the bytes of a region are reached; one table per way (drivers/mem). The n transfers all
 * belong to regions of one `space`. Each call sets every status; a failed transfer does not keep
 * the others from being done. Workers.
 */
struct mem_backend {
    const char *name;
    void (*copy_in)(void *space, struct mem_io *io, unsigned n);  /**< application -> local */
    void (*copy_out)(void *space, struct mem_io *io, unsigned n); /**< local -> application */
    /** 8 aligned bytes at addr; the old value, host order, to *old. 0, -EFAULT or -ESRCH. */
    int (*atomic)(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                  uint64_t swap_add, uint64_t compare, uint64_t *old);
    /** Keep a space although its application leaves; and give it back, on any thread. May be NULL
     * when spaces outlive the workers. */
    void (*hold)(void *space);
    void (*release)(void *space);
    /** Where to count the space's late calls (mem_call_begin_late). May be NULL. */
    _Atomic unsigned *(*late)(void *space);
    int (*pid)(const void *space);  /**< the application's process; may be NULL */
    int (*user)(const void *space); /**< and its user; may be NULL */
};

/** Reads zeros, and discards what is written; of no space. */
extern const struct mem_backend mem_null_backend;

/** What a key stands for. */
enum mem_kind {
    MEM_REGION,
    MEM_WINDOW_1, /**< type 1: bound to a region, for any queue pair of the protection domain */
    MEM_WINDOW_2, /**< type 2: for one queue pair, and of its protection domain (2B) */
};

/** No protection domain has this number. */
#define MEM_PD_NONE UINT32_MAX

/** Late calls that move bytes of a region. It lasts until the region and these have ended. */
struct mem_late;

/** A region or a window. The control thread fills it in before mr_insert(). */
struct mem_region {
    uint8_t kind;              /**< enum mem_kind */
    bool bound;                /**< windows: has a region behind it; regions: always true */
    uint32_t qpn;              /**< MEM_WINDOW_2: the queue pair it was bound on */
    _Atomic uint32_t windows;  /**< regions: windows bound to it, see region_close */
    _Atomic uint32_t gate;     /**< windows: who uses or changes it (mem_window.c) */
    struct mem_region *parent; /**< windows: the region it is bound to */
    _Atomic uint32_t key;      /**< lkey and rkey */
    _Atomic uint32_t pd;       /**< protection domain it belongs to; MEM_PD_NONE: mr_fail() */
    uint32_t access;           /**< enum mem_access */
    uint64_t iova;             /**< address that work requests and peers use for the first byte */
    uint64_t addr;             /**< the application's virtual address of the first byte */
    uint64_t len;
    uint8_t *direct; /**< dataplane's own mapping of addr[0..len), or NULL: use the backend */
    const struct mem_backend *backend;
    void *space;                   /**< the backend's handle on the application */
    struct mem_late *_Atomic late; /**< NULL: there was none yet */
    struct {
        /** Backend calls that copied to or from it. A worker may lose what another one counts at
         * the same moment. */
        _Atomic uint64_t uses;
        _Atomic uint32_t limit;  /**< at how many it is hot; 0: never */
        _Atomic bool listed;     /**< it has been put on the list, or is about to be */
        bool taken;              /**< and then from it; the control thread's */
        struct mem_region *next; /**< in that */
    } heat;
};

/**
 * Whether bytes of a region may still be moved by a late call. It may not be deregistered, nor a
 * window of it be bound anew or invalidated. Any thread. No call becomes late after all workers'
 * next quiet point if no check finds the region any more; nor after a window is closed, for its
 * users.
 *
 * @param mr  The region.
 * @return  True when it is.
 */
bool mr_waits(const struct mem_region *mr);

/**
 * A region's memory is about to be freed. Control thread, after the workers' quiet point. Late
 * calls may still be under way.
 *
 * @param mr  The region.
 */
void mr_end(struct mem_region *mr);

/** A part of the file that backs a region. */
struct mem_piece {
    uint64_t offset, len;
};

/**
 * The application's virtual address for an address that a check has accepted. Any thread.
 *
 * @param mr  The region.
 * @param va  The address that a work request or a peer uses.
 * @return  The virtual address.
 */
static inline uint64_t mr_host_addr(const struct mem_region *mr, uint64_t va)
{
    return mr->addr + (va - mr->iova);
}

/**
 * Where the dataplane reaches an address that a check has accepted, of a region that has `direct`.
 * Any thread.
 *
 * @param mr  The region.
 * @param va  The address that a work request or a peer uses.
 * @return  The address in this process.
 */
static inline uint8_t *mr_direct(const struct mem_region *mr, uint64_t va)
{
    return mr->direct + (va - mr->iova);
}

/**
 * Whether [va, va + len) is inside a region. No sum is formed, so that nothing can wrap around. Any
 * thread.
 *
 * @param mr  The region.
 * @param va  The first address, any number.
 * @param len  Bytes, any number.
 * @return  True when it is.
 */
static inline bool mr_covers(const struct mem_region *mr, uint64_t va, uint64_t len)
{
    uint64_t off = va - mr->iova;

    return va >= mr->iova && off <= mr->len && len <= mr->len - off;
}

#endif
