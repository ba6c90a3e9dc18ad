/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of requests that run on other threads: see session_state.h. */
#include <errno.h>

#include "control/session_state.h"

static void run_away(struct errand *e)
{
    struct session *sn = container_of(e, struct session, away.errand);

    sn->away.run(sn);
}

static void away_done(struct errand *e)
{
    struct session *sn = container_of(e, struct session, away.errand);
    struct rnic *r = sn->rnic;

    sn->away.state = AWAY_DONE;
    if (!sn->away.posting && r->retry)
        r->retry(r->retry_ctx);
}

int session_errand(struct session *sn, void (*run)(struct session *sn))
{
    if (sn->away.state == AWAY_NOT) {
        sn->away.state = AWAY_RUNS;
        sn->away.run = run;
        sn->away.errand = (struct errand){.run = run_away, .done = away_done};
        sn->away.posting = true;
        errands_post(sn->rnic->errands, &sn->peer, &sn->away.errand);
        sn->away.posting = false;
    }
    if (sn->away.state == AWAY_RUNS)
        return -EINPROGRESS;
    sn->away.state = AWAY_NOT;
    return 0;
}

bool session_busy(const struct session *sn)
{
    return sn->away.state == AWAY_RUNS;
}
