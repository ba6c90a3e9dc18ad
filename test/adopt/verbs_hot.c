/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that are adopted when they are used. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_adopt.h"

#define HOT_SECONDS 20

/* Whether the kernel moves pages, and says which ones direct I/O uses: Linux 6.8. */
static bool kernel_moves_pages(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UINT64_C(1) << 16};
    bool moves = fd >= 0 && !ioctl(fd, UFFDIO_API, &api);

    close(fd);
    return moves;
}

bool small_ones(void)
{
    const char *mode = getenv("UROCE_MR");

    return adopted && kernel_moves_pages() && (!mode || !*mode || !strcmp(mode, "auto"));
}

/* RDMA WRITEs of len bytes from p.a, and checks them. */
static void write_to(struct ibv_mr *mr, uint8_t *at, uint32_t len, unsigned times)
{
    struct side to = {.mr = mr, .buffer = at};
    static uint8_t key;

    for (unsigned i = 0; i < times; i++) {
        fill(p.a.buffer, len, ++key);
        assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &to, 0, len, i), 0);
        complete(1);
        look(at, len, key);
    }
}

void use_until_adopted(struct ibv_mr *mr, uint8_t *at, uint32_t len)
{
    double until = now() + HOT_SECONDS;

    while (!is_shared(at) && now() < until)
        write_to(mr, at, len, 50);
    assert_true(is_shared(at));
    write_to(mr, at, len, 50);
    assert_int_equal(faults, 0);
}

static void *counting(void *arg)
{
    volatile uint64_t *word = arg;
    uint64_t round = 0;

    do
        *word = ++round;
    while (!stop); /* also when the thread first runs after that */
    faults += *word != round;
    return NULL;
}

/* Odd addresses and lengths, two of them on one page, while the program writes beside them. */
void hot_regions(void **state)
{
    const size_t len = 64 * PAGE;
    uint8_t *b = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *heap = malloc(300);
    struct ibv_mr *mr[3], *cold, *beside;
    pthread_t thread;

    memset(b, 1, len);
    stop = false;
    faults = 0;
    mr[0] = ibv_reg_mr(p.pd, b + PAGE + 100, 3000, ACCESS);
    mr[1] = ibv_reg_mr(p.pd, b + 10 * PAGE - 10, 3 * PAGE, ACCESS);
    mr[2] = ibv_reg_mr(p.pd, heap, 300, ACCESS);
    cold = ibv_reg_mr(p.pd, b + 40 * PAGE, PAGE, ACCESS);
    beside = ibv_reg_mr(p.pd, b + 2 * PAGE - 64, 8, ACCESS);
    assert_true(mr[0] && mr[1] && mr[2] && cold && beside);
    assert_int_equal(mappings_in(b, len, "rw-s"), 0);
    pthread_create(&thread, NULL, counting, b + 2 * PAGE - 8);
    if (small_ones()) {
        use_until_adopted(mr[0], b + PAGE + 100, 3000);
        use_until_adopted(mr[1], b + 10 * PAGE - 10, 3 * PAGE);
        use_until_adopted(mr[2], heap, 300);
    } else {
        write_to(mr[0], b + PAGE + 100, 3000, 300);
        assert_int_equal(mappings_in(b, len, "rw-s"), 0);
    }
    assert_false(is_shared(b + 40 * PAGE));
    /* Still copied, on a page that is mapped for the other region. */
    write_to(beside, b + 2 * PAGE - 64, 8, 10);
    stop = true;
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ibv_dereg_mr(mr[i]), 0);
    assert_int_equal(ibv_dereg_mr(cold), 0);
    assert_int_equal(ibv_dereg_mr(beside), 0);
    assert_int_equal(mappings_in(b, len, "rw-s"), 0);
    assert_int_equal(faults, 0);
    munmap(b, len);
    free(heap);
}

/* Deregistered at the moment when they become hot; the process forks sometimes. */
void hot_regions_go(void **state)
{
    uint8_t *b = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double until = now() + seconds / 2;
    unsigned rounds = 0, seed = 1;

    memset(b, 1, 4 * PAGE);
    faults = 0;
    while (now() < until || rounds < 20) {
        struct ibv_mr *mr = ibv_reg_mr(p.pd, b + 50, 3 * PAGE, ACCESS);

        assert_non_null(mr);
        write_to(mr, b + 50, 1000, 100 + (unsigned)rand_r(&seed) % 100);
        if (rounds++ % 8 == 7) {
            int status = -1;
            pid_t pid = fork();

            if (!pid)
                _exit(0);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_int_equal(status, 0);
            write_to(mr, b + 50, 1000, 3);
        }
        assert_int_equal(ibv_dereg_mr(mr), 0);
        assert_false(is_shared(b));
    }
    assert_int_equal(faults, 0);
    munmap(b, 4 * PAGE);
}

