/* SPDX-License-Identifier: BSD-3-Clause */
/* See self_connected.h. */
#include "self_connected.h"

#include <stdio.h>
#include <stdlib.h>

void *must(void *object, const char *what)
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

void connect_to_itself(struct ibv_qp *qp, uint8_t reads)
{
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = qp->qp_num,
                              .max_dest_rd_atomic = reads,
                              .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1}};
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .max_rd_atomic = reads, .timeout = 18, .retry_cnt = 7};

    if (ibv_query_gid(qp->context, 1, 0, &rtr.ah_attr.grh.dgid))
        must(NULL, "GID");
    modify(qp, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    modify(qp, rtr,
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(qp, rts,
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}
