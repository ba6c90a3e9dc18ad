/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving pages to the memfd: adopt_window.h has the rules. */
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/uio.h>

#include "adopt_window.h"

#define PAGEMAP_PRESENT (UINT64_C(3) << 62) /* present or swapped out */

uint64_t window_block_signals(void)
{
    uint64_t all = UINT64_MAX, old = 0;

    RAW(rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &old, sizeof(old), 0, 0);
    return old;
}

void window_restore_signals(uint64_t old)
{
    RAW(rt_sigprocmask, 2 /* SIG_SETMASK */, &old, 0, sizeof(old), 0, 0);
}

/* The window's bytes are at `from`. */
static long read_pagemap(const struct window *w, uint64_t from)
{
    uint64_t bytes = w->len / adopt.page * sizeof(adopt.pages[0]);
    long n =
        raw_pread(adopt.pagemap, adopt.pages, bytes, from / adopt.page * sizeof(adopt.pages[0]));

    return n == (long)bytes ? 0 : n < 0 ? n : -EIO;
}

static bool page_present(const struct window *w, uint64_t i)
{
    return !w->anonymous || (adopt.pages[i] & PAGEMAP_PRESENT);
}

/* Sets [*i, *end) to the next pages with content, from *i on; false: none is left. */
static bool next_present_pages(const struct window *w, uint64_t *i, uint64_t *end)
{
    uint64_t pages = w->len / adopt.page;

    while (*i < pages && !page_present(w, *i))
        ++*i;
    for (*end = *i; *end < pages && page_present(w, *end);)
        ++*end;
    return *i < pages;
}

