/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of another process: a forked child with the same addresses. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "copy.h"
#include "mem_batch.h"
#include "unit.h"

#define PAGES       8u
#define RDONLY_PAGE 3u /* what the child did with its pages */
#define GONE_PAGE   5u

static size_t page;
static uint8_t *area; /* ours; the child's copy of it has the same address */
static struct mem_copy_space space;
static struct mem_region mr = {.backend = &mem_copy_backend, .space = &space};
static pid_t child;

static unsigned calls, locals, remotes; /* of the kernel; ranges of ours and the child's in them */

/* In place of the C library's. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n,
                         const struct iovec *remote, unsigned long m, unsigned long flags)
{
    calls++;
    locals += (unsigned)n;
    remotes += (unsigned)m;
    return syscall(SYS_process_vm_readv, pid, local, n, remote, m, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long n,
                          const struct iovec *remote, unsigned long m, unsigned long flags)
{
    calls++;
    locals += (unsigned)n;
    remotes += (unsigned)m;
    return syscall(SYS_process_vm_writev, pid, local, n, remote, m, flags);
}

static void child_main(int ready)
{
    if (mprotect(area + RDONLY_PAGE * page, page, PROT_READ) ||
        munmap(area + GONE_PAGE * page, page) || write(ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static int start(void **state)
{
    int ready[2];
    char c;

    page = (size_t)sysconf(_SC_PAGESIZE);
    area = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || pipe(ready))
        return -1;
    for (unsigned i = 0; i < PAGES; i++)
        memset(area + i * page, 'a' + (int)i, page);
    child = fork();
    if (child == 0)
        child_main(ready[1]);
    close(ready[1]);
    if (child < 0 || read(ready[0], &c, 1) != 1)
        return -1;
    close(ready[0]);
    mr.addr = (uintptr_t)area;
    mr.len = PAGES * page;
    return mem_copy_space_init(&space, child);
}

static int stop(void **state)
{
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    munmap(area, PAGES * page);
    return 0;
}

static uint64_t at(unsigned page_index, size_t offset)
{
    return mr.addr + page_index * page + offset;
}

/* len bytes of the child at addr are all c. */
static void expect_bytes(uint64_t addr, size_t len, uint8_t c)
{
    uint8_t *bytes = malloc(len);
    struct mem_io io = {.mr = &mr, .addr = addr, .local = bytes, .len = (uint32_t)len, .status = 1};

    assert_non_null(bytes);
    mem_copy_backend.copy_in(&space, &io, 1);
    assert_int_equal(io.status, 0);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], c);
    free(bytes);
}

static void test_no_such_pid(void **state)
{
    struct mem_copy_space s;

    assert_int_equal(mem_copy_space_init(&s, 0), -EINVAL);
    assert_int_equal(mem_copy_space_init(&s, -1), -EINVAL);
}

static void test_both_ways(void **state)
{
    struct mem_batch batch = {0};
    uint8_t in[100], across[64];

    memset(across, 'Z', sizeof(across));
    assert_false(mem_batch_out(&batch, &mr, at(0, page - 32), across, 64, 0));
    assert_int_equal(mem_batch_flush_out(&batch), 0);
    batch.n = 0;
    assert_false(mem_batch_in(&batch, &mr, at(0, page - 50), in, 100, 0));
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(in[i], i < 18 ? 'a' : i < 82 ? 'Z' : 'b');
    assert_int_equal(area[page - 1], 'a'); /* the parent's copy differs */
    assert_int_equal(atomic_load(&space.faults), 0);
}

static void test_read_only_page(void **state)
{
    uint8_t x[6 * 8];
    struct mem_batch batch = {0};

    memset(x, 'x', sizeof(x));
    mem_batch_out(&batch, &mr, at(1, 0), x, 8, 0);
    mem_batch_out(&batch, &mr, at(RDONLY_PAGE, 8), x, 8, 1);
    mem_batch_out(&batch, &mr, at(2, 0), x, 0, 2); /* no bytes: always succeeds */
    mem_batch_out(&batch, &mr, at(2, 0), x, 8, 3);
    mem_batch_out(&batch, &mr, at(RDONLY_PAGE, 0) - 4, x, 8, 4); /* half of it */
    mem_batch_out(&batch, &mr, at(4, 0), x, 8, 5);
    assert_int_equal(mem_batch_flush_out(&batch), 2);
    for (unsigned i = 0; i < batch.n; i++)
        assert_int_equal(batch.io[i].status, i == 1 || i == 4 ? -EFAULT : 0);
    assert_int_equal(atomic_load(&space.faults), 2);
    expect_bytes(at(1, 0), 8, 'x');
    expect_bytes(at(2, 0), 8, 'x');
    expect_bytes(at(4, 0), 8, 'x');
    expect_bytes(at(RDONLY_PAGE, 0), page, 'a' + RDONLY_PAGE); /* and it can be read */
}

