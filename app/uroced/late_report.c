/* SPDX-License-Identifier: BSD-3-Clause */
/* See late_report.h. */
#include "late_report.h"

static bool was_named(const struct late_report *r, int pid, ns_t now)
{
    for (unsigned i = 0; i < ARRAY_SIZE(r->named); i++)
        if (r->named[i].at && r->named[i].pid == pid && now < r->named[i].at + LATE_PERIOD)
            return true;
    return false;
}

static void earn_lines(struct late_report *r, ns_t now)
{
    ns_t seconds = r->since ? (now - r->since) / NS_PER_SEC : 0;

    if (!r->spent || !r->since)
        r->since = now;
    else
        r->since += seconds * NS_PER_SEC;
    r->spent -= (unsigned)min_of((ns_t)r->spent, seconds);
}

bool late_report_names(struct late_report *r, int pid, ns_t now, unsigned *skipped)
{
    if (was_named(r, pid, now))
        return false;
    earn_lines(r, now);
    if (r->spent == LATE_LINES) {
        r->skipped++;
        return false;
    }
    r->spent++;
    r->named[r->next].pid = pid;
    r->named[r->next].at = now;
    r->next = (r->next + 1) % ARRAY_SIZE(r->named);
    *skipped = r->skipped;
    r->skipped = 0;
    return true;
}
