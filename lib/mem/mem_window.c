/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: a key of its own for a part of a region, given and taken by work requests.
 *
 * The gate of a window counts its users, and has two bits for who changes it: GATE_LOCKED keeps
 * other changers away while a change is being judged, and GATE_CHANGING users, once it is sure to
 * come. So a change that is refused disturbs nobody, and one that is made begins when the last user
 * has gone. Users are there for one burst, and none of them waits.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "mem_internal.h"

#define REMOTE_CHANGES (MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)
#define REMOTE_RIGHTS  (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
/* Rights that say nothing about a window, whose users are peers; programs set them all the same. */
#define RIGHTS_IGNORED (MEM_LOCAL_WRITE | MEM_ACCESS_OPTIONAL)
#define KEY_OWN_BITS   0xFFu /* the part of a key that its user may choose */

#define GATE_LOCKED   (UINT32_C(1) << 31)
#define GATE_CHANGING (UINT32_C(1) << 30)
#define GATE_USERS    (GATE_CHANGING - 1)
#define WINDOWS_NEVER (UINT32_C(1) << 31) /* of a region's count: it takes no window any more */

/* Looks between which the processor is not given away: whom we wait for is about to finish. */
#define GATE_LOOKS 100

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

static void wait_while(struct mem_region *w, uint32_t bits)
{
    for (unsigned i = 1; atomic_load_explicit(&w->gate, memory_order_acquire) & bits; i++) {
        if (i % GATE_LOOKS)
            cpu_pause();
        else
            sched_yield();
    }
}

static void lock(struct mem_region *w)
{
    while (atomic_fetch_or_explicit(&w->gate, GATE_LOCKED, memory_order_acquire) & GATE_LOCKED)
        wait_while(w, GATE_LOCKED);
}

static void unlock(struct mem_region *w)
{
    atomic_fetch_and_explicit(&w->gate, ~GATE_LOCKED, memory_order_release);
}

/* The window is locked; until unlock_changed its keys are dead. */
static void change(struct mem_region *w)
{
    atomic_fetch_or_explicit(&w->gate, GATE_CHANGING, memory_order_acquire);
    wait_while(w, GATE_USERS);
}

static void unlock_changed(struct mem_region *w)
{
    atomic_fetch_and_explicit(&w->gate, ~(GATE_LOCKED | GATE_CHANGING), memory_order_release);
}

/* ---- regions ---- */

bool region_close(struct mem_region *r)
{
    uint32_t none = 0;

    return atomic_compare_exchange_strong(&r->windows, &none, WINDOWS_NEVER);
}

static bool region_join(struct mem_region *r)
{
    uint32_t windows = atomic_load(&r->windows);

    do {
        if (windows & WINDOWS_NEVER)
            return false;
    } while (!atomic_compare_exchange_weak(&r->windows, &windows, windows + 1));
    return true;
}

/* ---- changes ---- */

static void take_off(struct mem_region *w)
{
    if (!w->bound)
        return;
    w->bound = false;
    atomic_fetch_sub(&w->parent->windows, 1);
    w->parent = NULL;
}

void window_unbind(struct mem_region *w)
{
    lock(w);
    change(w);
    take_off(w);
    unlock_changed(w);
}

/* The window is locked. On MR_OK the region, if there is to be one, counts it already. */
static enum mr_fault may_bind(const struct mr_table *t, const struct window_bind *b,
                              const struct mem_region *w, struct mem_region **region)
{
    enum mr_fault f;

    if (w->key != b->window_key || ((b->window_key ^ b->new_key) & ~KEY_OWN_BITS))
        return MR_BAD_KEY;
    if (w->pd != b->pd)
        return MR_BAD_PD;
    if (w->kind == MEM_WINDOW_2 && (w->bound || !b->len))
        return MR_BAD_ACCESS;
    if (!b->len)
        return MR_OK;
    if (b->access & ~(uint32_t)(REMOTE_RIGHTS | RIGHTS_IGNORED | MEM_ZERO_BASED))
        return MR_BAD_ACCESS;
    *region = mr_lookup(t, b->region_key);
    f = region_check(*region, b->pd, b->va, b->len, MEM_MW_BIND);
    if (f != MR_OK)
        return f;
    if ((b->access & REMOTE_CHANGES) && !((*region)->access & MEM_LOCAL_WRITE))
        return MR_BAD_ACCESS;
    return region_join(*region) ? MR_OK : MR_BAD_KEY;
}

static void put_on(struct mem_region *w, struct mem_region *r, const struct window_bind *b)
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
    lock(w);
    f = may_bind(t, b, w, &r);
    if (f != MR_OK) {
        unlock(w);
        return f;
    }
    change(w);
    take_off(w);
    if (r)
        put_on(w, r, b);
    __atomic_store_n(&w->key, b->new_key, __ATOMIC_RELAXED); /* look-ups compare it */
    unlock_changed(w);
    return MR_OK;
}

static enum mr_fault may_invalidate(const struct mem_region *w, uint32_t key, uint32_t pd,
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
    lock(w);
    f = may_invalidate(w, key, pd, qpn);
    if (f != MR_OK) {
        unlock(w);
        return f;
    }
    change(w);
    take_off(w);
    unlock_changed(w);
    return MR_OK;
}
