/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory regions: who may touch which bytes of an application, and how the bytes are reached.
 *
 * Every access by a local or remote peer goes check first, then copy: mr_check and mr_check_remote
 * turn (key, address, length, access) into a region or a fault; only then do the mem_* calls move
 * bytes. Clauses: volume 1, 10.6.3 (keys and access), 9.7.4.1.3 to 9.7.4.1.5 (R_Key validation).
 *
 * Threads: the control thread inserts and removes regions; workers look them up. A removed
 * region's memory may be freed only after every worker has passed a quiet point. The table itself
 * never moves. A published region does not change; only its `direct`, `space` and `backend` may,
 * and only while no worker runs. A window does change, by work requests of any worker, but not
 * while a worker reaches memory through it: see struct mr_span.
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

/* ---- keys ---- */

#define MR_REMOVALS_NOTED 256 /**< the latest ones; a power of two */

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
 * @param mr  The region. The caller frees it after the workers' next quiet point.
 */
void mr_remove(struct mr_table *t, struct mem_region *mr);

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
 * The region that is mapped at an address. Workers, also in a signal handler.
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

/* ---- explanations, when a check has failed ---- */

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

/* ---- checks ---- */

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

/* ---- memory windows (10.6.7) ---- */

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
 * window_unbind() if the window is bound to this region. Any thread that holds no span.
 *
 * @param w  The window.
 * @param r  The region.
 */
void window_unbind_from(struct mem_region *w, const struct mem_region *r);

/* ---- how much a region is copied (mem_heat.c) ---- */

/**
 * Regions that are worth mapping: those of one application that were copied as many times as their
 * limit says, each listed once. Zeroed: none, and no reader.
 */
struct mem_heat {
    _Atomic uint32_t *word; /**< set to 1 when there is a new one; NULL: no thread waits */
    struct mem_region *_Atomic hot;
};

/**
 * Count a backend call. Any worker.
 *
 * @param h  The application's list.
 * @param io  The transfers of the call. Without a region they are not counted.
 * @param n  How many.
 * @return  True when *word was 0 and has become 1: the caller wakes the thread that waits for that.
 */
bool mem_heat_note(struct mem_heat *h, const struct mem_io *io, unsigned n);

/**
 * Take the regions that became hot since the last call. Control thread.
 *
 * @param h  The application's list.
 * @return  The first, linked by heat.next; NULL: none.
 */
struct mem_region *mem_heat_take(struct mem_heat *h);

/**
 * Begin to count anew. Control thread.
 *
 * @param mr  The region; if it was listed, it has been taken.
 * @param limit  At how many calls it is hot. 0: never, except what a worker lists at this moment.
 */
void mem_heat_restart(struct mem_region *mr, uint32_t limit);

/* ---- transfers ---- */

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
 * that it copies from there. Any thread.
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
     * knows.
     */
    bool (*run)(struct mem_caller *caller);
    /** Whether calls for some region cannot be made now; then refuses() says for which. A call that
     * copies from an application is not made at all then: its transfers get -EBUSY. */
    bool full;
    bool (*refuses)(struct mem_caller *caller, const struct mem_region *mr);
};

/** Transfers collected to be done with few backend calls. One direction per batch. */
struct mem_batch {
    unsigned n;
    struct mem_io *io;         /**< io[0..n): of its caller's call, or `own` */
    struct mem_caller *caller; /**< or NULL */
    void *owner;               /**< with a caller: of the batch */
    /** With a caller: a call goes on, or is put off. Its transfers have their tags. */
    void (*late)(void *owner, struct mem_call *call);
    struct mem_io own[MEM_BATCH_MAX];
};

/**
 * Whether a batch has no room.
 *
 * @param b  The batch.
 * @return  True when it has to be flushed before the next transfer.
 */
static inline bool mem_batch_full(const struct mem_batch *b)
{
    return b->n == MEM_BATCH_MAX;
}

/**
 * Whether no call for a region can be made now. To be asked before a transfer to the application is
 * queued, or an atomic is made. The batch's worker.
 *
 * @param b  The batch.
 * @param mr  The region.
 * @return  True: the one who needs it comes again later.
 */
static inline bool mem_refuses(const struct mem_batch *b, const struct mem_region *mr)
{
    return !mr->direct && b->caller && b->caller->full && b->caller->refuses(b->caller, mr);
}

/**
 * Copy to the application: at once when the region is mapped, else with the next flush. The batch's
 * worker.
 *
 * @param b  The batch, not full.
 * @param mr  The region.
 * @param addr  The application's virtual address (mr_host_addr), which a check has accepted.
 * @param local  The bytes; when the result is false they stay valid until the flush.
 * @param len  How many.
 * @param tag  The caller's own; it is in the batch's mem_io.
 * @return  True: done. False: queued.
 */
bool mem_batch_out(struct mem_batch *b, struct mem_region *mr, uint64_t addr, const void *local,
                   uint32_t len, uint64_t tag);

