/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_heir.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define BIG (1u << 20) /* large enough to be adopted */

/* What the heirs report to the test: a line number, 0 at the end. */
static int report[2];
static struct pair p;
static uint8_t *big;
static struct ibv_mr *big_mr;

#define REQUIRE(what)             \
    do {                          \
        if (!(what))              \
            fails_at(__LINE__);   \
    } while (0)

static _Noreturn void ends_with(int line)
{
    ssize_t n = write(report[1], &line, sizeof(line));

    _exit(n == sizeof(line) ? 0 : 1);
}

static _Noreturn void fails_at(int line)
{
    ends_with(line);
}

/* In a process of its own, which leaves what it has opened to the heir and ends. */
static void become(void)
{
    pair_open(&p);
    big = malloc(BIG);
    memset(big, 1, BIG);
    big_mr = ibv_reg_mr(p.pd, big, BIG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    REQUIRE(big_mr);
}

static int end_of_heir(void)
{
    int line = -1;

    assert_int_equal(read(report[0], &line, sizeof(line)), sizeof(line));
    return line;
}

static void check_heir(void (*heir)(void), bool twice)
{
    pid_t first;
    int status;

    assert_int_equal(pipe(report), 0);
    first = fork();
    if (!first) {
        become();
        if (fork())
            _exit(0);
        if (twice && fork())
            _exit(0);
        heir();
        ends_with(0);
    }
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(status, 0);
    assert_int_equal(end_of_heir(), 0);
    close(report[0]);
    close(report[1]);
}

/* The heir's memory is private, and not the ended process's: what it stores is what is sent. */
static void moves_data(void)
{
    struct ibv_sge sge = {(uintptr_t)p.a.buffer, 4096, p.a.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)big + BIG / 2, big_mr->rkey}};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;

    memset(p.a.buffer, 7, PAIR_BYTES);
    REQUIRE(!ibv_post_send(p.a.qp, &wr, &bad));
    await(p.cq, &wc, 1);
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    REQUIRE(big[BIG / 2 - 1] == 1 && big[BIG / 2] == 7 && big[BIG / 2 + 4095] == 7 &&
            big[BIG / 2 + 4096] == 1);
    REQUIRE(!post_recv(&p.b, 0, 4096, 2) && !post_send(&p.a, IBV_WR_SEND, &p.b, 0, 4096, 1));
    await(p.cq, &wc, 1);
    await(p.cq, &wc, 1);
    REQUIRE(wc.status == IBV_WC_SUCCESS && p.b.buffer[4095] == 7);
}

static void calls_work(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(p.ctx);
    uint8_t *more = calloc(1, BIG);
    struct ibv_mr *mr;

    REQUIRE(pd);
    mr = ibv_reg_mr(pd, more, BIG, IBV_ACCESS_LOCAL_WRITE);
    REQUIRE(mr && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
    free(more);
}

static void ends_all(void)
{
    REQUIRE(!ibv_dereg_mr(big_mr));
    pair_close(&p);
}

static void data_first(void)
{
    moves_data();
    calls_work();
    ends_all();
}

static void calls_first(void)
{
    calls_work();
    moves_data();
    ends_all();
}

/* Its own child is refused, and does not disturb it. */
static void has_child(void)
{
    int status;
    pid_t child;

    moves_data();
    child = fork();
    if (!child) {
        struct ibv_pd *pd = ibv_alloc_pd(p.ctx);

        _exit(pd || errno != EIO);
    }
    REQUIRE(waitpid(child, &status, 0) == child && !status);
    moves_data();
    ends_all();
}

void daemon_goes_on(void **state)
{
    check_heir(data_first, false);
}

void daemon_calls_first(void **state)
{
    check_heir(calls_first, false);
}

void grandchild_goes_on(void **state)
{
    check_heir(has_child, true);
}

/* The first that uses it has it; also its sibling's posts are refused. */
void one_child_goes_on(void **state)
{
    int status, go[2], stay[2], line;
    pid_t first;
    char one;

    assert_int_equal(pipe(report), 0);
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(stay), 0);
    first = fork();
    if (!first) {
        close(stay[1]);
        become();
        if (!fork()) {
            REQUIRE(read(go[0], &one, 1) == 1);
            REQUIRE(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 64, 1) == EIO);
            REQUIRE(!ibv_alloc_pd(p.ctx) && errno == EIO);
            ends_with(0);
        }
        if (!fork()) {
            moves_data();
            REQUIRE(write(go[1], "x", 1) == 1);
            _exit((int)read(stay[0], &one, 1));
        }
        _exit(0);
    }
    assert_int_equal(waitpid(first, &status, 0), first);
    line = end_of_heir();
    close(stay[0]);
    close(stay[1]);
    close(go[0]);
    close(go[1]);
    close(report[0]);
    close(report[1]);
    assert_int_equal(line, 0);
}

/* A batch that the parent has begun is not the child's: no work request of it is posted there. */
void batch_of_the_parent(void **state)
{
    struct ibv_qp_init_attr_ex attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
    struct ibv_qp_ex *qp;
    struct ibv_wc wc;
    pid_t child;
    int status;

    pair_open(&p);
    attr.send_cq = attr.recv_cq = p.cq;
    attr.pd = p.pd;
    qp = ibv_qp_to_qp_ex(ibv_create_qp_ex(p.ctx, &attr));
    assert_non_null(qp);
    connect_qp(&qp->qp_base, qp->qp_base.qp_num);
    qp->wr_flags = IBV_SEND_SIGNALED;
    for (qp->wr_id = 1; qp->wr_id <= 2; qp->wr_id++) {
        ibv_wr_start(qp);
        ibv_wr_rdma_write(qp, p.b.mr->rkey, (uintptr_t)p.b.buffer);
        ibv_wr_set_sge(qp, p.a.mr->lkey, (uintptr_t)p.a.buffer, 64);
        if (qp->wr_id == 2)
            break;
        child = fork();
        if (!child)
            _exit(ibv_wr_complete(qp));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        ibv_wr_abort(qp);
        assert_int_equal(WEXITSTATUS(status), EIO);
    }
    assert_int_equal(ibv_wr_complete(qp), 0);
    await(p.cq, &wc, 1);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(&qp->qp_base), 0);
    pair_close(&p);
}

/* Run by run_verbs.py: an idle child of an ended process has the context. */
int idle_child(void)
{
    pid_t child;

    become();
    child = fork();
    if (!child) {
        close(STDOUT_FILENO);
        pause();
    }
    printf("%d\n", child);
    fflush(stdout);
    _exit(0);
}
