/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory over a running uroced, while the program uses it and the memory around it as
 * programs do: writes, allocates, frees, registers more, forks.
 *
 * usage: verbs_adopt adopted|copied SECONDS [PID]: how the daemon reaches the memory; PID: the
 * daemon's, for a test that stops it
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs_adopt.h"

#define PAGES      (PAIR_BYTES / PAGE)
#define ALLOCATORS 2

struct pair p;
bool adopted;
double seconds = 2;
atomic_bool stop;
atomic_ulong faults;

double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

unsigned mappings_in(const void *where, size_t len, const char *perms)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long first = (uintptr_t)where, start, end;
    char line[512], found[8];
    unsigned n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, "/memfd:uroce-mr") &&
             sscanf(line, "%lx-%lx %7s", &start, &end, found) == 3 && !strcmp(found, perms) &&
             start < first + len && end > first;
    fclose(f);
    return n;
}

static unsigned mappings(const char *perms)
{
    return mappings_in(NULL, SIZE_MAX, perms);
}

bool is_shared(const void *where)
{
    return mappings_in(where, 1, "rw-s");
}

static int setup(void **state)
{
    pair_open(&p);
    return 0;
}

static int teardown(void **state)
{
    pair_close(&p);
    return 0;
}

void complete(int n)
{
    struct ibv_wc wc[PAIR_WR];

    await(p.cq, wc, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
}

static void reached_as_expected(void **state)
{
    if (adopted)
        assert_true(mappings("rw-s") > 0);
    else
        assert_int_equal(mappings("rw-s"), 0);
    ibv_dereg_mr(p.a.mr);
    ibv_dereg_mr(p.b.mr);
    assert_int_equal(mappings("rw-s"), 0);
    p.a.mr = ibv_reg_mr(p.pd, p.a.buffer, PAIR_BYTES, ACCESS);
    p.b.mr = ibv_reg_mr(p.pd, p.b.buffer, PAIR_BYTES, ACCESS);
    assert_int_equal(mappings("rw-s") > 0, adopted);
}

/* ---- concurrent work ---- */

static atomic_ulong registrations;

void fill(uint8_t *b, size_t n, uint8_t key)
{
    for (size_t i = 0; i < n; i++)
        b[i] = (uint8_t)(key + i);
}

void look(const uint8_t *b, size_t n, uint8_t key)
{
    for (size_t i = 0; i < n; i++) {
        if (b[i] != (uint8_t)(key + i)) {
            faults++;
            return;
        }
    }
}

/* Memory of all sizes, some of it registered for a while, some freed while it is. */
static void *allocator(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    struct {
        uint8_t *b;
        size_t n;
        uint8_t key;
        struct ibv_mr *mr;
    } o[40] = {{NULL}};

    while (!stop) {
        unsigned i = (unsigned)rand_r(&seed) % 40;

        if (!o[i].b) {
            o[i].n = 16 + (size_t)rand_r(&seed) % (rand_r(&seed) % 4 ? 20000 : 300000);
            o[i].b = malloc(o[i].n);
            o[i].key = (uint8_t)seed;
            fill(o[i].b, o[i].n, o[i].key);
            if (rand_r(&seed) % 4 == 0) {
                o[i].mr = ibv_reg_mr(p.pd, o[i].b, o[i].n, ACCESS);
                faults += !o[i].mr;
                registrations++;
            }
            continue;
        }
        look(o[i].b, o[i].n, o[i].key);
        if (!o[i].mr && rand_r(&seed) % 2) {
            size_t n = 16 + (size_t)rand_r(&seed) % 100000;

            o[i].b = realloc(o[i].b, n);
            look(o[i].b, n < o[i].n ? n : o[i].n, o[i].key);
            o[i].n = n;
            fill(o[i].b, n, o[i].key);
            continue;
        }
        if (o[i].mr && rand_r(&seed) % 8) {
            faults += ibv_dereg_mr(o[i].mr) != 0;
            o[i].mr = NULL;
        }
        free(o[i].b);
        o[i].b = NULL;
        if (o[i].mr)
            faults += ibv_dereg_mr(o[i].mr) != 0;
        o[i].mr = NULL;
    }
    for (unsigned i = 0; i < 40; i++) {
        if (o[i].mr)
            faults += ibv_dereg_mr(o[i].mr) != 0;
        free(o[i].b);
    }
    return NULL;
}

/* The last words of each page that the peer writes to are this thread's. */
static void *neighbour(void *arg)
{
    volatile uint64_t *word[PAGES];
    uint64_t round = 0;

    for (unsigned i = 0; i < PAGES; i++)
        word[i] = (uint64_t *)(p.b.buffer + (i + 1) * PAGE - 64);
    while (!stop) {
        round++;
        for (unsigned i = 0; i < PAGES; i++)
            ++*word[i];
    }
    for (unsigned i = 0; i < PAGES; i++)
        faults += *word[i] != round;
    return NULL;
}

/* The child's memory stays as it was at the fork, whatever arrives later; its writes are
 * its own. */
static void child(const int *go)
{
    uint8_t before[PAIR_BYTES], byte;

    memcpy(before, p.b.buffer, PAIR_BYTES);
    if (read(go[0], &byte, 1) != 1)
        _exit(1);
    if (memcmp(before, p.b.buffer, PAIR_BYTES))
        _exit(2);
    memset(p.b.buffer, 0xCC, PAIR_BYTES);
    memset(p.a.buffer, 0xCC, PAIR_BYTES);
#ifndef __SANITIZE_THREAD__ /* its fork() does not wait for threads that allocate */
    free(memset(malloc(100000), 1, 100000));
#endif
    _exit(0);
}

static void write_pages(uint8_t key)
{
    for (unsigned i = 0; i < PAGES; i++)
        fill(p.a.buffer + i * PAGE, PAGE - 64, (uint8_t)(key + i));
    for (unsigned i = 0; i < PAGES; i++)
        assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, i * PAGE, PAGE - 64, i), 0);
}

