/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory is adopted, and when it becomes private again. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "adopt_kit.h"

static char data[65536] = {1};

static void adopted_and_given_back(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    struct adopt_lease l;

    assert_int_equal(acquire(&l, p + 100, 1000), CTL_MR_ADOPTED);
    assert_int_equal(l.pieces, 1);
    assert_int_equal(l.piece[0].length, adopt.page);
    assert_true(is_shared(p));
    assert_true(is_plain(p + adopt.page));
    p[5] = 7;
    assert_int_equal(in_memfd(&l, p + 5), 7);
    assert_int_equal(pwrite(adopt_memfd(), "x", 1, (off_t)l.piece[0].offset), 1);
    assert_int_equal(p[0], 'x');
    adopt_release(&l);
    assert_true(is_plain(p));
    assert_int_equal(p[0], 'x');
    assert_int_equal(p[5], 7);
    assert_int_equal(memfd_bytes(), 0);
    /* As with plain memory: released pages are zero. */
    assert_int_equal(madvise(p, 64 * KIB, MADV_DONTNEED), 0);
    assert_int_equal(p[5], 0);
    unmap(p, 64 * KIB);
}

static void leases_share_pages(void **state)
{
    uint8_t *p = anonymous(256 * KIB);
    struct adopt_lease first, second, third;

    assert_int_equal(acquire(&first, p, 128 * KIB), CTL_MR_ADOPTED);
    /* Without the right to move pages, and with it. */
    assert_int_equal(adopt_acquire(&second, (uintptr_t)p + 64 * KIB, 64 * KIB, ADOPT_WRITES),
                     CTL_MR_ADOPTED);
    assert_int_equal(acquire(&third, p + 64 * KIB, 128 * KIB), CTL_MR_ADOPTED);
    adopt_release(&first);
    assert_true(is_plain(p));
    assert_true(is_shared(p + 64 * KIB));
    adopt_release(&second);
    assert_true(is_shared(p + 64 * KIB));
    assert_int_equal(adopt_held_bytes(), 128 * KIB);
    adopt_release(&third);
    assert_true(is_plain(p + 64 * KIB));
    assert_int_equal(adopt_held_bytes(), 0);
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, 256 * KIB);
}

static void *on_a_stack(void *arg)
{
    char bytes[40000];
    void **told = arg;
    sem_t *leave = told[1];

    memset(bytes, 1, sizeof(bytes));
    told[0] = bytes;
    sem_post(told[2]);
    sem_wait(leave);
    return NULL;
}

static void check(const void *p, size_t len, unsigned flags, enum ctl_mr_why why)
{
    struct adopt_lease l;

    assert_int_equal(adopt_acquire(&l, (uintptr_t)p, len, flags), why);
    adopt_release(&l);
}

static void *sleeper(void *arg)
{
    sem_t *sem = arg;

    sem_post(&sem[0]);
    sem_wait(&sem[1]);
    return NULL;
}

/* The page behind a thread's stack is in the same mapping and may be adopted; the stack's last page
 * may not. */
static void what_lies_above_a_stack(void **state)
{
    const size_t stack = 64 * KIB;
    uint8_t *p = anonymous(2 * stack);
    pthread_attr_t attr;
    pthread_t thread;
    sem_t sem[2];

    sem_init(&sem[0], 0, 0);
    sem_init(&sem[1], 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, p, stack);
    assert_int_equal(pthread_create(&thread, &attr, sleeper, sem), 0);
    sem_wait(&sem[0]);
    check(p + stack, stack, ADOPT_WRITES | ADOPT_MOVE, CTL_MR_ADOPTED);
    check(p + stack - 1, 1, ADOPT_WRITES | ADOPT_MOVE, CTL_MR_STACK);
    check(p, 1, ADOPT_WRITES | ADOPT_MOVE, CTL_MR_STACK);
    sem_post(&sem[1]);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    unmap(p, 2 * stack);
}

