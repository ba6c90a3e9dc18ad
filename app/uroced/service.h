/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a service manager (systemd) is told, by datagrams to the socket that $NOTIFY_SOCKET names:
 * programs can connect; the daemon ends; and, if $WATCHDOG_USEC asks for it, that the control
 * thread and the workers are alive, four times in that interval. Without these variables nothing
 * happens.
 */
#ifndef UROCED_SERVICE_H
#define UROCED_SERVICE_H

#include "common.h"
#include "event_loop.h"

struct service {
    int socket; /* -1: there is no service manager */
    struct event_source watchdog;
    struct event_loop *loop;
    int (*still)(void *ctx); /* a worker that stands still since the last time, or -1 */
    void *ctx;
    ns_t moved_at; /* none did */
    bool is_hungry;
};

/* `still` and `ctx` are filled in. Before the process changes its user. Prints what it cannot do;
 * the daemon runs all the same. */
void service_open(struct service *s, struct event_loop *loop);

/* The socket for programs that the manager has opened and listens on (sd_listen_fds(3)), which is
 * the caller's: its descriptor; 0: there is none; -EINVAL: it is not one, or not alone; or another
 * negative errno. */
int service_listener(void);

void service_report_ready(struct service *s);
void service_report_end(struct service *s);

/* Also one that was never opened: {.socket = -1, .watchdog.fd = -1}. */
void service_close(struct service *s);

#endif
