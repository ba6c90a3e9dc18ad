/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WRITEs of 8 bytes over few or many contexts and queue pairs: one process stands for many programs
 * of one queue pair each.
 *
 * usage: many_programs CONTEXTS QUEUE_PAIRS BUSY DEPTH SECONDS
 *
 * Queue pairs are divided among the contexts in turn, and each is connected to itself. The first
 * BUSY of them have DEPTH messages outstanding, the others nothing to do. Each busy queue pair and
 * each context has a completion queue. Prints messages a second and the time that one takes, of the
 * last SECONDS.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "self_connected.h"

#define WARM_UP 0.5
#define POLL    16
#define LEN     8
#define STRIDE  64
#define TARGETS 1024
#define MEMORY  (2 * TARGETS * STRIDE)

struct program {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
};

struct sender {
    struct program *program;
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    unsigned outstanding;
};

struct run {
    struct program *program;
    struct sender *sender;
    unsigned programs, senders, busy, depth;
};

static uint8_t memory[MEMORY] __attribute__((aligned(4096)));

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- objects ---- */

static void open_program(struct program *p, struct ibv_device *device)
{
    p->context = must(ibv_open_device(device), "context");
    p->pd = must(ibv_alloc_pd(p->context), "protection domain");
    p->mr = must(
        ibv_reg_mr(p->pd, memory, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "MR");
}

static void open_sender(const struct run *r, unsigned i)
{
    struct sender *s = &r->sender[i];
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = r->depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

    s->program = &r->program[i % r->programs];
    s->cq = i < r->busy || i < r->programs
                ? must(ibv_create_cq(s->program->context, (int)r->depth, NULL, NULL, 0), "CQ")
                : r->sender[i % r->programs].cq;
    attr.send_cq = attr.recv_cq = s->cq;
    s->qp = must(ibv_create_qp(s->program->pd, &attr), "queue pair");
    connect_to_itself(s->qp, 1);
}

/* ---- traffic ---- */

static unsigned take(struct sender *s)
{
    struct ibv_wc wc[POLL];
    int n = s->outstanding ? ibv_poll_cq(s->cq, POLL, wc) : 0;

    if (n < 0)
        must(NULL, "ibv_poll_cq");
    for (int i = 0; i < n; i++)
        if (wc[i].status != IBV_WC_SUCCESS) {
            fprintf(stderr, "%s\n", ibv_wc_status_str(wc[i].status));
            exit(1);
        }
    s->outstanding -= (unsigned)n;
    return (unsigned)n;
}

static void post(const struct run *r, unsigned i)
{
    struct sender *s = &r->sender[i];
    uint64_t from = (uintptr_t)memory + i % TARGETS * STRIDE;
    struct ibv_sge sge = {from, LEN, s->program->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {from + MEMORY / 2, s->program->mr->rkey}};

    for (; s->outstanding < r->depth; s->outstanding++)
        if (ibv_post_send(s->qp, &wr, &bad))
            must(NULL, "ibv_post_send");
}

static uint64_t turn(const struct run *r)
{
    uint64_t done = 0;

    for (unsigned i = 0; i < r->busy; i++) {
        done += take(&r->sender[i]);
        post(r, i);
    }
    return done;
}

static uint64_t traffic(const struct run *r, double until)
{
    uint64_t done = 0;

    while (now() < until)
        for (unsigned i = 0; i < 16; i++)
            done += turn(r);
    return done;
}

int main(int argc, char **argv)
{
    struct ibv_device **list = must(ibv_get_device_list(NULL), "devices");
    unsigned number[4] = {0};
    double began, seconds = argc > 5 ? strtod(argv[5], NULL) : 0;
    struct run r;
    uint64_t done;

    for (int i = 0; i < 4 && i + 1 < argc; i++)
        number[i] = (unsigned)strtoul(argv[i + 1], NULL, 10);
    r = (struct run){
        .programs = number[0], .senders = number[1], .busy = number[2], .depth = number[3]};
    if (!r.programs || r.senders < r.programs || !r.busy || r.senders < r.busy || !r.depth ||
        !(seconds > 0)) {
        fputs("usage: many_programs CONTEXTS QUEUE_PAIRS BUSY DEPTH SECONDS\n", stderr);
        return 2;
    }
    r.program = must(calloc(r.programs, sizeof(*r.program)), "memory");
    r.sender = must(calloc(r.senders, sizeof(*r.sender)), "memory");
    for (unsigned i = 0; i < r.programs; i++)
        open_program(&r.program[i], must(list[0], "device"));
    for (unsigned i = 0; i < r.senders; i++)
        open_sender(&r, i);
    traffic(&r, now() + WARM_UP);
    began = now();
    done = traffic(&r, began + seconds);
    seconds = now() - began;
    printf("%.3f million/s, %.0f ns\n", (double)done / seconds / 1e6, seconds / (double)done * 1e9);
    return 0;
}