static void stacks_stay(void **state)
{
    static __thread char local[8192];
    char bytes[16384];
    sem_t leave, there;
    void *told[] = {NULL, &leave, &there};
    pthread_t thread;

    memset(bytes, 1, sizeof(bytes));
    local[0] = 1;
    check(bytes, sizeof(bytes), ADOPT_MOVE, CTL_MR_STACK);
    check(local, sizeof(local), ADOPT_MOVE, CTL_MR_STACK);
    sem_init(&leave, 0, 0);
    sem_init(&there, 0, 0);
    pthread_create(&thread, NULL, on_a_stack, told);
    sem_wait(&there);
    check(told[0], 40000, ADOPT_MOVE, CTL_MR_STACK);
    sem_post(&leave);
    pthread_join(thread, NULL);
}

static void what_a_range_allows(void **state)
{
    uint64_t page = adopt.page;
    uint8_t *p = anonymous(5 * page);
    uintptr_t at = (uintptr_t)p;

    assert_int_equal(mprotect(p + page, page, PROT_READ), 0);
    assert_int_equal(mprotect(p + 3 * page, page, PROT_NONE), 0);
    assert_int_equal(vma_check(at, page, true), 0);
    assert_int_equal(vma_check(at, page + 1, true), -EFAULT);
    assert_int_equal(vma_check(at + page, page, true), -EFAULT);
    assert_int_equal(vma_check(at + page - 1, page + 2, true), -EFAULT);
    assert_int_equal(vma_check(at, 3 * page, false), 0);
    assert_int_equal(vma_check(at, 3 * page + 1, false), -EFAULT);
    assert_int_equal(vma_check(at + 2 * page, page, true), 0);
    munmap(p + page, page);
    assert_int_equal(vma_check(at, page + 1, false), -EFAULT);
    assert_int_equal(vma_check(at + page, 1, false), -EFAULT);
    assert_int_equal(vma_check(UINT64_C(1) << 62, 1, false), -EFAULT); /* behind all mappings */
    unmap(p, 5 * page);
}

static void other_memory_stays(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    uint8_t *p = anonymous(5 * 64 * KIB), *shared, *private;

    assert_int_equal(ftruncate(fd, 65536), 0);
    shared = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    private = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    private[0] = 1;
    check(shared, 65536, ADOPT_MOVE, CTL_MR_NOT_PRIVATE);
    check(private, 65536, ADOPT_MOVE, CTL_MR_NOT_PRIVATE);
    check(data + 8192, 8192, ADOPT_MOVE, CTL_MR_NOT_PRIVATE);
    check(p, 64 * KIB, ADOPT_WRITES, CTL_MR_SMALL);
    /* A part that cannot be adopted prevents all of it. */
    assert_int_equal(mprotect(p + 64 * KIB, 64 * KIB, PROT_READ), 0);
    assert_int_equal(mprotect(p + 3 * 64 * KIB, 64 * KIB, PROT_NONE), 0);
    check(p, 3 * 64 * KIB, ADOPT_MOVE, CTL_MR_ADOPTED);
    check(p, 3 * 64 * KIB, ADOPT_MOVE | ADOPT_WRITES, CTL_MR_NO_ACCESS);
    check(p, 5 * 64 * KIB, ADOPT_MOVE, CTL_MR_NO_ACCESS);
    munmap(p + 64 * KIB, 64 * KIB);
    check(p, 3 * 64 * KIB, ADOPT_MOVE, CTL_MR_NO_ACCESS);
    check((void *)adopt.page, 10, ADOPT_MOVE, CTL_MR_NO_ACCESS);
    assert_true(is_plain(p));
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, 5 * 64 * KIB);
    munmap(shared, 65536);
    munmap(private, 65536);
    close(fd);
}

/* With the protection that it had, and writable later. */
static void read_only_memory(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    struct adopt_lease l;

    mprotect(p, 64 * KIB, PROT_READ);
    assert_int_equal(adopt_acquire(&l, (uintptr_t)p, 64 * KIB, ADOPT_MOVE), CTL_MR_ADOPTED);
    assert_int_equal(mprotect(p, 64 * KIB, PROT_READ | PROT_WRITE), 0);
    p[9] = 9;
    assert_int_equal(in_memfd(&l, p + 9), 9);
    adopt_release(&l);
    assert_int_equal(p[9], 9);
    unmap(p, 64 * KIB);
}

