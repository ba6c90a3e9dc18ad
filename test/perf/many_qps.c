/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creates queue pairs and waits to be killed, or for the end of its input.
 *
 * usage: many_qps QUEUE_PAIRS ENTRIES [connected]
 *
 * Prints the microseconds that one took to create, then those that each of the next 1000
 * destructions and creations took. Connected: they are also brought to RTS, each connected to
 * itself.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "self_connected.h"

#define RENEWED 1000u

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static struct ibv_qp *make(struct ibv_pd *pd, struct ibv_qp_init_attr attr, bool connected)
{
    struct ibv_qp *qp = must(ibv_create_qp(pd, &attr), "queue pair");

    if (connected)
        connect_to_itself(qp, 16);
    return qp;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    uint32_t entries = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    bool connected = argc > 3;
    struct ibv_device **list = must(ibv_get_device_list(NULL), "devices");
    struct ibv_context *context = must(ibv_open_device(must(list[0], "device")), "open");
    struct ibv_pd *pd = must(ibv_alloc_pd(context), "pd");
    struct ibv_cq *cq = must(ibv_create_cq(context, 16, NULL, NULL, 0), "cq");
    struct ibv_qp **qp = must(calloc(n + 1, sizeof(struct ibv_qp *)), "memory");
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {
            .max_send_wr = entries, .max_recv_wr = entries, .max_send_sge = 1, .max_recv_sge = 1}};
    double start = now_us(), end;
    char byte;

    for (unsigned i = 0; i < n; i++)
        qp[i] = make(pd, attr, connected);
    end = now_us();
    printf("%.2f\n", (end - start) / (n ? n : 1));
    start = end;
    for (unsigned i = 0; n && i < RENEWED; i++) {
        unsigned which = (unsigned)((uint64_t)i * 7919 % n);

        if (ibv_destroy_qp(qp[which]))
            must(NULL, "destruction");
        qp[which] = make(pd, attr, connected);
    }
    printf("%.2f\n", (now_us() - start) / RENEWED);
    fflush(stdout);
    return read(0, &byte, 1) < 0;
}
