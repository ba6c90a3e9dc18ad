/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_resize.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "unit.h"
#include "verbs_pair.h"

static struct ibv_cq *make_cq(struct pair *p, int cqe)
{
    struct ibv_cq *cq = ibv_create_cq(p->ctx, cqe, NULL, NULL, 0);

    assert_non_null(cq);
    return cq;
}

/* Side a completes into `cq`, side b into the pair's. */
static void complete_into(struct pair *p, struct ibv_cq *cq)
{
    assert_int_equal(ibv_destroy_qp(p->a.qp), 0);
    p->a.qp = make_qp(p, cq);
    modify_state(p->b.qp, IBV_QPS_RESET);
    connect_qp(p->a.qp, p->b.qp->qp_num);
    connect_qp(p->b.qp, p->a.qp->qp_num);
}

/* Nine completions, that wait when the call returns and the worker has passed a quiet point, as a
 * resize makes it do: the data of the READ, the last of them, are there. */
static void nine_completions(struct pair *p, uint8_t mark, uint64_t first)
{
    _Atomic uint8_t *read = (_Atomic uint8_t *)p->a.buffer;
    time_t end = time(NULL) + 10;

    p->b.buffer[0] = mark;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(post_send(&p->a, IBV_WR_RDMA_WRITE, &p->b, 8, 8, first + i), 0);
    assert_int_equal(post_send(&p->a, IBV_WR_RDMA_READ, &p->b, 0, 1, first + 8), 0);
    while (atomic_load(read) != mark && time(NULL) < end)
        sched_yield();
    assert_int_equal(atomic_load(read), mark);
}

static void expect_wr(struct ibv_cq *cq, uint64_t first, uint64_t end)
{
    for (; first != end; first++) {
        struct ibv_wc wc;

        await(cq, &wc, 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, first);
    }
}

static void destroy(struct pair *p, struct ibv_cq *cq)
{
    assert_int_equal(ibv_destroy_cq(cq), EBUSY);
    assert_int_equal(ibv_destroy_qp(p->a.qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    p->a.qp = make_qp(p, p->cq);
    pair_close(p);
}

void cq_resize_keeps_what_waits(void **state)
{
    static const int sizes[] = {100, 16, 4096, 17, 1 << 16, 16};
    struct ibv_device_attr limits;
    struct ibv_cq *cq;
    uint64_t next = 0;
    struct ibv_wc wc;
    struct pair p;

    pair_open(&p);
    cq = make_cq(&p, 16);
    complete_into(&p, cq);
    assert_int_equal(ibv_query_device(p.ctx, &limits), 0);
    assert_int_equal(ibv_resize_cq(cq, limits.max_cqe + 1), EINVAL);
    assert_int_equal(ibv_resize_cq(cq, -1), EINVAL);
    assert_int_equal(cq->cqe, 16);
    for (unsigned turn = 0; turn < sizeof(sizes) / sizeof(sizes[0]); turn++) {
        nine_completions(&p, (uint8_t)(turn + 1), next);
        assert_int_equal(ibv_resize_cq(cq, 4), EINVAL); /* nine wait */
        assert_int_equal(ibv_resize_cq(cq, sizes[turn]), 0);
        assert_true(cq->cqe >= sizes[turn]);
        expect_wr(cq, next, next + 9);
        next += 9;
    }
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
    destroy(&p, cq);
}

/* The completions of work that was posted before the call count. */
void cq_resize_right_after_posting(void **state)
{
    struct ibv_cq *cq;
    struct pair p;

    pair_open(&p);
    cq = make_cq(&p, 16);
    complete_into(&p, cq);
    for (uint64_t next = 0; next < 50 * 9; next += 9) {
        for (unsigned i = 0; i < 9; i++)
            assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 8, 8, next + i), 0);
        assert_int_equal(ibv_resize_cq(cq, 4), EINVAL);
        expect_wr(cq, next, next + 9);
    }
    destroy(&p, cq);
}

static struct ibv_cq_ex *make_extended(struct pair *p, uint32_t flags)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 16,
                                       .wc_flags = IBV_WC_STANDARD_FLAGS,
                                       .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                       .flags = flags};
    struct ibv_cq_ex *ex = ibv_create_cq_ex(p->ctx, &attr);

    assert_non_null(ex);
    complete_into(p, ibv_cq_ex_to_cq(ex));
    return ex;
}

static void *end_at_once(void *arg)
{
    return arg;
}

