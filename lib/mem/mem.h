/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions: who may touch which bytes of an application, and how the bytes are reached.
 *
 * Every access by a local or remote peer goes check first, then copy: mr_check and mr_check_remote
 * turn (key, address, length, access) into a region or a fault; only then do the mem_* calls move
 * bytes. Clauses: volume 1, 10.6.3 (keys and access), 9.7.4.1.3 to 9.7.4.1.5 (R_Key validation).
 *
 * Threads: the control thread inserts and removes regions; workers look them up. A removed
 * region's memory may be freed only after every worker has passed a quiet point. The table itself
 * never moves. A published region does not change, but for `direct`, while no worker runs. A window
 * does, by work requests of any worker, but not while anybody reaches memory through it: see struct
 * mr_span.
 */
#ifndef UROCE_MEM_H
#define UROCE_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numeric values of enum ibv_access_flags. */
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
    MEM_LOCAL_READ = 0, /* always granted */
};
#define MEM_ACCESS_OPTIONAL                                              \
    UINT32_C(0x3ff00000) /* IBV_ACCESS_OPTIONAL_RANGE: accepted, ignored \
                          */

enum mem_atomic_op { MEM_CMP_SWP, MEM_FETCH_ADD };

struct mem_region;

/* One transfer between application memory (addr, a virtual address of the application inside
 * the region) and dataplane memory (local). */
struct mem_io {
    struct mem_region *mr;
    uint64_t addr;
    uint8_t *local;
    uint32_t len;
    int32_t
        status; /* set by the transfer: 0, -EFAULT (bad page), -ESRCH (application gone), -EPERM */
    uint64_t tag;              /* the caller's own */
    struct mem_region *window; /* held until the transfer is done, or NULL; the batch's */
};

/*
 * How the bytes of a region are reached; one table per way (drivers/mem). The n transfers all
 * belong to regions of one `space`. Each sets every status; a failed transfer does not keep the
 * others from being done.
 */
struct mem_backend {
    const char *name;
    void (*copy_in)(void *space, struct mem_io *io, unsigned n);  /* application -> local */
    void (*copy_out)(void *space, struct mem_io *io, unsigned n); /* local -> application */
    /* 8 aligned bytes at addr; the old value, host order, to *old. 0, -EFAULT or -ESRCH. */
    int (*atomic)(void *space, struct mem_region *mr, uint64_t addr, enum mem_atomic_op op,
                  uint64_t swap_add, uint64_t compare, uint64_t *old);
};

/* What a key stands for. */
enum mem_kind {
    MEM_REGION,
    MEM_WINDOW_1, /* type 1: bound to a region, for any queue pair of the protection domain */
    MEM_WINDOW_2, /* type 2: for one queue pair, and of its protection domain (2B) */
};

struct mem_region {
    uint8_t kind;              /* enum mem_kind */
    bool bound;                /* windows: has a region behind it; regions: always true */
    uint32_t qpn;              /* MEM_WINDOW_2: the queue pair it was bound on */
    _Atomic uint32_t windows;  /* regions: windows bound to it, see region_close */
    _Atomic uint32_t gate;     /* windows: who uses or changes it (mem_window.c) */
    struct mem_region *parent; /* windows: the region it is bound to */
    uint32_t key;              /* lkey and rkey */
    uint32_t pd;               /* protection domain it belongs to */
    uint32_t access;           /* enum mem_access */
    uint64_t iova;             /* address that work requests and peers use for the first byte */
    uint64_t addr;             /* the application's virtual address of the first byte */
    uint64_t len;
    uint8_t *direct; /* dataplane's own mapping of addr[0..len), or NULL: use the backend */
    const struct mem_backend *backend;
    void *space; /* the backend's handle on the application */
    struct {
        /* Backend calls that copied to or from it. A worker may lose what another one counts at
         * the same moment. */
        _Atomic uint64_t uses;
        _Atomic uint32_t limit;  /* at how many it is hot; 0: never */
        _Atomic bool told;       /* it has been put on the list, or is about to be */
        bool taken;              /* and then from it; the control thread's */
        struct mem_region *next; /* in that */
    } heat;
};

/* A part of the file that backs a region. */
struct mem_piece {
    uint64_t offset, len;
};

/* The application's virtual address for va, which mr_check has accepted. */
static inline uint64_t mr_host_addr(const struct mem_region *mr, uint64_t va)
{
    return mr->addr + (va - mr->iova);
}

/* Where the dataplane reaches va, which was accepted, of a region that has `direct`. */
static inline uint8_t *mr_direct(const struct mem_region *mr, uint64_t va)
{
    return mr->direct + (va - mr->iova);
}

/* Whether [va, va + len) is inside. No sum is formed, so nothing can wrap around. */
static inline bool mr_covers(const struct mem_region *mr, uint64_t va, uint64_t len)
{
    uint64_t off = va - mr->iova;

    return va >= mr->iova && off <= mr->len && len <= mr->len - off;
}