static void sparse_memory(void **state)
{
    const size_t len = (size_t)1 << 40;
    uint8_t *p =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct adopt_lease l;

    assert_true(p != MAP_FAILED);
    p[len / 2] = 1;
    check(p, len, ADOPT_MOVE, CTL_MR_SPARSE);
    /* A partial page is extended to a whole one. */
    assert_int_equal(acquire(&l, p + len / 2, 1024 * KIB), CTL_MR_ADOPTED);
    assert_int_equal(memfd_bytes(), 1024 * KIB);
    assert_int_equal(p[len / 2], 1);
    assert_int_equal(p[len / 2 + 8192], 0);
    adopt_release(&l);
    munmap(p, len);
}

/* Bytes of [p, p + len) that have a page: adopt_untouched counts the others. */
static uint64_t resident(const void *p, size_t len)
{
    return len - adopt_untouched((uintptr_t)p, (uintptr_t)p + len, len);
}

/* A large pool, with little of it in use: the other pages are allocated while they are registered,
 * and no longer. A page of zeros that ends in another byte is in use. */
static void unused_pages_are_freed(void **state)
{
    const size_t len = 4096 * KIB;
    uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct adopt_lease l;

    assert_true(p != MAP_FAILED);
    assert_int_equal(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
    p[0] = 1;
    assert_int_equal(acquire(&l, p, len), CTL_MR_ADOPTED);
    assert_int_equal(memfd_bytes(), len);
    p[300 * KIB - 1] = 2;
    p[len - 1] = 3;
    adopt_release(&l);
    assert_true(is_plain(p));
    assert_int_equal(memfd_bytes(), 0);
    assert_int_equal(resident(p, len), 3 * adopt.page);
    assert_int_equal(p[0] + p[300 * KIB - 1] + p[len - 1], 6);
    for (size_t i = 0; i < len; i += 512)
        assert_int_equal(p[i], i ? 0 : 1);
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    unmap(p, len);
}

/* In the memfd, in a private view of it, and afterwards. */
static void locked_memory_stays_locked(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    uint64_t before;
    struct adopt_lease l;

    if (mlock(p, 64 * KIB))
        skip();
    before = adopt_locked_kb();
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
        assert_int_equal(adopt_locked_kb(), before);
        if (round == 1) {
            adopt_refused(&l);
            assert_true(l.views);
            assert_int_equal(adopt_locked_kb(), before);
        }
        adopt_release(&l);
        assert_true(is_plain(p));
        assert_int_equal(adopt_locked_kb(), before);
    }
    munlock(p, 64 * KIB);
    assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
    adopt_release(&l);
    assert_int_equal(adopt_locked_kb(), before - 64);
    unmap(p, 64 * KIB);
}

/* A program that locks all that it has and will have (mlockall), as those do that must not wait. */
static void all_memory_is_locked(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    struct adopt_lease l;

    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        skip();
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(acquire(&l, p, 64 * KIB), CTL_MR_ADOPTED);
        p[round] = 9;
        assert_int_equal(in_memfd(&l, p + round), 9);
        assert_int_equal(in_memfd(&l, p + 3), 1);
        adopt_release(&l);
        assert_true(is_plain(p));
        assert_int_equal(p[round], 9);
        if (!round && adopt.scratch) { /* a new one is locked from the start */
            raw_munmap(adopt.scratch, ADOPT_WINDOW);
            adopt.scratch = 0;
        }
    }
    munlockall();
    unmap(p, 64 * KIB);
}

/* Transparent huge pages, where the kernel gives them. */
static void huge_pages(void **state)
{
    const size_t len = 8192 * KIB;
    uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct adopt_lease l;

    madvise(p, len, MADV_HUGEPAGE);
    for (size_t i = 0; i < len; i += 8)
        *(uint64_t *)(p + i) = i;
    assert_int_equal(acquire(&l, p + 3 * KIB, len - 100 * KIB), CTL_MR_ADOPTED);
    for (size_t i = 0; i < len; i += 8)
        assert_int_equal(*(uint64_t *)(p + i), i);
    *(uint64_t *)(p + len / 2) = 5;
    assert_int_equal(in_memfd(&l, p + len / 2), 5);
    adopt_release(&l);
    *(uint64_t *)(p + len / 2) = len / 2;
    for (size_t i = 0; i < len; i += 8)
        assert_int_equal(*(uint64_t *)(p + i), i);
    munmap(p, len);
}

