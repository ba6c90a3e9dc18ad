/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose memory does not answer: regions that uroced copies, on pages that a userfaultfd
 * holds back until the test supplies them. Its own queue pairs wait for them, and complete when
 * they come; another program does not notice. Run by run_slow_memory.py, with copied regions.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define PAGE        4096u
#define PAGES       18u /* the first and the last one are there */
#define HELD        ((PAGES - 2) * PAGE)
#define HELD_MS     300
#define VICTIM_MIN  100 /* completions of another program while the pages are held */
#define LATE_ROUNDS 50

static struct pair p;
static int uffd;
static uint8_t *memory, *held;
static struct ibv_mr *mr;
static struct side slow; /* a side whose buffer is held back; the queue pair is set by each case */

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void pause_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&ts, NULL);
}

/* ---- pages ---- */

static int open_uffd(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    return fd >= 0 && !ioctl(fd, UFFDIO_API, &api) ? fd : -1;
}

static void hold_pages(void)
{
    assert_int_equal(madvise(held, HELD, MADV_DONTNEED), 0);
}

static bool try_supply(uint8_t value)
{
    static uint8_t source[HELD] __attribute__((aligned(4096)));
    struct uffdio_copy copy = {
        .dst = (uintptr_t)held, .src = (uintptr_t)source, .len = HELD, .mode = 0};

    memset(source, value, sizeof(source));
    return !ioctl(uffd, UFFDIO_COPY, &copy);
}

static void supply_pages(uint8_t value)
{
    assert_true(try_supply(value));
}

/* ---- another program ---- */

struct victim {
    pthread_t thread;
    _Atomic bool stop;
    _Atomic unsigned completions;
    uint64_t longest; /* us */
};

static void *victim_run(void *arg)
{
    struct victim *v = arg;
    struct pair own;
    struct ibv_wc wc;

    pair_open(&own);
    while (!atomic_load(&v->stop)) {
        uint64_t start = now_us();

        assert_int_equal(post_send(&own.a, IBV_WR_RDMA_WRITE, &own.b, 0, 64, 1), 0);
        await(own.cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        start = now_us() - start;
        v->longest = start > v->longest ? start : v->longest;
        v->completions++;
    }
    pair_close(&own);
    return NULL;
}

static void victim_start(struct victim *v)
{
    *v = (struct victim){0};
    assert_int_equal(pthread_create(&v->thread, NULL, victim_run, v), 0);
    while (!atomic_load(&v->completions))
        pause_ms(1);
    atomic_store(&v->completions, 0);
}

static void victim_stop(struct victim *v)
{
    atomic_store(&v->stop, true);
    pthread_join(v->thread, NULL);
}

static void victim_end(struct victim *v)
{
    victim_stop(v);
    print_message("another program: %u completions, %u us at most\n", v->completions,
                  (unsigned)v->longest);
    assert_true(v->completions > VICTIM_MIN);
}

/* ---- cases ---- */

static int setup(void **state)
{
    pair_open(&p);
    slow =
        (struct side){.mr = mr = ibv_reg_mr(p.pd, memory, PAGES * PAGE,
                                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
                      .buffer = held};
    return !mr;
}

static int teardown(void **state)
{
    try_supply(0); /* a region is not deregistered while pages are held */
    ibv_dereg_mr(mr);
    pair_close(&p);
    return 0;
}

/* Nothing completes while the pages are held, and `n` completions come when they are not. */
static void expect_late(unsigned n, uint8_t value, struct ibv_wc *wc)
{
    struct victim v;

    victim_start(&v);
    pause_ms(HELD_MS);
    assert_int_equal(ibv_poll_cq(p.cq, 1, wc), 0);
    victim_end(&v);
    supply_pages(value);
    await(p.cq, wc, (int)n);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
}

static void assert_filled(const uint8_t *bytes, uint8_t value, unsigned n)
{
    assert_int_equal(bytes[0], value);
    assert_memory_equal(bytes, bytes + 1, n - 1);
}

/* One WRITE or READ between the held pages and a buffer that is there. */
static void move(enum ibv_wr_opcode op, struct side *from, struct side *to, uint8_t supplied,
                 uint8_t arrives)
{
    struct ibv_wc wc;

    assert_int_equal(post_send(from, op, to, 0, HELD, 1), 0);
    expect_late(1, supplied, &wc);
    assert_filled((op == IBV_WR_RDMA_WRITE ? to : from)->buffer, arrives, HELD);
}

static void write_from(void **state)
{
    hold_pages();
    slow.qp = p.a.qp;
    move(IBV_WR_RDMA_WRITE, &slow, &p.b, 3, 3);
}

static void write_to(void **state)
{
    hold_pages();
    memset(p.a.buffer, 4, HELD);
    slow.qp = p.b.qp;
    move(IBV_WR_RDMA_WRITE, &p.a, &slow, 0, 4);
}

static void read_from(void **state)
{
    hold_pages();
    slow.qp = p.b.qp;
    move(IBV_WR_RDMA_READ, &p.a, &slow, 5, 5);
}

static void read_to(void **state)
{
    hold_pages();
    memset(p.b.buffer, 6, HELD);
    slow.qp = p.a.qp;
    move(IBV_WR_RDMA_READ, &slow, &p.b, 0, 6);
}

static void receive(void **state)
{
    struct ibv_wc wc[8];

    hold_pages();
    slow.qp = p.b.qp;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(post_recv(&slow, i * 2 * PAGE, 2 * PAGE, i), 0);
    memset(p.a.buffer, 7, HELD);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 2 * PAGE, 100 + i), 0);
    expect_late(8, 0, wc);
    assert_filled(held, 7, 8 * PAGE);
}

