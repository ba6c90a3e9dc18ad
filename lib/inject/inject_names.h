/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of errors, NAKs, verbs, events, statuses and operations: for lib/inject and its tests
 * alone. */
#ifndef UROCE_INJECT_NAMES_H
#define UROCE_INJECT_NAMES_H

#include "inject.h"

struct inject_name {
    const char *name;
    int value;
};

enum inject_name_kind {
    INJECT_ERRORS,
    INJECT_NAKS,
    INJECT_VERBS,
    INJECT_EVENTS,
    INJECT_STATUSES,
    INJECT_OPERATIONS,
    INJECT_NAME_KINDS
};

/* Each list ends with a NULL. */
extern const struct inject_name *const inject_names[INJECT_NAME_KINDS];

/* The value of a name, which is from outside. False: the list has no such name. */
bool inject_find_name(enum inject_name_kind kind, const char *text, int *value);

#endif