/* Not for atomics. */
static struct ibv_mr *register_for(uint8_t *b, size_t len, double life)
{
    struct ibv_mr *mr = ibv_reg_mr(p.pd, b, len, ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC);
    double until = now() + life;

    assert_non_null(mr);
    while (now() < until)
        write_to(mr, b, 1000, 50);
    return mr;
}

/* Large regions that end as soon as they are made are not adopted any more, unless they are hot;
 * after some that have lived long they are adopted at once again. */
void registered_for_each_transfer(void **state)
{
    const size_t len = 64 * PAGE;
    uint8_t *b = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr;

    if (!adopted)
        skip();
    memset(b, 1, len);
    faults = 0;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(ibv_dereg_mr(register_for(b, len, 0)), 0);
    mr = register_for(b, len, 0);
    assert_int_equal(is_shared(b), !small_ones());
    if (small_ones())
        use_until_adopted(mr, b, 1000);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_false(is_shared(b));
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ibv_dereg_mr(register_for(b, len, 0.5)), 0);
    mr = register_for(b, len, 0);
    assert_true(is_shared(b));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(b, len);
}

/* The same by two regions over the same memory: the second one finds all pages moved, and takes
 * hardly any time. */
void registered_twice_for_each_transfer(void **state)
{
    const size_t len = 1024 * PAGE;
    uint8_t *b = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr[2];

    if (!adopted)
        skip();
    memset(b, 1, len);
    faults = 0;
    for (unsigned i = 0; i < 8; i++) {
        double took = now();

        mr[0] = register_for(b, len, 0);
        took = now() - took;
        mr[1] = register_for(b, len, 3 * took);
        assert_int_equal(ibv_dereg_mr(mr[1]), 0);
        assert_int_equal(ibv_dereg_mr(mr[0]), 0);
    }
    mr[0] = register_for(b, len, 0);
    assert_int_equal(is_shared(b), !small_ones());
    assert_int_equal(ibv_dereg_mr(mr[0]), 0);
    mr[0] = ibv_reg_mr(p.pd, b, len, ACCESS); /* for atomics, also with the program's own */
    assert_true(is_shared(b));
    assert_int_equal(ibv_dereg_mr(mr[0]), 0);
    munmap(b, len);
}

/* A device that is closed while its regions become hot; and one with thousands that do not. */
void hot_contexts_close(void **state)
{
    for (unsigned i = 0; i < 10; i++) {
        struct ibv_context *ctx = open_first();
        struct ibv_pd *pd = ibv_alloc_pd(ctx);
        uint8_t *b = calloc(1, 100000);

        for (unsigned k = 0; k < 20; k++)
            assert_non_null(ibv_reg_mr(pd, b + 5000 * k, 1000, ACCESS));
        assert_int_equal(ibv_close_device(ctx), 0);
        free(b);
    }
}

/* Two regions over the same bytes, for atomics: both are copied, or both mapped. */
void atomic_regions_stay_together(void **state)
{
    uint8_t *b = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *hot, *beside, *late;

    if (!small_ones())
        skip();
    memset(b, 0, 8 * PAGE);
    faults = 0;
    hot = ibv_reg_mr(p.pd, b, PAGE, ACCESS);
    beside = ibv_reg_mr(p.pd, b + PAGE / 2, 3 * PAGE, ACCESS);
    write_to(hot, b, 1000, 1000);
    assert_false(is_shared(b));
    assert_int_equal(ibv_dereg_mr(beside), 0);
    use_until_adopted(hot, b, 1000);
    assert_false(is_shared(b + PAGE));
    late = ibv_reg_mr(p.pd, b + PAGE / 2, 2 * PAGE, ACCESS);
    assert_true(is_shared(b + PAGE));
    assert_true(is_shared(b + 2 * PAGE));
    assert_int_equal(ibv_dereg_mr(hot), 0);
    assert_int_equal(ibv_dereg_mr(late), 0);
    assert_false(is_shared(b));
    assert_false(is_shared(b + 2 * PAGE));
    munmap(b, 8 * PAGE);
}

/* A large region after a fork: private, and copied, as direct I/O into it would not be seen. */
void large_region_after_a_fork(void **state)
{
    const size_t len = 4 << 20;
    uint8_t *b = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr;
    int status = -1;
    pthread_t thread;
    pid_t pid;

    memset(b, 1, len);
    mr = ibv_reg_mr(p.pd, b, len, ACCESS);
    stop = false;
    faults = 0;
    pthread_create(&thread, NULL, counting, b + 50 * PAGE - 8);
    assert_int_equal(is_shared(b), adopted);
    pid = fork();
    if (!pid)
        _exit(0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(is_shared(b));
    write_to(mr, b + 49 * PAGE, 4000, 1000);
    assert_false(is_shared(b));
    stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(faults, 0);
    assert_false(is_shared(b));
    munmap(b, len);
}
