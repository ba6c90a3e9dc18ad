/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker binds a type 1 window while a queue pair of another worker is writing through it. When
 * the bind has completed the memory is the application's again (10.6.7): no byte of it changes,
 * whatever is in flight.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "unit.h"
#include "worker_kit.h"

#define ROUNDS   24
#define WRITES   14
#define UNIT     1024
#define DEADLINE (20 * NS_PER_SEC)

/* The program of side 1: two buffers that the window is bound to in turn. */
struct memory {
    uint8_t source[UNIT], place[2][UNIT];
};

static struct dataplane dp;
static struct test_cq cq[2];
static struct test_mr mr[2];
static struct test_qp binder[2], user[2];
static uint32_t window_key;
static ns_t deadline;

static struct memory *memory(void)
{
    return (struct memory *)kit_memory;
}

static uint64_t va(const void *p)
{
    return KIT_BASE + (uint64_t)((const uint8_t *)p - kit_memory);
}

static struct cqe wait_for(unsigned side)
{
    const struct cqe *e;
    struct cqe taken;

    while (!(e = cq_reader_peek(&cq[side].reader))) {
        require(worker_time() < deadline);
        sched_yield();
    }
    taken = *e;
    cq_reader_advance(&cq[side].reader);
    return taken;
}

static struct worker_port *part_of(const struct test_qp *qp)
{
    struct object *o;

    TAILQ_FOREACH (o, &qp->session->objects[OBJ_QP], link)
        if (o->handle == qp->layout.qpn)
            return container_of(o, struct qp_object, o)->dp.port;
    return NULL;
}

/* A connection whose end on side 1 is on another worker than the binder's. */
static void open_user(void)
{
    for (;;) {
        pair_open(&dp, user, 0, cq);
        if (part_of(&user[1]) != part_of(&binder[1]))
            return;
        qp_close(&user[0]);
        qp_close(&user[1]);
        require(worker_time() < deadline);
    }
}

static void bind_to(unsigned place)
{
    struct test_bind b = {.window_key = window_key,
                          .new_key = (window_key & ~0xFFu) | ((window_key + 1) & 0xFF),
                          .region_key = mr[1].key,
                          .access = MEM_REMOTE_WRITE | MEM_ZERO_BASED,
                          .addr = va(memory()->place[place]),
                          .len = UNIT};

    post_bind(&binder[1], &b);
    ring_bell(&binder[1]);
    window_key = b.new_key;
}

static void write_all(uint32_t rkey)
{
    for (unsigned i = 0; i < WRITES; i++) {
        struct test_send s = {.op = SQE_WRITE,
                              .signaled = true,
                              .addr = va(memory()->source),
                              .len = UNIT,
                              .lkey = mr[0].key,
                              .rkey = rkey};

        post_send(&user[0], &s);
    }
    ring_bell(&user[0]);
}

/* Late WRITEs are refused, and no WRITE after the first of them is executed. */
static unsigned count_done(void)
{
    unsigned done = 0;

    for (unsigned i = 0; i < WRITES; i++) {
        struct cqe e = wait_for(0);

        require(e.wr_id == i);
        require(e.status == WC_SUCCESS ? done == i
                : done == i            ? e.status == WC_REM_ACCESS_ERR
                                       : e.status == WC_WR_FLUSH_ERR);
        done += e.status == WC_SUCCESS;
    }
    return done;
}

static bool all_are(const uint8_t *p, uint8_t value)
{
    for (unsigned i = 0; i < UNIT; i++)
        if (p[i] != value)
            return false;
    return true;
}

static void round_of(unsigned n)
{
    unsigned place = n % 2, done;
    uint32_t key = window_key;

    open_user();
    memset(memory()->source, 7, UNIT);
    write_all(key);
    /* At different times: before the first is executed, or after some. */
    for (unsigned i = 0; i < n; i++)
        sched_yield();
    bind_to(!place);
    require(wait_for(1).status == WC_SUCCESS);
    memset(memory()->place[place], 0xEE, UNIT);
    done = count_done();
    require(all_are(memory()->place[place], 0xEE));
    if (done == WRITES) /* all came before; the old key is invalid nevertheless */
        write_all(key);
    qp_close(&user[0]);
    qp_close(&user[1]);
    require(all_are(memory()->place[place], 0xEE));
    while (cq_reader_peek(&cq[0].reader))
        cq_reader_advance(&cq[0].reader);
}

static void test_rebind(void **state)
{
    const struct pktio_sim_config config = {.queues = {2, 2}};
    struct ctl_msg m;
    struct ctl_call k = {0};

    deadline = worker_time() + DEADLINE;
    dataplane_start(&dp, 4, &config);
    for (unsigned i = 0; i < 2; i++) {
        cq_open(&dp, i, &cq[i]);
        mr[i] = mr_open(&dp, i, KIT_BASE, sizeof(struct memory));
    }
    m = (struct ctl_msg){.alloc_mw = {.pd = dp.pd[1], .type = 1}};
    require(!kit_call(dp.session[1], CTL_ALLOC_MW, &m, &k, false));
    window_key = k.reply.alloc_mw.rkey;
    pair_open(&dp, binder, 0, cq);
    bind_to(0);
    require(wait_for(1).status == WC_SUCCESS);
    for (unsigned i = 0; i < ROUNDS; i++)
        round_of(i);
    /* While it is bound its region stays; it does not outlive the window. */
    assert_int_equal(kit_call_handle(dp.session[1], CTL_DEREG_MR, mr[1].handle), -EBUSY);
    assert_int_equal(kit_call_handle(dp.session[1], CTL_DEALLOC_MW, k.reply.alloc_mw.handle), 0);
    mr_close(&dp, 1, mr[1]);
    dataplane_stop(&dp);
    cq_close(&cq[0]);
    cq_close(&cq[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rebind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