/**
 * Copy from the application: at once when the region is mapped, else with the next flush. The
 * batch's worker.
 *
 * @param b  The batch, not full.
 * @param mr  The region.
 * @param addr  The application's virtual address (mr_host_addr), which a check has accepted.
 * @param local  Room for the bytes; when the result is false it stays valid until the flush.
 * @param len  How many.
 * @param tag  The caller's own; it is in the batch's mem_io.
 * @return  True: done. False: queued.
 */
bool mem_batch_in(struct mem_batch *b, struct mem_region *mr, uint64_t addr, void *local,
                  uint32_t len, uint64_t tag);

/**
 * mem_batch_out() with what mr_check_remote() gave, which ends: at once or with the flush.
 *
 * @param b  The batch, not full.
 * @param s  The span.
 * @param local  The bytes.
 * @param len  How many.
 * @param tag  The caller's own.
 * @return  True: done. False: queued.
 */
bool mem_batch_out_span(struct mem_batch *b, struct mr_span *s, const void *local, uint32_t len,
                        uint64_t tag);

/**
 * mem_batch_in() with what mr_check_remote() gave, which ends: at once or with the flush.
 *
 * @param b  The batch, not full.
 * @param s  The span.
 * @param local  Room for the bytes.
 * @param len  How many.
 * @param tag  The caller's own.
 * @return  True: done. False: queued.
 */
bool mem_batch_in_span(struct mem_batch *b, struct mr_span *s, void *local, uint32_t len,
                       uint64_t tag);

/**
 * Do the queued transfers to applications, neighbours of one space in one backend call. The batch's
 * worker.
 *
 * @param b  The batch. b->io[0..n) hold the statuses afterwards, until the caller sets b->n = 0.
 * @return  The number of transfers that failed.
 */
unsigned mem_batch_flush_out(struct mem_batch *b);

/**
 * Do the queued transfers from applications; the rest as mem_batch_flush_out().
 *
 * @param b  The batch.
 * @return  The number of transfers that failed.
 */
unsigned mem_batch_flush_in(struct mem_batch *b);

/**
 * Do one 64-bit atomic operation in memory that is mapped. Any thread.
 *
 * @param at  The dataplane's address, a multiple of 8 (mem_atomic_fits()).
 * @param op  The operation.
 * @param swap_add  The value to store or to add, host order.
 * @param compare  For MEM_CMP_SWP, the value to compare with.
 * @return  The value before, host order.
 */
static inline uint64_t mem_atomic_mapped(void *at, enum mem_atomic_op op, uint64_t swap_add,
                                         uint64_t compare)
{
    _Atomic uint64_t *p = at;

    if (op == MEM_FETCH_ADD)
        return atomic_fetch_add(p, swap_add);
    atomic_compare_exchange_strong(p, &compare, swap_add);
    return compare;
}

/**
 * Whether an atomic operation can be done at an address of mapped memory: a mapping with another
 * alignment than the application's would make it a split lock.
 *
 * @param at  The dataplane's address.
 * @return  True when it is a multiple of 8.
 */
static inline bool mem_atomic_fits(const void *at)
{
    return (uintptr_t)at % sizeof(uint64_t) == 0;
}

/**
 * Store 8 bytes at once in memory that is mapped. Any thread.
 *
 * @param at  The dataplane's address, a multiple of 8 (mem_atomic_fits()).
 * @param bytes  What is stored there.
 */
static inline void mem_store8_mapped(void *at, const uint8_t bytes[8])
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    atomic_store((_Atomic uint64_t *)at, value);
}

/**
 * Do one 64-bit atomic operation. It is atomic with all other RDMA atomics of this device
 * (IBV_ATOMIC_HCA), and with the application's CPU when the region is mapped. The batch's worker.
 *
 * @param b  The batch, which has nothing queued; NULL: the calling thread makes the call.
 * @param mr  The region.
 * @param addr  The application's virtual address, a multiple of 8, which a check has accepted.
 * @param op  The operation.
 * @param swap_add  The value to store or to add, host order.
 * @param compare  For MEM_CMP_SWP, the value to compare with.
 * @param old  Set to the value before, host order.
 * @param tag  The caller's own.
 * @return  0; -EFAULT: bad page; -ESRCH: the application is gone; -EINPROGRESS: it is under way,
 *     and the call that `late` got will have the old value.
 */
int mem_atomic(struct mem_batch *b, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
               uint64_t swap_add, uint64_t compare, uint64_t *old, uint64_t tag);

/**
 * Store 8 bytes: at once when the region is mapped, else by one copy. The batch's worker.
 *
 * @param b  The batch, which has nothing queued; NULL: the calling thread makes the call.
 * @param mr  The region.
 * @param addr  The application's virtual address, a multiple of 8, which a check has accepted.
 * @param bytes  The bytes, in their order.
 * @param tag  The caller's own.
 * @return  0; -EFAULT: bad page; -ESRCH: the application is gone; -EINPROGRESS: it is under way.
 */
int mem_store8(struct mem_batch *b, struct mem_region *mr, uint64_t addr, const uint8_t bytes[8],
               uint64_t tag);

#endif
