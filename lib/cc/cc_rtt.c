/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rate by the round trip alone, as NICs have it where switches mark nothing. What is published
 * about "zero touch RoCE" (NVIDIA's documents of 2022 and later) is the idea: probes measure the
 * round trip, the rate decreases by a factor when it is long and increases by steps when it is
 * short. The rest is ours: packets of the sender are the probes (their ACKs come at once), the
 * decrease is in proportion to what is beyond the shortest round trip and a tolerance, steps grow
 * after some in a row, and no more is in flight than the rate carries in that time.
 */
#include "base_delay.h"
#include "cc.h"

/* Packets of the first round trip. */
#define START 16

struct rtt_params {
    uint64_t base_delay;    /* of a path without queues; 0: the shortest one so far */
    uint64_t tolerance;     /* of the round trip, beyond that */
    uint64_t beta;          /* 1024ths of the excess by which the rate decreases */
    uint64_t most_decrease; /* 1024ths of the rate, at once */
    uint64_t increase;      /* the rate, in a round trip that is short */
    uint64_t fast_after;    /* of these in a row, increases grow */
    uint64_t min_rate;
};

static const struct rtt_params defaults = {
    .tolerance = 30 * NS_PER_US,
    .beta = 512,
    .most_decrease = 512,
    .increase = 20 * CC_MBPS,
    .fast_after = 5,
    .min_rate = 10 * CC_MBPS,
};

static const struct cc_param params[] = {
    {"base_delay", CC_US, 0, 1000000}, {"tolerance", CC_US, 0, 1000000},
    {"beta", CC_PLAIN, 1, 1024},       {"most_decrease", CC_PLAIN, 1, 1023},
    {"increase", CC_MBPS, 1, 1000000}, {"fast_after", CC_PLAIN, 1, 1000},
    {"min_rate", CC_MBPS, 1, 1000000}, {0},
};
_Static_assert(ARRAY_SIZE(params) - 1 == sizeof(struct rtt_params) / sizeof(uint64_t), "names");

struct rtt {
    struct base_delay base;
    ns_t decreased;    /* the last decrease */
    uint64_t carried;  /* bits per second: what the last round trip acknowledged */
    uint64_t in_a_row; /* increases */
};
_Static_assert(sizeof(struct rtt) <= CC_STATE_MAX, "fits");

static struct rtt *rtt_of(struct cc *cc)
{
    return (struct rtt *)(void *)cc->state;
}

static const struct rtt_params *params_of(const struct cc *cc)
{
    return (const struct rtt_params *)(const void *)cc->params;
}

static void set_window(struct cc *cc)
{
    uint64_t bytes = cc_bytes_in(cc->rate, rtt_of(cc)->base.shortest + params_of(cc)->tolerance);

    cc->window = max_of(bytes, 2 * (uint64_t)cc->packet);
}

static void start(struct cc *cc)
{
    cc->window = START * (uint64_t)cc->packet;
}

/* Once in a round trip. It begins with what got through: the rate was more if a queue grew. */
static void decrease(struct cc *cc, uint64_t share, ns_t delay, ns_t now)
{
    const struct rtt_params *p = params_of(cc);
    struct rtt *r = rtt_of(cc);

    if (r->decreased && now - r->decreased < delay)
        return;
    if (r->carried)
        cc->rate = min_of(cc->rate, r->carried);
    cc->rate -= cc->rate / 1024 * min_of(share, p->most_decrease);
    cc->rate = min_of(max_of(cc->rate, p->min_rate), cc->line);
    r->in_a_row = 0;
    r->decreased = now;
}

static void increase(struct cc *cc)
{
    const struct rtt_params *p = params_of(cc);
    struct rtt *r = rtt_of(cc);
    uint64_t steps = 1;

    if (cc->rate == cc->line)
        return;
    if (++r->in_a_row > p->fast_after)
        steps += r->in_a_row - p->fast_after;
    cc->rate = min_of(cc->rate + p->increase * steps, cc->line);
}

static void on_ack(struct cc *cc, uint64_t bytes, ns_t delay, ns_t now)
{
    const struct rtt_params *p = params_of(cc);
    struct rtt *r = rtt_of(cc);
    ns_t target;

    if (p->base_delay)
        r->base.shortest = p->base_delay;
    else
        base_delay_note(&r->base, delay);
    r->carried = cc_rate_of(bytes, delay);
    target = r->base.shortest + p->tolerance;
    if (delay > target) {
        decrease(cc, p->beta * (delay - target) / delay, delay, now);
        base_delay_doubt(&r->base, delay, cc->rate <= p->min_rate, now);
    } else {
        base_delay_holds(&r->base);
        increase(cc);
    }
    set_window(cc);
}

static void on_timeout(struct cc *cc, ns_t now)
{
    decrease(cc, 1024, rtt_of(cc)->base.shortest, now);
    set_window(cc);
}

const struct cc_ops cc_rtt = {.name = "rtt",
                              .param = params,
                              .defaults = &defaults,
                              .by_delay = true,
                              .start = start,
                              .on_ack = on_ack,
                              .on_timeout = on_timeout};
