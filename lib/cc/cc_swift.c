/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swift (Kumar et al., SIGCOMM 2020): a window that grows by a packet in a round trip while the
 * delay is below its target, and shrinks in proportion to what is beyond, once in a round trip.
 * Small windows have a longer delay as their target, since many flows share the path then. A window
 * of less than a packet is one packet, and a rate.
 *
 * The publication's target is a time; here it is the shortest round trip that was seen, and what
 * queues in the network and the peer may add. The peer does not say how long it had a packet, so
 * both have one window. Until the first decrease the window doubles, as in a slow start.
 */
#include "base_delay.h"
#include "cc.h"

struct swift_params {
    uint64_t base_delay;            /* of a path without queues; 0: the shortest one so far */
    uint64_t fabric_delay;          /* of queues in the network, beyond that */
    uint64_t endpoint_delay;        /* of the peer, until it answers */
    uint64_t flow_range;            /* more delay for small windows: at most this */
    uint64_t flow_least, flow_most; /* packets: windows that get all of it, and none */
    uint64_t increase;              /* packets in a round trip */
    uint64_t beta;                  /* how hard a delay beyond the target decreases: 1024ths */
    uint64_t most_decrease;         /* of the window, at once: 1024ths */
    uint64_t start_window;          /* packets */
    uint64_t min_rate;
};

static const struct swift_params defaults = {
    .fabric_delay = 20 * NS_PER_US,
    .endpoint_delay = 10 * NS_PER_US,
    .flow_range = 60 * NS_PER_US,
    .flow_least = 1,
    .flow_most = 100,
    .increase = 1,
    .beta = 819,
    .most_decrease = 512,
    .start_window = 16,
    .min_rate = 10 * CC_MBPS,
};

static const struct cc_param params[] = {
    {"base_delay", CC_US, 0, 1000000},     {"fabric_delay", CC_US, 0, 1000000},
    {"endpoint_delay", CC_US, 0, 1000000}, {"flow_range", CC_US, 0, 1000000},
    {"flow_least", CC_PLAIN, 1, 1000},     {"flow_most", CC_PLAIN, 2, 100000},
    {"increase", CC_PLAIN, 1, 1000},       {"beta", CC_PLAIN, 1, 1024},
    {"most_decrease", CC_PLAIN, 1, 1023},  {"start_window", CC_PLAIN, 1, 1000},
    {"min_rate", CC_MBPS, 1, 1000000},     {0},
};
_Static_assert(ARRAY_SIZE(params) - 1 == sizeof(struct swift_params) / sizeof(uint64_t), "names");

struct swift {
    uint64_t window; /* 1024ths of a byte */
    struct base_delay base;
    ns_t decreased; /* the last decrease */
    bool is_past_start;
};
_Static_assert(sizeof(struct swift) <= CC_STATE_MAX, "fits");

static struct swift *swift_of(struct cc *cc)
{
    return (struct swift *)(void *)cc->state;
}

static const struct swift_params *params_of(const struct cc *cc)
{
    return (const struct swift_params *)(const void *)cc->params;
}

/* 2^20 / sqrt(packets), for packets in 1024ths. */
static uint64_t inverse_root(uint64_t packets)
{
    uint64_t x = packets << 10, root = 0; /* the root of x is sqrt(packets) in 1024ths */

    for (uint64_t bit = UINT64_C(1) << 24; bit; bit >>= 1)
        if ((root + bit) * (root + bit) <= x)
            root += bit;
    return (UINT64_C(1) << 30) / max_of(root, UINT64_C(1));
}

/* What a window of that many 1024ths of a packet may add to the delay. */
static ns_t flow_delay(const struct swift_params *p, uint64_t packets)
{
    uint64_t least = p->flow_least << 10, most = p->flow_most << 10;
    uint64_t of_most = inverse_root(most);

    if (packets >= most || least >= most)
        return 0;
    return p->flow_range * (inverse_root(max_of(packets, least)) - of_most) /
           (inverse_root(least) - of_most);
}

/* The window in whole packets, and the rate that a part of one is. */
static void set_window(struct cc *cc, ns_t delay)
{
    const struct swift_params *p = params_of(cc);
    struct swift *s = swift_of(cc);
    uint64_t bytes = s->window >> 10;

    cc->window = max_of(bytes, (uint64_t)cc->packet);
    cc->rate = cc->line;
    if (bytes < cc->packet && delay)
        cc->rate = min_of(max_of(cc_rate_of(bytes, delay), p->min_rate), cc->line);
}

static void start(struct cc *cc)
{
    struct swift *s = swift_of(cc);

    s->window = params_of(cc)->start_window * cc->packet << 10;
    set_window(cc, 0);
}

/* Once in a round trip. */
static void decrease(struct cc *cc, uint64_t share, ns_t delay, ns_t now)
{
    const struct swift_params *p = params_of(cc);
    struct swift *s = swift_of(cc);

    if (s->is_past_start && now - s->decreased < delay)
        return;
    s->window -= s->window / 1024 * min_of(share, p->most_decrease);
    s->window =
        max_of(s->window, min_of(cc_bytes_in(p->min_rate, delay), (uint64_t)cc->packet) << 10);
    s->is_past_start = true;
    s->decreased = now;
}

static void increase(struct cc *cc, uint64_t bytes)
{
    struct swift *s = swift_of(cc);
    uint64_t most = max_of(cc_bytes_in(cc->line, NS_PER_MS), (uint64_t)cc->packet);
    uint64_t packets = params_of(cc)->increase * cc->packet, window = s->window >> 10;

    bytes = min_of(bytes, most);
    if (!s->is_past_start)
        s->window += bytes << 10;
    else if (window >= cc->packet)
        s->window += (packets * bytes << 10) / window;
    else
        s->window += params_of(cc)->increase * bytes << 10;
    s->window = min_of(s->window, most << 10);
}

/* As slow as a window that was bounded in a round trip up to twice as long. */
static bool is_slowest(struct cc *cc, ns_t delay)
{
    return cc_rate_of(swift_of(cc)->window >> 10, delay) <= 2 * params_of(cc)->min_rate;
}

static void on_ack(struct cc *cc, uint64_t bytes, ns_t delay, ns_t now)
{
    const struct swift_params *p = params_of(cc);
    struct swift *s = swift_of(cc);
    ns_t target;

    if (p->base_delay)
        s->base.shortest = p->base_delay;
    else
        base_delay_note(&s->base, delay);
    target = s->base.shortest + p->fabric_delay + p->endpoint_delay +
             flow_delay(p, s->window / cc->packet);
    if (delay <= target) {
        base_delay_holds(&s->base);
        increase(cc, bytes);
    } else {
        decrease(cc, p->beta * (delay - target) / delay, delay, now);
        base_delay_doubt(&s->base, delay, is_slowest(cc, delay), now);
    }
    set_window(cc, delay);
}

static void on_timeout(struct cc *cc, ns_t now)
{
    struct swift *s = swift_of(cc);

    decrease(cc, 1024, s->base.shortest, now);
    set_window(cc, s->base.shortest);
}

const struct cc_ops cc_swift = {.name = "swift",
                                .param = params,
                                .defaults = &defaults,
                                .by_delay = true,
                                .start = start,
                                .on_ack = on_ack,
                                .on_timeout = on_timeout};
