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

void service_report_ready(struct service *s);
void service_report_end(struct service *s);

/* Also one that was never opened: {.socket = -1, .watchdog.fd = -1}. */
void service_close(struct service *s);

#endif
