/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs whose mapped memory fails: the worker gets SIGBUS in the middle of a copy. The queue
 * pairs of that program end, no byte that was not there reaches a peer as if it had been, and
 * another program goes on. Run by run_fault.py, with unsealed.c, over a daemon that has it too.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define PAGE  4096u
#define BYTES (16 * PAGE)
#define LEN   (3 * PAGE)
#define MORE  200 /* completions of the other program after each fault */

static struct pair p;
static struct ibv_mr *mr;
static struct side bad; /* a side whose memory fails; each case sets the queue pair */
static int fd;

/* ---- another program ---- */

struct other {
    _Atomic bool stop, wrong;
    _Atomic unsigned completions;
};

static struct other *other;
static pid_t other_pid;

static void other_run(void)
{
    struct pair own;
    struct ibv_wc wc;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pair_open(&own);
    for (unsigned i = 0; !atomic_load(&other->stop); i++) {
        memset(own.a.buffer, (int)i, LEN);
        if (post_send(&own.a, IBV_WR_RDMA_WRITE, &own.b, 0, LEN, i))
            break;
        await(own.cq, &wc, 1);
        if (wc.status != IBV_WC_SUCCESS || memcmp(own.a.buffer, own.b.buffer, LEN)) {
            fprintf(stderr, "# the other program: status %d, message %u\n", wc.status, i);
            break;
        }
        atomic_fetch_add(&other->completions, 1);
    }
    atomic_store(&other->wrong, !atomic_load(&other->stop));
    pair_close(&own);
    _exit(0);
}

static int other_start(void **state)
{
    other = mmap(NULL, sizeof(*other), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    other_pid = fork();
    if (!other_pid)
        other_run();
    return other == MAP_FAILED || other_pid < 0;
}

static int other_end(void **state)
{
    int status;

    atomic_store(&other->stop, true);
    waitpid(other_pid, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status);
}

static void other_goes_on(void)
{
    struct timespec ms = {.tv_nsec = 1000000};
    unsigned from = atomic_load(&other->completions);

    for (unsigned i = 0; i < 20000 && atomic_load(&other->completions) < from + MORE; i++) {
        assert_false(atomic_load(&other->wrong));
        nanosleep(&ms, NULL);
    }
    assert_true(atomic_load(&other->completions) >= from + MORE);
}

/* ---- cases ---- */

static int setup(void **state)
{
    pair_open(&p);
    fd = memfd_create("fails", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, BYTES))
        return 1;
    bad.buffer = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(bad.buffer, 0x5A, BYTES);
    mr = ibv_reg_mr(p.pd, bad.buffer, BYTES,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC);
    bad.mr = mr;
    return !mr;
}

/* The type of the next event; -1: there is none. */
static int take_event(int ms)
{
    struct pollfd ready = {.fd = p.ctx->async_fd, .events = POLLIN};
    struct ibv_async_event event;

    if (poll(&ready, 1, ms) != 1)
        return -1;
    assert_int_equal(ibv_get_async_event(p.ctx, &event), 0);
    ibv_ack_async_event(&event);
    return (int)event.event_type;
}

static int teardown(void **state)
{
    while (take_event(0) >= 0) {
    }
    if (ibv_dereg_mr(mr))
        return 1;
    munmap(bad.buffer, BYTES);
    close(fd);
    pair_close(&p);
    return 0;
}

static void fail_memory(void)
{
    assert_int_equal(ftruncate(fd, 0), 0);
}

static void memory_returns(void)
{
    assert_int_equal(ftruncate(fd, BYTES), 0);
}

static enum ibv_wc_status status_of(struct side *from, enum ibv_wr_opcode op, struct side *to)
{
    struct ibv_wc wc;

    assert_int_equal(post_send(from, op, to, 0, LEN, 1), 0);
    await(p.cq, &wc, 1);
    return wc.status;
}

static void pair_again(void)
{
    struct ibv_qp *qp[] = {p.a.qp, p.b.qp};

    for (unsigned i = 0; i < 2; i++)
        modify_state(qp[i], IBV_QPS_RESET);
    connect_qp(qp[0], qp[1]->qp_num);
    connect_qp(qp[1], qp[0]->qp_num);
}

/* Both queue pairs have ended, one at least with an event: the other one may have an error
 * completion instead. The program can go on with other memory, but not
 * with this, even when it is there again. */
