/* SPDX-License-Identifier: BSD-3-Clause */
/* See device_host.h. */
#include "device_host.h"

#include "control/session_state.h"
#include "objects/cq_channel.h"
#include "objects/qp_object.h"

unsigned rnic_devices(const struct rnic *r)
{
    return r->devices;
}

struct pktio *rnic_device_io(const struct rnic *r, unsigned device)
{
    return r->device[device]->io;
}

const struct encap_port *rnic_device_encap(const struct rnic *r, unsigned device)
{
    return &r->device[device]->encap;
}

unsigned rnic_device_queues(const struct rnic *r, unsigned device)
{
    return r->device[device]->parts;
}

const struct engine *rnic_device_engine(const struct rnic *r, unsigned device, unsigned queue)
{
    return r->device[device]->port[queue]->engine;
}

struct ctx_shared *session_shared(const struct session *sn)
{
    return sn->segment.base;
}

void *session_cq_segment(struct session *sn, uint32_t handle)
{
    struct object *o = object_get(sn, OBJ_CQ, handle);

    return o ? container_of(o, struct cq, o)->segment.base : NULL;
}

void *session_qp_segment(struct session *sn, uint32_t qpn)
{
    struct qp_object *q = qp_object_get(sn, qpn);

    return q ? q->segment.base : NULL;
}

uint32_t session_qp_state(struct session *sn, uint32_t qpn)
{
    return qp_current_state(qp_object_get(sn, qpn)->dp.qp);
}

const char *qp_state_name(uint32_t state)
{
    static const char *const name[QPS_COUNT] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return state < QPS_COUNT ? name[state] : "?";
}
