/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the program verbs_adopt. */
#ifndef UROCE_VERBS_ADOPT_H
#define UROCE_VERBS_ADOPT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "unit.h"
#include "verbs_pair.h"

#define PAGE 4096u
#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

extern struct pair p;
extern bool adopted;        /* the daemon is expected to map memory */
extern double seconds;      /* that a test should take */
extern atomic_bool stop;    /* the threads' signal to stop */
extern atomic_ulong faults; /* wrong bytes and failed calls that threads saw */

double now(void);
/* How many mappings there lie in the library's memfd, shared or not. (How many the process has
 * changes by itself: regions that are used become adopted.) */
unsigned mappings_in(const void *where, size_t len, const char *perms);
/* Whether b is in such a mapping. */
bool is_shared(const void *where);
/* Reads n completions, which must be successful. */
void complete(int n);
void fill(uint8_t *b, size_t n, uint8_t key);
/* Counts a fault unless b has this content. */
void look(const uint8_t *b, size_t n, uint8_t key);

/* verbs_hot.c */

/* Whether small regions are to be adopted when they are used. */
bool small_ones(void);
/* RDMA WRITEs of len bytes into a region, until it is adopted. */
void use_until_adopted(struct ibv_mr *mr, uint8_t *at, uint32_t len);

void hot_regions(void **state);
void hot_regions_go(void **state);
void registered_for_each_transfer(void **state);
void registered_twice_for_each_transfer(void **state);
void hot_contexts_close(void **state);
void atomic_regions_stay_together(void **state);
void large_region_after_a_fork(void **state);

/* verbs_mess.c */
void memory_pulled_away(void **state); /* without adoption p's queue pairs have failed after it */
void thousands_of_regions(void **state);

#endif
