/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a program's own calls: posting and polling over private memory, with the dataplane's
 * part played in between. No daemon.
 *
 *   build/test/shim/shim_cost CASE|all [ROUNDS [threaded]]
 *   valgrind --tool=callgrind --toggle-collect=shim_post_send build/test/shim/shim_cost send 1000
 *
 * Threaded: in a process that has had another thread, whose locks are taken.
 *
 * Prints nanoseconds a call, and of a list a work request; callgrind's total of instructions is of
 * ROUNDS times as many calls as the case makes in a round (printed).
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "rings.h"

#define ROUNDS 200000

static struct rings *r;
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static uint32_t sent, received;
static uint8_t data[RINGS_INLINE];

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* ---- the dataplane's part ---- */

static void take_bells(void)
{
    uint32_t slot[4];

    doorbell_take(r->qp->queue.doorbells, slot, ARRAY_SIZE(slot));
}

static void complete(enum wc_opcode opcode, uint32_t *wqe, unsigned n)
{
    struct cqe e = {.opcode = (uint8_t)opcode, .uidx = r->qp->queue.uidx};

    for (unsigned i = 0; i < n; i++) {
        e.wqe = (*wqe)++;
        cq_post(&r->dataplane_cq, 0, &e, false);
    }
}

static void poll_all(void)
{
    struct ibv_wc wc[RINGS_CQE];

    while (shim_poll_cq(cq, RINGS_CQE, wc) > 0)
        ;
}

/* ---- cases: each makes RINGS_WR calls, or handles as many work requests ---- */

static void post(unsigned flags, uint32_t len, unsigned list, bool every_bell_is_taken)
{
    struct ibv_sge sge = {.addr = (uintptr_t)data, .length = len, .lkey = 1};
    struct ibv_send_wr wr[RINGS_WR], *bad;

    for (unsigned i = 0; i < RINGS_WR; i++)
        wr[i] = (struct ibv_send_wr){.wr_id = i,
                                     .sg_list = &sge,
                                     .num_sge = 1,
                                     .next = (i + 1) % list ? &wr[i + 1] : NULL,
                                     .opcode = IBV_WR_RDMA_WRITE,
                                     .send_flags = IBV_SEND_SIGNALED | flags,
                                     .wr.rdma = {.remote_addr = 8, .rkey = 9}};
    for (unsigned i = 0; i < RINGS_WR; i += list) {
        if (shim_post_send(qp, &wr[i], &bad))
            abort();
        if (every_bell_is_taken)
            take_bells();
    }
}

static void sends(void)
{
    post(0, 8, 1, true);
}

/* The worker is behind: the doorbell is already rung. */
static void sends_unheard(void)
{
    post(0, 8, 1, false);
}

static void lists(void)
{
    post(0, 8, RINGS_WR, true);
}

static void inline8(void)
{
    post(IBV_SEND_INLINE, 8, 1, true);
}

static void inline64(void)
{
    post(IBV_SEND_INLINE, RINGS_INLINE, 1, true);
}

static void after_sends(void)
{
    take_bells();
    complete(WC_RDMA_WRITE, &sent, RINGS_WR);
    poll_all();
}

static void receives(void)
{
    struct ibv_sge sge = {.addr = (uintptr_t)data, .length = 8, .lkey = 1};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

    for (unsigned i = 0; i < RINGS_WR; i++)
        if (shim_post_recv(qp, &wr, &bad))
            abort();
}

static void after_receives(void)
{
    complete(WC_RECV, &received, RINGS_WR);
    poll_all();
}

static void make_completions(void)
{
    complete(WC_RDMA_WRITE, &sent, RINGS_WR);
}

static void polls(void)
{
    struct ibv_wc wc;

    for (unsigned i = 0; i < RINGS_WR; i++)
        if (shim_poll_cq(cq, 1, &wc) != 1)
            abort();
}

static void poll_at_once(void)
{
    struct ibv_wc wc[RINGS_CQE];

    if (shim_poll_cq(cq, RINGS_CQE, wc) != RINGS_WR)
        abort();
}

static void polls_in_vain(void)
{
    struct ibv_wc wc;

    for (unsigned i = 0; i < RINGS_WR; i++)
        if (shim_poll_cq(cq, 1, &wc))
            abort();
}

static void nothing(void)
{
}

static const struct {
    const char *name;
    void (*before)(void), (*run)(void), (*after)(void);
} cases[] = {
    {"send", nothing, sends, after_sends},
    {"send-unheard", nothing, sends_unheard, after_sends},
    {"send-list", nothing, lists, after_sends},
    {"inline-8", nothing, inline8, after_sends},
    {"inline-64", nothing, inline64, after_sends},
    {"recv", nothing, receives, after_receives},
    {"poll", make_completions, polls, nothing},
    {"poll-many", make_completions, poll_at_once, nothing},
    {"poll-empty", nothing, polls_in_vain, nothing},
};

static void *rest(void *arg)
{
    return arg;
}

/* In a process that has had another thread, locks are taken. */
static void become_threaded(void)
{
    static pthread_t thread;

    pthread_create(&thread, NULL, rest, NULL);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : ROUNDS;
    bool found = false;

    if (argc > 3)
        become_threaded();
    for (unsigned c = 0; c < ARRAY_SIZE(cases); c++) {
        uint64_t ns = 0;

        if (argc > 1 && strcmp(argv[1], "all") && strcmp(argv[1], cases[c].name))
            continue;
        found = true;
        sent = received = 0;
        r = rings_new();
        qp = &r->qp->ex.qp_base;
        cq = ibv_cq_ex_to_cq(&r->cq->ex);
        for (unsigned i = 0; i < rounds; i++) {
            uint64_t start;

            cases[c].before();
            start = now_ns();
            cases[c].run();
            ns += now_ns() - start;
            cases[c].after();
        }
        rings_free(r);
        printf("%-14s %7.1f ns, %u times %u\n", cases[c].name, (double)ns / rounds / RINGS_WR,
               rounds, RINGS_WR);
    }
    return !found;
}
