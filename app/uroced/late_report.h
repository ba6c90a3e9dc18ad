/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which late programs get a line in the log: each one, but the same one only once in a minute, and
 * programs cannot fill the log. There may be LATE_LINES lines at once, and one more for each
 * second; those beyond are counted, and the next line says how many they are.
 */
#ifndef UROCED_LATE_REPORT_H
#define UROCED_LATE_REPORT_H

#include <stdbool.h>

#include "common.h"

#define LATE_LINES  32u
#define LATE_PERIOD (60 * NS_PER_SEC)

/* Zeroed, nothing is named yet. One thread. */
struct late_report {
    struct {
        int pid;
        ns_t at;
    } named[2 * LATE_LINES + 60]; /* more than are named in LATE_PERIOD */
    unsigned next;
    unsigned spent;   /* lines of LATE_LINES */
    ns_t since;       /* `spent` was looked at */
    unsigned skipped; /* programs without a line */
};

/* Whether process `pid`, late at `now`, gets a line; then *skipped is how many did not since the
 * last one. */
bool late_report_names(struct late_report *r, int pid, ns_t now, unsigned *skipped);

#endif
