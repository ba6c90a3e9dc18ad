/* SPDX-License-Identifier: BSD-3-Clause */
/* Making the pages of a memfd anonymous memory again: adopt_window.h has the rules. */
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/uio.h>

#include "adopt_window.h"

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
    uint64_t data;
    long hole;

    if (w->offset + *at < w->data_end)
        return;
    data = adopt_next_data(w->offset + *at);
    if (data >= w->offset + w->len) {
        *at = w->len;
        return;
    }
    *at = data - w->offset;
    hole = raw_lseek(adopt.memfd, data, SEEK_HOLE);
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

/* Memory to which windows are copied, and from which their pages then move to their place. */
struct room {
    uint64_t start, end; /* what is left of it */
};

/*
 * Windows that come from one mapping, in order, become one mapping again; a room for each of them
 * would leave the region with as many mappings. The kernel joins them if the room has been written
 * to before the first one moves, so a page in front of it is. A huge page of the room moves as one
 * where it lies as its place does (`like`). Without access at first, since mlockall(MCL_FUTURE)
 * would allocate all of it.
 */
static long room_open(struct room *r, uint64_t len, uint64_t like)
{
    uint64_t slack = len < ADOPT_WINDOW ? 0 : ADOPT_WINDOW, span = adopt.page + len + slack;
    long p = raw_mmap(0, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t start = (uint64_t)p + adopt.page, end = (uint64_t)p + span;
    long err;

    if (raw_is_error(p))
        return p;
    if (slack)
        start += (like - start) % slack;
    RAW(munlock, p, span, 0, 0, 0, 0);
    err = RAW(mprotect, p, span, PROT_READ | PROT_WRITE, 0, 0, 0);
    if (err) {
        raw_munmap((uint64_t)p, span);
        return err;
    }
    *(volatile uint8_t *)(uintptr_t)(start - adopt.page) = 0;
    raw_munmap((uint64_t)p, start - (uint64_t)p);
    if (end > start + len)
        raw_munmap(start + len, end - (start + len));
    *r = (struct room){start, start + len};
    return 0;
}

static void room_close(struct room *r)
{
    if (r->start < r->end)
        raw_munmap(r->start, r->end - r->start);
    r->start = r->end;
}

/* Room for the window, and for all that follows it if the program may map as much. */
static long room_need(struct room *r, const struct window *w, uint64_t end)
{
    if (r->start < r->end)
        return 0;
    return room_open(r, end - w->start, w->start) ? room_open(r, w->len, w->start) : 0;
}

/* v: the mapping, at whose place another thread may have made another one by now. */
static long move_window_out(struct window *w, struct room *r, const struct vma *v)
{
    long err = uffd_watch(w->start, w->len, UFFDIO_REGISTER_MODE_WP);

    if (err)
        return err;
    err = uffd_protect(w->start, w->len, true);
    if (!err && w->until && raw_now() >= w->until)
        err = -EAGAIN;
    if (!err)
        err = copy_window(r->start, w, adopt_is_ours(v));
    if (!err && w->prot != (PROT_READ | PROT_WRITE))
        err = RAW(mprotect, r->start, w->len, w->prot, 0, 0, 0);
    if (!err && !vma_is_still(v, w->start, w->start + w->len))
        err = -ENOENT;
    if (!err) {
        err = RAW(mremap, r->start, w->len, w->len, MREMAP_MAYMOVE | MREMAP_FIXED, w->start, 0);
        err = err == (long)w->start ? 0 : err;
    }
    if (err) {
        uffd_release(w->start, w->len);
        return err;
    }
    r->start += w->len;
    uffd_wake(w->start, w->len);
    return 0;
}

/* Whether mlock holds for the mapping with this page: the kernel then takes no advice to reclaim
 * the page, which is otherwise harmless. */
static bool is_locked(uint64_t start)
{
    return raw_madvise(start, adopt.page, MADV_COLD) == -EINVAL;
}

static int move_windows_out(uint64_t *start, uint64_t end, const struct vma *v, bool punch)
{
    bool guarded = adopt_is_copied(*start, end);
    struct window w = {.prot = vma_prot(v)};
    struct room room = {0};
    struct numa_policy policy;
    long err = 0;

    while (*start < end && !err) {
        uint64_t signals;

        window_set(&w, *start, end, v->offset + (*start - v->start), guarded);
        err = room_need(&room, &w, end);
        if (!err && !window_stop_copying(w.start, w.len, &w.until))
            err = -EAGAIN;
        if (err)
            break;
        numa_policy_begin(&policy, w.start);
        signals = window_block_signals();
        err = move_window_out(&w, &room, v);
        window_restore_signals(signals);
        numa_policy_end(&policy);
        window_resume_copying(w.until);
        if (err)
            break;
        *start += w.len;
        if (punch)
            adopt_punch(w.offset, w.len);
    }
    room_close(&room);
    return (int)err;
}

/* Locked memory is unlocked in the meantime: a process may not lock much, and where all new memory
 * is locked (mlockall) the room needs as much as what it replaces. */
int adopt_move_out(uint64_t *start, uint64_t end, const struct vma *v, bool punch)
{
    bool locked = *start < end && is_locked(*start);
    uint64_t from = *start;
    int err;

    if (locked)
        RAW(munlock, from, end - from, 0, 0, 0, 0);
    err = move_windows_out(start, end, v, punch);
    if (locked)
        RAW(mlock, from, end - from, 0, 0, 0, 0);
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
