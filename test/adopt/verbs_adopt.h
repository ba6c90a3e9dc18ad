/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the program verbs_adopt share. */
#ifndef UROCE_VERBS_ADOPT_H
#define UROCE_VERBS_ADOPT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../shim/verbs_pair.h"
#include "../unit/unit.h"

#define PAGE 4096u
#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

extern struct pair p;
extern bool adopted;        /* that is how the daemon is to reach memory here */
extern double seconds;      /* that a test should take */
extern atomic_bool stop;    /* told to threads */
extern atomic_ulong faults; /* wrong bytes and failed calls that threads saw */

double now(void);
/* How many mappings of the process lie in the library's memfd, shared or not. */
unsigned mappings(const char *perms);
/* Takes n completions, which must be good. */
void complete(int n);
void fill(uint8_t *b, size_t n, uint8_t key);
/* Counts a fault unless b was filled so. */
void look(const uint8_t *b, size_t n, uint8_t key);

/* verbs_hot.c */
void hot_regions(void **state);
void hot_regions_go(void **state);
void hot_contexts_close(void **state);
void atomic_regions_stay_together(void **state);
void large_region_after_a_fork(void **state);

#endif