static long write_to_memfd(uint64_t from, uint64_t len, uint64_t offset)
{
    while (len) {
        long n = raw_pwrite(adopt.memfd, (const void *)(uintptr_t)from, len, offset);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? n : -EIO;
        from += (uint64_t)n;
        len -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static long copy_to_memfd(const struct window *w, uint64_t from)
{
    long err = 0;

    if (w->huge)
        huge_page_make(w->offset);

    for (uint64_t i = 0, end; !err && next_present_pages(w, &i, &end); i = end)
        err = write_to_memfd(from + i * adopt.page, (end - i) * adopt.page,
                             w->offset + i * adopt.page);
    return err;
}

static void unshare_pages(const struct window *w)
{
    if (read_pagemap(w, w->start))
        return;
    for (uint64_t i = 0, end; next_present_pages(w, &i, &end); i = end)
        raw_madvise(w->start + i * adopt.page, (end - i) * adopt.page, POPULATE_WRITE);
}

/* Pages move only to where there are none, and not to locked memory: the program may have locked
 * this, too (mlockall). */
static void empty_scratch(void)
{
    RAW(munlock, adopt.scratch, ADOPT_WINDOW, 0, 0, 0, 0);
    raw_madvise(adopt.scratch, ADOPT_WINDOW, MADV_DONTNEED);
}

/* Room to move pages to: pinned pages refuse to move. */
static long open_scratch(void)
{
    long p;

    if (!adopt.scratch) {
        p = raw_mmap(0, ADOPT_WINDOW, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (raw_is_error(p))
            return p;
        adopt.scratch = (uint64_t)p;
    }
    empty_scratch();
    return uffd_watch(adopt.scratch, ADOPT_WINDOW, UFFDIO_REGISTER_MODE_MISSING);
}

/* While it is watched, a thread that calls mlockall sleeps. */
static void close_scratch(void)
{
    uffd_release(adopt.scratch, ADOPT_WINDOW);
    empty_scratch();
}

/*
 * Copies the window, whose writers are blocked, and replaces its mapping. *moved: how many bytes
 * are in the scratch room and must be moved back after an error. Other threads may free pages of
 * the window (MADV_DONTNEED), but none that are there: this thread would wait for a page that it
 * takes for present, for ever.
 */
static long copy_and_replace(const struct window *w, uint64_t *moved)
{
    uint64_t from = w->start;
    long err = 0;

    if (w->until && raw_now() >= w->until)
        err = -EAGAIN; /* a copy may have begun before the protection */
    if (!err && w->check_pins) {
        err = uffd_move(adopt.scratch, w->start, w->len, moved);
        from = adopt.scratch;
    }
    if (!err)
        err = read_pagemap(w, from);
    if (!err)
        err = copy_to_memfd(w, from);
    if (!err) {
        err = raw_mmap(w->start, w->len, w->prot, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                       adopt.memfd, w->offset);
        err = err == (long)w->start ? 0 : err;
    }
    return err;
}

static long move_watched_window(const struct window *w)
{
    uint64_t moved = 0, back;
    long err = uffd_protect(w->start, w->len, true);

    if (!err)
        err = copy_and_replace(w, &moved);
    if (!err) {
        uffd_wake(w->start, w->len);
        if (w->huge)
            huge_page_allow(w->start, w->len);
    } else {
        if (moved)
            uffd_move(w->start, adopt.scratch, moved, &back);
        uffd_release(w->start, w->len);
        adopt_punch(w->offset, w->len);
    }
    return err;
}

static long move_window_in(const struct window *w)
{
    uint64_t mode = UFFDIO_REGISTER_MODE_WP | (w->anonymous ? UFFDIO_REGISTER_MODE_MISSING : 0);
    long err = w->check_pins ? open_scratch() : 0;

    if (!err)
        err = uffd_watch(w->start, w->len, mode);
    if (!err)
        err = move_watched_window(w);
    if (w->check_pins && adopt.scratch)
        close_scratch();
    return err;
}

/*
 * Pages that are shared with a forked child also refuse to move. A write makes them private, and
 * the kernel can do that without changing a byte. Pages that still refuse to move are pinned.
 */
static long move_window_in_retried(const struct window *w)
{
    uint64_t signals = window_block_signals();
    long err = move_window_in(w);

    if (err == -EBUSY && w->check_pins) {
        unshare_pages(w);
        err = move_window_in(w);
    }
    window_restore_signals(signals);
    return err;
}

bool window_stop_copying(uint64_t start, uint64_t len, int64_t *until)
{
    int64_t granted;

    *until = 0;
    if (!adopt.config.stop || !adopt_is_copied(start, start + len))
        return true;
    granted = adopt.config.stop();
    if (granted < 0)
        return false;
    *until = raw_now() + granted / 2;
    return true;
}

void window_resume_copying(int64_t until)
{
    if (until)
        adopt.config.go();
}

void window_set(struct window *w, uint64_t at, uint64_t end, uint64_t offset, bool guarded)
{
    uint64_t step = guarded ? GUARDED_WINDOW : ADOPT_WINDOW;

    w->start = at;
    w->len = min_of((at / step + 1) * step, end) - at;
    w->offset = offset;
}

int adopt_move_in(uint64_t start, uint64_t end, const struct vma *v, uint64_t offset)
{
    bool guarded = adopt_is_copied(start, end);
    struct window w = {.prot = vma_prot(v), .anonymous = !v->ino};
    struct numa_policy policy;
    long err = 0;

    w.check_pins = v->w && adopt_sees_pins(v);
    for (uint64_t at = start; at < end && !err; at += w.len) {
        window_set(&w, at, end, offset + (at - start), guarded);
        w.huge = huge_page_fits(w.start, w.len, w.offset);
        numa_policy_begin(&policy, at);
        if (!window_stop_copying(w.start, w.len, &w.until))
            err = -EAGAIN;
        else {
            err = move_window_in_retried(&w);
            window_resume_copying(w.until);
        }
        numa_policy_end(&policy);
    }
    if (err && w.start > start)
        adopt_give_back(start, offset, w.start - start, GIVE_VIEW);
    return (int)err;
}

uint64_t adopt_untouched(uint64_t start, uint64_t end, uint64_t enough)
{
    uint64_t bytes = 0;

    for (uint64_t at = start; at < end && bytes <= enough;) {
        struct window w = {.start = at, .len = min_of(ADOPT_WINDOW, end - at), .anonymous = true};

        if (read_pagemap(&w, at))
            return UINT64_MAX;
        for (uint64_t i = 0; i < w.len / adopt.page; i++)
            bytes += page_present(&w, i) ? 0 : adopt.page;
        at += w.len;
    }
    return bytes;
}