/* From now on the library's locks count, which a process with one thread does without. */
static void have_had_threads(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, end_at_once, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void resize_while_read(uint32_t flags)
{
    struct ibv_poll_cq_attr poll = {0};
    struct ibv_cq_ex *ex;
    struct ibv_cq *cq;
    struct pair p;

    pair_open(&p);
    ex = make_extended(&p, flags);
    cq = ibv_cq_ex_to_cq(ex);
    nine_completions(&p, 1, 0);
    assert_int_equal(ibv_resize_cq(cq, 32), 0);
    assert_int_equal(ibv_start_poll(ex, &poll), 0);
    assert_int_equal(ibv_resize_cq(cq, 64), EBUSY); /* its CQE is being read */
    for (uint64_t id = 0; id < 9; id++) {
        assert_int_equal(ex->wr_id, id);
        assert_int_equal(ex->status, IBV_WC_SUCCESS);
        assert_int_equal(ibv_next_poll(ex), id < 8 ? 0 : ENOENT);
    }
    ibv_end_poll(ex);
    assert_int_equal(ibv_resize_cq(cq, 64), 0);
    destroy(&p, cq);
}

void cq_resize_of_an_extended_queue(void **state)
{
    have_had_threads();
    resize_while_read(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    resize_while_read(0);
}

/* The thread that reads a completion resets the queue pair, or destroys it: the one that it reads
 * stays, those behind it are gone. */
void queue_pair_ends_while_read(void **state)
{
    have_had_threads();
    for (unsigned turn = 0; turn < 2; turn++) {
        struct ibv_poll_cq_attr poll = {0};
        struct ibv_cq_ex *ex;
        struct pair p;

        pair_open(&p);
        ex = make_extended(&p, 0);
        nine_completions(&p, 1, 0);
        assert_int_equal(ibv_start_poll(ex, &poll), 0);
        if (turn) {
            assert_int_equal(ibv_destroy_qp(p.a.qp), 0);
            p.a.qp = make_qp(&p, ibv_cq_ex_to_cq(ex));
        } else {
            modify_state(p.a.qp, IBV_QPS_RESET);
        }
        assert_int_equal(ex->wr_id, 0);
        assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_RDMA_WRITE);
        assert_int_equal(ibv_next_poll(ex), ENOENT);
        ibv_end_poll(ex);
        destroy(&p, ibv_cq_ex_to_cq(ex));
    }
}

/* ---- several threads ---- */

#define MESSAGES 30000u /* at least, */
#define RESIZES  20u    /* beside as many of these at least */

struct traffic {
    struct pair *p;
    struct ibv_cq *cq;
    _Atomic bool over;
    atomic_uint resizes; /* so far; all of them when one has failed */
};

static void *arm_always(void *arg)
{
    struct traffic *t = arg;

    while (!atomic_load(&t->over)) {
        if (ibv_req_notify_cq(t->cq, 0))
            return t;
        sched_yield();
    }
    return NULL;
}

static void *resize_always(void *arg)
{
    static const int sizes[] = {1024, 64, 128, 4096};
    struct traffic *t = arg;
    unsigned n = 0;

    while (!atomic_load(&t->over)) {
        int err = ibv_resize_cq(t->cq, sizes[n % 4]);

        n++;
        atomic_store(&t->resizes, err ? RESIZES : n);
        if (err)
            return t;
        sched_yield();
    }
    return NULL;
}

void cq_resize_under_traffic(void **state)
{
    struct traffic t = {0};
    pthread_t arming, resizing;
    uint64_t posted = 0, polled = 0;
    void *bad[2];
    struct pair p;

    pair_open(&p);
    t.p = &p;
    t.cq = make_cq(&p, 64);
    complete_into(&p, t.cq);
    assert_int_equal(pthread_create(&arming, NULL, arm_always, &t), 0);
    assert_int_equal(pthread_create(&resizing, NULL, resize_always, &t), 0);
    for (;;) {
        bool more = posted < MESSAGES || atomic_load(&t.resizes) < RESIZES;
        struct ibv_wc wc;
        int got;

        if (!more && polled == posted)
            break;
        while (more && posted - polled < 32)
            assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 8, posted++), 0);
        got = ibv_poll_cq(t.cq, 1, &wc);
        assert_true(got >= 0);
        if (!got)
            continue;
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, polled++);
    }
    atomic_store(&t.over, true);
    pthread_join(arming, &bad[0]);
    pthread_join(resizing, &bad[1]);
    assert_null(bad[0]);
    assert_null(bad[1]);
    destroy(&p, t.cq);
}

/* One event, for the arming before the move. */
void cq_resize_keeps_the_arming(void **state)
{
    struct pollfd ready;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    struct pair p;
    void *context;

    pair_open(&p);
    ready = (struct pollfd){.fd = p.channel->fd, .events = POLLIN};
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_int_equal(ibv_resize_cq(p.cq, 2000), 0);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 8, 1), 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    assert_ptr_equal(cq, p.cq);
    await(cq, &wc, 1);
    assert_int_equal(ibv_resize_cq(p.cq, 64), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 8, 2), 0);
    await(cq, &wc, 1);
    assert_int_equal(poll(&ready, 1, 0), 0); /* not armed */
    ibv_ack_cq_events(cq, 1);
    pair_close(&p);
}
