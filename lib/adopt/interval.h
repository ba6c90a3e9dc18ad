/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of intervals with a count of users each: references to pages, by offset or address. */
#ifndef UROCE_INTERVAL_H
#define UROCE_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
    uint64_t start, end;
    uint32_t users; /* never 0 */
};

/* Sorted, without overlaps; neighbours differ in their users. */
struct interval_set {
    struct interval *entry;
    size_t used, room;
};

/*
 * room: how many intervals it can hold. The memory comes from mmap and not from malloc: the
 * program's allocator must not own pages that are needed while its pages are moved. 0 or -ENOMEM.
 */
int interval_init(struct interval_set *s, size_t room);
void interval_fini(struct interval_set *s);
/* Forgets all users. */
void interval_clear(struct interval_set *s);

/* Adds a user to [start, end). 0, or -ENOSPC and nothing has changed. */
int interval_add(struct interval_set *s, uint64_t start, uint64_t end);

/*
 * Removes a user from [start, end); parts without users are skipped. Calls unused for each part
 * that has lost its last user, after the set has dropped it. unused may read the set but not change
 * it.
 */
void interval_remove(struct interval_set *s, uint64_t start, uint64_t end,
                     void (*unused)(void *arg, uint64_t start, uint64_t end), void *arg);

/* Whether any of [start, end) has a user. */
bool interval_any(const struct interval_set *s, uint64_t start, uint64_t end);

/* Widens [*start, *end), which has no users, within [low, high) to the nearest parts with users. */
void interval_widen(const struct interval_set *s, uint64_t low, uint64_t high, uint64_t *start,
                    uint64_t *end);

#endif
