/* SPDX-License-Identifier: BSD-3-Clause */
/* See inherit.h. */
#include "control/inherit.h"

#include <errno.h>
#include <string.h>

#include "control/join.h"
#include "control/session_state.h"
#include "objects/freeze_credit.h"
#include "objects/pd_mr.h"

int ctx_inherit(struct session *sn, struct ctl_call *call)
{
    struct session *left = session_with_key(sn->rnic, call->request->open.join_key);
    int err;

    if (sn->device)
        return -EBUSY;
    if (!left || left->peer.uid != sn->peer.uid || left->peer.gid != sn->peer.gid)
        return -EACCES;
    if (!left->is_left)
        return -EAGAIN;
    /* mrs_move_space stops all workers, for longer the more regions there are. */
    if (sn->away.state == AWAY_NOT && !freeze_credit_stop(sn->rnic, sn->peer.uid))
        return -EAGAIN;
    err = ctx_open_space(sn);
    if (!err)
        sn->inherits = left;
    return err;
}

void session_inherit(struct session *left, struct session *sn)
{
    const struct session was = *left;

    mrs_move_space(left, sn->space, sn->copy);
    left->space = sn->space;
    left->copy = sn->copy;
    left->socket = sn->socket;
    left->peer = sn->peer;
    memcpy(left->comm, sn->comm, sizeof(left->comm));
    left->process_ended = left->is_left = left->reachable = false;
    left->program->pid = sn->peer.pid;
    mrs_report_heat(left);
    async_resume(left);

    sn->space = was.space;
    sn->copy = was.copy;
    sn->socket = was.socket;
    sn->peer = was.peer;
    sn->process_ended = true;
    sn->inherits = NULL;
}
