/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many threads on one context, for ThreadSanitizer: what the manual pages call thread-safe, all at
 * once. Each thread has queue pairs of its own; contexts, protection domains, completion queues, a
 * shared receive queue and channels are common. Run by run_threads.py.
 *
 * usage: test_threads ROUNDS
 *        test_threads end: prints a line when threads are at work, and goes on until the daemon
 * ends
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_pair.h"

#define POLLERS  3
#define SLEEPERS 3
#define THREADS  (POLLERS + SLEEPERS)
#define BYTES    4096u
#define DEPTH    16u
#define WAIT_MS  60000
#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* The work of a thread: its number is in the upper half of wr_id. */
struct work {
    unsigned number;
    _Atomic unsigned completed, flushed, wrong;
    struct ibv_qp *qp[2];
    struct ibv_mr *mr;
    uint8_t *buffer;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_srq *srq;
static struct ibv_comp_channel *channel;
static struct ibv_cq *polled, *slept_on;
static struct work work[THREADS];
static unsigned rounds = 20;
static atomic_bool stop;
static atomic_uint events;

/* At most two threads poll at a time: there may be two processors. */
static sem_t polling;

/* What the sleepers wait for. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;

/* Not cmocka's: its state is the main thread's. */
#define CHECK(what)                                                                 \
    do {                                                                            \
        if (!(what)) {                                                              \
            fprintf(stderr, "# %s:%d: %s: %d\n", __FILE__, __LINE__, #what, errno); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* ---- completions, of any thread ---- */

static void account(const struct ibv_wc *wc, int n)
{
    for (int i = 0; i < n; i++) {
        struct work *w = &work[wc[i].wr_id >> 32];

        if (wc[i].status == IBV_WC_WR_FLUSH_ERR)
            atomic_fetch_add(&w->flushed, 1);
        else if (wc[i].status != IBV_WC_SUCCESS)
            atomic_fetch_add(&w->wrong, 1);
        atomic_fetch_add(&w->completed, 1);
    }
}

static int poll_some(struct ibv_cq *cq)
{
    struct ibv_wc wc[8];
    int n = ibv_poll_cq(cq, 8, wc);

    CHECK(n >= 0);
    account(wc, n);
    return n;
}

/* Of the queue that wakes sleepers: this thread alone polls it, and tells them. */
static void *waker(void *arg)
{
    struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;

    while (!atomic_load(&stop)) {
        if (poll(&ready, 1, 20) != 1)
            continue;
        CHECK(!ibv_get_cq_event(channel, &cq, &context));
        CHECK(cq == slept_on && context == &slept_on);
        CHECK(!ibv_req_notify_cq(cq, 0));
        pthread_mutex_lock(&lock);
        while (poll_some(cq))
            ;
        pthread_cond_broadcast(&progress);
        pthread_mutex_unlock(&lock);
        ibv_ack_cq_events(cq, 1);
    }
    return NULL;
}

static void wait_for(struct work *w, unsigned completed)
{
    if (w->number < POLLERS) {
        while (atomic_load(&w->completed) < completed) {
            sem_wait(&polling);
            for (unsigned i = 0; i < 100 && atomic_load(&w->completed) < completed; i++)
                poll_some(polled);
            sem_post(&polling);
        }
        return;
    }
    pthread_mutex_lock(&lock);
    while (atomic_load(&w->completed) < completed)
        pthread_cond_wait(&progress, &lock);
    pthread_mutex_unlock(&lock);
}

/* ---- asynchronous events ---- */

static void *event_reader(void *arg)
{
    struct pollfd ready = {.fd = ctx->async_fd, .events = POLLIN};
    struct ibv_async_event e;

    while (!atomic_load(&stop)) {
        if (poll(&ready, 1, 20) != 1)
            continue;
        if (ibv_get_async_event(ctx, &e)) /* its object is gone, and there is no other */
            continue;
        atomic_fetch_add(&events, 1);
        ibv_ack_async_event(&e);
    }
    return NULL;
}

/* ---- objects that come and go beside the traffic ---- */

static void *registrar(void *arg)
{
    uint8_t *memory = calloc(16, BYTES);
    struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1};

    CHECK(!ibv_query_gid(ctx, 1, 0, &ah_attr.grh.dgid));
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        struct ibv_mr *mr = ibv_reg_mr(pd, memory + i % 8 * BYTES, 8 * BYTES - i % 100, ACCESS);
        struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
        struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
        struct ibv_pd *own = ibv_alloc_pd(ctx);

        CHECK(mr && mw && ah && own);
        CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS));
        CHECK(!ibv_dealloc_mw(mw));
        CHECK(!ibv_dereg_mr(mr));
        CHECK(!ibv_destroy_ah(ah));
        CHECK(!ibv_dealloc_pd(own));
    }
    free(memory);
    return NULL;
}

