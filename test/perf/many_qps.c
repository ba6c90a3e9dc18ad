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
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define RENEWED 1000u

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void *must(void *object, const char *what)
{
    if (!object) {
        perror(what);
        exit(1);
    }
    return object;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
    if (ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE))
        must(NULL, "connection");
}

static void connect_to_itself(struct ibv_qp *qp)
{
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = qp->qp_num,
                              .max_dest_rd_atomic = 16,
                              .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};

    if (ibv_query_gid(qp->context, 1, 0, &rtr.ah_attr.grh.dgid))
        must(NULL, "GID");
    modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1},
           IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    modify(qp, rtr,
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .max_rd_atomic = 16},
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_qp *make(struct ibv_pd *pd, struct ibv_qp_init_attr attr, bool connected)
{
    struct ibv_qp *qp = must(ibv_create_qp(pd, &attr), "queue pair");

    if (connected)
        connect_to_itself(qp);
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
