/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DCQCN (Zhu et al., SIGCOMM 2015): a CNP reduces the rate by alpha / 2, and alpha is the estimate
 * of the share of marked packets. Increases follow, by time and by bytes: first half of the way
 * back to the rate before (fast recovery), then beyond that rate by a constant (additive), then,
 * when both clocks have passed the threshold, by more each time (hyper). Time is caught up with
 * when something happens: a sender that is idle has no timer.
 */
#include "dcqcn.h"

/* The increases in one call: the rest follow in the next ones. */
#define CATCH_UP 256

/* The defaults of mlx5, for CNPs every 4 us. */
static const struct dcqcn_params mlx5 = {
    .dce_tcp_g = 1019,
    .dce_tcp_rtt = NS_PER_US,
    .initial_alpha_value = 1023,
    .rate_reduce_monitor_period = 4 * NS_PER_US,
    .rpg_min_dec_fac = 50,
    .rpg_time_reset = 300 * NS_PER_US,
    .rpg_byte_reset = 32767,
    .rpg_threshold = 1,
    .rpg_ai_rate = UINT64_C(5000000),
    .rpg_hai_rate = UINT64_C(50000000),
    .rpg_min_rate = UINT64_C(1000000),
};

/* As published, for CNPs every 50 us. */
static const struct dcqcn_params published = {
    .dce_tcp_g = 1020,
    .dce_tcp_rtt = 55 * NS_PER_US,
    .initial_alpha_value = 1023,
    .rate_reduce_monitor_period = 50 * NS_PER_US,
    .rpg_min_dec_fac = 50,
    .rpg_time_reset = 55 * NS_PER_US,
    .rpg_byte_reset = 10000000,
    .rpg_threshold = 5,
    .rpg_ai_rate = UINT64_C(40000000),
    .rpg_hai_rate = UINT64_C(400000000),
    .rpg_min_rate = UINT64_C(10000000),
};

static const struct cc_param params[] = {
    {"dce_tcp_g", CC_PLAIN, 1, 1023},
    {"dce_tcp_rtt", CC_US, 1, 1000000},
    {"initial_alpha_value", CC_PLAIN, 1, 1024},
    {"rate_reduce_monitor_period", CC_US, 0, 1000000},
    {"rpg_min_dec_fac", CC_PLAIN, 1, 100},
    {"rpg_time_reset", CC_US, 1, 1000000},
    {"rpg_byte_reset", CC_PLAIN, 1, UINT32_MAX},
    {"rpg_threshold", CC_PLAIN, 1, 1000},
    {"rpg_ai_rate", CC_MBPS, 1, 1000000},
    {"rpg_hai_rate", CC_MBPS, 1, 1000000},
    {"rpg_min_rate", CC_MBPS, 1, 1000000},
    {0},
};
_Static_assert(ARRAY_SIZE(params) - 1 == sizeof(struct dcqcn_params) / sizeof(uint64_t), "names");

static const struct dcqcn_params *params_of(const struct cc *cc)
{
    return (const struct dcqcn_params *)(const void *)cc->params;
}

static void decrease_alpha(struct dcqcn *d, const struct dcqcn_params *p, ns_t now)
{
    for (unsigned i = 0; i < CATCH_UP * 64 && d->alpha && now - d->alpha_at >= p->dce_tcp_rtt;
         i++) {
        d->alpha = d->alpha * p->dce_tcp_g >> 10;
        d->alpha_at += p->dce_tcp_rtt;
    }
}

static void increase(struct cc *cc)
{
    struct dcqcn *d = cc_dcqcn_of(cc);
    const struct dcqcn_params *p = params_of(cc);
    uint32_t least = min_of(d->times, d->counts), most = max_of(d->times, d->counts);

    if (least > p->rpg_threshold)
        d->target += (least - p->rpg_threshold) * p->rpg_hai_rate;
    else if (most > p->rpg_threshold)
        d->target += p->rpg_ai_rate;
    d->target = min_of(d->target, cc->line);
    /* Half of the way rounds up, so that the line's rate is reached. */
    cc->rate += (d->target - cc->rate + 1) / 2;
}

static void on_sent(struct cc *cc, uint32_t bytes, ns_t now)
{
    struct dcqcn *d = cc_dcqcn_of(cc);
    const struct dcqcn_params *p = params_of(cc);

    if (!cc_is_controlled(cc))
        return;
    d->bytes += bytes;
    for (unsigned i = 0; i < CATCH_UP && d->bytes >= p->rpg_byte_reset; i++) {
        d->bytes -= p->rpg_byte_reset;
        d->counts++;
        increase(cc);
    }
    for (unsigned i = 0; i < CATCH_UP && now - d->time_at >= p->rpg_time_reset; i++) {
        d->time_at += p->rpg_time_reset;
        d->times++;
        increase(cc);
    }
}

static void on_cnp(struct cc *cc, ns_t now)
{
    struct dcqcn *d = cc_dcqcn_of(cc);
    const struct dcqcn_params *p = params_of(cc);
    uint64_t least;

    if (!d->started) {
        d->started = true;
        d->alpha = DCQCN_ONE / 1024 * p->initial_alpha_value;
    } else if (now - d->reduced < p->rate_reduce_monitor_period) {
        return;
    } else {
        on_sent(cc, 0, now);
        decrease_alpha(d, p, now);
    }
    least = max_of(cc->rate * p->rpg_min_dec_fac / 100, p->rpg_min_rate);
    d->target = cc->rate;
    cc->rate -= (uint64_t)((unsigned __int128)cc->rate * d->alpha / (2 * DCQCN_ONE));
    cc->rate = min_of(max_of(cc->rate, least), cc->line);
    d->alpha = (d->alpha * p->dce_tcp_g + DCQCN_ONE * (1024 - p->dce_tcp_g)) >> 10;
    d->reduced = d->alpha_at = d->time_at = now;
    d->bytes = 0;
    d->times = d->counts = 0;
}

const struct cc_ops cc_dcqcn = {
    .name = "dcqcn", .param = params, .defaults = &published, .on_cnp = on_cnp, .on_sent = on_sent};
const struct cc_ops cc_dcqcn_mlx5 = {
    .name = "dcqcn-mlx5", .param = params, .defaults = &mlx5, .on_cnp = on_cnp, .on_sent = on_sent};
