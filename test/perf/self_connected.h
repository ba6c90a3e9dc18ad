/* SPDX-License-Identifier: BSD-3-Clause */
/* What many_qps.c and many_programs.c share: queue pairs that are connected to themselves. */
#ifndef UROCE_PERF_SELF_CONNECTED_H
#define UROCE_PERF_SELF_CONNECTED_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* Returns the object. NULL ends the program, with `what` and errno. */
void *must(void *object, const char *what);
/* Brings a new RC queue pair to RTS, with as many READs and atomics outstanding each way. */
void connect_to_itself(struct ibv_qp *qp, uint8_t reads);

#endif
