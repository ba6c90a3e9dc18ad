/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Giving pages back: they become anonymous memory again as soon as the last lease ends. To leave
 * them in the memfd, or as private views of it, would be cheaper, but a program may free them now:
 * allocators trust that MADV_DONTNEED leaves zeros, which it does in anonymous memory alone, and
 * pages that only the memfd has would never be free.
 */
#include "adopt_state.h"

struct giving {
    uint64_t start, end; /* offsets */
    uint64_t low, high;  /* as far as mappings were found without users */
    uint64_t found;      /* bytes of them */
    enum adopt_giving how;
    bool kept; /* something still needs the memfd's pages */
};

static int give_mapping(const struct vma *v, void *arg)
{
    struct giving *g = arg;
    uint64_t bytes = v->end - v->start, start, end;

    if (!adopt_is_ours(v))
        return 0;
    start = max_of(g->start, v->offset);
    end = min_of(g->end, v->offset + bytes);
    if (start >= end)
        return 0;
    g->found += end - start;
    /* A mapping may have grown (mremap): the new part is nobody's. */
    interval_widen(&adopt.held, v->offset, v->offset + bytes, &start, &end);
    g->low = min_of(g->low, start);
    g->high = max_of(g->high, end);
    start = v->start + (start - v->offset);
    end = v->start + (end - v->offset);
    if (g->how == GIVE_VIEW || adopt_move_out(start, end, v)) {
        g->kept = adopt.flipped = adopt.has_views = true;
        adopt_flip(start, end, v);
    }
    return 0;
}

void adopt_give_back(uint64_t addr, uint64_t offset, uint64_t length, enum adopt_giving how)
{
    struct giving g = {.start = offset,
                       .end = offset + length,
                       .low = offset,
                       .high = offset + length,
                       .how = how};
    struct vma v;

    if (adopt.memfd < 0)
        return;
    /* Nearly always it is where it was; else it may have been moved, or unmapped. */
    if (!vma_find(addr, &v) && v.start <= addr && v.offset + (addr - v.start) == offset)
        give_mapping(&v, &g);
    if (g.found < length) {
        g.found = 0;
        vma_each_file(give_mapping, &g);
    }
    if (!g.kept)
        raw_fallocate(adopt.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, g.low,
                      g.high - g.low);
}

struct release {
    const struct adopt_piece *piece;
    enum adopt_giving how;
};

static void give_unused(void *arg, uint64_t start, uint64_t end)
{
    const struct release *r = arg;

    adopt_give_back(r->piece->addr + (start - r->piece->offset), start, end - start, r->how);
}

static void release_held(struct adopt_lease *l, enum adopt_giving how)
{
    for (unsigned i = 0; i < l->pieces; i++) {
        const struct adopt_piece *p = &l->piece[i];
        struct release r = {p, how};

        interval_remove(&adopt.held, p->offset, p->offset + p->length, give_unused, &r);
    }
    l->pieces = 0;
}

/* What was held until a fork, and nobody adopted again, is a view of a memfd that only it needs; so
 * is what was moved for a registration that failed half-way. */
static void restore_view(const struct vma *v, uint64_t start, uint64_t end)
{
    uint64_t offset = v->offset + (start - v->start);

    if (adopt_move_out(start, end, v) || !adopt_is_of_memfd(v) ||
        interval_any(&adopt.held, offset, offset + (end - start)))
        return;
    raw_fallocate(adopt.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, end - start);
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
    adopt.flipped = false;
    release_held(l, GIVE_VIEW);
    adopt_note_copied(l, l->start, l->end - l->start);
    l->views = adopt.flipped;
}
