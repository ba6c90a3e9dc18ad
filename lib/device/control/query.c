/* SPDX-License-Identifier: BSD-3-Clause */
/* See query.h. */
#include "control/query.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/permission.h"
#include "control/session_state.h"
#include "device_host.h"
#include "ece.h"
#include "objects/dm.h"

#define PORT_DOWN   1 /* enum ibv_port_state */
#define PORT_ACTIVE 4

/* A locally administered OUI belongs to no vendor, so applications that know vendors' quirks find
 * none; 0 would be a failed query for rdma-core's tests. */
#define VENDOR_PART_ID 0

/* What the application can have of a kind: of the device, or less. */
static uint32_t most(const struct session *sn, enum quota_kind kind)
{
    return (uint32_t)min_of(quota_limit(&sn->rnic->quota, sn->peer.uid, kind),
                            quota_kind_max(kind));
}

/* Queue pairs in a multicast group. */
static uint32_t most_in_group(const struct session *sn)
{
    uint32_t joins = most(sn, QUOTA_JOIN);

    return sn->account.user->owner ? joins : min_of(joins, LIMIT_USER_GROUP_QPS);
}

int query_device(struct session *sn, struct ctl_call *call)
{
    struct ctl_device *q = &call->reply.device;
    uint32_t index = call->request->device.index;
    const struct device *d;

    if (index >= sn->rnic->devices)
        return -ENODEV;
    d = sn->rnic->device[index];
    *q = (struct ctl_device){
        .index = index,
        .ports = 1,
        .node_guid = device_node_guid(d),
        .vendor_id = ECE_VENDOR,
        .vendor_part_id = VENDOR_PART_ID,
        .max_qp = most(sn, QUOTA_QP),
        .max_qp_wr = QUEUE_MAX_WR,
        .max_sge = LIMIT_SGE,
        .max_inline = QUEUE_MAX_INLINE,
        .max_cq = most(sn, QUOTA_CQ),
        .max_cqe = QUEUE_MAX_CQE,
        .max_mr = most(sn, QUOTA_MR),
        .max_pd = most(sn, QUOTA_PD),
        .max_ah = most(sn, QUOTA_AH),
        .max_qp_rd_atom = LIMIT_RD_ATOM,
        .max_qp_init_rd_atom = LIMIT_RD_ATOM,
        .max_srq = most(sn, QUOTA_SRQ),
        .max_srq_wr = QUEUE_MAX_WR,
        .max_srq_sge = LIMIT_SGE,
        .max_mw = most(sn, QUOTA_MW),
        .max_xrcd = most(sn, QUOTA_XRCD),
        .max_mcast_grp = most(sn, QUOTA_GROUP),
        .max_mcast_join = most(sn, QUOTA_JOIN),
        .max_mr_size = LIMIT_MR_SIZE,
        .max_counter = most(sn, QUOTA_COUNTER),
        .max_mcast_qp = most_in_group(sn),
        .max_dm_size = dm_max_size(sn),
        .workers = sn->rnic->workers,
        .features = d->selective ? ECE_KEPT_MAPS : 0,
    };
    if (permission_raw(sn)) {
        q->max_wq = most(sn, QUOTA_WQ);
        q->max_rwq_ind = most(sn, QUOTA_RWQ_IND);
        q->max_rwq_ind_size = RWQ_IND_MAX;
    }
    memcpy(q->name, d->name, sizeof(q->name));
    snprintf(q->fw_version, sizeof(q->fw_version), "%s", sn->rnic->config.version);
    return 0;
}

int query_port(struct session *sn, struct ctl_call *call)
{
    struct ctl_port *q = &call->reply.port;
    struct device *d = sn->device;
    struct pktio_info info;

    if (call->request->port.port != 1)
        return -EINVAL;
    d->io->ops->info(d->io, &info);
    *q = (struct ctl_port){
        .port = 1,
        .state = net_link_is_up(d, &info) ? PORT_ACTIVE : PORT_DOWN,
        .max_mtu = MTU_CODE_MAX,
        .active_mtu = device_mtu_code(d->info.mtu),
        .gid_tbl_len = d->gids.len,
        .pkey_tbl_len = 1,
        .speed_mbps = info.speed_mbps,
    };
    memcpy(q->mac, d->info.mac, sizeof(q->mac));
    snprintf(q->netdev, sizeof(q->netdev), "%s", net_interface(d, &info));
    return 0;
}

int query_gid(struct session *sn, struct ctl_call *call)
{
    const struct ctl_gid *asked = &call->request->gid;
    const struct gid_entry *e;

    if (asked->port != 1 || asked->index >= sn->device->gids.len)
        return -EINVAL;
    e = &sn->device->gids.entry[asked->index];
    if (!e->valid)
        return -ENOENT;
    memcpy(call->reply.gid.gid, e->gid.raw, sizeof(call->reply.gid.gid));
    call->reply.gid.type = e->type;
    call->reply.gid.ifindex = e->ifindex;
    return 0;
}
