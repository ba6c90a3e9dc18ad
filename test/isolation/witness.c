/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pair that checks every byte, for as long as its input is open: SENDs one way, READs back, of
 * mapped, adopted and copied memory.
 *
 * usage: witness UID
 *
 * Prints "ready" when the first message has arrived, and at the end how many messages and bytes
 * were right. A wrong byte or a completion with an error ends it with a status.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program_kit.h"

#define REGION ((size_t)256 << 10)
#define COPIED ((size_t)16 << 10) /* too small to be adopted */
#define KINDS  3u
#define GUARD  64u
#define UNUSED 0xA5

struct memory {
    unsigned char *at;
    size_t bytes;
    struct ibv_mr *mr;
};

struct end {
    struct opened a;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct memory memory[KINDS];
};

static void take_memory(struct end *e)
{
    int fd = memfd_create("witness", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    check(fd < 0 || ftruncate(fd, REGION) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), "memfd");
    for (unsigned i = 0; i < KINDS; i++) {
        struct memory *m = &e->memory[i];
        int flags = i ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

        m->bytes = i == 2 ? COPIED : REGION;
        m->at = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, flags, i ? -1 : fd, 0);
        check(m->at == MAP_FAILED, "mmap");
        m->mr = must(
            ibv_reg_mr(e->a.pd, m->at, m->bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
            "region");
    }
    close(fd);
}

static void open_end(struct end *e)
{
    open_program(&e->a, 4096);
    e->channel = must(ibv_create_comp_channel(e->a.ctx), "channel");
    e->cq = make_cq(&e->a, 16, e->channel);
    e->qp = make_qp(&e->a, e->cq, 4, 4);
    take_memory(e);
}

/* Sleeps until the next completion, which must be a success. */
static void await(struct end *e)
{
    struct ibv_wc wc;

    for (;;) {
        struct ibv_cq *from;
        void *context;
        int found;

        check(ibv_req_notify_cq(e->cq, 0), "arm");
        found = ibv_poll_cq(e->cq, 1, &wc);
        check(found < 0, "poll");
        if (found) {
            check(wc.status, ibv_wc_status_str(wc.status));
            return;
        }
        check(ibv_get_cq_event(e->channel, &from, &context), "event");
        ibv_ack_cq_events(e->cq, 1);
    }
}

static void fill(unsigned char *at, size_t n, unsigned round)
{
    uint32_t x = round * 2654435761u + 1;

    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        at[i] = (unsigned char)(x >> 24);
    }
}

/* The message is there, and what lies behind it is untouched. */
static void compare(const struct memory *m, const unsigned char *wanted, size_t n, const char *what)
{
    size_t guard = m->bytes - n < GUARD ? m->bytes - n : GUARD;

    for (size_t i = 0; i < n + guard; i++) {
        if (m->at[i] != (i < n ? wanted[i] : UNUSED)) {
            fprintf(stderr, "witness: %s: byte %zu of %zu is %#x\n", what, i, n, m->at[i]);
            exit(1);
        }
    }
}

static void message(struct end *from, struct end *to, unsigned round, size_t n)
{
    struct memory *source = &from->memory[round % KINDS];
    struct memory *target = &to->memory[round / KINDS % KINDS];
    struct ibv_sge sge = {
        .addr = (uintptr_t)target->at, .length = (uint32_t)target->bytes, .lkey = target->mr->lkey};
    struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
    struct ibv_sge local = {
        .addr = (uintptr_t)source->at, .length = (uint32_t)n, .lkey = source->mr->lkey};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_SEND,
        .sg_list = &local,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)target->at, .rkey = target->mr->rkey}};
    struct ibv_send_wr *bad;
    static unsigned char wanted[REGION];

    fill(wanted, n, round);
    memcpy(source->at, wanted, n);
    memset(target->at, UNUSED, target->bytes);
    check(ibv_post_recv(to->qp, &receive, &bad_receive), "receive");
    check(ibv_post_send(from->qp, &wr, &bad), "send");
    await(to);
    await(from);
    compare(target, wanted, n, "SEND");
    memset(source->at, UNUSED, source->bytes);
    wr.opcode = IBV_WR_RDMA_READ;
    check(ibv_post_send(from->qp, &wr, &bad), "READ");
    await(from);
    compare(source, wanted, n, "READ");
}

static bool input_open(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&in, 1, 0) == 0;
}

int main(int argc, char **argv)
{
    struct end one, two;
    unsigned long long bytes = 0;
    unsigned round;

    if (argc != 2)
        return 2;
    become((uid_t)atoi(argv[1]));
    open_end(&one);
    open_end(&two);
    connect_to(one.qp, two.qp->qp_num);
    connect_to(two.qp, one.qp->qp_num);
    for (round = 0; !round || input_open(); round++) {
        struct memory *a = &one.memory[round % KINDS], *b = &two.memory[round / KINDS % KINDS];
        size_t most = a->bytes < b->bytes ? a->bytes : b->bytes;
        size_t n = 1 + (size_t)(round * 40503u) % most;

        message(round & 1 ? &one : &two, round & 1 ? &two : &one, round, n);
        bytes += 2 * n;
        if (!round)
            say_ready();
    }
    printf("%u messages, %llu bytes\n", 2 * round, bytes);
    return 0;
}