static int count_shared(const struct vma *v, void *arg)
{
    *(uint64_t *)arg += adopt_is_ours(v) ? v->end - v->start : 0;
    return 0;
}

static uint64_t shared_bytes(void)
{
    uint64_t bytes = 0;

    assert_int_equal(vma_each_file(count_shared, &bytes), 0);
    return bytes;
}

/* As on a machine with several nodes, and with large pages of shared memory: on others it has no
 * effect. */
static void placed_memory(void **state)
{
    const size_t len = 9 * 1024 * KIB;
    bool had[] = {adopt.has_nodes, adopt.has_huge};
    uint8_t *p = anonymous(len);
    struct adopt_lease l;
    int mode = -1;

    adopt.has_nodes = adopt.has_huge = true;
    for (size_t i = 0; i < len; i += 8)
        *(uint64_t *)(p + i) = i;
    assert_int_equal(acquire(&l, p, len), CTL_MR_ADOPTED);
    assert_int_equal(shared_bytes(), len); /* once */
    for (size_t i = 0; i < len; i += 8)
        assert_int_equal(*(uint64_t *)(p + i), i);
    for (size_t i = 0; i < len; i += 333 * KIB) {
        p[i] = 77;
        assert_int_equal(in_memfd(&l, p + i), 77);
        p[i] = (uint8_t)(i & 0xf8);
    }
    assert_int_equal(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0), 0);
    assert_int_equal(mode, 0);
    adopt_release(&l);
    assert_int_equal(shared_bytes(), 0);
    assert_true(is_plain(p));
    for (size_t i = 0; i < len; i += 8)
        assert_int_equal(*(uint64_t *)(p + i) & ~UINT64_C(7), i);
    assert_int_equal(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0), 0);
    assert_int_equal(mode, 0);
    adopt.has_nodes = had[0];
    adopt.has_huge = had[1];
    unmap(p, len);
}

static void scattered_memory(void **state)
{
    uint8_t *p = anonymous(64 * adopt.page);
    struct adopt_lease every[32], all;

    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(acquire(&every[i], p + 2 * i * adopt.page, 100), CTL_MR_ADOPTED);
    /* Small pieces have the same order in the file as in memory, so that neighbours merge. */
    assert_int_equal(acquire(&all, p, 64 * adopt.page), CTL_MR_ADOPTED);
    assert_int_equal(all.pieces, 1);
    for (unsigned i = 0; i < 32; i++)
        adopt_release(&every[i]);
    assert_true(is_shared(p + adopt.page));
    adopt_release(&all);
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, 64 * adopt.page);
}

static void too_many_pieces(void **state)
{
    const size_t step = 192 * KIB, gap = 64 * KIB, len = 20 * (step + gap);
    uint8_t *p = anonymous(len);
    struct adopt_lease every[20], all;

    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(acquire(&every[i], p + i * (step + gap), step), CTL_MR_ADOPTED);
    assert_int_equal(acquire(&all, p, len), CTL_MR_SPLIT);
    /* Pages that it had adopted are private again. */
    adopt_release(&all);
    assert_true(is_plain(p + step));
    assert_true(is_shared(p));
    for (unsigned i = 0; i < 20; i++)
        adopt_release(&every[i]);
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, len);
}

/* A region is as few mappings after its registration as before. */
static void one_mapping_again(void **state)
{
    uint8_t *p = anonymous(9 * MIB);
    unsigned before = vma_count();
    struct adopt_lease l;

    memset(p + 2 * MIB, 0, 4 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(acquire(&l, p, 9 * MIB), CTL_MR_ADOPTED);
        assert_int_equal(l.pieces, 1);
        adopt_release(&l);
        assert_int_equal(vma_count(), before);
    }
    assert_int_equal(p[2 * MIB - 1] + p[2 * MIB] + p[6 * MIB], 2);
    unmap(p, 9 * MIB);
}

static uint64_t mapped_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * adopt.page;
}

