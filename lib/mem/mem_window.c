/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: separate keys for parts of a region, bound and invalidated by work requests.
 *
 * The gate of a window counts the workers that use it, and has two bits for a worker that changes
 * it: GATE_LOCKED excludes other changes while this one is checked, and GATE_CHANGING excludes
 * users once the change is certain. A change that is refused therefore disturbs no user, and an
 * accepted change starts when the last user has left. A use lasts at most one burst, and a worker
 * never waits while it uses a window.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "mem_internal.h"
#include "mem_window.h"

#define REMOTE_CHANGES (MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)
#define REMOTE_RIGHTS  (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
/* Rights that mean nothing for a window, whose users are peers. Applications set them anyway. */
#define RIGHTS_IGNORED (MEM_LOCAL_WRITE | MEM_ACCESS_OPTIONAL)
#define KEY_USER_BITS  0xFFu /* the part of a key that the application may choose */

#define GATE_LOCKED   (UINT32_C(1) << 31)
#define GATE_CHANGING (UINT32_C(1) << 30)
#define GATE_USERS    (GATE_CHANGING - 1)
#define WINDOWS_REFUSED                                                      \
    (UINT32_C(1) << 31) /* of a region's count: no window can be bound to it \
                         */

/* How many times a wait polls before it yields the CPU: the other worker is about to finish. */
#define GATE_SPINS 100

/* ---- the gate ---- */

bool window_hold(struct mem_region *w)
{
    if (!(atomic_fetch_add_explicit(&w->gate, 1, memory_order_acquire) & GATE_CHANGING))
        return true;
    window_release(w);
    return false;
}

void window_release(struct mem_region *w)
{
    atomic_fetch_sub_explicit(&w->gate, 1, memory_order_release);
}

static void gate_wait_while(struct mem_region *w, uint32_t bits)
{
    for (unsigned i = 1; atomic_load_explicit(&w->gate, memory_order_acquire) & bits; i++) {
        if (i % GATE_SPINS)
            cpu_pause();
        else
            sched_yield();
    }
}

static void gate_lock(struct mem_region *w)
{
    while (atomic_fetch_or_explicit(&w->gate, GATE_LOCKED, memory_order_acquire) & GATE_LOCKED)
        gate_wait_while(w, GATE_LOCKED);
}

static void gate_unlock(struct mem_region *w)
{
    atomic_fetch_and_explicit(&w->gate, ~GATE_LOCKED, memory_order_release);
}

/* Waits until no worker uses the locked window. Its keys are invalid until gate_reopen. */
static void gate_close(struct mem_region *w)
{
    atomic_fetch_or_explicit(&w->gate, GATE_CHANGING, memory_order_acquire);
    gate_wait_while(w, GATE_USERS);
}

static void gate_reopen(struct mem_region *w)
{
    atomic_fetch_and_explicit(&w->gate, ~(GATE_LOCKED | GATE_CHANGING), memory_order_release);
}

/* ---- regions ---- */

bool region_close(struct mem_region *r)
{
    uint32_t none = 0;

    return atomic_compare_exchange_strong(&r->windows, &none, WINDOWS_REFUSED);
}

static bool region_count_window(struct mem_region *r)
{
    uint32_t windows = atomic_load(&r->windows);

    do {
        if (windows & WINDOWS_REFUSED)
            return false;
    } while (!atomic_compare_exchange_weak(&r->windows, &windows, windows + 1));
    return true;
}

/* ---- changes ---- */

static void detach_window(struct mem_region *w)
{
    if (!w->bound)
        return;
    w->bound = false;
    atomic_fetch_sub(&w->parent->windows, 1);
    w->parent = NULL;
}

bool window_waits(const struct mem_region *w)
{
    return w->bound && mr_waits(w->parent);
}

void window_unbind(struct mem_region *w)
{
    gate_lock(w);
    gate_close(w);
    detach_window(w);
    gate_reopen(w);
}

void window_unbind_if(struct mem_region *w, bool (*ends)(const struct mem_region *r, void *arg),
                      void *arg)
{
    gate_lock(w);
    if (!w->bound || !ends(w->parent, arg)) {
        gate_unlock(w);
        return;
    }
    gate_close(w);
    detach_window(w);
    gate_reopen(w);
}

bool region_has_windows(const struct mem_region *r)
{
    return atomic_load(&r->windows) & ~WINDOWS_REFUSED;
}

static enum window_fault check_region(const struct window_bind *b, const struct mem_region *r)
{
    switch (region_check(r, b->pd, b->va, b->len, MEM_MW_BIND)) {
    case MR_OK:
        break;
    case MR_BAD_PD:
        return WINDOW_REGION_DOMAIN;
    case MR_BAD_ACCESS:
        return WINDOW_REGION_BIND;
    case MR_BAD_RANGE:
        return WINDOW_REGION_RANGE;
    default:
        return WINDOW_NO_REGION;
    }
    if ((b->access & REMOTE_CHANGES) && !(r->access & MEM_LOCAL_WRITE))
        return WINDOW_REGION_WRITE;
    return WINDOW_OK;
}

