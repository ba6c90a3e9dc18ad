/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs API over a running uroced: cases that other programs do not have. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_arguments.h"
#include "verbs_ece.h"
#include "verbs_entropy.h"
#include "verbs_events.h"
#include "verbs_heir.h"
#include "verbs_import.h"
#include "verbs_last.h"
#include "verbs_memory.h"
#include "verbs_pair.h"
#include "verbs_rate.h"
#include "verbs_resize.h"
#include "verbs_services.h"
#include "verbs_steps.h"

static struct pair p;

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

/* ---- queue pairs ---- */

static void data_arrives(void **state)
{
    struct ibv_wc wc[2];

    for (unsigned i = 0; i < PAIR_BYTES; i++)
        p.a.buffer[i] = (uint8_t)(i * 7);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, PAIR_BYTES, 1), 0);
    await(p.cq, wc, 1);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    assert_memory_equal(p.a.buffer, p.b.buffer, PAIR_BYTES);
    memset(p.a.buffer, 0, PAIR_BYTES);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_READ, &p.b, 0, PAIR_BYTES, 2), 0);
    await(p.cq, wc, 1);
    assert_memory_equal(p.a.buffer, p.b.buffer, PAIR_BYTES);
}

static void reset_drops_completions(void **state)
{
    struct ibv_wc wc[PAIR_WR];
    struct ibv_cq *cq;
    void *context;

    /* The first ones have completed, but are not polled. */
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    for (unsigned i = 0; i < PAIR_WR; i++)
        assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, i), 0);
    while (post_send(&p.b, IBV_WR_RDMA_READ, &p.a, 0, 64, 1000))
        ;
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    ibv_ack_cq_events(p.cq, 1);
    modify_state(p.a.qp, IBV_QPS_RESET);
    modify_state(p.b.qp, IBV_QPS_RESET);
    assert_int_equal(ibv_poll_cq(p.cq, PAIR_WR, wc), 0);
    pair_reconnect(&p);
    for (unsigned i = 0; i < 3 * PAIR_WR; i++) {
        assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, i), 0);
        await(p.cq, wc, 1);
        assert_int_equal(wc[0].wr_id, i);
        assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
    }
}

/* Another queue pair takes the sender's place, with its completions in cq. */
static void replace_sender(struct ibv_cq *cq)
{
    p.a.qp = make_qp(&p, cq);
    modify_state(p.b.qp, IBV_QPS_RESET);
    pair_reconnect(&p);
}

static void destroyed_queue_pairs_leave_nothing(void **state)
{
    struct ibv_wc wc[4];

    for (unsigned round = 0; round < 20; round++) {
        assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
        assert_int_equal(ibv_destroy_qp(p.a.qp), 0);
        assert_int_equal(ibv_poll_cq(p.cq, 4, wc), 0);
        replace_sender(p.cq);
    }
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 2), 0);
    await(p.cq, wc, 1);
    assert_int_equal(wc[0].wr_id, 2);
    assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
}

static void errors_flush_what_is_posted_later(void **state)
{
    struct ibv_wc wc[4];

    modify_state(p.a.qp, IBV_QPS_ERR);
    assert_int_equal(post_recv(&p.a, 0, 64, 1), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_SEND, &p.b, 0, 64, 2), 0);
    assert_int_equal(post_recv(&p.a, 0, 64, 3), 0);
    await(p.cq, wc, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
}

