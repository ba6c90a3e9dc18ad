/* SPDX-License-Identifier: BSD-3-Clause */
/* What reaches the connection manager without a program: frames, time, a second port. */
#ifndef UROCE_FUZZ_CTL_CM_H
#define UROCE_FUZZ_CTL_CM_H

#include "device_private.h"
#include "fuzz_input.h"

/* A port on a network with other hosts, once; its pktio's other end, or NULL if there is one. */
struct pktio *fuzz_add_port(struct rnic *r);

/* The control thread's part: frames that went up, timers, neighbours. */
void fuzz_control(struct rnic *r, struct input *in);

/*
 * A packet to queue pair 1. Device, source, message, which connection, how many bytes are damaged,
 * and where and how. A message of 11 and more: another MAD, whose bytes follow.
 */
void fuzz_mad(struct rnic *r, struct input *in);

/* Device, length and bytes of a frame for the control thread. */
void fuzz_frame(struct rnic *r, struct input *in);

#endif