/* A process that may map little more memory gets it back window by window. */
static void given_back_in_little_room(void **state)
{
    uint8_t *p = anonymous(9 * MIB);
    struct adopt_lease l;
    struct rlimit old, few;

    assert_int_equal(acquire(&l, p, 9 * MIB), CTL_MR_ADOPTED);
    getrlimit(RLIMIT_AS, &old);
    few = (struct rlimit){mapped_bytes() + 6 * MIB, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &few), 0);
    adopt_release(&l);
    setrlimit(RLIMIT_AS, &old);
    assert_true(is_plain(p));
    assert_true(is_plain(p + 9 * MIB - 1));
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, 9 * MIB);
}

/* Neighbours that were registered by themselves before are mappings of their own, and yet one piece
 * of a region that has them all. */
static void neighbours_become_one_piece(void **state)
{
    const size_t step = 256 * KIB, len = 20 * step;
    uint8_t *p = anonymous(len);
    unsigned before = vma_count();
    struct adopt_lease every[20], all;

    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(acquire(&every[i], p + i * step, step), CTL_MR_ADOPTED);
    for (unsigned i = 0; i < 20; i++) {
        p[i * step] = (uint8_t)i;
        adopt_release(&every[i]);
    }
    assert_int_equal(vma_count(), before + 19);
    assert_int_equal(acquire(&all, p + 1, len - 1), CTL_MR_ADOPTED);
    assert_int_equal(all.pieces, 1);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(in_memfd(&all, p + i * step), i);
    adopt_release(&all);
    assert_int_equal(vma_count(), before);
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, len);
}

static void freed_while_registered(void **state)
{
    uint8_t *p = anonymous(1024 * KIB), *q;
    struct adopt_lease first, second;

    assert_int_equal(acquire(&first, p, 1024 * KIB), CTL_MR_ADOPTED);
    q = mmap(p, 1024 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(q, p);
    /* Other memory at the same address: its own pages. */
    assert_int_equal(acquire(&second, p, 1024 * KIB), CTL_MR_ADOPTED);
    assert_int_equal(in_memfd(&first, p), 1);
    assert_int_equal(in_memfd(&second, p), 0);
    adopt_release(&first);
    assert_true(is_shared(p));
    adopt_release(&second);
    assert_true(is_plain(p));
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, 1024 * KIB);
}

/* As realloc does it: the new part is zero, and not shared. */
static void grown_while_registered(void **state)
{
    uint8_t *p = mmap(NULL, 4096 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *neighbour = p + 1024 * KIB, *moved;
    struct adopt_lease first, second;

    memset(p, 2, 4096 * KIB);
    assert_int_equal(acquire(&first, p, 1024 * KIB), CTL_MR_ADOPTED);
    assert_int_equal(acquire(&second, neighbour, 1024 * KIB), CTL_MR_ADOPTED);
    moved = mremap(p, 1024 * KIB, 3072 * KIB, MREMAP_MAYMOVE);
    assert_true(moved != MAP_FAILED);
    assert_int_equal(moved[5], 2);
    assert_int_equal(moved[1024 * KIB], 0);
    memset(moved, 3, 3072 * KIB);
    assert_int_equal(neighbour[0], 2);
    adopt_release(&first);
    assert_true(is_plain(moved));
    assert_true(is_plain(moved + 2048 * KIB));
    assert_int_equal(moved[3072 * KIB - 1], 3);
    adopt_release(&second);
    assert_int_equal(neighbour[0], 2);
    assert_int_equal(memfd_bytes(), 0);
    munmap(moved, 3072 * KIB);
    munmap(neighbour, 3072 * KIB);
}

static void half_of_the_mappings_are_left(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    unsigned before;
    uint8_t *more[4];

    for (unsigned i = 0; i < ARRAY_SIZE(more); i++)
        more[i] = anonymous(4 * KIB);
    before = adopt.vmas_max;
    adopt.vmas_max = vma_count();
    check(p, 64 * KIB, ADOPT_MOVE, CTL_MR_NO_ROOM);
    /* It notices when there are fewer, but does not count every time. */
    for (unsigned i = 0; i < ARRAY_SIZE(more); i++)
        unmap(more[i], 4 * KIB);
    adopt.full_until = INT64_MAX;
    check(p, 64 * KIB, ADOPT_MOVE, CTL_MR_NO_ROOM);
    adopt.full_until = 0;
    check(p, 64 * KIB, ADOPT_MOVE, CTL_MR_ADOPTED);
    adopt.vmas_max = before;
    check(p, 64 * KIB, ADOPT_MOVE, CTL_MR_ADOPTED);
    unmap(p, 64 * KIB);
}

/* After the last part of the memfd the first one that is free comes again: not that of a lease, nor
 * what a mapping that has grown shows. */
static void parts_are_given_again(void **state)
{
    uint8_t *p = anonymous(256 * KIB), *held = anonymous(256 * KIB), *grown;
    struct adopt_lease old, l;
    uint64_t first;

    adopt.slot_next = SLOTS_BEGIN;
    assert_int_equal(acquire(&old, held, 256 * KIB), CTL_MR_ADOPTED);
    first = old.piece[0].offset / SLOT_BYTES;
    assert_int_equal(first, SLOTS_BEGIN / SLOT_BYTES);
    grown = mremap(held, 256 * KIB, SLOT_BYTES + 256 * KIB, MREMAP_MAYMOVE);
    assert_ptr_not_equal(grown, MAP_FAILED);
    adopt.slot_next = FILE_BYTES - SLOT_BYTES;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(acquire(&l, p, 256 * KIB), CTL_MR_ADOPTED);
        assert_int_equal(l.piece[0].offset / SLOT_BYTES, first + 2 + i);
        adopt_release(&l);
    }
    assert_true(is_plain(p));
    munmap(grown + 256 * KIB, SLOT_BYTES);
    adopt_release(&old);
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, 256 * KIB);
    munmap(grown, 256 * KIB);
}