static void *resizer(void *arg)
{
    struct ibv_device_attr_ex device;
    struct ibv_port_attr port;
    struct ibv_srq_attr limits;
    union ibv_gid gid;

    for (unsigned i = 0; !atomic_load(&stop); i++) {
        struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
        struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, ch, 0);

        CHECK(ch && cq);
        CHECK(!ibv_req_notify_cq(cq, 0));
        CHECK(!ibv_resize_cq(i % 2 ? polled : slept_on, i % 4 ? 1024 : 2048));
        CHECK(!ibv_destroy_cq(cq));
        CHECK(!ibv_destroy_comp_channel(ch));
        CHECK(!ibv_query_device_ex(ctx, NULL, &device));
        CHECK(!ibv_query_port(ctx, 1, &port));
        CHECK(!ibv_query_gid(ctx, 1, 0, &gid));
        CHECK(!ibv_query_srq(srq, &limits));
    }
    return NULL;
}

static void *opener(void *arg)
{
    while (!atomic_load(&stop)) {
        struct ibv_context *own = open_first();
        struct ibv_pd *own_pd = ibv_alloc_pd(own);

        CHECK(own_pd && !ibv_dealloc_pd(own_pd) && !ibv_close_device(own));
    }
    return NULL;
}

static void *importer(void *arg)
{
    while (!atomic_load(&stop)) {
        struct ibv_context *guest = ibv_import_device(dup(ctx->cmd_fd));
        struct ibv_pd *shared = guest ? ibv_import_pd(guest, pd->handle) : NULL;

        CHECK(shared);
        ibv_unimport_pd(shared);
        CHECK(!ibv_close_device(guest));
    }
    return NULL;
}

/* Of a multicast group, by queue pairs that come and go on a common completion queue. */
static void *member(void *arg)
{
    struct ibv_qp_init_attr init = {.send_cq = polled,
                                    .recv_cq = polled,
                                    .cap = {.max_send_wr = 4, .max_recv_wr = 4},
                                    .qp_type = IBV_QPT_UD};
    union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 9}};

    while (!atomic_load(&stop)) {
        struct ibv_qp *qp = ibv_create_qp(pd, &init);
        struct ibv_qp_init_attr got;
        struct ibv_qp_attr attr;

        CHECK(qp);
        CHECK(!ibv_attach_mcast(qp, &group, 0));
        CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &got) && attr.qp_state == IBV_QPS_RESET);
        CHECK(!ibv_detach_mcast(qp, &group, 0));
        CHECK(!ibv_destroy_qp(qp));
    }
    return NULL;
}

/* ---- traffic ---- */

static struct ibv_qp *create_qp(struct ibv_cq *cq, bool on_srq)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .srq = on_srq ? srq : NULL,
        .cap = {.max_send_wr = DEPTH,
                .max_recv_wr = DEPTH,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE};
    struct ibv_qp *qp = ibv_create_qp_ex(ctx, &attr);

    CHECK(qp);
    return qp;
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void connect_to(struct ibv_qp *qp, uint32_t dest)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};

    attr.qp_access_flags &= ~(unsigned)IBV_ACCESS_MW_BIND;
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = dest,
                                .max_dest_rd_atomic = 4,
                                .min_rnr_timer = 1,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};
    CHECK(!ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid));
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static uint64_t id_of(const struct work *w)
{
    return (uint64_t)w->number << 32;
}

static void post_recvs(struct work *w, bool on_srq, unsigned n)
{
    struct ibv_sge sge = {(uintptr_t)w->buffer, 64, w->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id_of(w), .sg_list = &sge, .num_sge = 1}, *bad;

    for (unsigned i = 0; i < n; i++)
        CHECK(!(on_srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(w->qp[1], &wr, &bad)));
}

static void post(struct work *w, enum ibv_wr_opcode op, unsigned flags)
{
    struct ibv_sge sge = {(uintptr_t)w->buffer + 1024, 48, w->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = id_of(w),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = op,
        .send_flags = IBV_SEND_SIGNALED | flags,
        .wr.rdma = {.remote_addr = (uintptr_t)w->buffer + 2048, .rkey = w->mr->rkey}};
    struct ibv_send_wr *bad;

    CHECK(!ibv_post_send(w->qp[0], &wr, &bad));
}

static void post_by_calls(struct work *w)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(w->qp[0]);

    ibv_wr_start(ex);
    ex->wr_id = id_of(w);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, w->mr->rkey, (uintptr_t)w->buffer + 3072);
    ibv_wr_set_sge(ex, w->mr->lkey, (uintptr_t)w->buffer, 100);
    CHECK(!ibv_wr_complete(ex));
}

