/* SPDX-License-Identifier: BSD-3-Clause */
/* The topics of `uroce show`. Functions that return JSON give it to the caller. */
#ifndef UROCE_SHOW_H
#define UROCE_SHOW_H

#include <jansson.h>

#include "ctl_msg.h"

struct topic {
    const char *name, *help;
    /* What of the daemon's state it shows: what this selects, or the ports' list or numbers of this
     * name. */
    json_t *(*select)(const json_t *root);
    const char *member;
    const char *columns;              /* of the table; NULL: all that there are */
    int (*print)(const json_t *rows); /* NULL: as a table. 0 or -ENOMEM */
    /* Whether what was asked for is there; a negative errno with the reason on stderr. Or NULL. */
    int (*check)(const json_t *root);
};

/* A list of objects. */
json_t *show_select(const struct topic *t, const json_t *root);

/* In the order in which they are printed when no topic is given; the last has no name. */
extern const struct topic show_topics[];

/* The state of the daemon that a verbs program started now would find, or the one at the socket.
 * NULL with the reason on stderr. */
json_t *show_state(const char *socket_option, enum ctl_show_what what);

typedef void port_visitor(json_t *rows, const char *device, json_t *port, const char *member);

/* Calls visit for every port, which adds to the list that is returned. */
json_t *show_from_ports(const json_t *root, port_visitor *visit, const char *member);

/* A row of a port's table that says which port it is of; and, into rows, one for each object of a
 * list of the port's. */
json_t *show_begin_row(const json_t *port);
void show_rows_of_list(json_t *rows, const json_t *port, const char *name);

/* ---- qos.c ---- */

/* Numbers that are no characters: they are getopt_long's, too. */
enum qos_ask {
    QOS_ASK_SL = 256,
    QOS_ASK_TOS,
    QOS_ASK_TCLASS,
};

/* A question that every port's row answers from now on. 0 or -EINVAL. */
int show_qos_ask(enum qos_ask what, const char *number);

json_t *show_qos_select(const json_t *root);
/* The answers, or if nothing was asked the tables. */
int show_qos_print(const json_t *rows);

/* ---- show_steering_answer.c ---- */

enum steering_ask {
    STEERING_ASK_FLOW = QOS_ASK_TCLASS + 1,
    STEERING_ASK_QP,
    STEERING_ASK_QPS,
};

/* Questions, of which there is one: see steering_answer.h. 0 or -EINVAL with the reason on stderr.
 */
int show_steering_flow(const char *text);
int show_steering_qp(const char *text);
/* The queue pairs, too. */
void show_steering_qps(void);
/* This device's port alone. -EINVAL: another was named. */
int show_steering_device(const char *name);

json_t *show_steering_select(const json_t *root);
int show_steering_check(const json_t *root);
/* The answer, or if nothing was asked the tables. */
int show_steering_print(const json_t *rows);

#endif