static int64_t grant;
static unsigned stops, goes;

static int64_t stop(void)
{
    stops++;
    return grant;
}

static void go(void)
{
    goes++;
}

/* Memory does not move while the daemon copies it. */
static void the_daemon_stands_still(void **state)
{
    uint8_t *p = anonymous(64 * KIB);
    struct adopt_lease copied, l;

    adopt.config.stop = stop;
    adopt.config.go = go;
    adopt_note_copied(&copied, (uintptr_t)p + 5000, 10);
    check(p, 64 * KIB, ADOPT_MOVE, CTL_MR_OVERLAPS);
    grant = -EAGAIN;
    check(p, 64 * KIB, ADOPT_MOVE | ADOPT_AGAIN, CTL_MR_BUSY);
    assert_true(is_plain(p));
    assert_int_equal(goes, 0);
    grant = 2; /* ns: over before the pages were protected */
    check(p, 64 * KIB, ADOPT_MOVE | ADOPT_AGAIN, CTL_MR_BUSY);
    assert_true(is_plain(p));
    grant = INT64_C(1) << 40;
    stops = goes = 0;
    assert_int_equal(adopt_acquire(&l, (uintptr_t)p, 64 * KIB, ADOPT_MOVE | ADOPT_AGAIN),
                     CTL_MR_ADOPTED);
    assert_int_equal(stops, 1);
    adopt_release(&l);
    assert_int_equal(stops, 2);
    assert_int_equal(goes, 2);
    assert_true(is_plain(p));
    adopt_release(&copied);
    check(p, 64 * KIB, ADOPT_MOVE, CTL_MR_ADOPTED);
    assert_int_equal(stops, 2);
    adopt.config.stop = NULL;
    unmap(p, 64 * KIB);
}

/* Releases a lease on pages that the daemon copies, too; it is asked to stand still for each part.
 */
static void release_beside_copies(struct adopt_lease *l, int64_t (*stands_still)(void))
{
    stops = goes = 0;
    adopt.config.stop = stands_still;
    adopt.config.go = go;
    adopt_release(l);
    adopt.config.stop = NULL;
}

static uint8_t *copied_to;

/* Stands still once; then the daemon copies something, and refuses. */
static int64_t stop_once(void)
{
    if (!stops++)
        return INT64_C(1) << 40;
    *copied_to = 7;
    return -EAGAIN;
}

/* Memory is given back in parts, and the daemon copies between them. What it has copied to the
 * parts that are plain memory again stays, when the others cannot become that. */
