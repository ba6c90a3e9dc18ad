/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that does its worst to those that share its daemon, through the public API.
 *
 * usage: attacker UID ATTACK N
 *
 * Prints "ready" when the attack takes place, and goes on until it is killed or its parent ends; or
 * "skip: " and a reason. UID 0: stays the user that it is.
 */
#include "attacker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define POLLED 64

static void sleep_until_event(struct ibv_comp_channel *channel)
{
    struct ibv_cq *from;
    void *context;

    check(ibv_get_cq_event(channel, &from, &context), "event");
    ibv_ack_cq_events(from, 1);
}

/* Keeps `depth` work requests in flight on each of n queue pairs. It sleeps between completions, or
 * polls all the time. */
static void keep_busy(struct opened *a, unsigned n, enum ibv_wr_opcode op, size_t length,
                      unsigned depth, bool sleeps)
{
    struct ibv_comp_channel *channel =
        sleeps ? must(ibv_create_comp_channel(a->ctx), "channel") : NULL;
    struct ibv_cq *cq = make_cq(a, (int)(n * depth), channel);
    struct ibv_wc wc[POLLED];

    for (unsigned i = 0; i < n; i++) {
        struct ibv_qp *qp = make_connected(a, cq, depth, 1);

        for (unsigned k = 0; k < depth; k++)
            post(a, qp, op, length);
    }
    say_ready();
    for (;;) {
        int found;

        if (sleeps)
            check(ibv_req_notify_cq(cq, 0), "arm");
        while ((found = ibv_poll_cq(cq, POLLED, wc)) > 0) {
            for (int i = 0; i < found; i++) {
                check(wc[i].status, ibv_wc_status_str(wc[i].status));
                post(a, (struct ibv_qp *)(uintptr_t)wc[i].wr_id, op, length);
            }
        }
        check(found < 0, "poll");
        if (sleeps)
            sleep_until_event(channel);
    }
}

/* A program that transfers as fast as it can, by n queue pairs. With one it is the plain one with
 * which attackers are compared. */
static void attack_busy(struct opened *a, unsigned n)
{
    keep_busy(a, n, IBV_WR_RDMA_WRITE, MESSAGE, DEPTH, true);
}

/* The same, for comparison with attackers that never sleep. */
static void attack_polling(struct opened *a, unsigned n)
{
    keep_busy(a, n, IBV_WR_RDMA_WRITE, MESSAGE, DEPTH, false);
}

/* The plain program with memory that can be recognized, so that a test finds copies of it. */
static void attack_pattern(struct opened *a, unsigned n)
{
    static const char text[16] = {"uroce bytes of A"};

    for (size_t at = 0; at < a->bytes; at += sizeof(text))
        memcpy(a->memory + at, text, sizeof(text));
    keep_busy(a, n, IBV_WR_RDMA_WRITE, MESSAGE, DEPTH, true);
}

/* READ requests of a packet each, for responses of many. */
static void attack_reads(struct opened *a, unsigned n)
{
    keep_busy(a, n, IBV_WR_RDMA_READ, a->bytes / 2, 16, true);
}

/* SENDs to queue pairs without a receive, which are tried again after 10 us, for ever. */
static void attack_rnr(struct opened *a, unsigned n)
{
    keep_busy(a, n, IBV_WR_SEND, 64, 4, true);
}

static const struct {
    const char *name;
    void (*run)(struct opened *a, unsigned n);
    void (*prepare)(void); /* as the user that started the program */
    size_t bytes;          /* of its memory */
} attacks[] = {
    {"burn", attack_burn, NULL, 4096},
    {"busy", attack_busy, NULL, 2 * MESSAGE},
    {"polling", attack_polling, NULL, 2 * MESSAGE},
    {"pattern", attack_pattern, NULL, 2 * MESSAGE},
    {"reads", attack_reads, NULL, (size_t)2 << 20},
    {"rnr", attack_rnr, NULL, 4096},
    {"queues", attack_queues, NULL, 4096},
    {"idle-connections", attack_idle_connections, NULL, 4096},
    {"connections", attack_connections, NULL, 4096},
    {"events", attack_events, NULL, 4096},
    {"overflow", attack_overflow, NULL, 4096},
    {"errors", attack_errors, NULL, 4096},
    {"doorbells", attack_doorbells, NULL, 4096},
    {"regions", attack_regions, NULL, 4096},
    {"holes", attack_holes, NULL, 4096},
    {"exhaust", attack_exhaust, NULL, 4096},
    {"windows", attack_windows, NULL, 4096},
    {"silent", attack_silent, prepare_silent, 2 * MESSAGE},
};

int main(int argc, char **argv)
{
    struct rlimit files;
    struct opened a;
    uid_t uid = argc == 4 ? (uid_t)atoi(argv[1]) : 0;

    for (unsigned i = 0; argc == 4 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        if (strcmp(attacks[i].name, argv[2]))
            continue;
        check(getrlimit(RLIMIT_NOFILE, &files), "limits");
        files.rlim_cur = files.rlim_max;
        check(setrlimit(RLIMIT_NOFILE, &files), "limits");
        if (attacks[i].prepare)
            attacks[i].prepare();
        become(uid);
        open_program(&a, attacks[i].bytes);
        attacks[i].run(&a, (unsigned)strtoul(argv[3], NULL, 10));
    }
    fprintf(stderr, "usage: attacker UID ATTACK N\n");
    return 2;
}
