/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between the kernel's structures and the API's, for librdmacm and the like. */
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "shim.h"

EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
EXPORT void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from)
{
    memset(to, 0, sizeof(*to));
    memcpy(to->grh.dgid.raw, from->grh.dgid, sizeof(to->grh.dgid.raw));
    to->grh.flow_label = from->grh.flow_label;
    to->grh.sgid_index = from->grh.sgid_index;
    to->grh.hop_limit = from->grh.hop_limit;
    to->grh.traffic_class = from->grh.traffic_class;
    to->dlid = from->dlid;
    to->sl = from->sl;
    to->src_path_bits = from->src_path_bits;
    to->static_rate = from->static_rate;
    to->is_global = from->is_global;
    to->port_num = from->port_num;
}

EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from)
{
    struct ibv_qp_attr all = {
        .qp_state = from->qp_state,
        .cur_qp_state = from->cur_qp_state,
        .dest_qp_num = from->dest_qp_num,
        .qp_access_flags = from->qp_access_flags,
        .cap = {.max_send_wr = from->max_send_wr,
                .max_recv_wr = from->max_recv_wr,
                .max_send_sge = from->max_send_sge,
                .max_recv_sge = from->max_recv_sge,
                .max_inline_data = from->max_inline_data},
        .alt_pkey_index = from->alt_pkey_index,
        .sq_draining = from->sq_draining,
        .alt_port_num = from->alt_port_num,
        .alt_timeout = from->alt_timeout,
    };

    COPY_QP_ATTR(&all, from);
    ibv_copy_ah_attr_from_kern(&all.ah_attr, &from->ah_attr);
    ibv_copy_ah_attr_from_kern(&all.alt_ah_attr, &from->alt_ah_attr);
    memcpy(to, &all, offsetof(struct ibv_qp_attr, rate_limit)); /* older programs' structure */
}

EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from)
{
    *to = (struct ibv_sa_path_rec){
        .dlid = from->dlid,
        .slid = from->slid,
        .raw_traffic = (int)from->raw_traffic,
        .flow_label = from->flow_label,
        .hop_limit = from->hop_limit,
        .traffic_class = from->traffic_class,
        .reversible = (int)from->reversible,
        .numb_path = from->numb_path,
        .pkey = from->pkey,
        .sl = from->sl,
        .mtu_selector = from->mtu_selector,
        .mtu = (uint8_t)from->mtu,
        .rate_selector = from->rate_selector,
        .rate = from->rate,
        .packet_life_time_selector = from->packet_life_time_selector,
        .packet_life_time = from->packet_life_time,
        .preference = from->preference,
    };
    memcpy(to->dgid.raw, from->dgid, sizeof(to->dgid.raw));
    memcpy(to->sgid.raw, from->sgid, sizeof(to->sgid.raw));
}

EXPORT void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from)
{
    *to = (struct ib_user_path_rec){
        .dlid = from->dlid,
        .slid = from->slid,
        .raw_traffic = (uint32_t)from->raw_traffic,
        .flow_label = from->flow_label,
        .reversible = (uint32_t)from->reversible,
        .mtu = from->mtu,
        .pkey = from->pkey,
        .hop_limit = from->hop_limit,
        .traffic_class = from->traffic_class,
        .numb_path = from->numb_path,
        .sl = from->sl,
        .mtu_selector = from->mtu_selector,
        .rate_selector = from->rate_selector,
        .rate = from->rate,
        .packet_life_time_selector = from->packet_life_time_selector,
        .packet_life_time = from->packet_life_time,
        .preference = from->preference,
    };
    memcpy(to->dgid, from->dgid.raw, sizeof(to->dgid));
    memcpy(to->sgid, from->sgid.raw, sizeof(to->sgid));
}
