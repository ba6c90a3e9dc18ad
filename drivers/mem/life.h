/* SPDX-License-Identifier: BSD-3-Clause */
/* How long the space of an application stays: a call may still wait for the application's memory
 * when the application has left. */
#ifndef UROCE_MEM_LIFE_H
#define UROCE_MEM_LIFE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Part of a space. */
struct mem_life {
    _Atomic unsigned holders;           /* the application's connection, late calls, copiers */
    _Atomic unsigned late;              /* calls */
    int user;                           /* for people, and for fairness; -1: not known */
    void (*end)(struct mem_life *life); /* after the last of them; NULL: nothing is to be done */
    void *space;                        /* what `end` ends */
    pthread_mutex_t atomics;            /* one at a time: they are a copy in and a copy out */
};

/* The connection holds the space. */
static inline void mem_life_begin(struct mem_life *life)
{
    atomic_init(&life->holders, 1);
    atomic_init(&life->late, 0);
    life->user = -1;
    life->end = NULL;
    pthread_mutex_init(&life->atomics, NULL);
}

/* Any thread that knows that the space is held. */
static inline void mem_life_hold(struct mem_life *life)
{
    atomic_fetch_add(&life->holders, 1);
}

/* Any thread. */
static inline void mem_life_release(struct mem_life *life)
{
    if (atomic_fetch_sub(&life->holders, 1) == 1 && life->end)
        life->end(life);
}

#endif