/* ---- keys ---- */

/*
 * Keys are 32 bits: the upper 24 a secret permutation of (slot, generation), the lower 8 a random
 * tag; so live keys are spread over the whole space and an old key is not soon valid again.
 * Key 0 is never issued.
 */
struct mr_table {
    uint32_t slots;     /* capacity, a power of two, at most 2^20 */
    uint32_t slot_bits; /* log2 of it */
    uint64_t secret[2]; /* from getrandom(2), or a seed in tests */
    uint32_t next;      /* where the search for a free slot starts */
    uint32_t used;
    uint64_t removals;          /* ever; read by workers with acquire */
    uint16_t *generation;       /* per slot: 24 - slot_bits bits of it, at most 16, count */
    struct mem_region **region; /* per slot; read by workers with acquire */
};

#define MR_TABLE_MAX_SLOTS (1u << 20)

/* slots: capacity, rounded up to a power of two. 0 or -ENOMEM, -EINVAL (over 2^20). */
int mr_table_init(struct mr_table *t, uint32_t slots, const uint64_t secret[2]);
void mr_table_fini(struct mr_table *t);

/*
 * Issues a key for mr, stores it in mr->key and makes the region visible to workers. All other
 * fields of mr must be set. `tag` is a random byte. The table borrows mr until mr_remove.
 * Control thread. 0 or -ENOSPC.
 */
int mr_insert(struct mr_table *t, struct mem_region *mr, uint8_t tag);

/* Makes mr's key invalid at once. The caller frees mr after the workers' next quiet point.
 * Control thread. */
void mr_remove(struct mr_table *t, struct mem_region *mr);

/* The region or window with this key, or NULL. Of a window it may be out of date. Any thread. */
struct mem_region *mr_lookup(const struct mr_table *t, uint32_t key);

/*
 * The regions that one worker found of late: undoing the permutation takes longer than all the rest
 * of a check. By bits of the key; empty whenever a region was removed since. To begin, set the
 * table and zero the rest. Its worker.
 */
#define MR_CACHE 64
struct mr_cache {
    const struct mr_table *table;
    uint64_t removals; /* of the table, when it was emptied last */
    struct {
        uint32_t key;
        struct mem_region *mr;
    } entry[MR_CACHE];
};

/* ---- checks ---- */

enum mr_fault {
    MR_OK,
    MR_BAD_KEY,    /* no such key */
    MR_BAD_PD,     /* belongs to another protection domain */
    MR_BAD_ACCESS, /* lacks a right asked for */
    MR_BAD_RANGE,  /* not wholly inside the region (overflow-safe) */
};

/*
 * Whether [va, va + len) may be accessed with `access` (all bits needed) under key in pd, by the
 * application itself: key is an L_Key, which a window does not have. On MR_OK *out is the region.
 * len may be 0 (the range is then checked as a point at or below the end; callers skip the check
 * where the specification exempts zero length, C9-88). The cache's worker.
 */
enum mr_fault mr_check(struct mr_cache *c, uint32_t key, uint32_t pd, uint64_t va, uint64_t len,
                       uint32_t access, struct mem_region **out);

/*
 * The region that a queue pair's packets went to last. What depends on neither address nor length
 * (key, domain, rights) was checked when it was noted, and holds while no region is removed. Zeroed
 * it knows none. One worker at a time.
 */
struct mr_hint {
    struct mem_region *mr;
    uint64_t removals; /* of the table */
    uint32_t key;
};

/* Notes the region with this key if pd may access it so. False, with nothing noted: it may not, or
 * the key is a window's, or the region's addresses wrap around. The cache's worker. */
bool mr_hint_note(struct mr_hint *h, struct mr_cache *c, uint32_t key, uint32_t pd,
                  uint32_t access);

/* Whether what was noted is still the region with this key. */
bool mr_hint_holds(const struct mr_hint *h, const struct mr_table *t, uint32_t key);

/*
 * Memory that a peer may reach. While a window is held it cannot be bound again or invalidated:
 * who does that waits. So a span ends before its holder does such a thing itself, and before it
 * waits for anybody; a worker holds none between two of its looks for work.
 */
struct mr_span {
    struct mem_region *mr;     /* a region, also where the key is a window's */
    uint64_t addr;             /* the application's virtual address of the first byte */
    struct mem_region *window; /* held until mr_span_end; NULL: none */
};

/*
 * The same for a peer of queue pair qpn: key is an R_Key. A type 2 window serves only the queue
 * pair it was bound on (MR_BAD_PD). On MR_OK *out is set, and the caller ends it: by mr_span_end or
 * through a batch. The cache's worker.
 */
enum mr_fault mr_check_remote(struct mr_cache *c, uint32_t key, uint32_t pd, uint32_t qpn,
                              uint64_t va, uint64_t len, uint32_t access, struct mr_span *out);

void window_release(struct mem_region *w); /* mr_span_end's */