static void expect_end(void)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_qp *qp[] = {p.a.qp, p.b.qp};
    int event;

    event = take_event(5000);
    assert_true(event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_ACCESS_ERR);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(ibv_query_qp(qp[i], &attr, IBV_QP_STATE, &init), 0);
        assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    }
    other_goes_on();
    memory_returns();
    pair_again();
    memset(p.a.buffer, 0x33, LEN);
    assert_int_equal(status_of(&p.a, IBV_WR_RDMA_WRITE, &p.b), IBV_WC_SUCCESS);
    assert_memory_equal(p.a.buffer, p.b.buffer, LEN);
    bad.qp = p.a.qp;
    assert_int_equal(status_of(&bad, IBV_WR_RDMA_WRITE, &p.b), IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ibv_query_qp(p.a.qp, &attr, IBV_QP_STATE, &init), 0);
    pair_again();
    bad.qp = p.b.qp;
    assert_int_equal(status_of(&p.a, IBV_WR_RDMA_READ, &bad), IBV_WC_REM_ACCESS_ERR);
}

static void write_from(void **state)
{
    memset(p.b.buffer, 0x11, LEN);
    bad.qp = p.a.qp;
    fail_memory();
    assert_int_not_equal(status_of(&bad, IBV_WR_RDMA_WRITE, &p.b), IBV_WC_SUCCESS);
    for (unsigned i = 0; i < LEN; i++)
        assert_int_equal(p.b.buffer[i], 0x11);
    expect_end();
}

static void write_to(void **state)
{
    bad.qp = p.b.qp;
    fail_memory();
    assert_int_not_equal(status_of(&p.a, IBV_WR_RDMA_WRITE, &bad), IBV_WC_SUCCESS);
    expect_end();
}

static void read_from(void **state)
{
    memset(p.a.buffer, 0x11, LEN);
    bad.qp = p.b.qp;
    fail_memory();
    assert_int_not_equal(status_of(&p.a, IBV_WR_RDMA_READ, &bad), IBV_WC_SUCCESS);
    for (unsigned i = 0; i < LEN; i++)
        assert_int_equal(p.a.buffer[i], 0x11);
    expect_end();
}

static void read_to(void **state)
{
    bad.qp = p.a.qp;
    fail_memory();
    assert_int_not_equal(status_of(&bad, IBV_WR_RDMA_READ, &p.b), IBV_WC_SUCCESS);
    expect_end();
}

/* The region is another context's; it fails under the queue pairs of the one that has imported it.
 */
static void imported(void **state)
{
    struct pair guest = {.ctx = ibv_import_device(dup(p.ctx->cmd_fd))};
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct side from;
    struct ibv_wc wc;

    assert_non_null(guest.ctx);
    guest.pd = ibv_import_pd(guest.ctx, p.pd->handle);
    guest.cq = ibv_create_cq(guest.ctx, PAIR_WR, NULL, NULL, 0);
    guest.a.qp = make_qp(&guest, guest.cq);
    guest.b.qp = make_qp(&guest, guest.cq);
    connect_qp(guest.a.qp, guest.b.qp->qp_num);
    connect_qp(guest.b.qp, guest.a.qp->qp_num);
    from = (struct side){.qp = guest.a.qp, .mr = p.a.mr, .buffer = p.a.buffer};
    assert_int_equal(post_send(&from, IBV_WR_RDMA_WRITE, &bad, 0, LEN, 1), 0);
    await(guest.cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    fail_memory();
    /* One packet: if its repetition were taken for a duplicate, it would be acknowledged. */
    assert_int_equal(post_send(&from, IBV_WR_RDMA_WRITE, &bad, 0, 64, 2), 0);
    await(guest.cq, &wc, 1);
    assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_query_qp(guest.b.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    other_goes_on();
    memory_returns();
    assert_int_equal(ibv_destroy_qp(guest.a.qp), 0);
    assert_int_equal(ibv_destroy_qp(guest.b.qp), 0);
    assert_int_equal(ibv_destroy_cq(guest.cq), 0);
    ibv_unimport_pd(guest.pd);
    assert_int_equal(ibv_close_device(guest.ctx), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_from, setup, teardown),
        cmocka_unit_test_setup_teardown(write_to, setup, teardown),
        cmocka_unit_test_setup_teardown(read_from, setup, teardown),
        cmocka_unit_test_setup_teardown(read_to, setup, teardown),
        cmocka_unit_test_setup_teardown(imported, setup, teardown),
    };

    return cmocka_run_group_tests(tests, other_start, other_end);
}
