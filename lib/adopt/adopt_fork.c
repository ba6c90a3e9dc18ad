/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork(). A shared mapping would stay shared between parent and child, so there must be none when
 * the fork happens. The child cannot undo it: the C library's fork already writes to the heap
 * there.
 */
#include <unistd.h>

#include "adopt_state.h"

static int freeze_mapping(const struct vma *v, void *arg)
{
    uint64_t start = v->start;
    int err;

    if (!v->shared || !vma_is_adopted(v))
        return 0;
    if (adopt_is_ours(v))
        err = adopt_make_view(v->start, v->end, v);
    else
        err = adopt_move_out(&start, v->end, v, false); /* a memfd whose descriptor was closed */
    /* The child then has no mapping there, instead of one that it shares with the parent. */
    if (err)
        raw_madvise(v->start, v->end - v->start, MADV_DONTFORK);
    return 0;
}

bool adopt_must_freeze(void)
{
    return adopt.usable == CTL_MR_ADOPTED && (adopt.held.used || adopt.has_views);
}

/* The child's views show the old memfd's pages until the child writes to them. These pages must not
 * change any more, so the parent continues with a new memfd; if there cannot be one now, the next
 * registration makes it. */
void adopt_freeze(void)
{
    if (!adopt_must_freeze())
        return;
    adopt_reopen(); /* the memfd's number may be another file's by now */
    vma_each_file(freeze_mapping, NULL);
    interval_clear(&adopt.held);
    raw_close(adopt.memfd);
    adopt.memfd = -1;
    adopt_new_memfd();
}

void adopt_lease_freeze(struct adopt_lease *l)
{
    uint64_t start = l->start, end = l->end;

    if (l->kind != LEASE_HELD)
        return;
    adopt_note_copied(l, start, end - start);
    l->thawed = l->views = true;
}

void adopt_child(void)
{
    if (adopt.usable == CTL_MR_UNKNOWN)
        return;
    adopt_close();
    interval_fini(&adopt.held);
    interval_fini(&adopt.copied);
    if (adopt.scratch)
        raw_munmap(adopt.scratch, ADOPT_WINDOW);
    if (adopt.stage)
        raw_munmap(adopt.stage, 2 * ADOPT_WINDOW);
    adopt.scratch = adopt.stage = 0;
    adopt.vmas_added = 0;
    adopt.copied_lost = false;
    adopt.usable = CTL_MR_UNKNOWN;
}
