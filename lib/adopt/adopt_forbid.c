/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages on which no thread may be blocked. The calling thread's stack and thread-local memory: the
 * thread would wait for itself. Those of other threads: the kernel reads and writes there where it
 * cannot wait (rseq, the robust list, the word that wakes pthread_join), and it finds a futex that
 * processes share by the memory that backs it, which changes.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "adopt_state.h"

#define DESCRIPTOR_BYTES 2304  /* of glibc's struct pthread, which has the robust list's head */
#define MAIN_TLS_BYTES   65536 /* the main thread's thread-local memory, below its descriptor */
#define OWN_FRAMES       65536 /* the frames of our callers, above ours */

struct dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    uint16_t d_reclen;
    uint8_t d_type;
    char d_name[];
};

static bool forbid_range(uint64_t start, uint64_t end)
{
    if (adopt.forbiddens == FORBIDDEN_MAX)
        return false;
    adopt.forbidden[adopt.forbiddens].start = page_down(start);
    adopt.forbidden[adopt.forbiddens++].end = page_up(end);
    return true;
}

static uint64_t robust_head(int tid)
{
    uint64_t head = 0, size = 0;

    return RAW(get_robust_list, tid, &head, &size, 0, 0, 0) ? 0 : head;
}

/*
 * The end of the descriptor that has this head, which is also the end of the thread's stack. The
 * bytes behind it, in the same mapping, may belong to any part of the program: the result must be
 * exact. The calling thread's descriptor shows where in a descriptor the head is.
 */
static uint64_t descriptor_end(uint64_t head)
{
    uint64_t before = robust_head(0) - (uint64_t)pthread_self();

    return head + DESCRIPTOR_BYTES - (before < DESCRIPTOR_BYTES ? before : 0);
}

static bool forbid_own_stack(void)
{
    uint64_t sp = (uintptr_t)__builtin_frame_address(0), head = robust_head(0), end;
    struct vma v;

    if (vma_find(sp, &v) || v.start > sp)
        return false;
    end = min_of(sp + OWN_FRAMES, v.end);
    if (head > sp && head < end)
        end = min_of(end, descriptor_end(head));
    return forbid_range(v.start, end);
}

/*
 * The head of a thread's robust list is in its descriptor. Below the descriptor, from the start of
 * the mapping on, glibc puts the stack of a thread that it creates. Below the main thread's
 * descriptor, and below one in the heap, there is only thread-local memory.
 */
static bool forbid_thread(int tid)
{
    uint64_t head = robust_head(tid), start;
    struct vma v;

    if (!head || vma_find(head, &v) || v.start > head)
        return true;
    start = v.start;
    if (tid == adopt.pid)
        start = max_of(head - MAIN_TLS_BYTES, v.start);
    else if (vma_is_heap(&v))
        start = max_of(head - DESCRIPTOR_BYTES, v.start);
    return forbid_range(start, descriptor_end(head));
}

static int to_tid(const char *name)
{
    int tid = 0;

    for (; *name >= '0' && *name <= '9'; name++)
        tid = tid * 10 + (*name - '0');
    return *name ? 0 : tid;
}

static bool forbid_threads(void)
{
    int fd = (int)raw_open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    char buf[4096] __attribute__((aligned(8)));
    bool ok = fd >= 0;
    long n = 0;

    while (ok && (n = RAW(getdents64, fd, buf, sizeof(buf), 0, 0, 0)) > 0) {
        for (long at = 0; ok && at < n;) {
            const struct dirent64 *e = (const void *)(buf + at);
            int tid = to_tid(e->d_name);

            ok = !tid || forbid_thread(tid);
            at += e->d_reclen;
        }
    }
    raw_close(fd);
    return ok && !n;
}

bool adopt_find_forbidden(void)
{
    adopt.forbiddens = 0;
    return forbid_range((uintptr_t)&adopt, (uintptr_t)(&adopt + 1)) && forbid_own_stack() &&
           forbid_threads();
}

bool adopt_forbidden(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < adopt.forbiddens; i++)
        if (start < adopt.forbidden[i].end && end > adopt.forbidden[i].start)
            return true;
    return false;
}
