/* SPDX-License-Identifier: BSD-3-Clause */
/* See join.h. */
#include "control/join.h"

#include <errno.h>
#include <string.h>

#include "control/session_state.h"

struct session *session_with_key(struct rnic *r, const uint64_t key[2])
{
    struct session *sn;

    TAILQ_FOREACH (sn, &r->sessions, link)
        if (session_has_key(sn, key))
            return sn;
    return NULL;
}

/* A session that has itself joined leads to the one whose objects it may import. */
int ctx_join(struct session *sn, struct ctl_call *call)
{
    struct session *to = session_with_key(sn->rnic, call->request->open.join_key);
    int err;

    if (sn->device)
        return -EBUSY;
    if (!to)
        return -EACCES;
    if (to->joined)
        to = to->joined;
    sn->joined = to;
    err = ctx_open_device(sn, call, to->account.device);
    memset(call->reply.open.join_key, 0, sizeof(call->reply.open.join_key));
    if (err) {
        sn->joined = NULL;
        return err;
    }
    call->reply.open.device = to->account.device;
    to->joiners++;
    return 0;
}

void join_end(struct session *sn)
{
    if (!sn->joined)
        return;
    if (!--sn->joined->joiners)
        rnic_retry_later(sn->rnic); /* its connection may wait for that */
    sn->joined = NULL;
}

bool session_is_joined(const struct session *sn)
{
    return sn->joiners;
}
