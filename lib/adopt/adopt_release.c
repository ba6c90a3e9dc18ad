/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages become anonymous memory again as soon as the last lease on them ends. To leave them in the
 * memfd, or as private views of it, would be cheaper. But the program may free them from then on:
 * allocators rely on MADV_DONTNEED to leave zeros, which holds for anonymous memory only, and pages
 * that only the memfd has would never be freed.
 */
#include "adopt_state.h"

struct give_back {
    uint64_t start, end; /* offsets */
    uint64_t low, high;  /* the widest range without users in the mappings found */
    uint64_t found;      /* bytes of these mappings */
    enum adopt_give how;
    bool kept; /* a private view still needs the memfd's pages */
};

static int give_back_mapping(const struct vma *v, void *arg)
{
    struct give_back *g = arg;
    uint64_t bytes = v->end - v->start, start, end, from;
    /* Other mappings are then not looked for. */
    bool alone = v->offset <= g->start && v->offset + bytes >= g->end;

    if (!adopt_is_ours(v))
        return 0;
    start = max_of(g->start, v->offset);
    end = min_of(g->end, v->offset + bytes);
    if (start >= end)
        return 0;
    g->found += end - start;
    /* A mapping may have grown (mremap): no lease holds the new part. */
    interval_widen(&adopt.held, v->offset, v->offset + bytes, &start, &end);
    g->low = min_of(g->low, start);
    g->high = max_of(g->high, end);
    from = start;
    start = v->start + (start - v->offset);
    end = v->start + (end - v->offset);
    if (g->how == GIVE_VIEW || adopt_move_out(&start, end, v, alone)) {
        g->kept = adopt.made_views = adopt.has_views = true;
        /* What is anonymous already may have been written to since. */
        if (vma_is_still(v, start, end))
            adopt_make_view(start, end, v);
        adopt_punch(from, v->offset + (start - v->start) - from);
    }
    return 0;
}

void adopt_give_back(uint64_t addr, uint64_t offset, uint64_t length, enum adopt_give how)
{
    struct give_back g = {.start = offset,
                          .end = offset + length,
                          .low = offset,
                          .high = offset + length,
                          .how = how};
    struct vma v;
    bool seen = true;

    if (adopt.memfd < 0)
        return;
    /* Nearly always the mapping is still there; else the program has moved or unmapped it. */
    if (!vma_find(addr, &v) && v.start <= addr && v.offset + (addr - v.start) == offset)
        give_back_mapping(&v, &g);
    if (g.found < length) {
        g.found = 0;
        seen = !vma_each_file(give_back_mapping, &g);
    }
    /* The kernel did not report all mappings: one may show these bytes. */
    if (!seen)
        adopt.has_views = true;
    else if (!g.kept)
        adopt_punch(g.low, g.high - g.low);
}

struct release {
    const struct adopt_piece *piece;
    enum adopt_give how;
};

static void give_back_unused(void *arg, uint64_t start, uint64_t end)
{
    const struct release *r = arg;

    adopt_give_back(r->piece->addr + (start - r->piece->offset), start, end - start, r->how);
}

static void release_held(struct adopt_lease *l, enum adopt_give how)
{
    for (unsigned i = 0; i < l->pieces; i++) {
        const struct adopt_piece *p = &l->piece[i];
        struct release r = {p, how};

        interval_remove(&adopt.held, p->offset, p->offset + p->length, give_back_unused, &r);
    }
    l->pieces = 0;
}

/* Makes a private view anonymous memory again. Pages that were held until a fork and not adopted
 * since are views of a memfd that nothing else needs; so are pages that were moved for a
 * registration that failed half-way. */
static void restore_view(const struct vma *v, uint64_t start, uint64_t end)
{
    uint64_t offset = v->offset + (start - v->start);
    bool unused =
        adopt_is_of_memfd(v) && !interval_any(&adopt.held, offset, offset + (end - start));

    adopt_move_out(&start, end, v, unused);
}

static void restore_views(uint64_t start, uint64_t end)
{
    struct vma v;

    while (start < end && !vma_find(start, &v) && v.start < end) {
        uint64_t from = max_of(start, v.start), to = min_of(end, v.end);

        if (vma_is_adopted(&v) && !v.shared)
            restore_view(&v, from, to);
        start = to;
    }
}

void adopt_release(struct adopt_lease *l)
{
    if (l->kind == LEASE_NONE || adopt.usable != CTL_MR_ADOPTED) {
        l->kind = LEASE_NONE;
        return;
    }
    adopt_reopen();
    if (l->pieces)
        adopt.full_until = 0;
    release_held(l, GIVE_BACK);
    if (l->kind == LEASE_COPIED) {
        interval_remove(&adopt.copied, l->start, l->end, NULL, NULL);
        if (l->views)
            restore_views(l->start, l->end);
    }
    l->kind = LEASE_NONE;
}

void adopt_refused(struct adopt_lease *l)
{
    if (l->kind != LEASE_HELD)
        return;
    adopt_reopen();
    adopt.made_views = false;
    release_held(l, GIVE_VIEW);
    adopt_note_copied(l, l->start, l->end - l->start);
    l->views = adopt.made_views;
}
