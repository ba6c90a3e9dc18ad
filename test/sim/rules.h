/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the directed tests of the RC rules: a connected pair with memory on both sides. */
#ifndef UROCE_RULES_H
#define UROCE_RULES_H

#include <errno.h>
#include <string.h>

#include "unit.h"

#include "kit.h"

#define MEM_ALL   (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC)
#define MEM_BYTES 65536
#define MTU       1024 /* of the default attributes */
#define PSN_A     1000 /* first PSN that a sends */
#define PSN_B     5000
#define RC(op)    OPCODE(PKT_RC, op)
#define MILLI(n)  ((n)*NS_PER_MS)

struct rules {
    struct kit *k;
    struct kit_qp *a, *b;   /* at nodes 0 and 1; each with a send CQ and a receive CQ of 128 */
    struct kit_mr *ma, *mb; /* mapped, all rights; ma holds a pattern, mb zeroes */
    struct kit_link *ab, *ba;
};

/* Connects a and b; rc as for kit_connect, but PSNs that are 0 become PSN_A and PSN_B. */
struct rules rules_start(const struct kit_rc *rc);

/* The same on a kit of the test's own, which should have a log. */
struct rules rules_start_on(struct kit *k, const struct kit_rc *rc);

/* Checks the invariants (counters add up, canaries) and frees all. */
void rules_finish(struct rules *t);

/* The next completion, which must have this wr_id and status. */
struct cqe completes(struct kit_cq *cq, uint64_t wr_id, enum wc_status status);
void completes_nothing(struct kit_cq *cq);

/* Runs for this long, or until idle. */
void run_for(struct rules *t, ns_t duration);

/* Loses every frame of the link until set to KIT_PASS again. */
void link_does(struct kit_link *l, enum kit_verdict verdict);

/* The n-th logged frame with this opcode; fails the test when there is none. */
const struct pkt *nth(const struct kit_link *l, uint8_t opcode, unsigned n);

#define state_of(end)        qp_current_state((end)->qp)
#define count_of(end, field) counter_get(&qp_counters((end)->qp)->field)
#define drops_of(node_, why) counter_get(&engine_counters((node_)->engine)->drop[DROP_##why])

#endif
