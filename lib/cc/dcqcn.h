/* SPDX-License-Identifier: BSD-3-Clause */
/* What DCQCN knows: for cc_dcqcn.c and its tests. */
#ifndef UROCE_DCQCN_H
#define UROCE_DCQCN_H

#include "cc.h"

#define DCQCN_ONE (UINT64_C(1) << 24)

/* The parameters, with the names that mlx5 gives them; the order is that of the table of names. */
struct dcqcn_params {
    uint64_t dce_tcp_g;                      /* alpha keeps this many 1024ths of itself */
    uint64_t dce_tcp_rtt;                    /* between two decreases of alpha */
    uint64_t initial_alpha_value;            /* 1024ths */
    uint64_t rate_reduce_monitor_period;     /* between two reductions, at least */
    uint64_t rpg_min_dec_fac;                /* percent of the rate that a reduction leaves */
    uint64_t rpg_time_reset, rpg_byte_reset; /* time, and bytes, between two increases */
    uint64_t rpg_threshold;                  /* increases of fast recovery */
    uint64_t rpg_ai_rate, rpg_hai_rate;      /* an additive increase, and a hyper increase */
    uint64_t rpg_min_rate;
};

/* cc.state */
struct dcqcn {
    uint64_t target;                 /* the rate before the last reduction, and increases of it */
    uint64_t alpha;                  /* the estimate of the congestion: DCQCN_ONE is 1 */
    ns_t reduced, alpha_at, time_at; /* the last reduction, decrease of alpha, increase by time */
    uint64_t bytes;                  /* since the last increase by bytes */
    uint32_t times, counts;          /* increases by time, and by bytes, since the reduction */
    bool started;
};

_Static_assert(sizeof(struct dcqcn) <= CC_STATE_MAX, "fits");

static inline struct dcqcn *cc_dcqcn_of(struct cc *cc)
{
    return (struct dcqcn *)(void *)cc->state;
}

#endif
