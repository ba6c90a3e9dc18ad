/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a queue pair failed, and the incidents that tell of it. Nothing here is called, and none of
 * its fields touched, while all is well. The first cause decides, until the queue pair is reset.
 */
#ifndef UROCE_WHY_H
#define UROCE_WHY_H

#include "cause.h"
#include "common.h"
#include "drop.h"
#include "fault.h"
#include "incident.h"
#include "mr_check.h"
#include "trace.h"

#define WHY_COLD __attribute__((cold))

struct engine;
struct qp;
struct rx_job;
struct sge;

/* A cause, and its details in the order of cause.def. */
struct why {
    uint8_t cause; /* enum cause */
    uint64_t detail[CAUSE_DETAILS];
};

static inline struct why why_of(enum cause cause, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return (struct why){.cause = (uint8_t)cause, .detail = {a, b, c, d}};
}

struct qp_why {
    struct why is;       /* of its error state; CAUSE_none: it is well */
    struct why found;    /* more about the fault that is being judged, if it is of this kind: */
    enum fault found_of; /* else FAULT_NONE */
    uint64_t told[(CAUSE_MAX + 1) / 64]; /* causes of INCIDENT_DROPPED, a bit each: not again */
    uint64_t rx_base;                    /* packets received before it was connected */
    uint64_t rx_seen;                    /* and at the last timeout; changed at: */
    uint64_t rx_seen_at;                 /* 0: there was none */
    uint64_t ended_at; /* it went to ERR, ns; for a peer's worker, atomic; as is */
    uint8_t ended_for; /* and the cause of that */
    struct incident_program program;
};

/* Says more about a fault, which it returns. */
WHY_COLD enum fault why_fault_found(struct qp *qp, enum fault fault, enum cause cause, uint64_t a,
                                    uint64_t b, uint64_t c, uint64_t d);
/* The same of a check of a key. */
WHY_COLD enum fault why_access_fault(struct engine *e, struct qp *qp, enum fault fault,
                                     enum mr_fault found, uint32_t key, uint64_t va, uint64_t len,
                                     uint32_t need);
/* Why an access by L_Keys fails; false: it does not. */
bool why_local_access(struct engine *e, const struct qp *qp, uint32_t pd, const struct sge *sge,
                      unsigned n, uint32_t need, struct why *out);
/* Memory is not there; its address, if it is known. */
struct why why_memory_gone(enum why_side side, uint64_t addr, uint64_t len, uint32_t key);
/* The same of a copy that has failed; tag: its job. */
WHY_COLD void why_copy_fault(struct engine *e, struct qp *qp, enum why_side side, unsigned tag);
/* Adds what a key is that is to be invalidated. */
WHY_COLD void why_invalidate(const struct engine *e, const struct qp *qp, uint32_t key,
                             struct why *out);

/* The queue pair fails, unless it has: for `why`, or for a fault. */
void why_set(struct qp *qp, const struct why *why);
void why_set_cause(struct qp *qp, enum cause cause);
WHY_COLD void why_set_fault(struct engine *e, struct qp *qp, enum fault fault);
/* A fault that the queue pair survives. */
WHY_COLD void why_tell(struct engine *e, struct qp *qp, enum fault fault);
/* A packet to a queue pair of this engine was dropped though it was sound. The first of its kind is
 * told. */
WHY_COLD void why_tell_drop(struct engine *e, enum drop reason, const struct rx_job *job);
/* There was a timeout: has the peer been heard of since the last one? */
void why_note_silence(struct engine *e, struct qp *qp);
/* It goes to the error state now. */
WHY_COLD void why_note_end(const struct engine *e, struct qp *qp);
/* It is well again. */
void why_reset(struct qp *qp);

/* Completes an incident of a queue pair, whose other fields the caller has set, and keeps
 * it. */
WHY_COLD void why_put(struct engine *e, const struct qp *qp, const struct why *why,
                      struct incident *i);
/* The packets to a queue pair that an engine has dropped (event: TRACE_DROP, or TRACE_TX_DROP, as
 * they were sent), as far as its trace has them, and the reason of most. */
uint32_t why_drops(const struct engine *e, enum trace_event event, uint32_t qpn, uint64_t since,
                   enum drop *reason);

#endif
