/* SPDX-License-Identifier: BSD-3-Clause */
/* The process beside a program that keeps the values in sysfs those of the daemon. */
#ifndef UROCE_SYS_WATCHER_H
#define UROCE_SYS_WATCHER_H

#include "endpoint.h"
#include "tree.h"
#include "user_ns.h"

struct watch {
    struct sys_tree *tree;
    struct face *face;
    int sock;    /* to the daemon */
    int alive;   /* a pipe that the program and its children have open */
    int program; /* its pidfd, or -1 */
    struct user_ns user_ns;
    int signals, timeout;         /* watch.c */
    char path[ENDPOINT_PATH_MAX]; /* of the daemon's socket */
};

/*
 * watch_begin() comes first. watch() returns when the program and all processes that inherited the
 * pipe have ended.
 *
 * A file with a counter has a lease while it is closed. To open it waits until this process has
 * asked the daemon and has written the answer, so what is read is current, and costs nothing while
 * it is not read. After an answer, files can be opened freely for ten milliseconds.
 */
void watch_begin(struct watch *w);
void watch(struct watch *w);

#endif
