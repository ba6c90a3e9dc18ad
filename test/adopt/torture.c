/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages move into the memfd and out again while other threads write to them, allocate and free
 * around them, and the process forks. Every byte that a thread wrote must be there afterwards.
 *
 * usage: torture SECONDS [text] [nomove] [place] [late], see options(); 0 seconds: only whether
 * this process can adopt
 */
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "adopt_state.h"

#define WRITERS    2
#define ALLOCATORS 3
#define ADOPTERS   2
#define COUNTERS   4096u
#define BLOCK      8192u
#define BLOCKS     16u
#define LEASES     48u
#define FORK_EVERY 40 /* turns */

static atomic_bool stop;
static atomic_ulong errors, moves, blocks, forks, views;
static unsigned long refused[CTL_MR_WHYS];
static bool late;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void __attribute__((format(printf, 1, 2))) wrong(const char *format, ...)
{
    va_list args;

    if (atomic_fetch_add(&errors, 1) >= 10)
        return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void fill(uint8_t *p, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(key + i * 7);
}

static bool holds(const uint8_t *p, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (uint8_t)(key + i * 7))
            return false;
    return true;
}

/* Mostly small, some of pages, few large. */
static size_t some_size(uint64_t *s)
{
    uint64_t kind = next(s) % 100;

    return 16 + next(s) % (kind < 60 ? 600 : kind < 90 ? 20000 : kind < 99 ? 200000 : 2000000);
}

/* ---- memory that is written all the time ---- */

static struct shared {
    uint64_t *counter; /* each incremented as many times as all others */
    uint8_t *block;    /* the last writes, a block each */
} shared[WRITERS];

static void *writer(void *arg)
{
    struct shared *w = arg;
    volatile uint64_t *counter = w->counter;
    uint8_t bytes[BLOCK];
    uint64_t round = 0;

    while (!stop) {
        uint8_t *block = w->block + (++round % BLOCKS) * BLOCK;

        for (unsigned i = 0; i < COUNTERS; i++)
            counter[i * 521 % COUNTERS]++;
        memset(bytes, (int)round, BLOCK);
        memcpy(block, bytes, BLOCK);
        if (memcmp(block, bytes, BLOCK))
            wrong("a block is not what was written");
    }
    for (unsigned i = 0; i < COUNTERS; i++)
        if (counter[i] != round)
            wrong("counter %u is %llu, not %llu", i, (unsigned long long)counter[i],
                  (unsigned long long)round);
    return NULL;
}

/* ---- who allocates ---- */

struct object {
    uint8_t *p;
    size_t n;
    uint64_t key;
};

static void make(struct object *o, uint64_t *s)
{
    bool zeroed = next(s) % 3 == 0;

    o->n = some_size(s);
    o->key = next(s);
    o->p = zeroed ? calloc(1, o->n) : malloc(o->n);
    for (size_t i = 0; zeroed && i < o->n; i++) {
        if (o->p[i]) {
            wrong("calloc gave %p, in which %p is not zero", (void *)o->p, (void *)(o->p + i));
            break;
        }
    }
    fill(o->p, o->n, o->key);
}

static void change(struct object *o, uint64_t *s)
{
    size_t n = some_size(s);

    if (!holds(o->p, o->n, o->key))
        wrong("an object of %zu bytes at %p has changed", o->n, (void *)o->p);
    if (next(s) % 3) {
        free(o->p);
        o->p = NULL;
        return;
    }
    o->p = realloc(o->p, n);
    if (!holds(o->p, min_of(n, o->n), o->key))
        wrong("realloc from %zu to %zu bytes lost some", o->n, n);
    o->n = n;
    fill(o->p, n, o->key);
}

static void *allocator(void *arg)
{
    struct object object[300] = {{NULL}};
    uint64_t s = (uintptr_t)arg;

    while (!stop) {
        struct object *o = &object[next(&s) % ARRAY_SIZE(object)];

        if (o->p)
            change(o, &s);
        else
            make(o, &s);
        blocks++;
    }
    for (unsigned i = 0; i < ARRAY_SIZE(object); i++)
        free(object[i].p);
    return NULL;
}

/* ---- who registers ---- */

struct registration {
    struct adopt_lease lease;
    struct object own; /* or memory of a writer's */
    uint64_t addr;
    size_t len;
};

static struct registration registration[ADOPTERS][LEASES];

/* Through the memfd, as the daemon sees it. */
static void look(const struct registration *r)
{
    uint8_t bytes[512];
    size_t n = min_of(sizeof(bytes), r->len);
    const struct adopt_piece *p = &r->lease.piece[0];

    if (r->lease.kind != LEASE_HELD || !r->own.p)
        return;
    n = min_of(n, (size_t)(p->addr + p->length - r->addr));
    if (pread(adopt_memfd(), bytes, n, (off_t)(p->offset + (r->addr - p->addr))) != (ssize_t)n ||
        memcmp(bytes, r->own.p, n))
        wrong("the memfd has other bytes");
    views++;
}

