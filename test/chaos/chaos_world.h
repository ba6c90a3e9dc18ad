/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the chaos test (test_dataplane_chaos.c). The control thread's. */
#ifndef UROCE_TEST_CHAOS_WORLD_H
#define UROCE_TEST_CHAOS_WORLD_H

#include "chaos_raw.h"

#define ADDRESSES  4
#define BYSTANDERS 6

struct world {
    struct dataplane dp;
    struct random random;
    struct app app[APPS];
    struct raw_app raw;
    struct program bystander; /* the control thread's own: queue pairs that do not send */
    uint32_t qp[BYSTANDERS];  /* numbers, or 0 */
    bool member[BYSTANDERS];
    bool address[ADDRESSES];
    uint64_t moves, refused, kills, shows, changes;
};
extern struct world world;

/* A random number below n. */
unsigned below(unsigned n);

/* ---- disturbances (chaos_disturb.c) ---- */

void move_one(void);
void report_stray(void);
/* Queries all objects. */
void look(void);
void change_address(void);
void change_bystander(void);

/* ---- what became of it (chaos_report.c) ---- */

void report(void);
void check_lost(void);
void check_drops(void);

#endif
