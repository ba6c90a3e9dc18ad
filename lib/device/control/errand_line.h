/* SPDX-License-Identifier: BSD-3-Clause */
/* Errands in line: one line for each process, and a limit of those that run for each process and
 * each user. The caller has a lock. */
#ifndef UROCE_DEVICE_ERRAND_LINE_H
#define UROCE_DEVICE_ERRAND_LINE_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

struct errand;
struct errand_client;
struct errand_user;

STAILQ_HEAD(errand_queue, errand);

struct errand_lines {
    LIST_HEAD(, errand_user) users;
    LIST_HEAD(, errand_client) clients;
    TAILQ_HEAD(, errand_client) ready; /* those whose next errand may run; they take turns */
};

void errand_lines_init(struct errand_lines *ls);
/* Adds an errand to its process's line. False: out of memory. */
bool errand_lines_add(struct errand_lines *ls, const struct ucred *peer, struct errand *e);
/* The next errand to run, while one is ready. */
struct errand *errand_lines_take(struct errand_lines *ls);
/* Whose errands they are. */
struct ucred errand_client_peer(const struct errand_client *c);
/* An errand of c has run. */
void errand_lines_end(struct errand_lines *ls, struct errand_client *c);
/* The errands of a user that have not ended. */
unsigned errand_lines_pending(const struct errand_lines *ls, uid_t uid);

#endif
