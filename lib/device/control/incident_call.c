/* SPDX-License-Identifier: BSD-3-Clause */
/* See incident_call.h. */
#include "control/incident_call.h"

#include <errno.h>
#include <string.h>

#include "control/session_state.h"

struct incident_program session_program(const struct session *sn)
{
    struct incident_program p = {.pid = (uint32_t)sn->peer.pid, .uid = sn->peer.uid};

    memcpy(p.comm, sn->comm, sizeof(p.comm));
    return p;
}

void incident_keep(struct session *sn, struct device *d, uint32_t qpn, struct incident *i)
{
    if (!d)
        d = sn->rnic->devices ? sn->rnic->device[0] : NULL;
    if (!d)
        return;
    i->kind = INCIDENT_CALL;
    i->time = sn->rnic->config.clock();
    i->qpn = qpn;
    i->program = session_program(sn);
    incident_put(&d->calls, i);
}

/* In the order of device_resolve. */
static enum address_wrong address_wrong(const struct ah_attr *attr)
{
    union gid dgid;

    memcpy(dgid.raw, attr->dgid, sizeof(dgid.raw));
    if (!attr->is_global)
        return ADDRESS_NOT_GLOBAL;
    if (attr->port_num != 1)
        return ADDRESS_PORT;
    return gid_is_zero(&dgid) ? ADDRESS_NO_DGID : ADDRESS_KINDS;
}

/* What makes device_resolve refuse an address. */
static void judge_address(const struct device *d, const struct ah_attr *attr, struct incident *i)
{
    if (attr->is_global &&
        (attr->sgid_index >= d->gids.len || !d->gids.entry[attr->sgid_index].valid)) {
        i->cause = CAUSE_modify_source_gid;
        i->detail[0] = attr->sgid_index;
        return;
    }
    i->cause = CAUSE_modify_address;
    i->detail[0] = attr->is_global;
    i->detail[1] = attr->port_num;
    i->detail[2] = attr->sl;
    i->detail[3] = address_wrong(attr);
}

void incident_of_resolve(struct session *sn, uint32_t qpn, uint32_t dest_qpn,
                         const struct ah_attr *attr, int err)
{
    struct incident i = {.dest_qpn = dest_qpn};

    if (err == -EHOSTUNREACH)
        i.cause = CAUSE_no_neighbour;
    else if (err == -ENETUNREACH)
        i.cause = CAUSE_no_route;
    else if (err == -EINVAL)
        judge_address(sn->device, attr, &i);
    else
        return;
    memcpy(i.dgid, attr->dgid, sizeof(i.dgid));
    incident_keep(sn, sn->device, qpn, &i);
}

void incident_of_rule(struct session *sn, struct device *d, unsigned verb, int error)
{
    struct incident i = {.cause = CAUSE_call_on_purpose, .detail = {verb, (uint64_t)error}};

    incident_keep(sn, d, 0, &i);
}

void incident_of_modify(struct session *sn, uint32_t qpn, struct incident *i)
{
    if (i->cause)
        incident_keep(sn, sn->device, qpn, i);
}
