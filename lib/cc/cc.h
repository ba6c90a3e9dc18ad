/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion controllers: how fast a sender may send, and how much before it is acknowledged, after
 * what the network told it. Pure: the caller has the time. A controller starts at the rate of the
 * line, where it limits nothing.
 */
#ifndef UROCE_CC_H
#define UROCE_CC_H

#include "common.h"

/* Paced packets leave in bursts of what the rate gives in this time: the granularity of timers. */
#define CC_BURST (64 * NS_PER_US)

#define CC_PARAMS_MAX 16
#define CC_STATE_MAX  96

/* Units of parameters, as people write them: in algorithms times are in ns, rates in bits per
 * second. */
#define CC_PLAIN UINT64_C(1)
#define CC_US    UINT64_C(1000)
#define CC_MBPS  UINT64_C(1000000)

/* A parameter of an algorithm: its value, unit by unit, is between two others. */
struct cc_param {
    const char *name;
    uint64_t unit, least, most;
};

struct cc_ops;

/* Of one sender. */
struct cc {
    const struct cc_ops *ops; /* NULL: no controller, the limit alone counts */
    const uint64_t *params;   /* the algorithm's: a struct of 64-bit numbers, to it */
    uint64_t line, rate;      /* bits per second; the rate is the line's: not limited by ops */
    uint64_t least;           /* bits per second that ops cannot forbid; 0: they may be slower */
    uint64_t limit;           /* the sender's own, bits per second; 0: none */
    ns_t next;                /* nothing is sent before that */
    uint64_t carry;           /* what next left of the last division */
    uint64_t window;          /* bytes that may be unacknowledged; 0: as many as without ops */
    uint32_t packet;          /* payload bytes of a full one */
    _Alignas(8) unsigned char state[CC_STATE_MAX]; /* the algorithm's: zeroed when it starts */
};

/* An algorithm. A function that is NULL: what it is told of has no effect. */
struct cc_ops {
    const char *name;
    const struct cc_param *param; /* ends with a NULL name */
    const void *defaults;         /* as cc.params */
    bool by_delay;                /* it works from the first packet on, not from the first CNP on */
    void (*start)(struct cc *cc);
    void (*on_cnp)(struct cc *cc, ns_t now);
    void (*on_ce)(struct cc *cc, ns_t now);
    void (*on_sent)(struct cc *cc, uint32_t bytes, ns_t now); /* also 0 bytes: time has passed */
    void (*on_ack)(struct cc *cc, uint64_t bytes, ns_t delay, ns_t now);
    void (*on_timeout)(struct cc *cc, ns_t now);
};

#define CC_ALGORITHM(algorithm) extern const struct cc_ops cc_##algorithm;
#include "algorithms.def"
#undef CC_ALGORITHM

/* The algorithm of that name, or NULL. */
const struct cc_ops *cc_find(const char *name);

/* The i-th algorithm; NULL: there are fewer. */
const struct cc_ops *cc_at(unsigned i);

/* Parameters of an algorithm. */
unsigned cc_param_count(const struct cc_ops *ops);

/* The algorithm's defaults into params[0..CC_PARAMS_MAX]. */
void cc_default_params(const struct cc_ops *ops, uint64_t *params);

/* "NAME=VALUE" sets one of params[]. False: no parameter of that name, not a whole number, or out
 * of its range. */
bool cc_read_param(const struct cc_ops *ops, uint64_t *params, const char *text);

/* *cc: zeroed, or used before; its limit stays. params: outlive the controller; NULL: the defaults.
 * line: bits per second, not 0. packet: payload bytes of a full packet. */
void cc_start(struct cc *cc, const struct cc_ops *ops, const uint64_t *params, uint64_t line,
              uint32_t packet);

/* No controller from now on. */
void cc_stop(struct cc *cc);

/* *cc: zeroed, or used before. Never more than this many bits per second from now on; 0: no limit
 * of its own. */
void cc_set_limit(struct cc *cc, uint64_t limit, ns_t now);

/* Bytes that may leave at once when a sender at that many bits per second was idle, beside one
 * packet. */
uint64_t cc_burst(uint64_t rate);

/* ---- what the controller is told; it has ops ---- */

/* A CNP for the sender has arrived. */
void cc_on_cnp(struct cc *cc, ns_t now);

/* A packet of the peer has arrived marked: there is a queue on the way back. */
void cc_on_ce(struct cc *cc, ns_t now);

/* A packet was acknowledged `delay` after it was sent, and `bytes` in all since it was sent. Once
 * in a round trip, or less often. */
void cc_on_ack(struct cc *cc, uint64_t bytes, ns_t delay, ns_t now);

/* Nothing was acknowledged for so long that all is sent again. */
void cc_on_timeout(struct cc *cc, ns_t now);

/* ---- what it allows ---- */

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

/* ---- for algorithms ---- */

/* Bytes at that rate in so long a time, and the reverse. */
static inline uint64_t cc_bytes_in(uint64_t rate, ns_t time)
{
    return (uint64_t)((unsigned __int128)rate * time / (8 * NS_PER_SEC));
}

static inline uint64_t cc_rate_of(uint64_t bytes, ns_t time)
{
    return (uint64_t)((unsigned __int128)bytes * 8 * NS_PER_SEC / time);
}

#endif
