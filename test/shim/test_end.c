/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of the daemon, as a program sees it through the public API alone. run_end.py runs it, one
 * case at a time:
 *
 *   test_end CASE
 *
 * The program prints "ready" when the daemon may be killed or stopped, "flushed" when it has
 * noticed, and reads a line when it waits for the next thing that run_end.py does.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define SENDS    5
#define RECEIVES 3
#define SHARED   4
#define SECONDS  10 /* after which a case has failed */

/* wr_ids: where a work request was posted, and its number there. */
enum where { SENT = 100, RECEIVED = 200, SRQ = 300, XRC = 400 };

static void say(const char *what)
{
    assert_int_equal(write(STDOUT_FILENO, what, strlen(what)), strlen(what));
}

static void hear(void)
{
    char line;

    do
        assert_int_equal(read(STDIN_FILENO, &line, 1), 1);
    while (line != '\n');
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- what is outstanding ---- */

static struct pair p;
static struct ibv_srq *srq, *xrc;
static struct ibv_qp *srq_qp;
static struct ibv_xrcd *xrcd;
static struct ibv_mw *mw;
static struct ibv_ah *ah;
static struct ibv_cq_ex *cq_ex;

static int post_srq(struct ibv_srq *to, uint64_t wr_id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)p.b.buffer, .length = 8, .lkey = p.b.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    int err = ibv_post_srq_recv(to, &wr, &bad);

    assert_true(!err || bad == &wr);
    return err;
}

static void make_shared(void)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_qp_init_attr qp = {.send_cq = p.cq,
                                  .recv_cq = p.cq,
                                  .cap = {.max_send_wr = 1, .max_send_sge = 1},
                                  .qp_type = IBV_QPT_RC};

    srq = ibv_create_srq(p.pd, &attr);
    assert_non_null(srq);
    qp.srq = srq;
    srq_qp = ibv_create_qp(p.pd, &qp);
    assert_non_null(srq_qp);
    for (unsigned i = 0; i < SHARED; i++)
        assert_int_equal(post_srq(srq, SRQ + i), 0);
}

static void make_xrc(void)
{
    struct ibv_xrcd_init_attr domain = {.comp_mask =
                                            IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                        .fd = -1,
                                        .oflags = O_CREAT};
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 16, .max_sge = 1},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                        .srq_type = IBV_SRQT_XRC,
                                        .pd = p.pd,
                                        .cq = p.cq};

    xrcd = attr.xrcd = ibv_open_xrcd(p.ctx, &domain);
    assert_non_null(xrcd);
    xrc = ibv_create_srq_ex(p.ctx, &attr);
    assert_non_null(xrc);
    for (unsigned i = 0; i < SHARED; i++)
        assert_int_equal(post_srq(xrc, XRC + i), 0);
}

static void make_others(void)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1};

    mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    assert_int_equal(ibv_query_gid(p.ctx, 1, 0, &attr.grh.dgid), 0);
    ah = ibv_create_ah(p.pd, &attr);
    assert_non_null(ah);
}

/* The sends wait: b has posted no receives. Nor has b sent anything that a could receive. */
static void begin(void)
{
    pair_open(&p);
    make_shared();
    make_xrc();
    make_others();
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 8, SENT + i), 0);
    for (unsigned i = 0; i < RECEIVES; i++)
        assert_int_equal(post_recv(&p.a, 0, 8, RECEIVED + i), 0);
}

/* ---- what follows the end ---- */

/* Each kind's come in the order of posting. */
static void take_flushed(uint64_t wr_id, enum ibv_wc_status status, uint32_t qpn, unsigned next[5])
{
    unsigned kind = (unsigned)wr_id / 100;

    assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
    assert_in_range(kind, SENT / 100, XRC / 100);
    assert_int_equal(wr_id % 100, next[kind]++);
    assert_int_equal(qpn, kind == XRC / 100   ? 0
                          : kind == SRQ / 100 ? srq_qp->qp_num
                                              : p.a.qp->qp_num);
}

static void all_are_flushed(const unsigned next[5])
{
    assert_int_equal(next[SENT / 100], SENDS);
    assert_int_equal(next[RECEIVED / 100], RECEIVES);
    assert_int_equal(next[SRQ / 100], SHARED);
    assert_int_equal(next[XRC / 100], SHARED);
}

