/* SPDX-License-Identifier: BSD-3-Clause */
/* A test of raw packets at one engine: a completion queue, and a queue pair or a work queue. */
#ifndef UROCE_TEST_RAW_FIXTURE_H
#define UROCE_TEST_RAW_FIXTURE_H

#include "raw_kit.h"

struct fixture {
    struct raw_kit *k;
    struct raw_cq *cq;
    struct raw_queue *wq, *qp; /* made by the test; or NULL */
};

/* For cmocka: *state is the fixture. Memory is copied, or mapped. */
int setup_copied(void **state);
int setup_mapped(void **state);
int teardown(void **state);

/* A rule that matches all frames, for one queue. */
void all_to(struct fixture *f, struct qp *qp);
/* A frame with that payload arrives. */
void arrive(struct fixture *f, unsigned payload);
/* The next completion. */
void expect(struct fixture *f, uint64_t wr_id, uint8_t status);

/* A receive side behind a queue pair whose indirection table has one entry: the fixture's work
 * queue. */
struct one_wq {
    struct rwq_ind *ind;
    struct raw_queue *rss;
};

struct one_wq wq_takes_all(struct fixture *f);
void one_wq_free(struct fixture *f, struct one_wq *o);
int set_wq(struct fixture *f, enum wq_state to);

#endif
