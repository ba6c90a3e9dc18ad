/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of shared memory: their places and contents, and when slabs are created and removed. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "control/account.h"
#include "objects/slab.h"
#include "random.h"

#define LARGE (SLAB_PIECE_MAX + 1)

static struct slab_pool pool;

static int teardown(void **state)
{
    slab_pool_fini(&pool);
    return 0;
}

/* Expects success; the descriptor, if one comes, is closed. */
static struct segment cut(size_t bytes, struct slab_place *place)
{
    struct segment s;

    assert_int_equal(slab_alloc(&pool, bytes, &s, place), 0);
    assert_int_equal(s.bytes, bytes);
    if (place->fd >= 0)
        close(place->fd);
    return s;
}

static bool all(const struct segment *s, uint8_t byte)
{
    const uint8_t *p = s->base;

    return p[0] == byte && !memcmp(p, p + 1, s->bytes - 1);
}

static ino_t inode(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

/* Each piece is filled with a byte of its own, which must still fill it when it is freed. */
static void test_pieces_are_apart(void **state)
{
    enum { N = 400, ROUNDS = 6000 };
    static struct segment piece[N];
    struct slab_place place;
    struct random random = {1};

    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned which = random_below(&random, N);
        struct segment *s = &piece[which];
        unsigned scale = random_below(&random, 15);

        if (s->base) {
            assert_true(all(s, (uint8_t)(which | 1)));
            slab_free(&pool, s);
            assert_null(s->base);
            continue;
        }
        *s = cut(1 + random_below(&random, 1u << scale), &place);
        assert_int_equal((uintptr_t)s->base % CACHE_LINE, 0);
        assert_int_equal(place.offset % CACHE_LINE, 0);
        assert_true(place.offset + s->bytes <= slab_memory(s)->bytes);
        assert_true(s->bytes == 1 || all(s, 0));
        memset(s->base, (int)(which | 1), s->bytes);
    }
    for (unsigned i = 0; i < N; i++) {
        if (piece[i].base)
            slab_free(&pool, &piece[i]);
    }
}

/* All sizes: at least the requested size, at most a quarter more, and at least a cache line. */
static void test_classes(void **state)
{
    for (size_t bytes = 1; bytes <= SLAB_PIECE_MAX; bytes += bytes < 4096 ? 1 : CACHE_LINE - 1) {
        struct slab_place first, second;
        size_t apart;

        cut(bytes, &first);
        cut(bytes, &second);
        apart = (size_t)(second.offset - first.offset);

        assert_int_equal(first.slab, second.slab);
        assert_true(apart >= bytes && apart <= bytes + max_of(bytes / 4, (size_t)CACHE_LINE));
        slab_pool_fini(&pool);
        assert_int_equal(pool.count, 0);
    }
}

/* As the application does it. */
static void fill(int fd, uint8_t byte, size_t bytes)
{
    uint8_t *from = malloc(bytes);

    memset(from, byte, bytes);
    assert_int_equal(pwrite(fd, from, bytes, 0), (ssize_t)bytes);
    free(from);
}

/* Whatever the application wrote, in its slab's other pieces too. */
static void test_reuse_is_zeroed(void **state)
{
    struct slab_place first, again, other;
    struct segment s, neighbour;

    for (size_t bytes = 64; bytes <= SLAB_PIECE_MAX; bytes *= 4) {
        assert_int_equal(slab_alloc(&pool, bytes, &neighbour, &other), 0);
        s = cut(bytes, &first);
        fill(other.fd, 0xFF, slab_memory(&s)->bytes);
        close(other.fd);
        assert_int_equal(slab_free(&pool, &s), 0);
        s = cut(bytes, &again);
        assert_int_equal(again.slab, first.slab);
        assert_int_equal(again.offset, first.offset);
        assert_int_equal(again.fd, -1);
        assert_true(all(&s, 0));
        assert_true(all(&neighbour, 0xFF));
    }
}

