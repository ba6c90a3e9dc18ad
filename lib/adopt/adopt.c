/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases: which pages are adopted, and where they are in the memfd. See adopt.h. */
#include <string.h>
#include <sys/sysinfo.h>

#include "adopt_state.h"
#include "file_limit.h"

#define RECOUNT_NS  100000000 /* how long a finding of too many mappings is reused */
#define PARTS_TRIED 1024      /* of the memfd, for a piece */

/* Registration allocates all pages of a range, like a NIC that pins them. A range that lacks pages
 * for more bytes than a limit is copied instead. This is the smallest limit. */
#define UNTOUCHED_MIN (UINT64_C(64) << 20)

static uint64_t untouched_max(void)
{
    struct sysinfo info;

    if (RAW(sysinfo, &info, 0, 0, 0, 0, 0))
        return UNTOUCHED_MIN;
    return max_of((uint64_t)info.freeram * info.mem_unit / 8, UNTOUCHED_MIN);
}

static bool is_anonymous(const struct vma *v)
{
    return !v->ino && (!v->name[0] || vma_is_heap(v) || !strncmp(v->name, "[anon:", 6));
}

/* CTL_MR_ADOPTED: adoption can be tried. */
static enum ctl_mr_why classify_mapping(const struct vma *v)
{
    if (!strcmp(v->name, "[stack]"))
        return CTL_MR_STACK;
    if (v->shared || v->x || (v->page && v->page != adopt.page))
        return CTL_MR_NOT_PRIVATE;
    return is_anonymous(v) || vma_is_adopted(v) ? CTL_MR_ADOPTED : CTL_MR_NOT_PRIVATE;
}

static enum ctl_mr_why why_of_errno(int err)
{
    switch (err) {
    case -EBUSY:
        return CTL_MR_PINNED;
    case -EAGAIN:
        return CTL_MR_BUSY;
    case -ENOMEM:
    case -ENOSPC:
        return CTL_MR_NO_MEMORY;
    default:
        return CTL_MR_FAILED;
    }
}

/* Whether one more piece, which may split a mapping in three, leaves the program half of the
 * mappings that a process may have. Counting many mappings takes long, so a process with too many
 * is not counted each time. */
static bool has_mappings_left(void)
{
    if (adopt.vmas + 2 > adopt.vmas_max && raw_now() < adopt.full_until)
        return false;
    if (adopt.vmas + adopt.vmas_added + 2 > adopt.vmas_max || adopt.vmas_added >= 512) {
        adopt.vmas = vma_count();
        adopt.vmas_added = 0;
        adopt.full_until = raw_now() + RECOUNT_NS;
    }
    return adopt.vmas + 2 <= adopt.vmas_max;
}

/* Whether no lease holds these offsets, and the memfd has no data there. */
static bool is_offset_free(uint64_t offset, uint64_t len)
{
    return !interval_any(&adopt.held, offset, offset + len) &&
           adopt_next_data(offset) >= offset + len;
}

/* A part of the memfd. */
struct part {
    uint64_t start, end;
};

static int shows_part(const struct vma *v, void *arg)
{
    const struct part *p = arg;

    return adopt_is_of_memfd(v) && v->offset < p->end && v->offset + (v->end - v->start) > p->start;
}

/* The next part with this many bytes. When the last one has been given, after millions of pieces,
 * those are given again that no lease holds and no mapping shows. */
static bool pick_part(uint64_t bytes, uint64_t *start)
{
    for (unsigned i = 0; i < PARTS_TRIED; i++) {
        struct part p;

        if (adopt.slot_next + bytes > FILE_BYTES - ADOPT_WINDOW) {
            adopt.slot_next = SLOTS_BEGIN;
            adopt.slots_again = true;
        }
        p = (struct part){adopt.slot_next, adopt.slot_next + bytes};
        adopt.slot_next = p.end;
        *start = p.start;
        if (!adopt.slots_again ||
            (is_offset_free(p.start, bytes) && !vma_each_file(shows_part, &p)))
            return true;
    }
    return false;
}

