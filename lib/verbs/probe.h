/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes (USDT) for bpftrace, perf, gdb and SystemTap, with the names that rdma-core's
 * providers give their tracepoints: doc/verbs.md. A tracer that attaches raises a probe's
 * semaphore; until then a call costs a load and a branch. Built without <sys/sdt.h> there are none.
 */
#ifndef UROCE_VERBS_PROBE_H
#define UROCE_VERBS_PROBE_H

#include "shim.h"

#ifdef HAVE_SDT
#define PROBE_SEMAPHORE(name) rdma_core_uroce_##name##_semaphore
#define PROBE_WANTED(name)    unlikely(__atomic_load_n(&PROBE_SEMAPHORE(name), __ATOMIC_RELAXED))

/* The low halves of words: watch.c. */
extern unsigned short PROBE_SEMAPHORE(post_send) __attribute__((visibility("hidden")));
extern unsigned short PROBE_SEMAPHORE(post_recv) __attribute__((visibility("hidden")));
extern unsigned short PROBE_SEMAPHORE(process_completion) __attribute__((visibility("hidden")));
#else
#define PROBE_WANTED(name) false
#endif

/* Fire for each WQE from index `from` to before `to`, which were written and are not published.
 * Under the ring's lock. */
void probe_sends(const struct shim_qp *qp, uint32_t from, uint32_t to);
/* number: of the queue pair, 0 of a shared receive queue, which has none. */
void probe_receives(const struct ibv_context *context, uint32_t number,
                    const struct client_ring *ring, uint32_t from, uint32_t to);
/* Fires for a completion that the program gets. */
void probe_completion(const struct ibv_context *context, const struct cqe *e);

#endif
