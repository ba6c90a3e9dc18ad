/* SPDX-License-Identifier: BSD-3-Clause */
/* The topics of `uroce show`. The caller owns the JSON values that functions return. */
#ifndef UROCE_SHOW_H
#define UROCE_SHOW_H

#include <jansson.h>

#include "ctl_msg.h"

struct topic {
    const char *name, *help;
    /* The part of the daemon's state that the topic shows: its list `list`, what `select` returns,
     * or the ports' list or counters named `member`. */
    const char *list;
    json_t *(*select)(const json_t *root);
    const char *member;
    const char *columns; /* of the table; NULL: every key */
    /* The name in "others", where the daemon counts what other users have and does not show it;
     * NULL: it shows the topic to all users. */
    const char *others;
    int (*print)(const json_t *rows); /* NULL: as a table. 0 or -ENOMEM */
    /* Whether the state has what the options ask about; a negative errno with the reason on stderr.
     * Or NULL. */
    int (*check)(const json_t *root);
};

/* Of the rules of `uroce fault`. */
#define SHOW_FAULT_COLUMNS "number device matched acted missed rule"

/* A list of objects. */
json_t *show_select(const struct topic *t, const json_t *root);

/* In the order of printing when no topic is given; the last one has no name. */
extern const struct topic show_topics[];

/* The state of the daemon at the socket, or of the one that a verbs program would find if it
 * started now. NULL with the reason on stderr. */
json_t *show_state(const char *socket_option, enum ctl_show_what what);

typedef void port_visitor(json_t *rows, const char *device, json_t *port, const char *member);

/* Calls visit for every port. visit adds to the list that is returned. */
json_t *show_from_ports(const json_t *root, port_visitor *visit, const char *member);

/* A row that begins with the port; and one such row for each object of a port's list, added to
 * rows. */
json_t *show_begin_row(const json_t *port);
void show_rows_of_list(json_t *rows, const json_t *port, const char *name);

/* ---- qos.c ---- */

/* Above all characters, as getopt_long returns these too. */
enum qos_question {
    QOS_ASK_SL = 256,
    QOS_ASK_TOS,
    QOS_ASK_TCLASS,
};

/* Adds a question that every port's row answers. 0 or -EINVAL. */
int show_qos_ask(enum qos_question what, const char *number);

json_t *show_qos_select(const json_t *root);
/* Prints the answers, or the tables if there was no question. */
int show_qos_print(const json_t *rows);

/* ---- steering_answer.c ---- */

enum steering_option {
    STEERING_ASK_FLOW = QOS_ASK_TCLASS + 1,
    STEERING_ASK_QP,
    STEERING_ASK_QPS,
};

/* Sets the question; there can be only one. See steering_answer.h. 0 or -EINVAL with the reason on
 * stderr. */
int show_steering_flow(const char *text);
int show_steering_qp(const char *text);
/* Shows the queue pairs, too. */
void show_steering_qps(void);
/* Shows the port of this device alone. -EINVAL: the options named another one already. */
int show_steering_device(const char *name);

json_t *show_steering_select(const json_t *root);
int show_steering_check(const json_t *root);
/* Prints the answer, or the tables if there was no question. */
int show_steering_print(const json_t *rows);

#endif
