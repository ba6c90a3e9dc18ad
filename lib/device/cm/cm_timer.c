/* SPDX-License-Identifier: BSD-3-Clause */
/* When the manager's host has to act next. */
#include <sys/timerfd.h>

#include "cm/cm_object.h"

#define ROOM_NS (NS_PER_SEC / 1000)

/* When a worker that had no room for MADs may have some. */
static ns_t next_room(const struct rnic *r)
{
    for (unsigned i = 0; i < r->devices; i++)
        if (r->device[i]->gsi.is_full)
            return r->config.clock() + ROOM_NS;
    return NS_NEVER;
}

void cm_host_arm(struct rnic *r)
{
    struct cm_host *h = &r->cm;
    ns_t next = min_of(min_of(cm_next_timer(h->manager), h->first), next_room(r));
    struct itimerspec when = {0};

    /* A timer that is due too early is armed again then. */
    if (h->timer.fd < 0 || next >= h->armed)
        return;
    h->armed = next;
    when.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
    when.it_value.tv_nsec = (long)(next % NS_PER_SEC);
    if (!next)
        when.it_value.tv_nsec = 1; /* all zero would disarm */
    timerfd_settime(h->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}