/* The peer's error arrives without a call of this program. */
static void refused_writes(void **state)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_wc wc[2];

    p.b.mr->rkey ^= 0x10;
    assert_int_equal(post_recv(&p.b, 0, 64, 7), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    await(p.cq, wc, 2);
    p.b.mr->rkey ^= 0x10;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(wc[i].status,
                         wc[i].wr_id == 7 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(post_recv(&p.b, 0, 64, 8), 0);
    await(p.cq, wc, 1);
    assert_int_equal(wc[0].status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_query_qp(p.b.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    assert_int_equal(p.b.qp->state, IBV_QPS_ERR);
}

static void sealed_memory_is_mapped(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct ibv_wc wc;
    struct ibv_mr *mr;
    uint8_t *memory;

    assert_int_equal(ftruncate(fd, 2 * PAIR_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    memory = mmap(NULL, PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAIR_BYTES);
    mr = ibv_reg_mr(p.pd, memory + 100, 1000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    close(fd);
    memset(p.a.buffer, 0x3C, 1000);
    {
        struct side target = {.buffer = memory + 100, .mr = mr};

        assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &target, 0, 1000, 1), 0);
    }
    await(p.cq, &wc, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_memory_equal(memory + 100, p.a.buffer, 1000);
    assert_int_equal(memory[99], 0);
    assert_int_equal(memory[1100], 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(memory, PAIR_BYTES);
}

#define THREADS 4
#define EACH    2000

static void *poster(void *arg)
{
    unsigned posted = 0;

    while (posted < EACH) {
        struct ibv_wc wc;

        if (!post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 5))
            posted++;
        if (ibv_poll_cq(p.cq, 1, &wc) == 1) {
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            ++*(unsigned *)arg;
        }
    }
    return NULL;
}

static void threads_share_a_queue_pair(void **state)
{
    unsigned polled[THREADS] = {0}, total = 0;
    pthread_t thread[THREADS];
    struct ibv_wc wc;

    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, poster, &polled[i]);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        total += polled[i];
    for (; total < THREADS * EACH; total++)
        await(p.cq, &wc, 1);
    assert_int_equal(ibv_poll_cq(p.cq, 1, &wc), 0);
}

#define TURNS 20
#define KEPT  12

/* A queue pair whose whole ring and completion queue work. */
static struct ibv_qp *checked_qp(struct ibv_cq *cq)
{
    struct ibv_qp *qp = make_qp(&p, cq);
    struct ibv_wc wc[PAIR_WR];

    connect_qp(qp, qp->qp_num);
    for (unsigned i = 0; i < PAIR_WR; i++) {
        struct ibv_recv_wr wr = {.wr_id = i}, *bad;

        assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    }
    modify_state(qp, IBV_QPS_ERR);
    await(cq, wc, PAIR_WR);
    for (unsigned i = 0; i < PAIR_WR; i++) {
        assert_int_equal(wc[i].wr_id, i);
        assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc[i].qp_num, qp->qp_num);
    }
    return qp;
}

/* Creates and destroys queues of all sizes, so that memory is mapped, unmapped and reused. */
static void *renewer(void *arg)
{
    struct ibv_cq *cq[KEPT] = {0};
    struct ibv_qp *qp[KEPT] = {0};
    unsigned first = *(unsigned *)arg;

    for (unsigned i = 0; i < (TURNS + 1) * KEPT; i++) {
        unsigned k = (i * 7 + first) % KEPT;

        if (qp[k]) {
            assert_int_equal(ibv_destroy_qp(qp[k]), 0);
            assert_int_equal(ibv_destroy_cq(cq[k]), 0);
        }
        qp[k] = NULL;
        if (i >= TURNS * KEPT)
            continue;
        cq[k] = ibv_create_cq(p.ctx, PAIR_WR << (k + i / KEPT) % 8, NULL, NULL, 0);
        assert_non_null(cq[k]);
        qp[k] = checked_qp(cq[k]);
    }
    return NULL;
}

static void threads_create_and_destroy(void **state)
{
    pthread_t thread[THREADS];
    unsigned first[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        first[i] = i;
        pthread_create(&thread[i], NULL, renewer, &first[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    data_arrives(state);
}

/* ---- events ---- */

static bool readable(int fd, int milliseconds)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};

    return poll(&pfd, 1, milliseconds) == 1;
}

static void one_event_per_arming(void **state)
{
    struct ibv_cq *cq;
    void *context;
    struct ibv_wc wc[2];

    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 2), 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    assert_ptr_equal(cq, p.cq);
    assert_ptr_equal(context, &p);
    await(p.cq, wc, 2);
    assert_false(readable(p.channel->fd, 20));
    ibv_ack_cq_events(p.cq, 1);
    fcntl(p.channel->fd, F_SETFL, O_NONBLOCK);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
}

/* A completion that waits when the queue is armed raises its event, as of NICs; but not again when
 * the program has its event and has not polled since. */
static void armed_behind_a_completion(void **state)
{
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    assert_false(readable(p.channel->fd, 20)); /* not armed */
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_true(readable(p.channel->fd, 5000));
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_false(readable(p.channel->fd, 20));
    await(p.cq, &wc, 1);
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_false(readable(p.channel->fd, 20)); /* nothing waits */
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 2), 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    await(p.cq, &wc, 1);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 3), 0);
    assert_false(readable(p.channel->fd, 20));
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0); /* after it has polled: again */
    assert_true(readable(p.channel->fd, 5000));
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    await(p.cq, &wc, 1);
    ibv_ack_cq_events(p.cq, 3);
}

static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
    struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                                      .moderate = {.cq_count = count, .cq_period = period}};

    return ibv_modify_cq(cq, &attr);
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000 + t.tv_nsec / 1000;
}

