/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: a key of its own for a part of a region, given and taken by work requests. */
#include <stddef.h>

#include "mem.h"

#define REMOTE_CHANGES (MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)
#define REMOTE_RIGHTS  (MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
/* Rights that say nothing about a window, whose users are peers; programs set them all the same. */
#define RIGHTS_IGNORED (MEM_LOCAL_WRITE | MEM_ACCESS_OPTIONAL)
#define KEY_OWN_BITS   0xFFu /* the part of a key that its user may choose */

static void set_key(struct mem_region *w, uint32_t key)
{
    __atomic_store_n(&w->key, key, __ATOMIC_RELEASE);
}

void window_unbind(struct mem_region *w)
{
    if (!w->bound)
        return;
    w->bound = false;
    w->parent->windows--;
    w->parent = NULL;
}

static enum mr_fault may_bind(const struct mr_table *t, const struct window_bind *b,
                              const struct mem_region *w, struct mem_region **region)
{
    enum mr_fault f;

    if (!w || w->kind == MEM_REGION || ((b->window_key ^ b->new_key) & ~KEY_OWN_BITS))
        return MR_BAD_KEY;
    if (w->pd != b->pd)
        return MR_BAD_PD;
    if (w->kind == MEM_WINDOW_2 && (w->bound || !b->len))
        return MR_BAD_ACCESS;
    if (!b->len)
        return MR_OK;
    if (b->access & ~(uint32_t)(REMOTE_RIGHTS | RIGHTS_IGNORED | MEM_ZERO_BASED))
        return MR_BAD_ACCESS;
    f = mr_check(t, b->region_key, b->pd, b->va, b->len, MEM_MW_BIND, region);
    if (f != MR_OK)
        return f;
    if ((*region)->kind != MEM_REGION)
        return MR_BAD_KEY;
    return (b->access & REMOTE_CHANGES) && !((*region)->access & MEM_LOCAL_WRITE) ? MR_BAD_ACCESS
                                                                                  : MR_OK;
}

enum mr_fault window_bind(const struct mr_table *t, const struct window_bind *b)
{
    struct mem_region *w = mr_lookup(t, b->window_key), *r = NULL;
    enum mr_fault f = may_bind(t, b, w, &r);

    if (f != MR_OK)
        return f;
    set_key(w, 0); /* invisible while it changes */
    window_unbind(w);
    if (r) {
        w->iova = b->access & MEM_ZERO_BASED ? 0 : b->va;
        w->addr = mr_host_addr(r, b->va);
        w->len = b->len;
        w->direct = r->direct ? r->direct + (b->va - r->iova) : NULL;
        w->backend = r->backend;
        w->space = r->space;
        w->access = b->access & REMOTE_RIGHTS;
        w->qpn = b->qpn;
        w->parent = r;
        r->windows++;
        w->bound = true;
    }
    set_key(w, b->new_key);
    return MR_OK;
}

enum mr_fault window_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn)
{
    struct mem_region *w = mr_lookup(t, key);

    if (!w)
        return MR_BAD_KEY;
    if (w->kind != MEM_WINDOW_2)
        return MR_BAD_ACCESS;
    if (!w->bound)
        return MR_BAD_KEY;
    if (w->pd != pd || w->qpn != qpn)
        return MR_BAD_PD;
    window_unbind(w);
    return MR_OK;
}
