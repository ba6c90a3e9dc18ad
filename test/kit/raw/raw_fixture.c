/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "unit.h"

#include "raw_fixture.h"

static int setup_memory(void **state, bool mapped)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->k = raw_kit_create(mapped);
    f->cq = raw_cq_create(256);
    *state = f;
    return 0;
}

int setup_copied(void **state)
{
    return setup_memory(state, false);
}

int setup_mapped(void **state)
{
    return setup_memory(state, true);
}

int teardown(void **state)
{
    struct fixture *f = *state;
    bool adds_up = raw_adds_up(f->k);

    raw_rules(f->k, NULL, 0);
    if (f->wq)
        raw_queue_destroy(f->wq);
    if (f->qp)
        raw_queue_destroy(f->qp);
    raw_cq_destroy(f->cq);
    raw_kit_destroy(f->k);
    free(f);
    return adds_up ? 0 : -1;
}

void all_to(struct fixture *f, struct qp *qp)
{
    const struct flow_rule rule = {.type = FLOW_NORMAL, .qp = qp};

    raw_rules(f->k, &rule, 1);
}

void arrive(struct fixture *f, unsigned payload)
{
    struct raw_bytes b;
    struct frame frame;

    raw_build(&b, &(struct raw_spec){.payload = payload});
    frame = raw_frame(&b);
    raw_arrive(f->k, 0, &frame, 1);
}

void expect(struct fixture *f, uint64_t wr_id, uint8_t status)
{
    struct cqe c;

    assert_true(raw_poll(f->cq, &c));
    assert_int_equal(c.wr_id, wr_id);
    assert_int_equal(c.status, status);
}

struct one_wq wq_takes_all(struct fixture *f)
{
    struct rx_hash hash = {.function = RSS_TOEPLITZ};
    struct one_wq o = {.ind = rwq_ind_create(rwq_entries_create(&f->wq->wq, 1))};

    o.rss = raw_rss_create(f->k, &hash, o.ind);
    all_to(f, o.rss->qp);
    return o;
}

void one_wq_free(struct fixture *f, struct one_wq *o)
{
    raw_rules(f->k, NULL, 0);
    raw_queue_destroy(o->rss);
    rwq_ind_free(o->ind);
}

int set_wq(struct fixture *f, enum wq_state to)
{
    return engine_wq_modify(f->k->node[0].engine, f->wq->wq, to, ++f->k->now);
}