/*
 * Small pieces, and pieces of the heap, get their address as their offset, so that neighbours
 * become one mapping. Each other piece gets a part of the memfd with room behind it: an allocator
 * that extends its mapping (mremap) would otherwise get a neighbour's pages. The part has room for
 * the rest of the region, too: what follows the piece is no neighbour, and becomes one piece with
 * it. False: no offset is found.
 */
static bool pick_offset(const struct adopt_lease *l, uint64_t start, uint64_t end,
                        const struct vma *v, uint64_t *offset)
{
    uint64_t bytes = SLOT_BYTES;

    if (adopt.follows.addr != start) {
        *offset = start;
        if ((vma_is_heap(v) || end - start < DEDICATED) && start < SLOTS_BEGIN &&
            is_offset_free(start, end - start))
            return true;
        while (bytes < 2 * (l->end - start))
            bytes *= 2;
        if (!pick_part(bytes, &adopt.follows.offset))
            return false;
        adopt.follows.offset += start % ADOPT_WINDOW;
    }
    *offset = adopt.follows.offset;
    adopt.follows.addr = end;
    adopt.follows.offset += end - start;
    return true;
}

/* Undoes mlock: it does not survive the replacement, and locked pages do not move. Whether any page
 * was locked. */
static bool unlock_pages(uint64_t start, uint64_t len)
{
    uint64_t before = adopt_locked_kb();

    if (!before)
        return false;
    RAW(munlock, start, len, 0, 0, 0, 0);
    return adopt_locked_kb() < before;
}

static enum ctl_mr_why move_into_memfd(const struct adopt_lease *l, uint64_t start, uint64_t end,
                                       const struct vma *v, uint64_t *offset)
{
    uint64_t limit = untouched_max();
    bool locked;
    int err;

    if (!file_limit_allows(FILE_BYTES)) /* set since the memfd was made */
        return CTL_MR_FAILED;
    if (!has_mappings_left() || !pick_offset(l, start, end, v, offset))
        return CTL_MR_NO_ROOM;
    if (!v->ino && adopt_untouched(start, end, limit) > limit)
        return CTL_MR_SPARSE;
    locked = unlock_pages(start, end - start);
    err = adopt_move_in(start, end, v, *offset);
    if (!err) {
        /* Allocates all pages here, so that they are charged to this process and not the daemon. */
        err = (int)raw_madvise(start, end - start, POPULATE_READ);
        if (err)
            adopt_give_back(start, *offset, end - start, GIVE_VIEW);
    }
    if (locked)
        RAW(mlock, start, end - start, 0, 0, 0, 0);
    if (err)
        return why_of_errno(err);
    adopt.vmas_added += 2;
    /* A fork that does not go through the C library must not share it. */
    if (end - start >= DEDICATED && !vma_is_heap(v))
        raw_madvise(start, end - start, MADV_DONTFORK);
    return CTL_MR_ADOPTED;
}

static bool piece_follows(const struct adopt_piece *p, uint64_t addr, uint64_t offset)
{
    return p->addr + p->length == addr && p->offset + p->length == offset;
}

static enum ctl_mr_why add_piece(struct adopt_lease *l, uint64_t addr, uint64_t offset,
                                 uint64_t length)
{
    struct adopt_piece *last = l->pieces ? &l->piece[l->pieces - 1] : NULL;
    bool joins = last && piece_follows(last, addr, offset);

    if (!joins && l->pieces == ADOPT_PIECES_MAX)
        return CTL_MR_SPLIT;
    if (interval_add(&adopt.held, offset, offset + length))
        return CTL_MR_NO_ROOM;
    if (joins)
        last->length += length;
    else
        l->piece[l->pieces++] = (struct adopt_piece){addr, offset, length};
    return CTL_MR_ADOPTED;
}

