/* SPDX-License-Identifier: BSD-3-Clause */
/* Misuse of registered memory by programs; and very many regions. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs_adopt.h"

#define LENGTH (1u << 20)

/* The library's memfd, as any program could find it. */
static int find_memfd(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;
    char to[128];
    int found = -1;

    assert_non_null(dir);
    while (found < 0 && (e = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1);

        if (n > 0 && (to[n] = 0, strstr(to, "/memfd:uroce-mr")))
            found = dup(atoi(e->d_name));
    }
    closedir(dir);
    return found;
}

/* The offset of b in it. */
static off_t offset_of(const void *b)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long start, end, offset, at = (uintptr_t)b;
    char line[512];
    off_t found = -1;

    assert_non_null(f);
    while (found < 0 && fgets(line, sizeof(line), f))
        if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && at >= start && at < end)
            found = (off_t)(offset + (at - start));
    fclose(f);
    assert_true(found >= 0);
    return found;
}

static struct side messy; /* its buffer is the target of the misuse */

/* Every request completes, whatever memory it meets. */
static void *requests(void *arg)
{
    unsigned rounds = 0;

    while (!stop || rounds < 20) {
        struct ibv_wc wc[2];

        rounds++;
        faults += post_send(&p.a, IBV_WR_RDMA_WRITE, &messy, rounds * 4096 % 32768, 20000, 1) != 0;
        faults += post_send(&p.a, IBV_WR_RDMA_READ, &messy, rounds * 4096 % 32768, 20000, 2) != 0;
        await(p.cq, wc, 2);
        for (unsigned i = 0; i < 2; i++)
            faults += adopted && wc[i].status != IBV_WC_SUCCESS;
        if (wc[0].status || wc[1].status)
            return NULL; /* copied: the queue pair has failed, as it should */
    }
    return NULL;
}

static void make_a_mess(uint8_t *b, int fd)
{
    void *moved;

    if (fd >= 0) {
        assert_int_equal(ftruncate(fd, 0), -1);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        assert_int_equal(
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_of(b), LENGTH / 2), 0);
    }
    assert_int_equal(mprotect(b, PAGE, PROT_READ), 0);
    assert_int_equal(mprotect(b + PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(madvise(b + 2 * PAGE, PAGE, MADV_DONTNEED), 0);
    assert_int_equal(munmap(b + 3 * PAGE, PAGE), 0);
    moved = mremap(b + 4 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, b + LENGTH - PAGE);
    assert_true(moved != MAP_FAILED);
    assert_true(mmap(b + 5 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

/* While requests continue. The daemon is not affected. */
void memory_pulled_away(void **state)
{
    uint8_t *b = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    int fd;

    memset(b, 1, LENGTH);
    messy = p.b;
    messy.buffer = b;
    messy.mr = ibv_reg_mr(p.pd, b, LENGTH, ACCESS);
    assert_non_null(messy.mr);
    fd = find_memfd();
    assert_int_equal(fd >= 0, adopted);
    stop = false;
    faults = 0;
    pthread_create(&thread, NULL, requests, NULL);
    make_a_mess(b, fd);
    stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(faults, 0);
    if (fd >= 0)
        close(fd);
    assert_int_equal(ibv_dereg_mr(messy.mr), 0);
    munmap(b, LENGTH);
}

/* Few of them are used. */
void thousands_of_regions(void **state)
{
    enum { MANY = 10000, STEP = 3 * PAGE };
    uint8_t *b =
        mmap(NULL, (size_t)MANY * STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr **mr = calloc(MANY, sizeof(*mr));

    for (unsigned i = 0; i < MANY; i++) {
        b[(size_t)i * STEP] = 1;
        mr[i] = ibv_reg_mr(p.pd, b + (size_t)i * STEP, 4000, ACCESS);
        assert_non_null(mr[i]);
    }
    assert_int_equal(mappings_in(b, (size_t)MANY * STEP, "rw-s"), 0);
    faults = 0;
    for (unsigned i = 0; i < MANY; i += MANY / 10)
        if (small_ones())
            use_until_adopted(mr[i], b + (size_t)i * STEP, 4000);
    assert_int_equal(mappings_in(b, (size_t)MANY * STEP, "rw-s"), small_ones() ? 10 : 0);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(ibv_dereg_mr(mr[i]), 0);
    assert_int_equal(mappings_in(b, (size_t)MANY * STEP, "rw-s"), 0);
    free(mr);
    munmap(b, (size_t)MANY * STEP);
}
