/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw packets whose receive buffers are late: work queues and queue pairs are suspended. */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"

#include "engine_private.h"
#include "raw_fixture.h"

/* ---- a host that puts off calls ---- */

struct slow_caller {
    struct mem_caller caller;
    struct mem_call calls[2], *late;
};

static bool put_off(struct mem_caller *caller)
{
    struct slow_caller *s = container_of(caller, struct slow_caller, caller);

    assert_null(s->late);
    s->late = caller->call;
    assert_true(mem_call_own(s->late));
    caller->call = &s->calls[1];
    return false;
}

static bool refuses(struct mem_caller *caller, const struct mem_region *mr)
{
    return true;
}

static void slow_memory(struct fixture *f, struct slow_caller *s)
{
    *s = (struct slow_caller){.caller = {.call = &s->calls[0], .run = put_off, .refuses = refuses}};
    f->k->node[0].engine->batch.caller = &s->caller;
}

static void answer(struct fixture *f, struct slow_caller *s, bool in_time)
{
    struct mem_call *call = s->late;

    s->late = NULL;
    if (in_time)
        mem_call_run(call);
    engine_call_ended(f->k->node[0].engine, call, in_time, ++f->k->now);
    free(call->own);
}

/* Frames wait for their bytes; a frame that arrives in the meantime is dropped. */
static void late_frames(struct fixture *f, struct raw_queue *q, bool in_time)
{
    uint8_t *slot = f->k->arena + 3 * RAW_SLOT;
    struct slow_caller s;
    struct cqe c;

    slow_memory(f, &s);
    memset(slot, 0, RAW_SLOT);
    raw_post(q, 3);
    raw_post(q, 4);
    arrive(f, 100);
    assert_false(raw_poll(f->cq, &c));
    arrive(f, 100);
    assert_int_equal(slot[12], 0);
    answer(f, &s, in_time);
    expect(f, 3, in_time ? WC_SUCCESS : WC_LOC_PROT_ERR);
    if (in_time)
        assert_int_not_equal(slot[0], 0);
    else
        expect(f, 4, WC_WR_FLUSH_ERR);
    assert_false(raw_poll(f->cq, &c));
}

static void late_frames_of_a_qp(void **state)
{
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    late_frames(f, f->qp, true);
    assert_int_equal(qp_current_state(f->qp->qp), QPS_RTS);
}

static void given_up_frames_of_a_qp(void **state)
{
    struct fixture *f = *state;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    late_frames(f, f->qp, false);
    assert_int_equal(qp_current_state(f->qp->qp), QPS_ERR);
}

static void late_frames_of_a_wq(void **state)
{
    struct fixture *f = *state;
    struct one_wq o;

    f->wq = raw_wq_create(f->k, 0, f->cq, NULL);
    o = wq_takes_all(f);
    assert_int_equal(set_wq(f, WQS_RDY), 0);
    late_frames(f, f->wq, true);
    assert_int_equal(wq_current_state(f->wq->wq), WQS_RDY);
    one_wq_free(f, &o);
}

/* A queue whose buffers are written is neither flushed nor reset. */
static void late_wq_changes_its_state(void **state)
{
    struct fixture *f = *state;
    struct engine *e = f->k->node[0].engine;
    struct slow_caller s;
    struct one_wq o;
    struct cqe c;

    f->wq = raw_wq_create(f->k, 0, f->cq, NULL);
    o = wq_takes_all(f);
    slow_memory(f, &s);
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(set_wq(f, WQS_RDY), 0);
        raw_post(f->wq, 3);
        raw_post(f->wq, 4);
        arrive(f, 100);
        assert_int_equal(set_wq(f, WQS_ERR), 0);
        assert_false(raw_poll(f->cq, &c));
        if (!round) {
            answer(f, &s, true);
            expect(f, 3, WC_SUCCESS);
            expect(f, 4, WC_WR_FLUSH_ERR);
        } else {
            assert_int_equal(set_wq(f, WQS_RESET), -EAGAIN);
            assert_false(engine_wq_stop(e, f->wq->wq));
            answer(f, &s, true);
            assert_false(raw_poll(f->cq, &c));
        }
        assert_true(engine_wq_stop(e, f->wq->wq));
        assert_int_equal(set_wq(f, WQS_RESET), 0);
        s.caller.call = &s.calls[0];
    }
    one_wq_free(f, &o);
}

/* Without room for a call the frame is dropped, and its entry serves the next one. */
static void no_room_for_a_frame(void **state)
{
    struct fixture *f = *state;
    struct slow_caller s;
    struct cqe c;

    f->qp = raw_qp_create(f->k, 0, f->cq, NULL);
    all_to(f, f->qp->qp);
    slow_memory(f, &s);
    s.caller.full = true;
    raw_post(f->qp, 3);
    arrive(f, 100);
    assert_false(raw_poll(f->cq, &c));
    assert_null(s.late);
    s.caller.full = false;
    arrive(f, 100);
    answer(f, &s, true);
    expect(f, 3, WC_SUCCESS);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_copied, teardown)
    const struct CMUnitTest tests[] = {
        CASE(late_frames_of_a_qp),       CASE(given_up_frames_of_a_qp), CASE(late_frames_of_a_wq),
        CASE(late_wq_changes_its_state), CASE(no_room_for_a_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