static void look_at_pages(uint8_t key)
{
    for (unsigned i = 0; i < PAGES; i++)
        look(p.b.buffer + i * PAGE, PAGE - 64, (uint8_t)(key + i));
}

static void fork_once(uint8_t key)
{
    int go[2], status = -1;
    pid_t pid;

    assert_int_equal(pipe(go), 0);
    write_pages(key); /* in flight while the process forks */
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        alarm(20);
        stop = true;
        child(go);
    }
    complete(PAGES);
    look_at_pages(key);
    write_pages((uint8_t)(key + 1));
    complete(PAGES);
    look_at_pages((uint8_t)(key + 1));
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    look_at_pages((uint8_t)(key + 1));
    close(go[0]);
    close(go[1]);
}

/* The neighbouring thread does not exist in the child: no byte of the child's snapshot changes. */
static void everything_at_once(void **state)
{
    pthread_t thread[ALLOCATORS + 1];
    double until = now() + seconds;
    unsigned rounds = 0;

    stop = false;
    faults = registrations = 0;
    memset(p.b.buffer, 0, PAIR_BYTES);
    for (uintptr_t i = 0; i < ALLOCATORS; i++)
        pthread_create(&thread[i], NULL, allocator, (void *)(i + 1));
    pthread_create(&thread[ALLOCATORS], NULL, neighbour, NULL);
    while (now() < until || rounds < 12) {
        uint8_t key = (uint8_t)(rounds * 3);

        if (rounds++ % 4 == 3) {
            fork_once(key);
            continue;
        }
        write_pages(key);
        complete(PAGES);
        look_at_pages(key);
        for (unsigned i = 0; i < PAGES; i++)
            memset(p.a.buffer + i * PAGE, 0, PAGE - 64);
        for (unsigned i = 0; i < PAGES; i++)
            assert_int_equal(post_send(&p.a, IBV_WR_RDMA_READ, &p.b, i * PAGE, PAGE - 64, i), 0);
        complete(PAGES);
        for (unsigned i = 0; i < PAGES; i++)
            look(p.a.buffer + i * PAGE, PAGE - 64, (uint8_t)(key + i));
    }
    stop = true;
    for (unsigned i = 0; i <= ALLOCATORS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(faults, 0);
    assert_true(registrations > 0);
}

/* ---- atomics ---- */

static void *adder(void *arg)
{
    for (unsigned i = 0; i < 200000; i++)
        __atomic_fetch_add((uint64_t *)p.b.buffer, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Atomics of peers and of the program's own CPUs, where both use the same memory. */
static void atomics_with_the_processor(void **state)
{
    struct ibv_sge sge = {.addr = (uintptr_t)p.a.buffer, .length = 8, .lkey = p.a.mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
              .send_flags = IBV_SEND_SIGNALED,
              .wr.atomic = {
                  .remote_addr = (uintptr_t)p.b.buffer, .compare_add = 1, .rkey = p.b.mr->rkey}};
    pthread_t thread;

    if (!adopted)
        skip();
    /* It may be private since the last fork. */
    assert_int_equal(ibv_dereg_mr(p.b.mr), 0);
    p.b.mr = ibv_reg_mr(p.pd, p.b.buffer, PAIR_BYTES, ACCESS);
    wr.wr.atomic.rkey = p.b.mr->rkey;
    *(uint64_t *)p.b.buffer = 0;
    pthread_create(&thread, NULL, adder, NULL);
    for (unsigned i = 0; i < 50; i++) {
        for (unsigned k = 0; k < 32; k++)
            assert_int_equal(ibv_post_send(p.a.qp, &wr, &bad), 0);
        complete(32);
    }
    pthread_join(thread, NULL);
    assert_int_equal(*(uint64_t *)p.b.buffer, 200000 + 50 * 32);
}

/* ---- ends ---- */

static void memory_is_free_again(void **state)
{
    const size_t len = 4 << 20;
    uint8_t *b = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *whole, *part, *small;

    memset(b, 3, len);
    small = ibv_reg_mr(p.pd, b + len - 100, 50, ACCESS);
    part = ibv_reg_mr(p.pd, b + 1000, 1 << 20, ACCESS);
    whole = ibv_reg_mr(p.pd, b, len, ACCESS);
    assert_true(whole && part && small);
    assert_int_equal(ibv_dereg_mr(whole), 0);
    assert_int_equal(ibv_dereg_mr(small), 0);
    assert_int_equal(ibv_dereg_mr(part), 0);
    assert_int_equal(mappings_in(b, len, "rw-s"), 0);
    assert_int_equal(mappings_in(b, len, "rw-p"), 0);
    for (size_t i = 0; i < len; i += 997)
        assert_int_equal(b[i], 3);
    assert_int_equal(madvise(b, len, MADV_DONTNEED), 0);
    for (size_t i = 0; i < len; i += 997)
        assert_int_equal(b[i], 0);
    munmap(b, len);
}

/* The program's own sealed memfd, from which it removes all that it can. */
static void holes_do_no_harm(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct side own = p.b;

    assert_int_equal(ftruncate(fd, PAIR_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    own.buffer = mmap(NULL, PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    own.mr = ibv_reg_mr(p.pd, own.buffer, PAIR_BYTES, ACCESS);
    assert_non_null(own.mr);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAIR_BYTES), 0);
    munmap(own.buffer, PAIR_BYTES);
    fill(p.a.buffer, PAIR_BYTES, 7);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &own, 0, PAIR_BYTES / 2, 1), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_READ, &own, 0, PAIR_BYTES, 2), 0);
    complete(2);
    look(p.a.buffer, PAIR_BYTES / 2, 7);
    for (unsigned i = PAIR_BYTES / 2; i < PAIR_BYTES; i++)
        assert_int_equal(p.a.buffer[i], 0);
    assert_int_equal(faults, 0);
    assert_int_equal(ibv_dereg_mr(own.mr), 0);
    close(fd);
}

/* A program that closes its context and leaves its regions. */
static void closed_with_regions(void **state)
{
    uint8_t *b = memset(malloc(1 << 20), 5, 1 << 20);
    struct ibv_context *ctx = open_first();
    struct ibv_pd *pd = ibv_alloc_pd(ctx);

    assert_non_null(ibv_reg_mr(pd, b, 1 << 20, ACCESS));
    assert_int_equal(ibv_close_device(ctx), 0);
    assert_int_equal(mappings_in(b, 1 << 20, "rw-s"), 0);
    assert_int_equal(b[4097], 5);
    free(b);
}

/* Registers in the child of a process with regions. */
static void children_register(void **state)
{
    int status = -1;
    pid_t pid = fork();

    if (!pid) {
        struct ibv_context *ctx;
        struct ibv_pd *pd;
        struct ibv_mr *mr;

        alarm(20);
        if (ibv_dereg_mr(p.a.mr) == 0) /* its parent's */
            _exit(1);
        ctx = open_first();
        pd = ibv_alloc_pd(ctx);
        mr = ibv_reg_mr(pd, p.b.buffer, PAIR_BYTES, ACCESS);
        if (!mr || (mappings("rw-s") > 0) != adopted)
            _exit(2);
        memset(p.b.buffer, 9, PAIR_BYTES);
        _exit(ibv_dereg_mr(mr) || ibv_close_device(ctx) ? 3 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    write_pages(17);
    complete(PAGES);
    look_at_pages(17);
    assert_int_equal(faults, 0);
}

/* Its daemon is stopped: the fork succeeds, and the program learns that its device has failed. */
static void fork_without_a_daemon(const char *pid)
{
    pid_t daemon = (pid_t)atoi(pid), child_pid;
    int status = -1;
    double start;

    assert_true(mappings("rw-s") > 0);
    assert_int_equal(kill(daemon, SIGSTOP), 0);
    start = now();
    child_pid = fork();
    if (!child_pid) {
        memset(p.b.buffer, 9, PAIR_BYTES);
        _exit(0);
    }
    assert_true(now() - start < 25);
    assert_int_equal(waitpid(child_pid, &status, 0), child_pid);
    assert_int_equal(status, 0);
    assert_int_equal(p.b.buffer[0], 1);
    kill(daemon, SIGCONT);
    assert_null(ibv_reg_mr(p.pd, p.b.buffer, PAIR_BYTES, ACCESS));
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reached_as_expected),
        cmocka_unit_test(everything_at_once),
        cmocka_unit_test(atomics_with_the_processor),
        cmocka_unit_test(memory_is_free_again),
        cmocka_unit_test(holes_do_no_harm),
        cmocka_unit_test(closed_with_regions),
        cmocka_unit_test(children_register),
        cmocka_unit_test(hot_regions),
        cmocka_unit_test(hot_regions_go),
        cmocka_unit_test(registered_twice_for_each_transfer), /* before the one that ends that */
        cmocka_unit_test(registered_for_each_transfer),
        cmocka_unit_test(hot_contexts_close),
        cmocka_unit_test(atomic_regions_stay_together),
        cmocka_unit_test(large_region_after_a_fork),
        cmocka_unit_test(thousands_of_regions),
        cmocka_unit_test(memory_pulled_away),
    };

    adopted = argc > 1 && !strcmp(argv[1], "adopted");
    if (argc > 2)
        seconds = atof(argv[2]);
    if (argc > 3) {
        pair_open(&p);
        memset(p.b.buffer, 1, PAIR_BYTES);
        fork_without_a_daemon(argv[3]);
        return 0;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