static void atomic(void **state)
{
    struct ibv_sge sge = {.addr = (uintptr_t)p.a.buffer, .length = 8, .lkey = p.a.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.atomic = {.remote_addr = (uintptr_t)held + 64,
                                           .compare_add = 5,
                                           .rkey = mr->rkey}},
                       *bad;
    struct ibv_wc wc;
    uint64_t value;

    hold_pages();
    assert_int_equal(ibv_post_send(p.a.qp, &wr, &bad), 0);
    expect_late(1, 1, &wc);
    memcpy(&value, p.a.buffer, 8);
    assert_int_equal(value, 0x0101010101010101);
    memcpy(&value, held + 64, 8);
    assert_int_equal(value, 0x0101010101010106); /* once */
}

/* The pages come while the queue pair is destroyed or reset. */
static _Atomic bool supplied;

static void *supply_later(void *arg)
{
    pause_ms(100);
    atomic_store(&supplied, true);
    supply_pages(0);
    return NULL;
}

/* A copy to a buffer of `slow` is late. */
static pthread_t begin_late_write(void)
{
    pthread_t thread;

    hold_pages();
    slow.qp = p.b.qp;
    memset(p.a.buffer, 8, HELD);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &slow, 0, HELD, 1), 0);
    pause_ms(50);
    atomic_store(&supplied, false);
    assert_int_equal(pthread_create(&thread, NULL, supply_later, NULL), 0);
    return thread;
}

/* The memory is the program's again: no call writes there any more. */
static void expect_quiet(pthread_t thread)
{
    struct ibv_wc wc;

    assert_true(atomic_load(&supplied));
    pthread_join(thread, NULL);
    memset(held, 9, HELD);
    connect_qp(p.a.qp, p.b.qp->qp_num);
    connect_qp(p.b.qp, p.a.qp->qp_num);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, HELD, 2), 0);
    await(p.cq, &wc, 1);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_filled(held, 9, HELD);
}

/* A queue pair is destroyed when its buffers are not written any more. */
static void destroyed(void **state)
{
    pthread_t thread = begin_late_write();

    assert_int_equal(ibv_destroy_qp(p.a.qp), 0);
    assert_int_equal(ibv_destroy_qp(p.b.qp), 0);
    p.a.qp = make_qp(&p, p.cq);
    p.b.qp = make_qp(&p, p.cq);
    expect_quiet(thread);
}

static void reset(void **state)
{
    pthread_t thread = begin_late_write();

    modify_state(p.a.qp, IBV_QPS_RESET);
    modify_state(p.b.qp, IBV_QPS_RESET);
    expect_quiet(thread);
}

static void error(void **state)
{
    struct ibv_wc wc[2];

    hold_pages();
    slow.qp = p.b.qp;
    assert_int_equal(post_recv(&slow, 0, PAGE, 1), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, PAGE, 2), 0);
    assert_int_equal(post_recv(&slow, PAGE, PAGE, 3), 0);
    pause_ms(50);
    modify_state(p.b.qp, IBV_QPS_ERR);
    pause_ms(50);
    assert_int_equal(ibv_poll_cq(p.cq, 1, wc), 0); /* the buffer is still to be written */
    supply_pages(0);
    await(p.cq, wc, 2);
    assert_int_equal(wc[0].wr_id, 1);
    assert_int_equal(wc[1].wr_id, 3);
    assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
    modify_state(p.a.qp, IBV_QPS_ERR);
    await(p.cq, wc, 1);
}

/* Until another program has had its share of this round, or 10 seconds without it. */
static void victim_await(struct victim *v, unsigned completions)
{
    uint64_t end = now_us() + 10000000;

    while (atomic_load(&v->completions) < completions) {
        assert_true(now_us() < end);
        pause_ms(1);
    }
}