/* A request that the peer denies is an event of its queue pair, which may be gone by then. */
static void be_denied(struct work *w)
{
    struct ibv_sge sge = {(uintptr_t)w->buffer, 8, w->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id_of(w),
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {.remote_addr = 8, .rkey = w->mr->rkey}};
    unsigned before = atomic_load(&w->completed);
    struct ibv_send_wr *bad;

    CHECK(!ibv_post_send(w->qp[0], &wr, &bad));
    wait_for(w, before + 1);
    CHECK(atomic_fetch_sub(&w->wrong, 1) == 1);
}

/* Who takes a receive of a shared queue is open. So the queue pairs on it only send what takes
 * none. */
static void one_round(struct work *w, unsigned round)
{
    struct ibv_cq *cq = w->number < POLLERS ? polled : slept_on;
    bool on_srq = round % 3 == 2;
    unsigned before = atomic_load(&w->completed), n = 0, flushed;

    w->mr = ibv_reg_mr(pd, w->buffer, BYTES, ACCESS);
    CHECK(w->mr);
    for (unsigned i = 0; i < 2; i++)
        w->qp[i] = create_qp(cq, on_srq);
    connect_to(w->qp[0], w->qp[1]->qp_num);
    connect_to(w->qp[1], w->qp[0]->qp_num);
    for (unsigned k = 0; k < 4; k++) {
        if (!on_srq) {
            post_recvs(w, false, 2);
            post(w, IBV_WR_SEND, IBV_SEND_SOLICITED);
            post(w, IBV_WR_SEND, IBV_SEND_INLINE);
            n += 4;
        }
        post(w, IBV_WR_RDMA_READ, 0);
        post_by_calls(w);
        n += 2;
        wait_for(w, before + n);
    }
    CHECK(!atomic_load(&w->wrong));
    flushed = atomic_load(&w->flushed);
    if (round % 4 == 1) {
        be_denied(w);
        n++;
    }
    to_state(w->qp[0], IBV_QPS_ERR);
    for (unsigned i = 0; i < 3; i++)
        post(w, IBV_WR_SEND, 0);
    wait_for(w, before + n + 3);
    CHECK(atomic_load(&w->flushed) == flushed + 3);
    if (round % 2)
        to_state(w->qp[1], IBV_QPS_RESET);
    for (unsigned i = 0; i < 2; i++)
        CHECK(!ibv_destroy_qp(w->qp[i]));
    CHECK(!ibv_dereg_mr(w->mr));
}

static void *worker(void *arg)
{
    struct work *w = arg;

    for (unsigned round = 0; round < rounds; round++)
        one_round(w, round);
    return NULL;
}

static void all_at_once(void **state)
{
    static void *(*const beside[])(void *) = {waker,   event_reader, registrar, resizer,
                                              resizer, opener,       importer,  member};
    enum { BESIDE = sizeof(beside) / sizeof(beside[0]) };
    pthread_t thread[THREADS], other[BESIDE];

    for (unsigned i = 0; i < BESIDE; i++)
        assert_int_equal(pthread_create(&other[i], NULL, beside[i], NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        work[i] = (struct work){.number = i, .buffer = calloc(1, BYTES)};
        assert_int_equal(pthread_create(&thread[i], NULL, worker, &work[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        free(work[i].buffer);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < BESIDE; i++)
        pthread_join(other[i], NULL);
}

/* ---- the first ones to open a device ---- */

static pthread_barrier_t barrier;

static void *open_once(void *arg)
{
    struct ibv_context *own;

    pthread_barrier_wait(&barrier);
    own = open_first();
    CHECK(!ibv_close_device(own));
    return NULL;
}

static void opened_at_once(void **state)
{
    pthread_t thread[THREADS];

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, open_once, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&barrier);
}

/* ---- the daemon ends ---- */

static atomic_uint at_work;

/* Posts and polls until there is no daemon; then everything can be destroyed. */
static void *last_worker(void *arg)
{
    struct work *w = arg;
    struct ibv_sge sge = {(uintptr_t)w->buffer, 64, w->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = id_of(w),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)w->buffer + 1024, .rkey = w->mr->rkey}};
    struct ibv_send_wr *bad;
    struct ibv_wc wc[8];
    int polls = 0, posted;

    atomic_fetch_add(&at_work, 1);
    do {
        posted = ibv_post_send(w->qp[0], &wr, &bad);
        CHECK(!posted || posted == ENOMEM || posted == EIO);
        sem_wait(&polling);
        polls = ibv_poll_cq(polled, 8, wc);
        sem_post(&polling);
    } while (polls >= 0);
    CHECK(!ibv_reg_mr(pd, w->buffer, BYTES, ACCESS));
    return NULL;
}

static void until_the_end(void)
{
    pthread_t thread[THREADS], reader;

    pthread_create(&reader, NULL, event_reader, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        struct work *w = &work[i];

        *w = (struct work){.number = i, .buffer = calloc(1, BYTES)};
        w->mr = ibv_reg_mr(pd, w->buffer, BYTES, ACCESS);
        CHECK(w->mr);
        for (unsigned k = 0; k < 2; k++)
            w->qp[k] = create_qp(polled, false);
        connect_to(w->qp[0], w->qp[1]->qp_num);
        connect_to(w->qp[1], w->qp[0]->qp_num);
        CHECK(!pthread_create(&thread[i], NULL, last_worker, w));
    }
    while (atomic_load(&at_work) < THREADS)
        sched_yield();
    puts("at work");
    fflush(stdout);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        for (unsigned k = 0; k < 2; k++)
            ibv_destroy_qp(work[i].qp[k]);
        ibv_dereg_mr(work[i].mr);
        free(work[i].buffer);
    }
    atomic_store(&stop, true);
    pthread_join(reader, NULL);
}

