/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving pages while threads use them. From write protection to wake-up the calling thread blocks
 * all its signals (a handler could wait for its own thread), allocates nothing, and makes system
 * calls only.
 */
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/uio.h>

#include "adopt_state.h"

#define PAGEMAP_PRESENT (UINT64_C(3) << 62) /* present or swapped out */

struct window {
    uint64_t start, len, offset;
    int prot;
    bool anonymous; /* else a private view of a memfd, and every page has content */
    bool check_pins;
    bool huge;         /* it can become one huge page */
    int64_t until;     /* when the daemon resumes copying; 0: it does not copy these pages */
    uint64_t data_end; /* offset of the memfd's next hole, when the window begins below it */
};

static uint64_t block_signals(void)
{
    uint64_t all = UINT64_MAX, old = 0;

    RAW(rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &old, sizeof(old), 0, 0);
    return old;
}

static void restore_signals(uint64_t old)
{
    RAW(rt_sigprocmask, 2 /* SIG_SETMASK */, &old, 0, sizeof(old), 0, 0);
}

/* ---- in ---- */

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
    uint64_t signals = block_signals();
    long err = move_window_in(w);

    if (err == -EBUSY && w->check_pins) {
        unshare_pages(w);
        err = move_window_in(w);
    }
    restore_signals(signals);
    return err;
}

/* Stops the daemon's copying if it copies some of these pages. False: the daemon refuses. True:
 * sets *until as in struct window, and the caller calls resume_copying afterwards. */
static bool stop_copying(uint64_t start, uint64_t len, int64_t *until)
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

static void resume_copying(int64_t until)
{
    if (until)
        adopt.config.go();
}

/* The next window, at `at`; a smaller one if the daemon has to stop copying for it. */
static void set_window(struct window *w, uint64_t at, uint64_t end, uint64_t offset, bool guarded)
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
        set_window(&w, at, end, offset + (at - start), guarded);
        w.huge = huge_page_fits(w.start, w.len, w.offset);
        numa_policy_begin(&policy, at);
        if (!stop_copying(w.start, w.len, &w.until))
            err = -EAGAIN;
        else {
            err = move_window_in_retried(&w);
            resume_copying(w.until);
        }
        numa_policy_end(&policy);
    }
    if (err && w.start > start)
        adopt_give_back(start, offset, w.start - start, GIVE_VIEW);
    return (int)err;
}

/* ---- out ---- */

/* Reads by system calls: the program may make memory unreadable at any time, and the kernel then
 * returns an error. */
