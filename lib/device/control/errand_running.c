/* SPDX-License-Identifier: BSD-3-Clause */
/* See errand_running.h. */
#include "control/errand_running.h"

#include <signal.h>

/* Several times, as a signal may come just before the call; after that the call is one that does
 * not end by signals. */
#define INTERRUPT_TIMES 8

/* Those that have begun before the last tick. */
bool errand_running_interrupt(struct errand_running_list *list, int signal)
{
    struct errand_running *r;
    bool again = false;

    LIST_FOREACH(r, list, link)
    {
        if (!r->what.is_close)
            continue;
        if (r->ticks++ && r->ticks <= INTERRUPT_TIMES)
            pthread_kill(r->thread, signal);
        again |= r->ticks < INTERRUPT_TIMES;
    }
    return again;
}

bool errand_running_name(struct errand_running_list *list, ns_t now, struct late_errand *out)
{
    struct errand_running *r;

    LIST_FOREACH(r, list, link)
    {
        if (r->is_named || now < r->what.since + ERRAND_LATE)
            continue;
        r->is_named = true;
        *out = r->what;
        return true;
    }
    return false;
}

ns_t errand_running_next(const struct errand_running_list *list)
{
    const struct errand_running *r;
    ns_t next = NS_NEVER;

    LIST_FOREACH(r, list, link)
    if (!r->is_named)
        next = min_of(next, r->what.since + ERRAND_LATE);
    return next;
}
