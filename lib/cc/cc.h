/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion controllers: how fast a sender may send, after what the network told it. Pure: the
 * caller has the time. A controller starts at the rate of the line, where it limits nothing.
 */
#ifndef UROCE_CC_H
#define UROCE_CC_H

#include "common.h"

/* Paced packets leave in bursts of what the rate gives in this time: the granularity of timers. */
#define CC_BURST (64 * NS_PER_US)

/* Parameters of DCQCN, with the names that mlx5 gives them; rates in bits per second. */
struct dcqcn_params {
    uint32_t dce_tcp_g;                      /* alpha keeps this many 1024ths of itself */
    uint32_t dce_tcp_rtt;                    /* ns between two decreases of alpha */
    uint32_t initial_alpha_value;            /* 1024ths */
    uint32_t rate_reduce_monitor_period;     /* ns between two reductions, at least */
    uint32_t rpg_min_dec_fac;                /* percent of the rate that a reduction leaves */
    uint32_t rpg_time_reset, rpg_byte_reset; /* ns, and bytes, between two increases */
    uint32_t rpg_threshold;                  /* increases of fast recovery */
    uint64_t rpg_ai_rate, rpg_hai_rate;      /* an additive increase, and a hyper increase */
    uint64_t rpg_min_rate;
};

struct dcqcn {
    const struct dcqcn_params *params;
    uint64_t target;                 /* the rate before the last reduction, and increases of it */
    uint64_t alpha;                  /* the estimate of the congestion: DCQCN_ONE is 1 */
    ns_t reduced, alpha_at, time_at; /* the last reduction, decrease of alpha, increase by time */
    uint64_t bytes;                  /* since the last increase by bytes */
    uint32_t times, counts;          /* increases by time, and by bytes, since the reduction */
    bool started;
};

struct cc_ops;

/* Of one sender. */
struct cc {
    const struct cc_ops *ops; /* NULL: no controller, the limit alone counts */
    uint64_t line, rate;      /* bits per second; the rate is the line's: not limited by ops */
    uint64_t limit;           /* the sender's own, bits per second; 0: none */
    ns_t next;                /* nothing is sent before that */
    uint64_t carry;           /* what next left of the last division */
    struct dcqcn dcqcn;
};

/* An algorithm. */
struct cc_ops {
    const char *name;
    void (*start)(struct cc *cc);
    void (*on_cnp)(struct cc *cc, ns_t now);
    void (*on_sent)(struct cc *cc, uint32_t bytes, ns_t now); /* also 0 bytes: time has passed */
};

/* DCQCN as published, for CNPs every 50 us; with the defaults of mlx5, for CNPs every 4 us. */
extern const struct dcqcn_params dcqcn_published, dcqcn_mlx5;
extern const struct cc_ops cc_dcqcn, cc_dcqcn_mlx5;

/* The algorithm of that name, or NULL. */
const struct cc_ops *cc_find(const char *name);

/* *cc: zeroed, or used before; its limit stays. line: bits per second, not 0. */
void cc_start(struct cc *cc, const struct cc_ops *ops, uint64_t line);

/* No controller from now on. */
void cc_stop(struct cc *cc);

/* *cc: zeroed, or used before. Never more than this many bits per second from now on; 0: no limit
 * of its own. */
void cc_set_limit(struct cc *cc, uint64_t limit, ns_t now);

/* Bytes that may leave at once when a sender at that many bits per second was idle, beside one
 * packet. */
uint64_t cc_burst(uint64_t rate);

/* A CNP for the sender has arrived. */
void cc_on_cnp(struct cc *cc, ns_t now);

/* Bytes that may be sent now: 0 before cc->next. What is sent may be more, by less than a packet.
 */
uint64_t cc_allowance(struct cc *cc, ns_t now);

/* Bytes were sent. */
void cc_on_sent(struct cc *cc, uint32_t bytes, ns_t now);

/* By its controller. */
static inline bool cc_is_controlled(const struct cc *cc)
{
    return cc->ops && cc->rate < cc->line;
}

static inline bool cc_is_limited(const struct cc *cc)
{
    return cc->limit || cc_is_controlled(cc);
}

#endif