static void given_back_by_half(void **state)
{
    const size_t len = 768 * KIB;
    uint64_t before = memfd_bytes();
    uint8_t *p = anonymous(len);
    struct adopt_lease copied, l;

    assert_int_equal(acquire(&l, p, len), CTL_MR_ADOPTED);
    adopt_note_copied(&copied, (uintptr_t)p, len);
    copied_to = p;
    p[1] = p[len - 1] = 8;
    release_beside_copies(&l, stop_once);
    assert_int_equal(stops, 2);
    assert_int_equal(goes, 1);
    assert_int_equal(p[0], 7);
    assert_int_equal(p[1], 8);
    assert_int_equal(p[len - 1], 8);
    assert_true(is_plain(p));
    assert_true(is_view(p + len - 1));
    assert_true(memfd_bytes() - before < len);
    adopt_release(&copied);
    unmap(p, len);
}

static uint8_t *moved_to;

/* Between two windows, as another thread does. */
static int64_t stop_and_map_again(void)
{
    if (!stops++) {
        munmap(moved_to, 512 * KIB);
        assert_ptr_equal(mmap(moved_to, 512 * KIB, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         moved_to);
        memset(moved_to, 9, 512 * KIB);
    }
    return INT64_C(1) << 40;
}

/* The program frees memory that is being given back, and maps other memory there. */
static void mapped_again_later(void **state)
{
    const size_t len = 768 * KIB;
    uint8_t *p = anonymous(len);
    struct adopt_lease copied, l;

    if (adopt.text_maps) { /* nothing is asked */
        munmap(p, len);
        return;
    }
    assert_int_equal(acquire(&l, p, len), CTL_MR_ADOPTED);
    adopt_note_copied(&copied, (uintptr_t)p, len);
    moved_to = p + len - 512 * KIB;
    release_beside_copies(&l, stop_and_map_again);
    for (size_t i = 0; i < 512 * KIB; i++)
        assert_int_equal(moved_to[i], 9);
    for (size_t i = 0; i < 256 * KIB; i++)
        assert_int_equal(p[i], 1);
    adopt_release(&copied);
    unmap(p, len);
}

static uint64_t left[8];

static int64_t stop_and_measure(void)
{
    left[stops++] = memfd_bytes();
    return INT64_C(1) << 40;
}

/* What has been given back is freed before the next part is: a process need not have room for a
 * region twice. */
static void given_back_step_by_step(void **state)
{
    const size_t step = 256 * KIB, len = 8 * step;
    uint8_t *p = anonymous(len + step), *first = p + (step - (uintptr_t)p % step) % step;
    struct adopt_lease copied, l;

    assert_int_equal(acquire(&l, first, len), CTL_MR_ADOPTED);
    adopt_note_copied(&copied, (uintptr_t)first, len);
    release_beside_copies(&l, stop_and_measure);
    assert_int_equal(stops, 8);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(left[i], (8 - i) * step);
    adopt_release(&copied);
    assert_int_equal(memfd_bytes(), 0);
    unmap(p, len + step);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(adopted_and_given_back),
        cmocka_unit_test(leases_share_pages),
        cmocka_unit_test(stacks_stay),
        cmocka_unit_test(what_lies_above_a_stack),
        cmocka_unit_test(what_a_range_allows),
        cmocka_unit_test(other_memory_stays),
        cmocka_unit_test(read_only_memory),
        cmocka_unit_test(sparse_memory),
        cmocka_unit_test(unused_pages_are_freed),
        cmocka_unit_test(locked_memory_stays_locked),
        cmocka_unit_test(all_memory_is_locked),
        cmocka_unit_test(huge_pages),
        cmocka_unit_test(placed_memory),
        cmocka_unit_test(scattered_memory),
        cmocka_unit_test(too_many_pieces),
        cmocka_unit_test(one_mapping_again),
        cmocka_unit_test(given_back_in_little_room),
        cmocka_unit_test(neighbours_become_one_piece),
        cmocka_unit_test(freed_while_registered),
        cmocka_unit_test(grown_while_registered),
        cmocka_unit_test(half_of_the_mappings_are_left),
        cmocka_unit_test(parts_are_given_again),
        cmocka_unit_test(the_daemon_stands_still),
        cmocka_unit_test(given_back_step_by_step),
        cmocka_unit_test(given_back_by_half),
        cmocka_unit_test(mapped_again_later),
    };

    if (!kit_can_adopt(argc))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