static int setup(void **state)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 64, .max_sge = 1}};

    ctx = open_first();
    pd = ibv_alloc_pd(ctx);
    channel = ibv_create_comp_channel(ctx);
    polled = ibv_create_cq(ctx, 1024, NULL, NULL, 0);
    slept_on = ibv_create_cq(ctx, 1024, &slept_on, channel, 0);
    srq = ibv_create_srq(pd, &attr);
    return !pd || !channel || !polled || !slept_on || !srq || sem_init(&polling, 0, 2) ||
           fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK) || ibv_req_notify_cq(slept_on, 0);
}

/* A thread that waits for completions of one queue may look at all of the context. */
static void *poll_own(void *arg)
{
    struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    struct ibv_wc wc;

    CHECK(cq);
    while (!atomic_load(&stop))
        CHECK(!ibv_poll_cq(cq, 1, &wc));
    CHECK(!ibv_destroy_cq(cq));
    return NULL;
}

/* Queues so large that each has its own memory, which goes with it. */
static void queues_end_beside_pollers(void **state)
{
    pthread_t poller[2];

    atomic_store(&stop, false);
    for (unsigned i = 0; i < 2; i++)
        CHECK(!pthread_create(&poller[i], NULL, poll_own, NULL));
    for (unsigned i = 0; i < 30 * rounds; i++) {
        struct ibv_cq *cq = ibv_create_cq(ctx, 20000, NULL, NULL, 0);

        CHECK(cq);
        CHECK(!ibv_destroy_cq(cq));
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2; i++)
        CHECK(!pthread_join(poller[i], NULL));
}

static void *destroy(void *cq)
{
    CHECK(!ibv_destroy_cq(cq));
    return NULL;
}

/* Until it has acknowledged an event of the queue, a thread may poll and arm it. */
static void event_outlives_its_queue(void **state)
{
    struct ibv_cq *cq, *of;
    struct ibv_wc wc;
    struct pair p;
    struct side from;
    pthread_t thread;
    void *context;

    pair_open(&p);
    cq = ibv_create_cq(p.ctx, 20000, NULL, p.channel, 0);
    CHECK(cq && !ibv_req_notify_cq(cq, 0));
    from = (struct side){make_qp(&p, cq), p.a.mr, p.a.buffer};
    connect_qp(from.qp, from.qp->qp_num);
    CHECK(!post_send(&from, IBV_WR_RDMA_WRITE, &from, 0, 8, 1));
    CHECK(!ibv_get_cq_event(p.channel, &of, &context) && of == cq);
    CHECK(!ibv_destroy_qp(from.qp));
    CHECK(!pthread_create(&thread, NULL, destroy, cq));
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(!ibv_req_notify_cq(cq, 0));
        CHECK(ibv_poll_cq(cq, 1, &wc) >= 0);
        sched_yield();
    }
    ibv_ack_cq_events(cq, 1);
    CHECK(!pthread_join(thread, NULL));
    pair_close(&p);
}

static int teardown(void **state)
{
    return ibv_destroy_srq(srq) || ibv_destroy_cq(polled) || ibv_destroy_cq(slept_on) ||
           ibv_destroy_comp_channel(channel) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opened_at_once),
        cmocka_unit_test_setup_teardown(all_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(queues_end_beside_pollers, setup, teardown),
        cmocka_unit_test(event_outlives_its_queue)};

    if (argc == 2 && !strcmp(argv[1], "end")) {
        if (setup(NULL))
            return 1;
        until_the_end();
        teardown(NULL);
        return 0;
    }
    if (argc == 2)
        rounds = (unsigned)atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
