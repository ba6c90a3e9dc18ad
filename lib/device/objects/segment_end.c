/* SPDX-License-Identifier: BSD-3-Clause */
/* See segment_end.h. */
#include "objects/segment_end.h"

#include <stdlib.h>

#include "control/errand.h"
#include "control/session_state.h"

struct end_errand {
    struct errand e;
    struct segment segment;
    struct quota_account account; /* the session's may end before */
};

static void run_end(struct errand *e)
{
    segment_destroy(&container_of(e, struct end_errand, e)->segment, false);
}

static void end_done(struct errand *e)
{
    struct end_errand *end = container_of(e, struct end_errand, e);

    quota_account_close(&end->account);
    free(end);
}

void segment_end(struct session *sn, struct segment *s, const struct quota_cost *cost)
{
    struct end_errand *end = NULL;

    if (!sn->rnic->ending && sn->rnic->errands)
        end = malloc(sizeof(*end));
    if (!end) {
        segment_destroy(s, sn->rnic->ending);
        quota_uncharge(&sn->account, cost);
        return;
    }
    *end = (struct end_errand){.e = {.run = run_end, .done = end_done}, .segment = *s};
    quota_move(&sn->account, cost, &end->account);
    *s = (struct segment){0};
    errands_post(sn->rnic->errands, &sn->peer, &end->e);
}
