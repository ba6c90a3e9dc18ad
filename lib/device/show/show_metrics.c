/* SPDX-License-Identifier: BSD-3-Clause */
/* What CTL_SHOW_METRICS tells, for the daemon itself: see device_metrics.h. */
#include "device_metrics.h"

#include <stdlib.h>

#include "control/session_state.h"
#include "show/show_write.h"

struct rnic_metrics {
    struct show_write write;
};

struct rnic_metrics *rnic_metrics_begin(struct rnic *r)
{
    struct rnic_metrics *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    show_out_init_tree(&m->write.out);
    show_write_begin(&m->write, r, 0, CTL_SHOW_METRICS);
    return m;
}

bool rnic_metrics_some(struct rnic_metrics *m)
{
    return show_write_some(&m->write);
}

json_t *rnic_metrics_end(struct rnic_metrics *m)
{
    json_t *state;

    show_write_end(&m->write);
    state = show_out_tree(&m->write.out);
    show_out_fini(&m->write.out);
    free(m);
    return state;
}