static void test_unmapped(void **state)
{
    uint8_t got[4][8] = {{0}}, *large = malloc(PAGES * page);
    struct mem_batch batch = {0};

    mem_batch_in(&batch, &mr, at(0, 0), got[0], 0, 0); /* no bytes before a bad one */
    mem_batch_in(&batch, &mr, at(GONE_PAGE, 0), got[0], 8, 1);
    mem_batch_in(&batch, &mr, at(6, 0), got[1], 8, 2);
    mem_batch_in(&batch, &mr, UINT64_MAX - 3, got[2], 8, 3);
    mem_batch_in(&batch, &mr, 0, got[2], 8, 4);
    mem_batch_in(&batch, &mr, at(4, 0), large, (uint32_t)(3 * page), 5); /* over the hole */
    mem_batch_in(&batch, &mr, at(7, 0), got[3], 8, 6);
    mem_batch_in(&batch, &mr, at(GONE_PAGE, 0), got[0], 0, 7);
    assert_int_equal(mem_batch_flush_in(&batch), 4);
    for (unsigned i = 0; i < batch.n; i++) {
        bool bad = i == 1 || (i >= 3 && i <= 5);

        assert_int_equal(batch.io[i].status, bad ? -EFAULT : 0);
    }
    assert_memory_equal(got[1], "gggggggg", 8);
    assert_memory_equal(got[3], "hhhhhhhh", 8);
    free(large);
}

