/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What posting and polling do while they are watched: by a tracer (probe.h), or by the daemon,
 * which wants work requests to be timed. A word for each of the two calls says whether one does.
 * Its low half is the semaphore that tracers raise, its high half counts the contexts that the
 * daemon watches: a call that is not watched costs a load and a branch.
 */
#ifndef UROCE_VERBS_WATCH_H
#define UROCE_VERBS_WATCH_H

#include "shim.h"

extern uint32_t watch_post_send __attribute__((visibility("hidden")));
extern uint32_t watch_post_recv __attribute__((visibility("hidden")));
extern uint32_t watch_process_completion __attribute__((visibility("hidden")));

#define WATCHED(call) unlikely(__atomic_load_n(&watch_##call, __ATOMIC_RELAXED))

/* Work requests from index `from` to before `to` were written, and are not published. Under the
 * ring's lock. */
void watch_sends(struct shim_qp *qp, uint32_t from, uint32_t to);

/* The same of receives. number: of the queue pair, 0 of a shared receive queue, which has none. */
void watch_receives(const struct ibv_context *context, uint32_t number,
                    const struct client_ring *ring, uint32_t from, uint32_t to);

/* Whether a rule of the daemon lets a call fail: 0, or an errno, which is set, too. Without locks.
 */
int watch_judge(struct ibv_context *context, enum ctl_judged call);

/* The program gets a completion. Under the completion queue's lock. */
void watch_completion(const struct ibv_context *context, const struct cqe *e);

/* The daemon watches the context, or no longer does (struct client, watch_changed). Any thread. */
void watch_changed(struct client *c);

/* The context is being closed. */
void watch_end(struct client *c);

#endif
