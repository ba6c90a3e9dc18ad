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

/* ---- show_qos.c ---- */

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

#endif