/* The descriptor refers to the daemon's memory, cannot be resized, and comes once. */
static void test_descriptor_comes_once(void **state)
{
    struct segment a, b;
    struct slab_place first, second;
    uint8_t bytes[100];

    assert_int_equal(slab_alloc(&pool, sizeof(bytes), &a, &first), 0);
    assert_true(first.fd >= 0);
    assert_int_equal(slab_alloc(&pool, sizeof(bytes), &b, &second), 0);
    assert_int_equal(second.fd, -1);
    assert_int_equal(first.slab, second.slab);
    memset(b.base, 0x5A, sizeof(bytes));
    assert_int_equal(pread(first.fd, bytes, sizeof(bytes), (off_t)second.offset), sizeof(bytes));
    assert_memory_equal(bytes, b.base, sizeof(bytes));
    assert_int_equal(lseek(first.fd, 0, SEEK_END), slab_memory(&a)->bytes);
    assert_int_equal(ftruncate(first.fd, 0), -1);
    assert_int_equal(ftruncate(first.fd, SLAB_MAX * 2), -1);
    assert_true(fcntl(first.fd, F_GET_SEALS) & F_SEAL_SEAL);
    close(first.fd);
}

/* As large as all before together, up to the largest; a large piece has a slab of its own. */
static void test_growth(void **state)
{
    size_t before = 0, expected = SLAB_MIN;
    struct slab_place place;
    uint64_t last = 0;
    struct segment s;

    while (before < SLAB_MAX * 3) {
        s = cut(4096, &place);
        if (place.slab == last)
            continue;
        assert_true(place.slab > last);
        assert_int_equal(slab_memory(&s)->bytes, expected);
        before += expected;
        expected = min_of(before, (size_t)SLAB_MAX);
        last = place.slab;
    }
    s = cut(LARGE, &place);
    assert_int_equal(place.offset, 0);
    assert_int_equal(slab_memory(&s)->bytes, round_up(LARGE, 4096));
    assert_int_equal(slab_free(&pool, &s), place.slab);
    assert_int_equal(slab_alloc(&pool, SIZE_MAX / 2, &s, &place), -ENOMEM);
}

/* All except the slab that the next piece will come from. */
static void test_empty_slabs_go(void **state)
{
    enum { N = 200 };
    struct segment s[N];
    struct slab_place place[N], next;
    unsigned slabs, gone = 0;

    for (unsigned i = 0; i < N; i++)
        s[i] = cut(4096, &place[i]);
    slabs = pool.count;
    assert_true(slabs > 2);
    for (unsigned i = 0; i < N; i++) {
        uint64_t id = slab_free(&pool, &s[i]);

        assert_true(!id || id == place[i].slab);
        gone += id != 0;
    }
    assert_int_equal(pool.count, 1);
    assert_int_equal(gone, slabs - 1);
    /* The remaining slab is known already, and stays however many times it is emptied. */
    for (unsigned i = 0; i < 3; i++) {
        s[0] = cut(4096, &next);
        assert_int_equal(next.fd, -1);
        assert_int_equal(slab_free(&pool, &s[0]), 0);
    }
}

/* The application did not get the descriptor: the next piece has another slab. */
static void test_lost_slab_goes(void **state)
{
    struct slab_place first, second;
    struct segment s, t;

    s = cut(100, &first);
    slab_unkeep(&pool, first.slab + 1);
    slab_unkeep(&pool, first.slab);
    assert_int_equal(slab_free(&pool, &s), first.slab);
    s = cut(100, &second);
    assert_true(second.fd >= 0 && second.slab != first.slab);
    t = cut(100, &first);
    slab_unkeep(&pool, second.slab); /* not while there is something in it */
    assert_int_equal(slab_free(&pool, &t), 0);
    assert_int_equal(slab_free(&pool, &s), second.slab);
    assert_int_equal(pool.count, 0);
}

static void test_cancelled(void **state)
{
    struct segment s, t, none = {0};
    struct slab_place first, second;

    s = cut(100, &first);
    slab_cancel(&pool, &s);
    assert_null(s.base);
    assert_int_equal(pool.count, 0);
    slab_cancel(&pool, &none);
    /* The application has not learned of that slab: the next one comes with a descriptor and
     * another name. */
    s = cut(100, &second);
    assert_true(second.fd >= 0 && second.slab != first.slab);
    t = cut(100, &first);
    slab_cancel(&pool, &t);
    assert_int_equal(slab_free(&pool, &s), 0);
    s = cut(100, &first);
    assert_int_equal(first.fd, -1);
    slab_cancel(&pool, &s); /* the slab is known, though nothing else is in it */
    s = cut(100, &first);
    assert_int_equal(first.fd, -1);
    assert_int_equal(first.slab, second.slab);
    s = cut(LARGE, &first);
    slab_cancel(&pool, &s);
    assert_int_equal(pool.count, 1);
}