static void begin(struct registration *r, uint64_t *s)
{
    const struct shared *w = &shared[next(s) % WRITERS];
    enum ctl_mr_why why;

    r->own.p = NULL;
    switch (next(s) % 4) {
    case 0:
        r->addr = (uintptr_t)w->counter + next(s) % (COUNTERS * 4);
        r->len = 1 + next(s) % (COUNTERS * 4);
        break;
    case 1:
        r->addr = (uintptr_t)w->block + next(s) % (BLOCKS * BLOCK / 2);
        r->len = 1 + next(s) % (BLOCKS * BLOCK / 2);
        break;
    default:
        make(&r->own, s);
        r->addr = (uintptr_t)r->own.p;
        r->len = r->own.n;
    }
    why = adopt_acquire(&r->lease, r->addr, r->len,
                        ADOPT_WRITES | ADOPT_MOVE | (next(s) % 4 ? ADOPT_AGAIN : 0));
    moves += why == CTL_MR_ADOPTED;
    refused[why]++;
}

/* Memory may be freed before its region: its bytes are then undefined. */
static void end(struct registration *r, uint64_t *s)
{
    bool early = r->own.p && !late && next(s) % 8 == 0;

    look(r);
    if (early)
        free(r->own.p);
    adopt_release(&r->lease);
    if (!r->own.p || early)
        return;
    if (!holds(r->own.p, r->own.n, r->own.key))
        wrong("registered memory has changed");
    free(r->own.p);
}

static int in_child(const struct registration *mine)
{
    void *p[100];

    for (unsigned i = 0; i < LEASES; i++) {
        const struct object *o = &mine[i].own;

        if (mine[i].lease.kind != LEASE_NONE && o->p && !holds(o->p, o->n, o->key))
            return 2;
        if (mine[i].lease.kind != LEASE_NONE && o->p)
            memset(o->p, 'C', o->n); /* the parent must not see it */
    }
    for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
        p[i] = memset(malloc(100 + i * 50), 1, 100 + i * 50);
    for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
        free(p[i]);
    return 0;
}

/* As the verbs library does it; all regions are private until the next adoption. */
static void fork_now(struct registration *mine)
{
    int status = -1;
    pid_t pid;

    adopt_freeze();
    for (unsigned a = 0; a < ADOPTERS; a++)
        for (unsigned i = 0; i < LEASES; i++)
            adopt_lease_freeze(&registration[a][i].lease);
    pid = fork();
    if (!pid) {
        alarm(20);
        adopt_child();
        _exit(in_child(mine));
    }
    waitpid(pid, &status, 0);
    if (status)
        wrong("a child ended with %x", (unsigned)status);
    forks++;
}

static void *adopter(void *arg)
{
    struct registration *mine = arg;
    uint64_t s = (uintptr_t)arg;

    while (!stop) {
        struct registration *r = &mine[next(&s) % LEASES];

        pthread_mutex_lock(&lock);
        if (r->lease.kind != LEASE_NONE)
            end(r, &s);
        else
            begin(r, &s);
        if (next(&s) % FORK_EVERY == 0)
            fork_now(mine);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < LEASES; i++)
        if (mine[i].lease.kind != LEASE_NONE)
            end(&mine[i], &s);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int64_t stand_still(void)
{
    return INT64_MAX / 4; /* there is no daemon */
}

static void go(void)
{
}

static bool has_option(int argc, char **argv, const char *option)
{
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], option))
            return true;
    return false;
}

static void options(int argc, char **argv)
{
    if (has_option(argc, argv, "text")) /* as on kernels before 6.11 */
        adopt.text_maps = true;
    if (has_option(argc, argv, "nomove")) /* nor are pins detected: before 6.8 */
        adopt.features &= ~ADOPT_FEATURE_MOVE;
    if (has_option(argc, argv, "place")) /* as on machines that have nodes and large pages */
        adopt.has_nodes = adopt.has_huge = true;
    /* No memory is freed while it is registered, which jemalloc does not tolerate. */
    late = has_option(argc, argv, "late");
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Checks that each kind of event has occurred. */
static bool busy(void)
{
    return moves && views && forks;
}

int main(int argc, char **argv)
{
    const struct adopt_config config = {.stop = stand_still, .go = go};
    enum ctl_mr_why why = adopt_init(&config);
    pthread_t thread[WRITERS + ALLOCATORS + ADOPTERS];
    double seconds = argc > 1 ? atof(argv[1]) : 3, start;
    unsigned n = 0;

    if (why != CTL_MR_ADOPTED) {
        printf("skipped: this process cannot adopt (%d)\n", why);
        return 77;
    }
    if (seconds <= 0)
        return 0;
    options(argc, argv);
    for (unsigned i = 0; i < WRITERS; i++) {
        shared[i].counter = calloc(COUNTERS, sizeof(uint64_t));
        shared[i].block = calloc(BLOCKS, BLOCK);
        pthread_create(&thread[n++], NULL, writer, &shared[i]);
    }
    for (uintptr_t i = 1; i <= ALLOCATORS; i++)
        pthread_create(&thread[n++], NULL, allocator, (void *)(i * 77777));
    for (unsigned i = 0; i < ADOPTERS; i++)
        pthread_create(&thread[n++], NULL, adopter, registration[i]);
    start = now();
    while (now() < start + seconds || (!busy() && now() < start + seconds + 60)) {
        malloc_trim(0);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    stop = true;
    for (unsigned i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    if (adopt.held.used || adopt.copied.used)
        wrong("unused pages are still held");
    printf("%lu adoptions, %lu looks, %lu blocks, %lu forks, %lu errors; refused, by reason:",
           moves, views, blocks, forks, errors);
    for (unsigned i = 0; i < CTL_MR_WHYS; i++)
        if (i != CTL_MR_ADOPTED && refused[i])
            printf(" %u:%lu", i, refused[i]);
    putchar('\n');
    return errors || !busy() ? 1 : 0;
}