static enum ctl_mr_why acquire_private(struct adopt_lease *l, uint64_t start, uint64_t end,
                                       const struct vma *v, unsigned flags)
{
    enum ctl_mr_why why = classify_mapping(v);
    uint64_t offset = 0;

    if (why != CTL_MR_ADOPTED)
        return why;
    if (!(flags & ADOPT_MOVE))
        return CTL_MR_SMALL;
    if (!(flags & ADOPT_AGAIN) && adopt_is_copied(start, end))
        return CTL_MR_OVERLAPS;
    if ((flags & ADOPT_ANYTIME) && v->w && !adopt_sees_pins(v))
        return CTL_MR_PINNED;
    if (!adopt.forbiddens && !adopt_find_forbidden())
        return CTL_MR_STACK;
    if (adopt_forbidden(start, end))
        return CTL_MR_STACK;
    why = move_into_memfd(l, start, end, v, &offset);
    if (why != CTL_MR_ADOPTED)
        return why;
    why = add_piece(l, start, offset, end - start);
    if (why == CTL_MR_ADOPTED)
        l->moved += end - start;
    else
        adopt_give_back(start, offset, end - start, GIVE_VIEW);
    return why;
}

static bool any_in_memfd(uint64_t at, uint64_t end)
{
    struct vma v;

    for (; at < end && !vma_find(at, &v) && v.start < end; at = v.end)
        if (adopt_is_ours(&v))
            return true;
    return false;
}

static enum ctl_mr_why acquire_range(struct adopt_lease *l, unsigned flags)
{
    enum ctl_mr_why why = adopt_reopen();
    uint64_t at = l->start, end = l->start;
    struct vma v;

    adopt.forbiddens = 0;
    adopt.follows.addr = 0;
    for (; at < l->end && why == CTL_MR_ADOPTED; at = end) {
        if (vma_find(at, &v) || v.start > at || !v.r || ((flags & ADOPT_WRITES) && !v.w))
            return CTL_MR_NO_ACCESS;
        end = min_of(v.end, l->end);
        if (adopt_is_ours(&v))
            why = add_piece(l, at, v.offset + (at - v.start), end - at);
        else
            why = acquire_private(l, at, end, &v, flags);
    }
    return why == CTL_MR_SMALL && (l->pieces || any_in_memfd(end, l->end)) ? CTL_MR_OVERLAPS : why;
}

enum ctl_mr_why adopt_acquire(struct adopt_lease *l, uint64_t addr, uint64_t len, unsigned flags)
{
    enum ctl_mr_why why = adopt.usable;

    *l = (struct adopt_lease){.kind = LEASE_NONE};
    if (why != CTL_MR_ADOPTED)
        return why;
    l->kind = LEASE_HELD;
    l->start = page_down(addr);
    l->end = page_up(addr + len);
    adopt.made_views = false;
    why = acquire_range(l, flags);
    if (why != CTL_MR_ADOPTED) {
        bool made_views = adopt.made_views;

        adopt_refused(l);
        l->views |= made_views;
    }
    return why;
}

void adopt_note_copied(struct adopt_lease *l, uint64_t addr, uint64_t len)
{
    *l = (struct adopt_lease){.kind = LEASE_NONE};
    if (adopt.usable != CTL_MR_ADOPTED)
        return;
    l->kind = LEASE_COPIED;
    l->start = page_down(addr);
    l->end = page_up(addr + len);
    if (interval_add(&adopt.copied, l->start, l->end))
        adopt.copied_lost = true;
}

int adopt_memfd(void)
{
    return adopt.memfd;
}

uint64_t adopt_held_bytes(void)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < adopt.held.used; i++)
        bytes += adopt.held.entry[i].end - adopt.held.entry[i].start;
    return bytes;
}

bool adopt_is_shared(uint64_t addr)
{
    struct vma v;

    return adopt.usable != CTL_MR_ADOPTED ||
           (!vma_find(addr, &v) && v.start <= addr && v.shared && !adopt_is_ours(&v));
}