/* Packets of a message, and of another one. */
static void test_side_by_side(void **state)
{
    const uint32_t part = (uint32_t)page / 4;
    uint8_t *local = malloc(PAGES * page), *other = malloc(page);
    struct mem_batch batch = {0};

    calls = remotes = 0;
    for (unsigned i = 0; i < 16; i++)
        mem_batch_in(&batch, &mr, at(0, i * part), local + i * part, part, i);
    for (unsigned i = 0; i < 3; i++)
        mem_batch_in(&batch, &mr, at(6, 100 + i * part), other + i * part, part, i);
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(remotes, 2);
    for (unsigned i = 0; i < 4 * page; i++)
        assert_int_equal(local[i], 'a' + i / page);
    for (unsigned i = 0; i < 3 * part; i++)
        assert_int_equal(other[i], 'g');
    calls = remotes = 0;
    batch.n = 0;
    memset(local, 'X', 16 * part);
    for (unsigned i = 0; i < 8; i++)
        mem_batch_out(&batch, &mr, at(1, i * part), local, part, i);
    assert_int_equal(mem_batch_flush_out(&batch), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(remotes, 1);
    expect_bytes(at(0, 0), page, 'a');
    expect_bytes(at(1, 0), 2 * page, 'X');
    free(local);
    free(other);
}

static bool make_call(struct mem_caller *caller)
{
    mem_call_run(caller->call);
    return true;
}

/* Bytes that a call keeps itself, from places that are apart: the kernel gets one range of each
 * side. */
static void test_small_side_by_side(void **state)
{
    static struct mem_call call;
    struct mem_caller caller = {.call = &call, .run = make_call};
    struct mem_batch batch = {.caller = &caller};
    uint8_t local[MEM_BATCH_MAX][2 * MEM_SMALL];
    const uint32_t len = MEM_SMALL - 3;

    calls = locals = remotes = 0;
    memset(local, 'X', sizeof(local));
    for (unsigned i = 0; i < MEM_BATCH_MAX; i++)
        mem_batch_in(&batch, &mr, at(0, page / 2 + i * len), local[i], len, i);
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(locals, 1);
    assert_int_equal(remotes, 1);
    for (unsigned i = 0; i < MEM_BATCH_MAX; i++)
        for (uint32_t k = 0; k < sizeof(local[i]); k++)
            assert_int_equal(local[i][k], k < len ? 'a' + (page / 2 + i * len + k) / page : 'X');
    calls = locals = remotes = batch.n = 0;
    for (unsigned i = 0; i < MEM_BATCH_MAX; i++) {
        memset(local[i], 'A' + (int)i % 26, len);
        mem_batch_out(&batch, &mr, at(1, i * len), local[i], len, i);
    }
    assert_int_equal(mem_batch_flush_out(&batch), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(locals, 1);
    for (unsigned i = 0; i < MEM_BATCH_MAX; i++)
        expect_bytes(at(1, i * len), len, 'A' + (int)i % 26);
}

/* What a call kept before is not shown by one that fails. */
static void test_small_that_fails(void **state)
{
    static struct mem_call call;
    struct mem_caller caller = {.call = &call, .run = make_call};
    struct mem_batch batch = {.caller = &caller};
    uint8_t local[2][8] = {"XXXXXXX", "XXXXXXX"};

    memset(call.small, 'S', sizeof(call.small));
    mem_batch_in(&batch, &mr, at(GONE_PAGE, 0), local[0], 8, 0);
    mem_batch_in(&batch, &mr, at(7, 0), local[1], 8, 1);
    assert_int_equal(mem_batch_flush_in(&batch), 1);
    assert_int_equal(batch.io[0].status, -EFAULT);
    assert_memory_equal(local[0], "XXXXXXX", 8);
    assert_memory_equal(local[1], "hhhhhhhh", 8);
}

/* Only the transfers that touch the hole fail. */
static void test_side_by_side_over_a_hole(void **state)
{
    const uint32_t part = (uint32_t)page * 3 / 8;
    uint8_t *local = calloc(PAGES, page);
    struct mem_batch batch = {0};
    unsigned bad = 0;

    for (unsigned i = 0; i < 10; i++)
        mem_batch_in(&batch, &mr, at(4, i * part), local + i * part, part, i);
    mem_batch_flush_in(&batch);
    for (unsigned i = 0; i < 10; i++) {
        uint32_t start = i * part, end = start + part;
        bool touches = start < 2 * page && end > page;

        bad += touches;
        assert_int_equal(batch.io[i].status, touches ? -EFAULT : 0);
        for (uint32_t k = start; !touches && k < end; k++)
            assert_int_equal(local[k], 'e' + k / page);
    }
    assert_int_equal(bad, 4);
    assert_int_equal(atomic_load(&space.faults), 4);
    free(local);
}

/* More bytes than the kernel moves in one call (2 GiB less a page): that is no failure. */
static void test_more_than_one_call(void **state)
{
    const uint32_t len = 33u << 20;
    uint8_t *mine = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *theirs = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct mem_copy_space self;
    struct mem_region all = {.backend = &mem_copy_backend, .space = &self};
    struct mem_batch batch = {0};
    uint8_t tail[4096];

    assert_true(mine != MAP_FAILED && theirs != MAP_FAILED);
    assert_int_equal(mem_copy_space_init(&self, getpid()), 0);
    for (unsigned i = 0; i + 1 < MEM_BATCH_MAX; i++)
        mem_batch_in(&batch, &all, (uintptr_t)theirs, mine, len, i);
    memset(tail, 1, sizeof(tail));
    mem_batch_in(&batch, &all, (uintptr_t)theirs, tail, sizeof(tail), 0);
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    assert_int_equal(tail[4095], 0);
    assert_int_equal(atomic_load(&self.faults), 0);
    munmap(mine, len);
    munmap(theirs, len);
}

static void test_atomic(void **state)
{
    uint64_t old, word;
    struct mem_batch batch = {0};

    memset(&word, 'h', sizeof(word));
    assert_int_equal(mem_atomic(NULL, &mr, at(7, 8), MEM_FETCH_ADD, 5, 0, &old, 0), 0);
    assert_true(old == word);
    assert_int_equal(mem_atomic(NULL, &mr, at(7, 8), MEM_CMP_SWP, 1, word, &old, 0), 0);
    assert_true(old == word + 5); /* differs: not swapped */
    assert_int_equal(mem_atomic(NULL, &mr, at(7, 8), MEM_CMP_SWP, 1, word + 5, &old, 0), 0);
    assert_true(old == word + 5);
    mem_batch_in(&batch, &mr, at(7, 8), &word, 8, 0);
    assert_int_equal(mem_batch_flush_in(&batch), 0);
    assert_int_equal(word, 1);
    assert_int_equal(mem_atomic(NULL, &mr, at(RDONLY_PAGE, 0), MEM_FETCH_ADD, 1, 0, &old, 0),
                     -EFAULT);
    assert_int_equal(mem_atomic(NULL, &mr, at(GONE_PAGE, 0), MEM_FETCH_ADD, 1, 0, &old, 0),
                     -EFAULT);
}

#define ADDS 5000

static void *add_many(void *arg)
{
    uint64_t old;

    for (int i = 0; i < ADDS; i++)
        mem_atomic(NULL, &mr, at(7, 64), MEM_FETCH_ADD, 1, 0, &old, 0);
    return NULL;
}

static void test_atomic_between_workers(void **state)
{
    pthread_t thread;
    uint64_t sum, zero = 0;
    struct mem_batch batch = {0};

    mem_batch_out(&batch, &mr, at(7, 64), &zero, 8, 0);
    assert_int_equal(mem_batch_flush_out(&batch), 0);
    assert_int_equal(pthread_create(&thread, NULL, add_many, NULL), 0);
    add_many(NULL);
    pthread_join(thread, NULL);
    assert_int_equal(mem_atomic(NULL, &mr, at(7, 64), MEM_FETCH_ADD, 0, 0, &sum, 0), 0);
    assert_int_equal(sum, 2 * ADDS);
}

static void *add_to_hot(void *hot)
{
    uint64_t old;

    mem_atomic(NULL, hot, at(7, 64), MEM_FETCH_ADD, 1, 0, &old, 0);
    return NULL;
}

/* An atomic that waits for another one, whose memory does not answer, has done with its region,
 * which goes with its program. */
static void test_atomic_waits_without_region(void **state)
{
    const struct timespec limit = {.tv_sec = 5};
    struct mem_region hot = mr;
    _Atomic uint32_t told = 0;
    pthread_t thread;

    space.heat.word = &told;
    mem_heat_restart(&hot, 1);
    pthread_mutex_lock(&space.life.atomics);
    assert_int_equal(pthread_create(&thread, NULL, add_to_hot, &hot), 0);
    while (!atomic_load(&told) && !syscall(SYS_futex, &told, FUTEX_WAIT, 0, &limit, NULL, 0))
        ;
    assert_int_equal(atomic_load(&told), 1);
    hot = (struct mem_region){.backend = hot.backend, .space = hot.space};
    pthread_mutex_unlock(&space.life.atomics);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&hot.heat.uses), 0);
}

