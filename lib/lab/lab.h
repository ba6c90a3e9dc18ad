/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The laboratory: hosts with the transport engine of uroced, each, on a network in virtual time
 * (lib/fabric). What it runs is a struct lab_spec (spec.h). Connections are made without messages,
 * all bytes that flows carry are zero, and frames have an ICRC only where the caller looks at them.
 *
 * Pure: no clock and no I/O. The same specification gives the same frames at the same times.
 * Threads: one per laboratory. Times count from its beginning.
 */
#ifndef UROCE_LAB_H
#define UROCE_LAB_H

#include "engine.h"
#include "fabric.h"
#include "spec.h"

struct lab;

/* Called during lab_run(); each may be NULL. */
struct lab_hooks {
    void *ctx;
    /* Another time of spec.sample has passed. */
    void (*sample)(void *ctx, struct lab *lab, ns_t now);
    /* A frame begins to leave a port of the network. With it frames have an ICRC. */
    void (*frame)(void *ctx, unsigned port, const uint8_t *data, uint32_t len, ns_t now);
};

/*
 * Builds it. spec: borrowed as long as the laboratory; hooks are copied. NULL: out of memory. Port
 * 2 * i of the network is the end of link i at its first node.
 */
struct lab *lab_create(const struct lab_spec *spec, const struct lab_hooks *hooks);
void lab_destroy(struct lab *lab);

/* Runs until spec.until, or until all flows have ended; then lab_ended() is the time. 0; -ENOMEM;
 * -EDEADLK: an engine stays busy without the clock moving. */
int lab_run(struct lab *lab);
ns_t lab_ended(const struct lab *lab);

struct fabric *lab_fabric(struct lab *lab);

/* ---- flows ---- */

enum lab_outcome {
    LAB_WAITING, /* it has not begun */
    LAB_RUNNING,
    LAB_DONE,
    LAB_FAILED, /* a request failed: lab_result.status */
};

/* X(name): those of struct qp_counters, summed over both ends of a flow. */
enum {
#define X(name) LAB_COUNTER_##name,
    QP_COUNTERS(X)
#undef X
        LAB_COUNTERS,
};
extern const char *const lab_counter_name[LAB_COUNTERS];

struct lab_result {
    enum lab_outcome outcome;
    ns_t start, end;  /* end: of LAB_DONE and LAB_FAILED */
    ns_t ideal;       /* at least, alone on one path; 0: there is none, or the flow has no end */
    uint64_t bytes;   /* of messages that are complete */
    uint64_t arrived; /* bytes of data that have reached the receiver, repetitions too */
    uint64_t counter[LAB_COUNTERS];
    uint8_t status; /* enum wc_status */
    uint16_t sport; /* UDP source port of its data, the last one */
};
void lab_result(const struct lab *lab, unsigned flow, struct lab_result *result);
/* lab_result.arrived alone. */
uint64_t lab_arrived(const struct lab *lab, unsigned flow);

/* ---- rules ---- */

/* As `uroce fault list` counts, of all of a rule's hosts. */
struct lab_hits {
    uint64_t matched; /* frames that it describes, within its time */
    uint64_t acted;   /* of these, to which it was done */
    uint64_t missed;  /* that it picked although it could not be done */
};
void lab_rule_hits(const struct lab *lab, unsigned rule, struct lab_hits *hits);

/* Frames that engines dropped, of all hosts, by reason. */
void lab_drops(const struct lab *lab, uint64_t drop[DROP_COUNT]);

#endif
