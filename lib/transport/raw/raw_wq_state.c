/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of work queues: see raw.h. */
#include <errno.h>

#include "completion.h"
#include "raw_private.h"

static const bool transitions[3][3] = {
    [WQS_RESET] = {[WQS_RESET] = true, [WQS_RDY] = true},
    [WQS_RDY] = {[WQS_RESET] = true, [WQS_RDY] = true, [WQS_ERR] = true},
    [WQS_ERR] = {[WQS_RESET] = true, [WQS_ERR] = true},
};

int engine_wq_modify(struct engine *e, struct wq *wq, enum wq_state to, ns_t now)
{
    e->now = now;
    if ((unsigned)to > WQS_ERR || !transitions[wq->state][to])
        return -EINVAL;
    if (wq->state == WQS_ERR && to == WQS_ERR)
        return 0;
    if (to == WQS_RESET && !engine_wq_stop(e, wq))
        return -EAGAIN;
    wq_set_state(wq, to);
    if (to == WQS_RESET)
        wq_forget(wq);
    else if (to == WQS_ERR)
        wq_flush(e, wq, WC_WR_FLUSH_ERR);
    engine_complete(e);
    return 0;
}