static long read_bytes(uint64_t to, const struct window *w, uint64_t at, uint64_t len,
                       bool in_memfd)
{
    while (len) {
        struct iovec own = {(void *)(uintptr_t)to, len};
        struct iovec there = {(void *)(uintptr_t)(w->start + at), len};
        long n = in_memfd ? raw_pread(adopt.memfd, own.iov_base, len, w->offset + at)
                          : RAW(process_vm_readv, adopt.pid, &own, 1, &there, 1, 0);

        if (n == -EINTR)
            continue;
        if ((n == -EPERM || n == -ENOSYS) && (w->prot & PROT_READ)) { /* forbidden by a sandbox */
            memcpy(own.iov_base, there.iov_base, len);
            return 0;
        }
        if (n <= 0)
            return n ? n : -EIO;
        to += (uint64_t)n;
        at += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

/* Skips a hole of the memfd. The kernel looks for the next one page by page, so what it says holds
 * for the windows that follow, too. */
static void skip_hole(struct window *w, uint64_t *at)
{
    long data, hole;

    if (w->offset + *at < w->data_end)
        return;
    data = raw_lseek(adopt.memfd, w->offset + *at, SEEK_DATA);
    if (data < 0 || (uint64_t)data >= w->offset + w->len) {
        *at = w->len;
        return;
    }
    *at = (uint64_t)data - w->offset;
    hole = raw_lseek(adopt.memfd, (uint64_t)data, SEEK_HOLE);
    w->data_end = hole < 0 ? w->offset + w->len : (uint64_t)hole;
}

static bool is_zero(const uint8_t *bytes, uint64_t len)
{
    return !bytes[0] && !memcmp(bytes, bytes + 1, len - 1);
}

/* Copies [at, at + len) of the window to the same place in `to`, which is zeroed. Registration has
 * allocated pages that were never used: the program does not get those back. */
static long copy_used_pages(uint64_t to, const struct window *w, uint64_t at, uint64_t len,
                            bool in_memfd)
{
    for (uint64_t end = at + len; at < end; at += len) {
        long err;

        len = min_of(sizeof(adopt.bounce), end - at);
        err = read_bytes((uint64_t)adopt.bounce, w, at, len, in_memfd);
        if (err)
            return err;
        for (uint64_t i = 0; i < len; i += adopt.page)
            if (!is_zero(adopt.bounce + i, adopt.page))
                memcpy((void *)(uintptr_t)(to + at + i), adopt.bounce + i, adopt.page);
    }
    return 0;
}

/* Copies the window to `to`, which is zeroed. */
static long copy_window(uint64_t to, struct window *w, bool in_memfd)
{
    uint64_t at = 0;
    long err = 0;

    while (!err) {
        uint64_t end = w->len;

        if (in_memfd && at < w->len) {
            skip_hole(w, &at);
            end = min_of(w->data_end - w->offset, w->len);
        }
        if (at >= w->len)
            break;
        err = copy_used_pages(to, w, at, end - at, in_memfd);
        at = end;
    }
    return err;
}

static long move_window_out(struct window *w, bool in_memfd)
{
    long copy = raw_mmap(0, w->len, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    long err;

    if (raw_is_error(copy))
        return copy;
    err = uffd_watch(w->start, w->len, UFFDIO_REGISTER_MODE_WP);
    if (!err) {
        err = uffd_protect(w->start, w->len, true);
        if (!err && w->until && raw_now() >= w->until)
            err = -EAGAIN;
        if (!err)
            err = copy_window((uint64_t)copy, w, in_memfd);
        if (!err && w->prot != (PROT_READ | PROT_WRITE))
            err = RAW(mprotect, copy, w->len, w->prot, 0, 0, 0);
        if (!err) {
            err = RAW(mremap, copy, w->len, w->len, MREMAP_MAYMOVE | MREMAP_FIXED, w->start, 0);
            err = err == (long)w->start ? 0 : err;
        }
        if (!err)
            uffd_wake(w->start, w->len);
        else
            uffd_release(w->start, w->len);
    }
    if (err)
        raw_munmap((uint64_t)copy, w->len);
    return err;
}

/* Whether mlock holds for the mapping with this page: the kernel then takes no advice to reclaim
 * the page, which is otherwise harmless. */
static bool is_locked(uint64_t start)
{
    return raw_madvise(start, adopt.page, MADV_COLD) == -EINVAL;
}

static int move_windows_out(uint64_t *start, uint64_t end, const struct vma *v)
{
    bool guarded = adopt_is_copied(*start, end);
    struct window w = {.prot = vma_prot(v)};
    struct numa_policy policy;
    long err = 0;

    while (*start < end && !err) {
        uint64_t signals;

        set_window(&w, *start, end, v->offset + (*start - v->start), guarded);
        if (!stop_copying(w.start, w.len, &w.until))
            return -EAGAIN;
        numa_policy_begin(&policy, w.start);
        signals = block_signals();
        err = move_window_out(&w, adopt_is_ours(v));
        restore_signals(signals);
        numa_policy_end(&policy);
        resume_copying(w.until);
        if (!err)
            *start += w.len;
    }
    return (int)err;
}

int adopt_move_out(uint64_t *start, uint64_t end, const struct vma *v)
{
    bool locked = *start < end && is_locked(*start);
    uint64_t from = *start;
    int err = move_windows_out(start, end, v);

    if (locked && *start > from)
        RAW(mlock, from, *start - from, 0, 0, 0, 0);
    return err;
}

/* A locked view is not populated: that would copy all pages at a fork. Those that are touched are
 * locked. */
int adopt_make_view(uint64_t start, uint64_t end, const struct vma *v)
{
    bool locked = start < end && is_locked(start);
    long ret = raw_mmap(start, end - start, vma_prot(v), MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                        adopt.memfd, v->offset + (start - v->start));

    if (locked && ret == (long)start)
        RAW(mlock2, start, end - start, MLOCK_ONFAULT, 0, 0, 0);
    return ret == (long)start ? 0 : (int)ret;
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