/* A child without privileges has no access to its parent's memory. */
static int try_without_rights(void)
{
    uint8_t got[8];
    struct mem_copy_space parent;
    struct mem_region region = {.backend = &mem_copy_backend, .space = &parent};
    struct mem_batch batch = {0};

    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 2;
    mem_copy_space_init(&parent, getppid());
    mem_batch_in(&batch, &region, (uintptr_t)area, got, 8, 0);
    mem_batch_in(&batch, &region, (uintptr_t)area + page, got, 8, 1);
    if (mem_batch_flush_in(&batch) != 2 || batch.io[0].status != -EPERM ||
        batch.io[1].status != -EPERM)
        return 3;
    return atomic_load(&parent.denied) == 2 ? 0 : 4;
}

static void test_denied(void **state)
{
    int status;
    pid_t pid;

    if (geteuid() != 0)
        skip();
    pid = fork();
    if (pid == 0)
        _exit(try_without_rights());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void expect_gone(void)
{
    struct mem_batch batch = {0};
    uint64_t old;
    uint8_t byte;

    for (unsigned i = 0; i < MEM_BATCH_MAX; i++)
        mem_batch_in(&batch, &mr, at(i % PAGES, 0), &byte, 1, i);
    assert_int_equal(mem_batch_flush_in(&batch), MEM_BATCH_MAX);
    for (unsigned i = 0; i < MEM_BATCH_MAX; i++)
        assert_int_equal(batch.io[i].status, -ESRCH);
    assert_int_equal(mem_atomic(NULL, &mr, at(0, 0), MEM_FETCH_ADD, 1, 0, &old, 0), -ESRCH);
}

static void test_marked_gone(void **state)
{
    mem_copy_space_mark_gone(&space);
    expect_gone();
}

static void test_killed(void **state)
{
    siginfo_t info;

    kill(child, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    expect_gone(); /* not yet waited for */
    waitpid(child, NULL, 0);
    expect_gone();
    child = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_such_pid),
        cmocka_unit_test_setup_teardown(test_both_ways, start, stop),
        cmocka_unit_test_setup_teardown(test_read_only_page, start, stop),
        cmocka_unit_test_setup_teardown(test_unmapped, start, stop),
        cmocka_unit_test_setup_teardown(test_side_by_side, start, stop),
        cmocka_unit_test_setup_teardown(test_small_side_by_side, start, stop),
        cmocka_unit_test_setup_teardown(test_small_that_fails, start, stop),
        cmocka_unit_test_setup_teardown(test_side_by_side_over_a_hole, start, stop),
        cmocka_unit_test(test_more_than_one_call),
        cmocka_unit_test_setup_teardown(test_atomic, start, stop),
        cmocka_unit_test_setup_teardown(test_atomic_between_workers, start, stop),
        cmocka_unit_test_setup_teardown(test_atomic_waits_without_region, start, stop),
        cmocka_unit_test_setup_teardown(test_denied, start, stop),
        cmocka_unit_test_setup_teardown(test_marked_gone, start, stop),
        cmocka_unit_test_setup_teardown(test_killed, start, stop),
    };

    return cmocka_run_group_tests_name("mem_copy", tests, NULL, NULL);
}
