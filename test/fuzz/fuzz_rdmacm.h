/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm keeps some things as long as a program runs: the devices of each daemon that it has
 * met, and what a daemon has refused to destroy. A process that runs millions of programs gives
 * them back after each.
 */
#ifndef UROCE_FUZZ_RDMACM_H
#define UROCE_FUZZ_RDMACM_H

/* The library's connection to the daemon, if there is one now: its devices are given back. */
void leftovers_note_link(void);

/* No daemon runs any more, and the program has nothing left. */
void leftovers_drop(void);

#endif
