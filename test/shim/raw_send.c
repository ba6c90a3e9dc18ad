/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends frames: from a raw packet queue pair of the first device, each as a line of hex digits on
 * standard input has it, one after the other. Against the plain verbs API.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES 2048

static void *must(void *object, const char *what)
{
    if (!object) {
        perror(what);
        exit(1);
    }
    return object;
}

static void check(int err, const char *what)
{
    if (err) {
        fprintf(stderr, "%s: %s\n", what, strerror(err));
        exit(1);
    }
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {.max_send_wr = 1, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RAW_PACKET};
    struct ibv_qp *qp = must(ibv_create_qp(pd, &init), "ibv_create_qp");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

    check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), "to INIT");
    attr.qp_state = IBV_QPS_RTR;
    check(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to RTS");
    return qp;
}

static void send_frame(struct ibv_qp *qp, struct ibv_mr *mr, uint32_t bytes)
{
    struct ibv_sge sge = {.addr = (uintptr_t)mr->addr, .length = bytes, .lkey = mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_wc wc;
    int n;

    check(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    while ((n = ibv_poll_cq(qp->send_cq, 1, &wc)) == 0)
        ;
    if (n < 0 || wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "%s\n", n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
        exit(1);
    }
}

int main(void)
{
    struct ibv_device **list = must(ibv_get_device_list(NULL), "devices");
    struct ibv_context *context = must(ibv_open_device(must(list[0], "device")), "open");
    struct ibv_pd *pd = must(ibv_alloc_pd(context), "pd");
    struct ibv_cq *cq = must(ibv_create_cq(context, 1, NULL, NULL, 0), "cq");
    struct ibv_qp *qp = create_qp(pd, cq);
    uint8_t frame[FRAME_BYTES];
    struct ibv_mr *mr = must(ibv_reg_mr(pd, frame, sizeof(frame), 0), "mr");
    char line[2 * FRAME_BYTES + 2];

    while (fgets(line, sizeof(line), stdin)) {
        uint32_t bytes = 0;

        while (sscanf(line + 2 * bytes, "%2hhx", &frame[bytes]) == 1)
            bytes++;
        send_frame(qp, mr, bytes);
    }
    return ferror(stdin) != 0;
}
