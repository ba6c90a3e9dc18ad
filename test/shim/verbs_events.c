/* SPDX-License-Identifier: BSD-3-Clause */
/* See verbs_events.h. */
#include "verbs_events.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "verbs_arguments.h"
#include "verbs_pair.h"

#define QPS 1000 /* more than the records that a socket holds */

struct many {
    struct pair p;
    struct ibv_srq *srq;
    struct ibv_qp *qp[QPS];
    bool seen[QPS];
};

static struct ibv_qp *qp_on_srq(struct many *m)
{
    struct ibv_qp_init_attr init = {.send_cq = m->p.cq,
                                    .recv_cq = m->p.cq,
                                    .srq = m->srq,
                                    .cap = {.max_send_wr = 1, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp *qp = ibv_create_qp(m->p.pd, &init);

    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    return qp;
}

static void open_many(struct many *m)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};

    *m = (struct many){0};
    pair_open(&m->p);
    m->srq = ibv_create_srq(m->p.pd, &init);
    assert_non_null(m->srq);
    for (int i = 0; i < QPS; i++)
        m->qp[i] = qp_on_srq(m);
}

static void close_many(struct many *m)
{
    for (int i = 0; i < QPS; i++)
        if (m->qp[i])
            assert_int_equal(ibv_destroy_qp(m->qp[i]), 0);
    assert_int_equal(ibv_destroy_srq(m->srq), 0);
    pair_close(&m->p);
}

/* One event, or false after a second without one, and when the daemon has left. */
static bool next_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
    struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};

    if (poll(&p, 1, 1000) != 1 || ibv_get_async_event(ctx, event) ||
        event->event_type == IBV_EVENT_DEVICE_FATAL)
        return false;
    ibv_ack_async_event(event);
    return true;
}

/* Each is LAST_WQE_REACHED of a queue pair that has had none. Returns the number. */
static int read_last_wqes(struct many *m)
{
    struct ibv_async_event event;
    int n, i;

    for (n = 0; n < QPS && next_event(m->p.ctx, &event); n++) {
        assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
        for (i = 0; i < QPS && m->qp[i] != event.element.qp; i++) {
        }
        assert_true(i < QPS && !m->seen[i]);
        m->seen[i] = true;
    }
    return n;
}

void no_event_is_lost(void **state)
{
    static struct many m;
    struct ibv_async_event event;

    open_many(&m);
    for (int i = 0; i < QPS; i++)
        modify_state(m.qp[i], IBV_QPS_ERR);
    assert_int_equal(read_last_wqes(&m), QPS);
    assert_false(next_event(m.p.ctx, &event));
    close_many(&m);
}

void events_end_with_their_queue_pair(void **state)
{
    static struct many m;

    open_many(&m);
    for (int i = 0; i < QPS; i++)
        modify_state(m.qp[i], IBV_QPS_ERR);
    for (int i = 0; i < QPS; i += 2) {
        assert_int_equal(ibv_destroy_qp(m.qp[i]), 0);
        m.qp[i] = NULL;
    }
    assert_int_equal(read_last_wqes(&m), QPS / 2);
    close_many(&m);
}

/* It goes on with the context of its parent, which has ended. */
static _Noreturn void heir(struct many *m, int report)
{
    struct ibv_async_event event;
    int n = 0;

    while (n < QPS && next_event(m->p.ctx, &event))
        n += event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
    _exit(write(report, &n, sizeof(n)) != sizeof(n));
}

void events_wait_for_an_heir(void **state)
{
    static struct many m;
    int report[2], n = 0;
    pid_t parent;

    assert_int_equal(pipe(report), 0);
    parent = fork();
    if (!parent) {
        open_many(&m);
        for (int i = 0; i < QPS; i++)
            modify_state(m.qp[i], IBV_QPS_ERR);
        if (!fork())
            heir(&m, report[1]);
        _exit(0);
    }
    close(report[1]);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(read(report[0], &n, sizeof(n)), sizeof(n));
    assert_int_equal(n, QPS);
    close(report[0]);
}

/* ---- a channel that is destroyed under a thread that waits for it ---- */

struct wait {
    struct ibv_comp_channel *channel;
    _Atomic pid_t thread;
    int status, err;
};

static void *wait_for_event(void *arg)
{
    struct wait *w = arg;
    struct ibv_cq *cq;
    void *context;

    atomic_store(&w->thread, gettid());
    w->status = ibv_get_cq_event(w->channel, &cq, &context);
    w->err = errno;
    return NULL;
}

/* Whether the thread is in a system call on the channel's descriptor, or has ended. */
static bool waits(const struct wait *w)
{
    char path[64];
    long number = -1, fd = -1;
    FILE *f;
    bool blocked;

    if (!atomic_load(&w->thread))
        return false;
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atomic_load(&w->thread));
    f = fopen(path, "r");
    if (!f)
        return true;
    blocked = fscanf(f, "%ld %lx", &number, (unsigned long *)&fd) == 2 && fd == w->channel->fd;
    fclose(f);
    return blocked;
}

/* The wait ends; the thread does not look at the channel any more. */
void waiting_ends_with_the_channel(void **state)
{
    struct ibv_context *ctx = open_first();
    struct freed freed;

    for (unsigned i = 0; i < 200; i++) {
        struct wait w = {.channel = ibv_create_comp_channel(ctx)};
        pthread_t thread;

        assert_non_null(w.channel);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_event, &w), 0);
        while (!waits(&w))
            sched_yield();
        assert_int_equal(ibv_destroy_comp_channel(w.channel), 0);
        freed_take(&freed, 0xA5);
        pthread_join(thread, NULL);
        freed_check(&freed, 0xA5);
        assert_int_equal(w.status, -1);
        assert_int_equal(w.err, EIO);
    }
    assert_int_equal(ibv_close_device(ctx), 0);
}
