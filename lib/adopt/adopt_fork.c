/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shared mapping would stay shared between parent and child, so before a fork there must be none.
 * Only now: in the child it is too late, as the C library's fork itself writes to the heap there.
 */
#include <unistd.h>

#include "adopt_state.h"

static int freeze_mapping(const struct vma *v, void *arg)
{
    int err;

    if (!v->shared || !vma_is_adopted(v))
        return 0;
    if (adopt_is_ours(v))
        err = adopt_flip(v->start, v->end, v);
    else
        err = adopt_move_out(v->start, v->end, v); /* of a memfd that was lost */
    /* Better that the child has nothing there than the parent's own. */
    if (err)
        raw_madvise(v->start, v->end - v->start, MADV_DONTFORK);
    return 0;
}

bool adopt_must_freeze(void)
{
    return adopt.usable == CTL_MR_ADOPTED && (adopt.held.used || adopt.has_views);
}

/* The child's views see the old memfd's pages until it writes to them: nobody may change these any
 * more, so the parent goes on with another memfd. */
void adopt_freeze(void)
{
    if (!adopt_must_freeze())
        return;
    if (adopt.uffd < 0)
        adopt_reopen();
    vma_each_file(freeze_mapping, NULL);
    interval_clear(&adopt.held);
    if (adopt_new_memfd())
        adopt.usable = CTL_MR_FAILED;
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