/* Pages that come a little late, each time anew: each time the other program goes on before they
 * come. */
static void late_again_and_again(void **state)
{
    struct victim v;
    struct ibv_wc wc;

    victim_start(&v);
    slow.qp = p.a.qp;
    for (unsigned i = 0; i < LATE_ROUNDS; i++) {
        hold_pages();
        assert_int_equal(post_send(&slow, IBV_WR_RDMA_WRITE, &p.b, 0, HELD, 1), 0);
        victim_await(&v, atomic_load(&v.completions) + VICTIM_MIN);
        assert_int_equal(ibv_poll_cq(p.cq, 1, &wc), 0);
        supply_pages((uint8_t)i);
        await(p.cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_filled(p.b.buffer, (uint8_t)i, HELD);
    }
    victim_end(&v);
}

/* The program is killed while the pages are held; so are those that come after it. */
static void killed(void **state)
{
    for (unsigned i = 0; i < 8; i++) {
        pid_t pid = fork();
        int status;

        if (!pid) {
            execl("/proc/self/exe", "test_slow_memory", "stuck", NULL);
            _exit(EXIT_FAILURE);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}

static int be_stuck(void)
{
    if (setup(NULL))
        return EXIT_FAILURE;
    hold_pages();
    slow.qp = p.b.qp;
    post_send(&p.a, IBV_WR_RDMA_WRITE, &slow, 0, HELD, 1);
    pause_ms(20);
    kill(getpid(), SIGKILL);
    return EXIT_FAILURE;
}

/* A queue pair does not wait for ever. */
static void given_up(void **state)
{
    uint64_t start = now_us();
    struct ibv_wc wc;

    hold_pages();
    slow.qp = p.a.qp;
    assert_int_equal(post_send(&slow, IBV_WR_RDMA_WRITE, &p.b, 0, HELD, 1), 0);
    while (!ibv_poll_cq(p.cq, 1, &wc) && now_us() < start + 15000000)
        pause_ms(10);
    assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
    assert_true(now_us() - start > 5000000);
    supply_pages(0);
}

/* A region is registered again while an access to its memory does not end: the memory before is not
 * the program's yet, which the call says. The region is usable, and ends when that access has. */
static void registered_again(void **state)
{
    struct ibv_wc wc;

    hold_pages();
    slow.qp = p.a.qp;
    assert_int_equal(post_send(&slow, IBV_WR_RDMA_WRITE, &p.b, 0, HELD, 1), 0);
    pause_ms(50);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.a.buffer, PAGE, 0),
                     IBV_REREG_MR_ERR_DO_FORK_OLD);
    assert_int_equal(errno, EAGAIN);
    assert_ptr_equal(mr->addr, p.a.buffer);
    assert_int_equal(mr->length, PAGE);
    supply_pages(0);
    await(p.cq, &wc, 1);
    modify_state(p.a.qp, IBV_QPS_RESET);
    modify_state(p.b.qp, IBV_QPS_RESET);
    pair_reconnect(&p);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, PAGES * PAGE, 0), 0);
    slow.qp = p.a.qp;
    memset(held, 9, HELD);
    assert_int_equal(post_send(&slow, IBV_WR_RDMA_WRITE, &p.b, 0, HELD, 2), 0);
    await(p.cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_filled(p.b.buffer, 9, HELD);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_from, setup, teardown),
        cmocka_unit_test_setup_teardown(write_to, setup, teardown),
        cmocka_unit_test_setup_teardown(read_from, setup, teardown),
        cmocka_unit_test_setup_teardown(read_to, setup, teardown),
        cmocka_unit_test_setup_teardown(receive, setup, teardown),
        cmocka_unit_test_setup_teardown(atomic, setup, teardown),
        cmocka_unit_test_setup_teardown(destroyed, setup, teardown),
        cmocka_unit_test_setup_teardown(reset, setup, teardown),
        cmocka_unit_test_setup_teardown(error, setup, teardown),
        cmocka_unit_test_setup_teardown(late_again_and_again, setup, teardown),
        cmocka_unit_test_setup_teardown(killed, setup, teardown),
        cmocka_unit_test_setup_teardown(given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(registered_again, setup, teardown),
    };
    struct uffdio_register r = {.mode = UFFDIO_REGISTER_MODE_MISSING};

    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    held = memory + PAGE;
    memset(memory, 1, PAGES * PAGE);
    r.range.start = (uintptr_t)held;
    r.range.len = HELD;
    uffd = open_uffd();
    if (uffd < 0 || ioctl(uffd, UFFDIO_REGISTER, &r)) {
        printf("1..0 # SKIP no userfaultfd\n");
        return EXIT_SUCCESS;
    }
    if (argc > 1 && !strcmp(argv[1], "stuck"))
        return be_stuck();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