/* Polls until that fails; pause: microseconds between two polls. */
static void poll_to_the_end(struct ibv_cq *cq, unsigned pause)
{
    uint64_t end = now_ms() + 1000 * SECONDS;
    unsigned next[5] = {0};
    struct ibv_wc wc[2];
    int n;

    while ((n = ibv_poll_cq(cq, 2, wc)) >= 0) {
        assert_true(now_ms() < end);
        for (int i = 0; i < n; i++)
            take_flushed(wc[i].wr_id, wc[i].status, wc[i].qp_num, next);
        if (pause)
            usleep(pause);
    }
    assert_int_equal(errno, EIO);
    say("flushed\n");
    all_are_flushed(next);
    assert_int_equal(ibv_poll_cq(cq, 2, wc), -1);
}

static void posting_fails(void)
{
    assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 8, 1), EIO);
    assert_int_equal(post_send(&p.b, IBV_WR_SEND, &p.a, 0, 8, 1), EIO);
    assert_int_equal(post_recv(&p.b, 0, 8, 1), EIO);
    assert_int_equal(post_srq(srq, 1), EIO);
    assert_int_equal(post_srq(xrc, 1), EIO);
    assert_null(ibv_alloc_pd(p.ctx));
    assert_int_equal(errno, EIO);
}

static void one_fatal_event(void)
{
    struct ibv_async_event event;

    do {
        assert_int_equal(ibv_get_async_event(p.ctx, &event), 0);
        ibv_ack_async_event(&event);
    } while (event.event_type != IBV_EVENT_DEVICE_FATAL);
    assert_int_equal(ibv_get_async_event(p.ctx, &event), -1);
    assert_int_equal(errno, EIO);
}

/* In any order that the specification allows: a queue that others use is busy, as before. */
static void cleaning_up_succeeds(void)
{
    assert_int_equal(ibv_destroy_cq(p.cq), EBUSY);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_destroy_qp(srq_qp), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_destroy_srq(xrc), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    if (cq_ex)
        assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
    pair_close(&p); /* asserts as much of the other objects */
}

/* The next daemon serves a context that is opened now. */
static void reopen(void)
{
    struct ibv_wc wc[2];

    say("closed\n");
    hear();
    pair_open(&p);
    assert_int_equal(post_recv(&p.b, 0, 8, 1), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 8, 2), 0);
    await(p.cq, wc, 2);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
    pair_close(&p);
}

/* ---- cases ---- */

static void poll_case(unsigned pause)
{
    begin();
    say("ready\n");
    poll_to_the_end(p.cq, pause);
    posting_fails();
    one_fatal_event();
    cleaning_up_succeeds();
    reopen();
}

static void polls(void **state)
{
    poll_case(0);
}

static void slow_polls(void **state)
{
    poll_case(10000);
}

static void event_first(void **state)
{
    begin();
    say("ready\n");
    one_fatal_event();
    usleep(200000); /* the event may be a little earlier than the end of the connection */
    poll_to_the_end(p.cq, 0);
    posting_fails();
    cleaning_up_succeeds();
    reopen();
}

/* A queue pair with the ibv_wr_* calls over a queue with the extended ones. */
static struct ibv_qp_ex *begin_extended(void)
{
    struct ibv_cq_init_attr_ex cq = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_QP_NUM};
    struct ibv_qp_init_attr_ex qp = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 16, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND};
    struct ibv_qp_ex *ex;

    begin();
    cq_ex = ibv_create_cq_ex(p.ctx, &cq);
    assert_non_null(cq_ex);
    qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(cq_ex);
    qp.pd = p.pd;
    ex = ibv_qp_to_qp_ex(ibv_create_qp_ex(p.ctx, &qp));
    assert_non_null(ex);
    connect_qp(&ex->qp_base, p.b.qp->qp_num);
    return ex;
}

/* More than the completion queue has room for. */
static void extended_calls(void **state)
{
    struct ibv_qp_ex *ex = begin_extended();
    struct side side = {.qp = &ex->qp_base, .mr = p.a.mr, .buffer = p.a.buffer};
    struct ibv_poll_cq_attr attr = {0};
    uint64_t next = 0, end;
    int err;

    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(post_recv(&side, 0, 8, i), 0);
    say("ready\n");
    for (end = now_ms() + 1000 * SECONDS; (err = ibv_start_poll(cq_ex, &attr)) != EIO;) {
        assert_true(now_ms() < end);
        if (err == ENOENT)
            continue;
        do {
            assert_int_equal(cq_ex->status, IBV_WC_WR_FLUSH_ERR);
            assert_int_equal(cq_ex->wr_id, next++);
            assert_int_equal(ibv_wc_read_qp_num(cq_ex), side.qp->qp_num);
        } while (!ibv_next_poll(cq_ex));
        ibv_end_poll(cq_ex);
    }
    say("flushed\n");
    assert_int_equal(next, 16);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    assert_int_equal(ibv_wr_complete(ex), EIO);
    assert_int_equal(ibv_destroy_qp(side.qp), 0);
    cleaning_up_succeeds();
    reopen();
}

