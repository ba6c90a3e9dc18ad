/* SPDX-License-Identifier: BSD-3-Clause */
/* The attacks of attacker.c, which go on until they are killed. */
#ifndef UROCE_TEST_ATTACKER_H
#define UROCE_TEST_ATTACKER_H

#include "program_kit.h"

#define MESSAGE ((size_t)64 << 10) /* bytes of a plain WRITE, as ib_write_bw has them */
#define DEPTH   64u                /* of them in flight */

/* `n` is how many objects an attack takes. */
void attack_queues(struct opened *a, unsigned n);
void attack_idle_connections(struct opened *a, unsigned n);
void attack_connections(struct opened *a, unsigned n);
void attack_events(struct opened *a, unsigned n);
void attack_overflow(struct opened *a, unsigned n);
void attack_doorbells(struct opened *a, unsigned n);
void attack_errors(struct opened *a, unsigned n);
void attack_burn(struct opened *a, unsigned n);
void attack_regions(struct opened *a, unsigned n);
void attack_holes(struct opened *a, unsigned n);
void attack_exhaust(struct opened *a, unsigned n);
void attack_windows(struct opened *a, unsigned n);
void attack_silent(struct opened *a, unsigned n);
/* Opens the userfaultfd; a right that the program gives up when it changes its user. */
void prepare_silent(void);

#endif