/* A pool takes no more slabs than its account may have, of mappings or bytes; and gives back what
 * it took. */
static void check_exhaustion(const struct quota_limits *limits, unsigned slabs)
{
    static struct quota quota;
    struct quota_account account;
    struct segment s, small, last = {0};
    struct slab_place place;

    quota_init(&quota, limits, 1000);
    assert_int_equal(quota_account_open(&quota, 1000, &account), 0);
    pool.account = &account;
    small = cut(64, &place);
    while (pool.count < slabs)
        last = cut(LARGE, &place);
    assert_int_equal(slab_alloc(&pool, LARGE, &s, &place), -ENOMEM);
    assert_int_equal(slab_alloc(&pool, SLAB_PIECE_MAX, &s, &place), -ENOMEM);
    assert_int_equal(pool.count, slabs);
    s = cut(64, &place); /* there is room */
    assert_ptr_equal(s.slab, small.slab);
    assert_true(slab_free(&pool, &last) != 0);
    last = cut(LARGE, &place);
    slab_cancel(&pool, &last);
    last = cut(LARGE, &place);
    assert_true(account.used[QUOTA_MEMORY] > slab_memory(&last)->bytes * (slabs - 1));
    slab_pool_fini(&pool);
    assert_int_equal(account.used[QUOTA_MAPPING], 0);
    assert_int_equal(account.used[QUOTA_MEMORY], 0);
    quota_account_close(&account);
    pool.account = NULL;
}

static void test_exhaustion(void **state)
{
    check_exhaustion(&(struct quota_limits){.total[QUOTA_MAPPING] = 50}, 50);
    check_exhaustion(&(struct quota_limits){.total[QUOTA_MEMORY] = 20 * LARGE}, 20);
}

/* Bytes of memory behind a file. */
static uint64_t pages_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* An application that keeps a file keeps no memory that the daemon has touched; except at the
 * daemon's end. */
static void test_memory_is_freed(void **state)
{
    struct slab_place place;
    struct segment s;
    int fd[3];

    for (unsigned i = 0; i < ARRAY_SIZE(fd); i++) {
        assert_int_equal(slab_alloc(&pool, LARGE, &s, &place), 0);
        fd[i] = place.fd;
        memset(s.base, 1, s.bytes);
        assert_true(pages_of(fd[i]) >= LARGE);
        pool.keep = i == 2;
        if (i == 0)
            assert_int_equal(slab_free(&pool, &s), place.slab);
        else
            slab_pool_fini(&pool);
        assert_int_equal(pages_of(fd[i]) != 0, i == 2);
        close(fd[i]);
    }
    pool.keep = false;
}

/* Without descriptors no slab is created, and no half-created one is left. */
static void test_no_descriptors(void **state)
{
    struct rlimit limit, none;
    struct slab_place place;
    struct segment s;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(slab_alloc(&pool, 64, &s, &place), -EMFILE);
    assert_int_equal(slab_alloc(&pool, LARGE, &s, &place), -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(pool.count, 0);
    cut(64, &place);
}

static void test_pools_share_nothing(void **state)
{
    struct slab_pool other = {0};
    struct slab_place mine, theirs;
    struct segment s, t;

    assert_int_equal(slab_alloc(&pool, 64, &s, &mine), 0);
    assert_int_equal(slab_alloc(&other, 64, &t, &theirs), 0);
    assert_true(theirs.fd >= 0);
    assert_true(inode(mine.fd) != inode(theirs.fd));
    close(mine.fd);
    close(theirs.fd);
    assert_ptr_not_equal(slab_memory(&s)->base, slab_memory(&t)->base);
    slab_pool_fini(&other);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        T(test_pieces_are_apart),      T(test_classes),         T(test_reuse_is_zeroed),
        T(test_descriptor_comes_once), T(test_growth),          T(test_empty_slabs_go),
        T(test_lost_slab_goes),        T(test_cancelled),       T(test_exhaustion),
        T(test_no_descriptors),        T(test_memory_is_freed), T(test_pools_share_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