static inline void mr_span_end(struct mr_span *s)
{
    if (s->window)
        window_release(s->window);
    s->window = NULL;
}

/* ---- memory windows (10.6.7) ---- */

struct window_bind {
    uint32_t window_key; /* as it is now */
    uint32_t new_key;    /* only the low byte may differ */
    uint32_t region_key;
    uint32_t pd, qpn; /* of the queue pair that binds */
    uint64_t va, len; /* in the region; len 0 unbinds a type 1 window */
    uint32_t access;  /* remote rights, and MEM_ZERO_BASED */
};

/*
 * Binds a window, or refuses with the fault: no such window or region, another domain, a type 2
 * window that is bound already, a region without MEM_MW_BIND (or without local write where the
 * window lets peers write), a range not inside. When it returns nobody reaches memory by the old
 * key any more: it waits until other workers' spans have ended. Any worker, without
 * spans; 10.6.7.2.
 */
enum mr_fault window_bind(const struct mr_table *t, const struct window_bind *b);

/*
 * Invalidates a type 2 window by its key: local (LOCAL INVALIDATE) or by a peer's SEND with
 * invalidate. MR_BAD_KEY when there is none, MR_BAD_PD for another domain or queue pair,
 * MR_BAD_ACCESS for what cannot be invalidated (a region, a type 1 window). Waits, as window_bind.
 */
enum mr_fault window_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn);

/* Takes a window off its region, as before it is deallocated. Waits, as window_bind. */
void window_unbind(struct mem_region *w);

/* Binds no window to the region any more, as before it is deregistered. False: some are bound to
 * it, and nothing has changed. Any thread. */
bool region_close(struct mem_region *r);

/* ---- how much a region is copied (mem_heat.c) ---- */

/*
 * Regions that it would pay to map: those of one application that were copied as often as their
 * limit says, each told once. Zeroed: none, and nobody who wants to know.
 */
struct mem_heat {
    _Atomic uint32_t *word; /* set to 1 when there is a new one; NULL: nobody asks */
    struct mem_region *_Atomic hot;
};

/* Counts a backend call. Whether *word was 0 and has become 1: who waits for that is to be woken.
 * Any worker. */
bool mem_heat_note(struct mem_heat *h, const struct mem_io *io, unsigned n);

/* The regions that became hot since the last call, linked by heat.next. Control thread. */
struct mem_region *mem_heat_take(struct mem_heat *h);

/* Begins to count anew; what was on the list has been taken. limit 0: it is never hot, but for what
 * a worker says at this moment. Control thread. */
void mem_heat_restart(struct mem_region *mr, uint32_t limit);

/* ---- transfers ---- */

#define MEM_BATCH_MAX 64

/* Transfers collected to be done with few backend calls. One direction per batch. */
struct mem_batch {
    unsigned n;
    struct mem_io io[MEM_BATCH_MAX];
};

static inline bool mem_batch_full(const struct mem_batch *b)
{
    return b->n == MEM_BATCH_MAX;
}

/*
 * Copies local to the application: at once if the region is mapped (returns true: done), else the
 * transfer is queued in b (returns false), which must not be full; local must stay valid until the
 * flush. addr is an application address (mr_host_addr) already checked.
 */
bool mem_batch_out(struct mem_batch *b, struct mem_region *mr, uint64_t addr, const void *local,
                   uint32_t len, uint64_t tag);

/* The same from the application into local. */
bool mem_batch_in(struct mem_batch *b, struct mem_region *mr, uint64_t addr, void *local,
                  uint32_t len, uint64_t tag);

/* The same with what mr_check_remote gave, which they end: at once or with the flush. */
bool mem_batch_out_span(struct mem_batch *b, struct mr_span *s, const void *local, uint32_t len,
                        uint64_t tag);
bool mem_batch_in_span(struct mem_batch *b, struct mr_span *s, void *local, uint32_t len,
                       uint64_t tag);

/*
 * Does the queued transfers, neighbours of one space in one backend call. Afterwards b->io[0..n)
 * hold the statuses, until the caller sets b->n = 0. Returns the number of failed transfers.
 */
unsigned mem_batch_flush_out(struct mem_batch *b);
unsigned mem_batch_flush_in(struct mem_batch *b);

/* One 64-bit atomic on the 8-aligned application address addr (already checked); *old in host
 * order. Atomic with respect to all other RDMA atomics of this device (IBV_ATOMIC_HCA), and to the
 * application's CPU when the region is mapped. Returns 0, -EFAULT or -ESRCH. */
int mem_atomic(struct mem_region *mr, uint64_t addr, enum mem_atomic_op op, uint64_t swap_add,
               uint64_t compare, uint64_t *old);

/*
 * Stores 8 bytes at the 8-aligned application address addr (already checked), at once where the
 * region is mapped, else by one copy. Returns 0, -EFAULT or -ESRCH.
 */
int mem_store8(struct mem_region *mr, uint64_t addr, const uint8_t bytes[8]);

#endif