/* A queue that waits for three completions, for the longest period, has two. False: the period has
 * passed, on a busy machine, and the event has come. */
static bool two_raise_nothing(void)
{
    int64_t begin = now_us();
    struct ibv_wc wc[2];

    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 2), 0);
    await(p.cq, wc, 2);
    if (!readable(p.channel->fd, 0))
        return true;
    assert_true(now_us() - begin > UINT16_MAX / 2);
    return false;
}

static void moderated_events(void **state)
{
    struct ibv_modify_cq_attr none = {0}, unknown = {.attr_mask = IBV_CQ_ATTR_RESERVED};
    struct ibv_device_attr_ex device;
    unsigned events = 2;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    assert_int_equal(ibv_query_device_ex(p.ctx, NULL, &device), 0);
    assert_int_equal(device.cq_mod_caps.max_cq_count, UINT16_MAX);
    assert_int_equal(device.cq_mod_caps.max_cq_period, UINT16_MAX);
    assert_int_equal(ibv_modify_cq(p.cq, &none), EINVAL);
    assert_int_equal(ibv_modify_cq(p.cq, &unknown), EOPNOTSUPP);

    assert_int_equal(moderate(p.cq, 3, UINT16_MAX), 0);
    for (; !two_raise_nothing(); events++)
        assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 3), 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    await(p.cq, &wc, 1);

    assert_int_equal(moderate(p.cq, UINT16_MAX, 1000), 0);
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 4), 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0); /* the worker's timer */
    await(p.cq, &wc, 1);
    ibv_ack_cq_events(p.cq, events);
    assert_int_equal(moderate(p.cq, 0, 0), 0);
}

/*
 * Its timer runs, and ends with it. On a busy machine the timer may be over before the queue is
 * destroyed, so what counts is that no event comes later: the queue has a channel of its own. When
 * another queue's timer, which was begun after the destruction and has the same period, raises its
 * event, the time of the first one has passed.
 */