/* The window is locked. *region is to be behind it, or NULL: none. */
static enum window_fault check_bind(const struct mr_table *t, const struct window_bind *b,
                                    const struct mem_region *w, struct mem_region **region)
{
    if (w->key != b->window_key)
        return WINDOW_NO_WINDOW;
    if ((b->window_key ^ b->new_key) & ~KEY_USER_BITS)
        return WINDOW_NEW_KEY;
    if (w->pd != b->pd)
        return WINDOW_OTHER_DOMAIN;
    if (w->kind == MEM_WINDOW_2 && w->bound)
        return WINDOW_BOUND;
    if (!b->len)
        return w->kind == MEM_WINDOW_2 ? WINDOW_NO_LENGTH : WINDOW_OK;
    if (b->access & ~(uint32_t)(REMOTE_RIGHTS | RIGHTS_IGNORED | MEM_ZERO_BASED))
        return WINDOW_RIGHTS;
    *region = mr_lookup(t, b->region_key);
    return check_region(b, *region);
}

/* By enum window_fault; the others are MR_BAD_ACCESS. */
static enum mr_fault mr_fault_of(enum window_fault f)
{
    switch (f) {
    case WINDOW_OK:
        return MR_OK;
    case WINDOW_NO_WINDOW:
    case WINDOW_NEW_KEY:
    case WINDOW_NO_REGION:
        return MR_BAD_KEY;
    case WINDOW_OTHER_DOMAIN:
    case WINDOW_REGION_DOMAIN:
        return MR_BAD_PD;
    case WINDOW_REGION_RANGE:
        return MR_BAD_RANGE;
    default:
        return MR_BAD_ACCESS;
    }
}

/* The window is locked. On MR_OK the region, if the window is to have one, already counts it. */
static enum mr_fault begin_bind(const struct mr_table *t, const struct window_bind *b,
                                const struct mem_region *w, struct mem_region **region)
{
    enum mr_fault f = mr_fault_of(check_bind(t, b, w, region));

    if (f != MR_OK || !*region)
        return f;
    return region_count_window(*region) ? MR_OK : MR_BAD_KEY;
}

static void attach_window(struct mem_region *w, struct mem_region *r, const struct window_bind *b)
{
    w->iova = b->access & MEM_ZERO_BASED ? 0 : b->va;
    w->addr = mr_host_addr(r, b->va);
    w->len = b->len;
    w->access = b->access & REMOTE_RIGHTS;
    w->qpn = b->qpn;
    w->parent = r;
    w->bound = true;
}

enum mr_fault window_bind(const struct mr_table *t, const struct window_bind *b)
{
    struct mem_region *w = mr_lookup(t, b->window_key), *r = NULL;
    enum mr_fault f;

    if (!w || w->kind == MEM_REGION)
        return MR_BAD_KEY;
    gate_lock(w);
    f = window_waits(w) ? MR_BAD_ACCESS : begin_bind(t, b, w, &r);
    if (f != MR_OK) {
        gate_unlock(w);
        return f;
    }
    gate_close(w);
    if (window_waits(w)) { /* its last user's call is late */
        if (r)
            atomic_fetch_sub(&r->windows, 1);
        gate_reopen(w);
        return MR_BAD_ACCESS;
    }
    detach_window(w);
    if (r)
        attach_window(w, r, b);
    atomic_store_explicit(&w->key, b->new_key, memory_order_relaxed); /* look-ups compare it */
    gate_reopen(w);
    return MR_OK;
}

enum window_fault window_bind_why(const struct mr_table *t, const struct window_bind *b)
{
    struct mem_region *w = mr_lookup(t, b->window_key), *r = NULL;
    enum window_fault f;

    if (!w || w->kind == MEM_REGION)
        return WINDOW_NO_WINDOW;
    gate_lock(w);
    f = check_bind(t, b, w, &r);
    if (f == WINDOW_OK && (window_waits(w) || (r && atomic_load(&r->windows) & WINDOWS_REFUSED)))
        f = WINDOW_BUSY;
    gate_unlock(w);
    return f;
}

static enum mr_fault check_invalidate(const struct mem_region *w, uint32_t key, uint32_t pd,
                                      uint32_t qpn)
{
    if (w->key != key || !w->bound)
        return MR_BAD_KEY;
    return w->pd != pd || w->qpn != qpn ? MR_BAD_PD : MR_OK;
}

enum mr_fault window_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn)
{
    struct mem_region *w = mr_lookup(t, key);
    enum mr_fault f;

    if (!w)
        return MR_BAD_KEY;
    if (w->kind != MEM_WINDOW_2)
        return MR_BAD_ACCESS;
    gate_lock(w);
    f = check_invalidate(w, key, pd, qpn);
    if (f == MR_OK && window_waits(w))
        f = MR_BAD_ACCESS;
    if (f != MR_OK) {
        gate_unlock(w);
        return f;
    }
    gate_close(w);
    if (window_waits(w))
        f = MR_BAD_ACCESS;
    else
        detach_window(w);
    gate_reopen(w);
    return f;
}
