/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a flow's packets arrive, and why: computed from what the daemon says of a port's hash, key,
 * fields and table. Functions that return JSON give it to the caller.
 */
#ifndef UROCE_STEERING_ANSWER_H
#define UROCE_STEERING_ANSWER_H

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "predict.h"

enum steering_by { STEERING_BY_NOTHING, STEERING_BY_FLOW, STEERING_BY_QP };

struct steering_question {
    enum steering_by by;
    struct rss_tuple flow; /* as it arrives: src is the peer */
    uint32_t qpn;
    const char *device; /* whose port alone is asked; or NULL */
};

/* "SRC,DST,SPORT": two addresses of one IP version and a UDP source port. 0, or -EINVAL with the
 * reason on stderr. */
int steering_parse_flow(struct steering_question *q, const char *text);
/* A number of 24 bits. Likewise. */
int steering_parse_qp(struct steering_question *q, const char *text);

static inline bool steering_is_asked(const struct steering_question *q)
{
    return q->by != STEERING_BY_NOTHING;
}

/* A list: an answer for the port, or for each of its queue pairs with the number. None if the port
 * has not the flow's destination address and was not named. qps: its queue pairs. */
json_t *steering_answer(const struct steering_question *q, const json_t *port, const json_t *qps);

/* An answer, as lines of text to stdout. */
void steering_print(const json_t *answer);

/* What a hash looks at, and how many entries of its table each queue has. */
void steering_describe_fields(const json_t *rss, char *out, size_t size);
void steering_describe_table(const json_t *rss, char *out, size_t size);

#endif
