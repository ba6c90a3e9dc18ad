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

void incident_of_resolve(struct session *sn, uint32_t qpn, uint32_t dest_qpn,
                         const uint8_t dgid[16], int err)
{
    struct incident i = {.kind = INCIDENT_CALL,
                         .cause = err == -EHOSTUNREACH ? CAUSE_no_neighbour : CAUSE_no_route,
                         .time = sn->rnic->config.clock(),
                         .qpn = qpn,
                         .dest_qpn = dest_qpn,
                         .program = session_program(sn)};

    if (err != -EHOSTUNREACH && err != -ENETUNREACH)
        return;
    memcpy(i.dgid, dgid, sizeof(i.dgid));
    incident_put(&sn->device->calls, &i);
}