/* Two threads poll one queue while a third posts, until both calls fail. Each work request that was
 * accepted completes once. */
static atomic_uint completed[1 << 16];

static void *poll_until_error(void *arg)
{
    struct ibv_wc wc[7];
    int n;

    while ((n = ibv_poll_cq(arg, 7, wc)) >= 0)
        for (int i = 0; i < n; i++)
            atomic_fetch_add(&completed[wc[i].wr_id], 1);
    return NULL;
}

static void threads(void **state)
{
    uint64_t posted = 0;
    pthread_t poller[2];
    int err;

    pair_open(&p);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&poller[i], NULL, poll_until_error, p.cq), 0);
    say("ready\n");
    while ((err = post_recv(&p.a, 0, 8, posted)) != EIO && posted < 1 << 16) {
        posted += !err;
        usleep(err ? 100 : 10000);
    }
    assert_int_equal(err, EIO);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(poller[i], NULL);
    say("flushed\n");
    assert_true(posted > 0);
    for (uint64_t i = 0; i <= posted; i++)
        assert_int_equal(atomic_load(&completed[i]), i < posted);
    pair_close(&p);
    reopen();
}

/* One thread polls the queues of two contexts in turn. */
static void contexts(void **state)
{
    struct pair both[2];
    bool ended[2] = {false};
    struct ibv_wc wc[4];
    int n;

    for (unsigned i = 0; i < 2; i++) {
        pair_open(&both[i]);
        assert_int_equal(post_recv(&both[i].a, 0, 8, i), 0);
    }
    say("ready\n");
    for (uint64_t end = now_ms() + 1000 * SECONDS, turn = 0; !ended[0] || !ended[1]; turn++) {
        assert_true(now_ms() < end);
        n = ibv_poll_cq(both[turn % 2].cq, 4, wc);
        for (int i = 0; i < n; i++)
            assert_int_equal(wc[i].wr_id, turn % 2);
        ended[turn % 2] |= n > 0;
    }
    say("flushed\n");
    for (unsigned i = 0; i < 2; i++)
        pair_close(&both[i]);
    reopen();
}

/* A child does not keep the connection, and its parent's end is not its own. */
static void children(void **state)
{
    int hold[2];
    char byte;
    pid_t child;

    begin();
    assert_int_equal(pipe(hold), 0);
    child = fork();
    if (!child) {
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) != 0 || ibv_dealloc_mw(mw) != EIO);
    }
    say("ready\n");
    poll_to_the_end(p.cq, 0);
    cleaning_up_succeeds();
    close(hold[1]);
    assert_int_equal(waitpid(child, &hold[0], 0), child);
    assert_int_equal(hold[0], 0);
    reopen();
}

/* The daemon is stopped, and goes on: nothing has happened. */
static void stopped(void **state)
{
    uint64_t end;
    struct ibv_wc wc[2];

    pair_open(&p);
    assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 8, 1), 0);
    say("ready\n");
    hear();
    for (end = now_ms() + 1000; now_ms() < end;)
        assert_int_equal(ibv_poll_cq(p.cq, 2, wc), 0);
    assert_int_equal(post_recv(&p.b, 0, 8, 2), 0);
    say("still\n");
    await(p.cq, wc, 2);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polls),       cmocka_unit_test(slow_polls),
        cmocka_unit_test(event_first), cmocka_unit_test(extended_calls),
        cmocka_unit_test(threads),     cmocka_unit_test(children),
        cmocka_unit_test(contexts),    cmocka_unit_test(stopped),
    };

    for (unsigned i = 0; argc > 1 && i < sizeof(tests) / sizeof(tests[0]); i++)
        if (!strcmp(argv[1], tests[i].name)) {
            struct CMUnitTest one[] = {tests[i]};

            return cmocka_run_group_tests_name(argv[1], one, NULL, NULL);
        }
    return 2;
}
