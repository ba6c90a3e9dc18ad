/* SPDX-License-Identifier: BSD-3-Clause */
/* Attacks by queue pairs, connections, completions and errors. Each goes on until it is killed. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "attacker.h"
#include "doorbell.h"

#define CHURN      64u   /* queue pairs that are destroyed and created in turn */
#define FULL_QUEUE 16000 /* work requests, as many as a queue pair may have */
#define FULL_CQ    32768

/* Very many connected queue pairs, and some are destroyed and created again and again. */
void attack_queues(struct opened *a, unsigned n)
{
    struct ibv_cq *cq = make_cq(a, 16, NULL);
    struct ibv_qp *churned[CHURN];

    for (unsigned i = 0; i < n; i++)
        churned[i % CHURN] = make_connected(a, cq, 16, 16);
    say_ready();
    for (unsigned i = 0;; i = (i + 1) % CHURN) {
        check(ibv_destroy_qp(churned[i]), "destruction");
        churned[i] = make_connected(a, cq, 16, 16);
    }
}

/* Connections with a connected queue pair each. */
static struct ibv_qp **connect_many(struct opened *all, const struct opened *first, unsigned n)
{
    struct ibv_qp **qp = must(calloc(n, sizeof(struct ibv_qp *)), "memory");

    all[0] = *first;
    for (unsigned i = 0; i < n; i++) {
        if (i)
            open_program(&all[i], 4096);
        qp[i] = make_connected(&all[i], make_cq(&all[i], 16, NULL), 16, 1);
    }
    return qp;
}

void attack_idle_connections(struct opened *a, unsigned n)
{
    connect_many(must(calloc(n, sizeof(*a)), "memory"), a, n);
    say_ready();
    pause();
}

/* Many connections, and a little work of each, all the time. */
void attack_connections(struct opened *a, unsigned n)
{
    struct opened *all = must(calloc(n, sizeof(*all)), "memory");
    struct ibv_qp **qp = connect_many(all, a, n);
    struct ibv_wc wc;

    for (unsigned i = 0; i < n; i++)
        post(&all[i], qp[i], IBV_WR_RDMA_WRITE, 64);
    say_ready();
    for (unsigned i = 0;; i = (i + 1) % n) {
        if (ibv_poll_cq(qp[i]->send_cq, 1, &wc) > 0)
            post(&all[i], qp[i], IBV_WR_RDMA_WRITE, 64);
    }
}

/* A remote access error: an asynchronous event of the responder, an error of the requester. */
static void fail(struct opened *a, struct ibv_qp *qp)
{
    struct ibv_wc wc;

    post(a, qp, IBV_WR_RDMA_WRITE, a->bytes); /* beyond the end of the region */
    while (ibv_poll_cq(qp->send_cq, 1, &wc) <= 0)
        ;
    modify_state(qp, IBV_QPS_RESET);
    connect_to_itself(qp);
}

/* Completion events of many channels and asynchronous events, which the program does not read. */
void attack_events(struct opened *a, unsigned n)
{
    struct ibv_qp **qp = must(calloc(n, sizeof(*qp)), "memory");
    struct ibv_wc wc;

    for (unsigned i = 0; i < n; i++) {
        struct ibv_comp_channel *channel = must(ibv_create_comp_channel(a->ctx), "channel");

        qp[i] = make_connected(a, make_cq(a, 16, channel), 16, 1);
        check(ibv_req_notify_cq(qp[i]->send_cq, 0), "arm");
        post(a, qp[i], IBV_WR_RDMA_WRITE, 64);
    }
    say_ready();
    for (unsigned i = 0, round = 0;; i = (i + 1) % n) {
        if (ibv_poll_cq(qp[i]->send_cq, 1, &wc) > 0) {
            if (++round % 16 == 0)
                fail(a, qp[i]);
            check(ibv_req_notify_cq(qp[i]->send_cq, 0), "arm");
            post(a, qp[i], IBV_WR_RDMA_WRITE, 64);
        }
    }
}

/* Queue pairs whose completion queue has no room for what they complete, again and again. */
void attack_overflow(struct opened *a, unsigned n)
{
    struct ibv_qp **qp = must(calloc(n, sizeof(*qp)), "memory");

    for (unsigned round = 0;; round++) {
        struct ibv_cq *cq = make_cq(a, 1, NULL);
        struct ibv_async_event event;

        for (unsigned i = 0; i < n; i++) {
            qp[i] = make_connected(a, cq, DEPTH, 1);
            for (unsigned k = 0; k < DEPTH; k++)
                post(a, qp[i], IBV_WR_RDMA_WRITE, 64);
        }
        if (!round)
            say_ready();
        check(ibv_get_async_event(a->ctx, &event), "the event of the overflow");
        ibv_ack_async_event(&event);
        for (struct pollfd more = {.fd = a->ctx->async_fd, .events = POLLIN};
             poll(&more, 1, 0) > 0 && !ibv_get_async_event(a->ctx, &event);)
            ibv_ack_async_event(&event);
        for (unsigned i = 0; i < n; i++)
            check(ibv_destroy_qp(qp[i]), "destruction");
        check(ibv_destroy_cq(cq), "destruction");
    }
}

/* Flushes queues full of work, again and again. */
void attack_errors(struct opened *a, unsigned n)
{
    struct ibv_qp **qp = must(calloc(n, sizeof(*qp)), "memory");

    for (unsigned i = 0; i < n; i++)
        qp[i] = make_connected(a, make_cq(a, FULL_CQ, NULL), FULL_QUEUE, FULL_QUEUE);
    say_ready();
    for (unsigned i = 0;; i = (i + 1) % n) {
        modify_state(qp[i], IBV_QPS_ERR);
        post_receives(a, qp[i], FULL_QUEUE);
        for (unsigned k = 0; k < FULL_QUEUE; k++)
            post(a, qp[i], IBV_WR_SEND, 64);
        drain(qp[i]->send_cq, 2 * FULL_QUEUE);
        modify_state(qp[i], IBV_QPS_RESET);
        connect_to_itself(qp[i]);
        post_receives(a, qp[i], FULL_QUEUE);
        modify_state(qp[i], IBV_QPS_ERR);
        drain(qp[i]->send_cq, FULL_QUEUE);
        modify_state(qp[i], IBV_QPS_RESET);
        connect_to_itself(qp[i]);
    }
}

/* For comparison with attackers that never sleep: n threads that compute and never sleep, and
 * nothing else. */
static void *burn(void *unused)
{
    for (volatile unsigned i = 0;; i++)
        ;
    return unused;
}

void attack_burn(struct opened *a, unsigned n)
{
    pthread_t thread;

    for (unsigned i = 1; i < n; i++)
        check(pthread_create(&thread, NULL, burn, NULL), "thread");
    say_ready();
    burn(NULL);
}
