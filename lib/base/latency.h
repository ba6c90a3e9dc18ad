/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long work requests take, stage by stage, as histograms of nanoseconds: one thread adds, any
 * thread reads. Each sample is in all histograms, so that the stages' sums add up to the total.
 */
#ifndef UROCE_LATENCY_H
#define UROCE_LATENCY_H

#include "counter.h"
#include "log_bucket.h"

enum latency_stage {
    LATENCY_QUEUED,  /* posted, and not taken by the worker */
    LATENCY_SENDING, /* until its last packet was sent for the first time */
    LATENCY_ANSWER,  /* until its completion was written; unreliable services wait for none */
    LATENCY_POLLED,  /* until the program had the completion */
    LATENCY_TOTAL,   /* from the call that posted it to that, by the program's clock */
    LATENCY_STAGES
};

#define LATENCY_BITS    2  /* four buckets for each power of two */
#define LATENCY_MAX     36 /* bits of a time: 68 s */
#define LATENCY_BUCKETS LOG_BUCKETS(LATENCY_BITS, LATENCY_MAX)

/* Zeroed: empty. */
struct latency_histogram {
    counter_t sum; /* ns */
    counter_t bucket[LATENCY_BUCKETS];
};

/* The histogram's one writer; a time below 2^LATENCY_MAX. */
static inline void latency_add(struct latency_histogram *h, uint64_t ns)
{
    counter_add(&h->sum, ns);
    counter_inc(&h->bucket[log_bucket(LATENCY_BITS, ns)]);
}

#endif