static void moderated_queue_is_destroyed(void **state)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(p.ctx);
    struct ibv_cq *cq = ibv_create_cq(p.ctx, 16, NULL, channel, 0), *from;
    struct ibv_qp *old = p.a.qp;
    struct ibv_wc wc;
    void *context;

    assert_int_equal(moderate(cq, UINT16_MAX, 20000), 0);
    replace_sender(cq);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    await(cq, &wc, 1);
    assert_int_equal(ibv_destroy_qp(p.a.qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    p.a.qp = old;
    fcntl(channel->fd, F_SETFL, O_NONBLOCK); /* an event from before is skipped */
    assert_int_equal(ibv_get_cq_event(channel, &from, &context), -1);
    assert_int_equal(errno, EAGAIN);

    assert_int_equal(moderate(p.cq, UINT16_MAX, 20000), 0);
    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    modify_state(p.a.qp, IBV_QPS_ERR);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 2), 0); /* flushed */
    assert_int_equal(ibv_get_cq_event(p.channel, &from, &context), 0);
    ibv_ack_cq_events(p.cq, 1);
    assert_false(readable(channel->fd, 0));
    await(p.cq, &wc, 1);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void events_of_destroyed_queues_are_skipped(void **state)
{
    struct ibv_cq *victim = ibv_create_cq(p.ctx, 4, NULL, p.channel, 0), *cq;
    struct ibv_qp *old = p.a.qp;
    struct ibv_wc wc;
    void *context;

    replace_sender(victim);
    assert_int_equal(ibv_req_notify_cq(victim, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    assert_true(readable(p.channel->fd, 5000));
    assert_int_equal(ibv_destroy_cq(victim), EBUSY);
    assert_int_equal(ibv_destroy_qp(p.a.qp), 0);
    assert_int_equal(ibv_destroy_cq(victim), 0);
    p.a.qp = old;
    fcntl(p.channel->fd, F_SETFL, O_NONBLOCK);
    victim = ibv_create_cq(p.ctx, 4, NULL, p.channel, 0); /* perhaps at the same address */
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(ibv_poll_cq(p.cq, 1, &wc), 0);
    assert_int_equal(ibv_destroy_cq(victim), 0);
}

static void *acker(void *arg)
{
    /* There is no event when the destruction waits; most likely it does by then. */
    for (unsigned i = 0; i < 10000; i++)
        sched_yield();
    *(bool *)arg = true;
    ibv_ack_cq_events(p.cq, 1);
    return NULL;
}

static void destruction_waits_for_acknowledgement(void **state)
{
    bool acknowledged = false;
    struct ibv_cq *cq;
    pthread_t thread;
    void *context;

    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    assert_int_equal(ibv_destroy_comp_channel(p.channel), EBUSY);
    pthread_create(&thread, NULL, acker, &acknowledged);
    assert_int_equal(ibv_destroy_qp(p.a.qp), 0);
    assert_int_equal(ibv_destroy_qp(p.b.qp), 0);
    assert_int_equal(ibv_destroy_cq(p.cq), 0);
    assert_true(acknowledged);
    pthread_join(thread, NULL);
    p.cq = ibv_create_cq(p.ctx, 4 * PAIR_WR, &p, p.channel, 0);
    p.a.qp = make_qp(&p, p.cq);
    p.b.qp = make_qp(&p, p.cq);
}

static void *waiter(void *arg)
{
    struct ibv_cq *cq;
    void *context;

    ibv_get_cq_event(p.channel, &cq, &context);
    return NULL;
}

/* AddressSanitizer takes the stack of a cancelled thread for corrupt. */
#ifdef __SANITIZE_ADDRESS__
#define CANCELLATIONS 0
#else
#define CANCELLATIONS 20
#endif

static void *ends_cancelled(void *arg)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(p.ctx);
    struct ibv_context *ctx = open_first();
    bool *done = arg;

    pthread_cancel(pthread_self());
    *done = !ibv_destroy_comp_channel(channel) && !ibv_close_device(ctx);
    pthread_testcancel();
    return NULL;
}

/* What a thread has begun to end is ended, and then the thread. */
static void ending_is_not_cancelled(void **state)
{
    bool done = false;
    pthread_t thread;
    void *result;

    if (!CANCELLATIONS)
        skip();
    assert_int_equal(pthread_create(&thread, NULL, ends_cancelled, &done), 0);
    pthread_join(thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_true(done);
}

static void waiting_can_be_cancelled(void **state)
{
    pthread_t thread;
    void *result;

    for (int i = 0; i < CANCELLATIONS; i++) {
        pthread_create(&thread, NULL, waiter, NULL);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        assert_ptr_equal(result, PTHREAD_CANCELED);
    }
}

/* Whether this process has a socket that is connected to one with a name: the daemon's. */
static bool is_connected(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_un peer = {0};
        socklen_t len = sizeof(peer);

        if (!getpeername(fd, (struct sockaddr *)&peer, &len) && peer.sun_path[0])
            return true;
    }
    return false;
}

/* Also where events wait, which are the parent's. */
static void children_are_refused(void **state)
{
    struct ibv_async_event event;
    struct ibv_cq *cq;
    void *context;
    pid_t child;
    int status;

    assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    assert_true(readable(p.channel->fd, 5000));
    child = fork();
    if (!child) {
        struct ibv_pd *pd = ibv_alloc_pd(p.ctx);

        if (pd || errno != EIO)
            _exit(1);
        if (post_send(&p.a, IBV_WR_SEND, &p.b, 0, 64, 1) != EIO || post_recv(&p.a, 0, 64, 1) != EIO)
            _exit(3);
        if (ibv_get_cq_event(p.channel, &cq, &context) != -1 || errno != EIO)
            _exit(4);
        if (ibv_get_async_event(p.ctx, &event) != -1 || errno != EIO)
            _exit(5);
        _exit(is_connected() ? 2 : 0);
    }
    assert_true(is_connected());
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(readable(p.channel->fd, 0));
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(post_send(&p.a, IBV_WR_RDMA_WRITE, &p.b, 0, 64, 1), 0);
    await(p.cq, (struct ibv_wc[2]){0}, 2);
}

/* Run by run_verbs.py, which ends the daemon when it reads "ready". */
static int end_of_the_daemon(void)
{
    struct ibv_context *ctx = open_first();
    struct ibv_async_event event;
    struct ibv_pd *pd = ibv_alloc_pd(ctx);

    if (write(STDOUT_FILENO, "ready\n", 6) != 6 || ibv_get_async_event(ctx, &event))
        return 1;
    ibv_ack_async_event(&event);
    if (event.event_type != IBV_EVENT_DEVICE_FATAL || ibv_get_async_event(ctx, &event) != -1)
        return 2;
    if (ibv_alloc_pd(ctx) || errno != EIO || ibv_dealloc_pd(pd) || ibv_close_device(ctx))
        return 3;
    return 0;
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(data_arrives),
        T(reset_drops_completions),
        T(destroyed_queue_pairs_leave_nothing),
        T(errors_flush_what_is_posted_later),
        T(refused_writes),
        T(sealed_memory_is_mapped),
        T(threads_share_a_queue_pair),
        T(threads_create_and_destroy),
        T(one_event_per_arming),
        T(armed_behind_a_completion),
        T(moderated_events),
        T(moderated_queue_is_destroyed),
        T(events_of_destroyed_queues_are_skipped),
        T(destruction_waits_for_acknowledgement),
        T(ending_is_not_cancelled),
        T(waiting_can_be_cancelled),
        T(children_are_refused),
        cmocka_unit_test(daemon_goes_on),
        cmocka_unit_test(daemon_calls_first),
        cmocka_unit_test(grandchild_goes_on),
        cmocka_unit_test(one_child_goes_on),
        cmocka_unit_test(batch_of_the_parent),
        cmocka_unit_test(cq_resize_keeps_what_waits),
        cmocka_unit_test(cq_resize_right_after_posting),
        cmocka_unit_test(cq_resize_of_an_extended_queue),
        cmocka_unit_test(queue_pair_ends_while_read),
        cmocka_unit_test(cq_resize_under_traffic),
        cmocka_unit_test(cq_resize_keeps_the_arming),
        cmocka_unit_test(dm_is_read_and_written),
        cmocka_unit_test(dm_has_its_limits),
        cmocka_unit_test(dm_of_atomics),
        cmocka_unit_test(dm_rights),
        cmocka_unit_test(dm_outlives_nothing),
        cmocka_unit_test(null_region_is_empty),
        cmocka_unit_test(child_uses_its_parents_region),
        cmocka_unit_test(objects_outlive_their_process),
        cmocka_unit_test(unimported_before_its_parent_domain),
        cmocka_unit_test(import_is_refused),
        cmocka_unit_test(no_event_is_lost),
        cmocka_unit_test(events_end_with_their_queue_pair),
        cmocka_unit_test(events_wait_for_an_heir),
        cmocka_unit_test(waiting_ends_with_the_channel),
        cmocka_unit_test(many_reads),
        cmocka_unit_test(srq_limit_and_resize),
        cmocka_unit_test(srq_overflow_is_refused),
        cmocka_unit_test(windows_come_and_go),
        cmocka_unit_test(windows_take_any_number),
        cmocka_unit_test(empty_region),
        cmocka_unit_test(region_at_the_last_addresses),
        cmocka_unit_test(parent_domains),
        cmocka_unit_test(on_demand_region_follows_the_program),
        cmocka_unit_test(errors_are_in_errno),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(ece_is_agreed_on),
        cmocka_unit_test(rate_limit_holds),
        cmocka_unit_test(rate_limit_of_datagrams),
        cmocka_unit_test(datagrams_precede_the_end),
        cmocka_unit_test(rate_limits_that_are_refused),
        cmocka_unit_test(overruns_are_ignored),
        cmocka_unit_test(queries_keep_the_state),
        cmocka_unit_test(xrc_domain_of_two_contexts),
        cmocka_unit_test(attached_queue_pairs_stay),
        cmocka_unit_test(destroyed_once_it_has_received),
        cmocka_unit_test(reset_once_it_has_received),
        cmocka_unit_test(failed_once_it_has_received),
        cmocka_unit_test(address_destroyed_once_posted),
        cmocka_unit_test(three_states_at_once),
        cmocka_unit_test(steps_that_fail),
        cmocka_unit_test(new_queue_pair_in_a_state),
        cmocka_unit_test(policies_of_queue_pairs),
        cmocka_unit_test(policies_that_are_refused),
        cmocka_unit_test(ports_by_libmlx5),
        cmocka_unit_test(policy_of_the_environment),
        cmocka_unit_test(queries_fit_older_programs),
        cmocka_unit_test(copies_fit_older_programs),
        cmocka_unit_test(the_kernel_has_no_index_for_it),
        cmocka_unit_test(creation_keeps_the_arguments),
        cmocka_unit_test(receives_go_to_the_shared_queue),
        cmocka_unit_test(parent_domain_in_use),
        cmocka_unit_test(window_without_its_parent_domain),
        cmocka_unit_test(queue_without_its_parent_domain),
    };

    if (argc > 1 && !strcmp(argv[1], "end-of-the-daemon"))
        return end_of_the_daemon();
    if (argc > 1 && !strcmp(argv[1], "idle-child"))
        return idle_child();
    if (argc > 1 && !strcmp(argv[1], "policies-on-the-wire"))
        return policies_on_the_wire();
    return cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
