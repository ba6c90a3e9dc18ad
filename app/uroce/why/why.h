/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of `uroce why`. JSON values that functions return belong to their caller. */
#ifndef UROCE_APP_WHY_H
#define UROCE_APP_WHY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum why_by { WHY_BY_NOTHING, WHY_BY_QPN, WHY_BY_WR_ID, WHY_BY_PID, WHY_BY_COMM, WHY_BY_CODE };

struct why_question {
    enum why_by by;
    uint64_t number;
    const char *comm;
};

/* A member of the answer; 0 or "" if it is not there. */
static inline json_int_t why_number(const json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

static inline const char *why_text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));

    return s ? s : "";
}

/* A time of the answer, ns or us; those that make no sense are bounded, so that differences have no
 * overflow. */
static inline json_int_t why_time(const json_t *o, const char *name)
{
    const json_int_t most = INT64_MAX / 2;
    json_int_t t = why_number(o, name);

    return t < 0 ? 0 : t > most ? most : t;
}

/* "QPN", "wr_id=N", "pid=N", "pid=NAME" or "code=N". False: it is none of these. */
bool why_parse(struct why_question *q, const char *text);

/*
 * The incidents of the daemon's answer that the question asks for, the newest first, each an object
 * with what follows from the others, too: "root", the incident that led to it, or null; "trace",
 * the events of its queue pair shortly before; "sentence" and "advice".
 */
json_t *why_select(const json_t *root, const struct why_question *q);
/* The cause that is behind an incident: that of its "root", or else its own. */
const json_t *why_root(const json_t *incident);

/* Sentences with the details that matter most. False: there are none. */
bool why_more(const json_t *incident, char *out, size_t room);
/* Advice for what was found. False: that of the cause is all. */
bool why_advice(const json_t *incident, char *out, size_t room);
/* The text of a detail: keys and addresses are hexadecimal. Returns what snprintf does. */
int why_value(char *out, size_t room, const char *name, size_t len, const json_t *v);

/* The answer of the last daemon at a socket that has ended for lack of programs; NULL: there is
 * none, or it is another user's. */
json_t *why_kept(const char *socket);

/* Prints incidents (one at least) as text: the latest one or all. */
void why_print(const json_t *incidents, const json_t *root, bool all);
/* Prints what is known of a number alone. False: it is no cause's. */
bool why_print_code(uint64_t code, bool as_json);

#endif
