/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_join_multicast: which group GID an address means, and how it is reached. On RoCE a queue
 * pair's attachment makes the port a member (objects/mcast.h), so joining does no more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm_address.h"
#include "cm/cm_object.h"

enum { FULL_MEMBER = 0, SEND_ONLY_FULL_MEMBER = 1 };

#define JOINS_MAX 64
/* As the kernel: IP packets pass routers, frames of RoCEv1 do not. */
#define HOPS_IP 64
#define HOPS_V1 1

static bool is_v1(const struct cm_object *o)
{
    return o->device->gids.entry[o->sgid_index].type == GID_TYPE_ROCE_V1;
}

/* As the kernel: RoCEv2 sends to the IP address itself; RoCEv1 has IPv4 groups in ff0e::/16. */
static int group_of(const struct cm_object *o, const struct ctl_cm_addr *a, union gid *group)
{
    memcpy(group->raw, a->gid, sizeof(group->raw));
    if (!gid_is_multicast(group))
        return -EINVAL;
    if (is_v1(o) && gid_is_ipv4(group)) {
        group->raw[0] = 0xFF;
        group->raw[1] = 0x0E;
    }
    return 0;
}

/* Of a join and its event. */
static const struct quota_cost join_cost = {
    {[QUOTA_MEMORY] = sizeof(struct cm_join) + sizeof(struct cm_record)}};

static struct cm_join *find_join(struct cm_object *o, uint32_t handle)
{
    struct cm_join *j;

    TAILQ_FOREACH (j, &o->joins, link)
        if (j->handle == handle)
            return j;
    return NULL;
}

static unsigned count_joins(const struct cm_object *o)
{
    const struct cm_join *j;
    unsigned n = 0;

    TAILQ_FOREACH (j, &o->joins, link)
        n++;
    return n;
}

static void report_join(struct cm_object *o, const struct cm_join *j, uint64_t cookie)
{
    struct cm_record *r = cm_record_new(o, CTL_CM_MULTICAST_JOIN, 0);

    if (!r)
        return;
    r->join = j->handle;
    r->e.cookie = cookie;
    r->e.conn.qpn = 0xFFFFFF;
    r->e.conn.qkey = CTL_CM_QKEY;
    r->e.ah = (struct ah_attr){.sgid_index = (uint8_t)o->sgid_index,
                               .hop_limit = is_v1(o) ? HOPS_V1 : HOPS_IP,
                               .traffic_class = o->tos,
                               .sl = qos_tos_to_sl(&o->device->qos, o->tos),
                               .port_num = 1,
                               .is_global = 1};
    memcpy(r->e.ah.dgid, j->mgid.raw, sizeof(r->e.ah.dgid));
    cm_record_queue(r);
}

void cm_join_free(struct cm_object *o, struct cm_join *j)
{
    TAILQ_REMOVE(&o->joins, j, link);
    quota_uncharge(&o->o.session->account, &join_cost);
    free(j);
}

int cm_join_group(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_mcast *rq = &call->request->cm_mcast;
    struct cm_object *o = cm_object_get(sn, rq->id);
    struct cm_join *j;
    union gid group;
    int err;

    if (!o || !o->device || !cm_object_is_ud(o) || rq->flags > SEND_ONLY_FULL_MEMBER)
        return -EINVAL;
    err = cm_address_place(o);
    if (err < 0)
        return err;
    o->sgid_index = (unsigned)err; /* by which datagrams to the group leave */
    err = group_of(o, &rq->addr, &group);
    if (err)
        return err;
    if (count_joins(o) == JOINS_MAX || quota_charge(&sn->account, &join_cost))
        return -ENOMEM;
    j = calloc(1, sizeof(*j));
    if (!j) {
        quota_uncharge(&sn->account, &join_cost);
        return -ENOMEM;
    }
    j->handle = ++o->joins_made;
    j->mgid = group;
    TAILQ_INSERT_TAIL(&o->joins, j, link);
    call->reply.cm_mcast.handle = j->handle;
    memcpy(call->reply.cm_mcast.mgid, group.raw, sizeof(group.raw));
    report_join(o, j, rq->cookie);
    return 0;
}

int cm_leave_group(struct session *sn, struct ctl_call *call)
{
    const struct ctl_cm_mcast *rq = &call->request->cm_mcast;
    struct cm_object *o = cm_object_get(sn, rq->id);
    struct cm_join *j = o ? find_join(o, rq->handle) : NULL;

    if (!j)
        return -EINVAL;
    memcpy(call->reply.cm_mcast.mgid, j->mgid.raw, sizeof(j->mgid.raw));
    cm_records_drop(o, j->handle);
    call->reply.cm_mcast.sent = o->sent;
    cm_join_free(o, j);
    return 0;
}
