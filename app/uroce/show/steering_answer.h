/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a flow's packets arrive, and why: computed from the port's hash, key, fields and table, as
 * the daemon reports them. The caller owns the JSON values that functions return.
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
    const char *device; /* restricts the question to this device's port; or NULL */
};

/* "SRC,DST,SPORT": two addresses of one IP version and a UDP source port. 0, or -EINVAL with the
 * reason on stderr. */
int steering_parse_flow(struct steering_question *q, const char *text);
/* A queue pair number, of 24 bits. Returns as above. */
int steering_parse_qp(struct steering_question *q, const char *text);

static inline bool steering_is_asked(const struct steering_question *q)
{
    return q->by != STEERING_BY_NOTHING;
}

/* The answers as a list: one for the port, or one for each of its queue pairs with the number.
 * Empty if the port was not named and does not have the flow's destination address. qps: the port's
 * queue pairs. */
json_t *steering_answer(const struct steering_question *q, const json_t *port, const json_t *qps);

/* Prints an answer as lines of text to stdout. */
void steering_print(const json_t *answer);

/* The fields that a hash covers, and the number of table entries of each queue. */
void steering_describe_fields(const json_t *rss, char *out, size_t size);
void steering_describe_table(const json_t *rss, char *out, size_t size);

#endif
