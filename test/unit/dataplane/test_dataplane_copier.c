/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copiers: who makes a call to a program's memory, what a user may have of them, and how late calls
 * end. A worker's loop without ports makes the calls itself; memory answers when the test says so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unit.h"
#include "watch.h"
#include "worker_internal.h"

#define USER       1000
#define GATES      64
#define LIMIT      4                 /* copiers of a user */
#define CALLS      256               /* late calls of a user */
#define A_PAUSE    (200 * NS_PER_MS) /* a peer ends after 540 ms */
#define FAR_AWAY   (3600 * NS_PER_SEC)
#define FULL_BYTES (4u << 20)

/* ---- memory that answers when its gate is open ---- */

struct space {
    _Atomic unsigned holders, late;
    _Atomic bool gone;
    int user;
    _Atomic bool open[GATES], begun[GATES];
};

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void copy(void *arg, struct mem_io *io, unsigned n)
{
    struct space *s = arg;
    unsigned gate = (unsigned)io->addr;

    atomic_store(&s->begun[gate], true);
    while (!atomic_load(&s->open[gate]))
        pause_briefly();
    for (unsigned i = 0; i < n; i++)
        io[i].status = 0;
}

static void hold(void *arg)
{
    ((struct space *)arg)->holders++;
}

static void release(void *arg)
{
    struct space *s = arg;

    if (--s->holders == 0)
        atomic_store(&s->gone, true);
}

static _Atomic unsigned *late_calls(void *arg)
{
    return &((struct space *)arg)->late;
}

static int user_of(const void *arg)
{
    return ((const struct space *)arg)->user;
}

static const struct mem_backend backend = {.copy_in = copy,
                                           .copy_out = copy,
                                           .hold = hold,
                                           .release = release,
                                           .late = late_calls,
                                           .user = user_of};

/* ---- the engine's part ---- */

static unsigned ended, given_up, rooms;

/* These stand in for the engine's. */
void engine_call_ended(struct engine *e, struct mem_call *call, bool in_time, ns_t now)
{
    ended += in_time;
    given_up += !in_time;
}

void engine_memory_has_room(struct engine *e, ns_t now)
{
    rooms++;
}

/* ---- a worker, its watch and its loop ---- */

static struct worker worker;
static struct worker_group group;
static _Atomic bool loop_over;
static void (*script)(struct worker *w);
static bool pinned; /* the worker has a CPU of its own */
static cpu_set_t all, own;
static struct space space[8];
static struct mem_region region[8];
static uint8_t bytes[KEPT_MAX][2048];

static int start_thread(pthread_t *t, const char *name, void *(*fn)(void *), void *arg)
{
    return pthread_create(t, NULL, fn, arg);
}

static void loop(struct worker *w)
{
    script(w);
}

static void loop_ended(struct worker *w)
{
    atomic_store(&loop_over, true);
}

static void *first_thread(void *arg)
{
    carrier_run(&worker, loop, loop_ended);
    return NULL;
}

/* All spaces but the last one are of one user. */
static void run(void (*what)(struct worker *w))
{
    struct watch_config config = {.group = &group, .thread_start = start_thread};
    struct watch *watch;
    pthread_t first, watching;
    int err;

    worker = (struct worker){.group = &group,
                             .pinned = pinned,
                             .own_call = worker_mem_call_create(),
                             .caller = {.run = carrier_call, .refuses = copier_refuses}};
    worker.caller.call = &worker.own_call->call;
    while (pinned && !CPU_ISSET(worker.own_cpu, &own))
        worker.own_cpu++;
    TAILQ_INIT(&worker.late_calls);
    group = (struct worker_group){.worker = {&worker}, .workers = 1};
    memset(space, 0, sizeof(space));
    memset(region, 0, sizeof(region));
    for (unsigned i = 0; i < ARRAY_SIZE(space); i++) {
        space[i].holders = 1;
        space[i].user = i == 7 ? USER + 1 : USER;
        region[i] = (struct mem_region){.backend = &backend, .space = &space[i]};
    }
    ended = given_up = rooms = 0;
    loop_over = false;
    script = what;
    watch = watch_create(&config, &err);
    assert_non_null(watch);
    assert_int_equal(pthread_create(&watching, NULL, watch_run, watch), 0);
    assert_int_equal(pthread_create(&first, NULL, first_thread, NULL), 0);
    while (!atomic_load(&loop_over))
        pause_briefly();
    watch_stop(watch);
    pthread_join(watching, NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(space); i++) /* copiers may still be there */
        for (unsigned g = 0; g < GATES; g++)
            atomic_store(&space[i].open[g], true);
    for (unsigned i = 0; i < ARRAY_SIZE(space); i++) {
        while (atomic_load(&space[i].holders) > !space[i].gone)
            pause_briefly();
        mr_end(&region[i]);
    }
    if (worker.joins) /* else the watch has detached it */
        pthread_join(first, NULL);
    watch_destroy(watch);
    carrier_free_loop(&worker);
    worker_mem_call_free(worker.own_call);
}

/* ---- the loop's calls ---- */

static bool same_pass; /* as the call before */

enum outcome { MADE, LATE, BUSY, FAILED };

static enum outcome call(struct worker *w, enum mem_call_kind kind, unsigned at, unsigned gate,
                         uint8_t *local, uint32_t len)
{
    struct mem_call *c = w->caller.call;

    if (!same_pass)
        w->pass_began = worker_time();
    c->kind = kind;
    c->backend = &backend;
    c->space = &space[at];
    c->n = 1;
    c->own = NULL;
    c->io[0] = (struct mem_io){.mr = &region[at], .addr = gate, .local = local, .len = len};
    if (!w->caller.run(&w->caller))
        return LATE;
    free(c->own);
    c->own = NULL;
    if (!c->io[0].status)
        return MADE;
    return c->io[0].status == -EBUSY ? BUSY : FAILED;
}

static enum outcome out(struct worker *w, unsigned at, unsigned gate)
{
    return call(w, MEM_CALL_OUT, at, gate, bytes[0], 1);
}

static unsigned copiers(const struct worker *w)
{
    unsigned n = 0;

    for (const struct carrier *c = w->copiers; c; c = c->next)
        n++;
    return n;
}

static void end_calls(struct worker *w)
{
    copier_end_calls(w, worker_time());
}

static void await_ended(struct worker *w, unsigned n)
{
    while (ended < n) {
        end_calls(w);
        pause_briefly();
    }
}

static void await_copiers(struct worker *w, unsigned n)
{
    while (copiers(w) > n) {
        end_calls(w);
        pause_briefly();
    }
}

static void await_begun(unsigned at, unsigned gate)
{
    while (!atomic_load(&space[at].begun[gate]))
        pause_briefly();
}

/* ---- cases ---- */

static void one_call(struct worker *w)
{
    assert_int_equal(out(w, 0, 0), LATE);
    assert_true(mr_waits(&region[0]));
    assert_false(mr_waits(&region[1]));
    assert_int_equal(space[0].late, 1);
    space[7].open[0] = true; /* another user's */
    assert_int_equal(out(w, 7, 0), MADE);
    end_calls(w);
    assert_int_equal(ended, 0);
    atomic_store(&space[0].open[0], true);
    await_ended(w, 1);
    assert_false(mr_waits(&region[0]));
    await_copiers(w, 0);
    assert_int_equal(space[0].holders, 1);
    assert_int_equal(out(w, 0, 0), MADE);
}

static void on_its_cpu(struct worker *w)
{
    cpu_set_t set;

    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_true(CPU_EQUAL(&set, &own));
    assert_int_equal(out(w, 0, 0), LATE);
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_true(CPU_EQUAL(&set, &own));
    assert_int_equal(pthread_getaffinity_np(w->copiers->thread, sizeof(set), &set), 0);
    assert_true(CPU_EQUAL(&set, &all));
    atomic_store(&space[0].open[0], true);
    await_ended(w, 1);
    await_copiers(w, 0);
}

/* A worker's CPU goes with the loop; the thread that is left with the call runs anywhere. */
static void a_cpu_goes_with_the_loop(void **state)
{
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&own);
    for (int cpu = 0; !CPU_COUNT(&own); cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &own);
    pinned = true;
    run(on_its_cpu);
    pinned = false;
}

static void a_late_call_ends(void **state)
{
    run(one_call);
}

/* Each is the first one of its carrier. The watch has to see a call twice, a tick of a millisecond
 * apart, before it takes the loop out of it; these begin in the middle of a tick. */
static void first_calls(struct worker *w)
{
    for (unsigned at = 0; at < LIMIT; at++) {
        ns_t before = worker_time(), began = before;

        while (began < before + NS_PER_MS / 2)
            began = worker_time();
        assert_int_equal(out(w, at, 0), LATE);
        assert_true(worker_time() - began >= NS_PER_MS);
    }
}

static void calls_of_carriers_are_told_apart(void **state)
{
    run(first_calls);
}

/* However the calls of a program come, its user has no more than a few copiers, and the loop is not
 * left with a call beyond. */
static void stuck_again_and_again(struct worker *w)
{
    for (unsigned round = 0; round < 10; round++) {
        struct carrier *c;

        assert_int_equal(out(w, 0, 2 * round), LATE);
        assert_int_equal(out(w, 0, 2 * round + 1), LATE);
        assert_true(copiers(w) <= LIMIT);
        c = w->copiers;
        while (worker_time() < c->until)
            pause_briefly();
        atomic_store(&space[0].open[2 * round], true);
        if (round < LIMIT)
            await_begun(0, 2 * round + 1);
        end_calls(w);
    }
    assert_int_equal(copiers(w), LIMIT);
    assert_int_equal(counter_get(&w->stats.taken_away), LIMIT);
}

static void copiers_of_a_user_are_limited(void **state)
{
    run(stuck_again_and_again);
}

/* Calls of one byte each, until there is no room. */
static void many_calls(struct worker *w)
{
    unsigned late = 0;

    assert_int_equal(out(w, 0, 0), LATE);
    while (call(w, MEM_CALL_IN, 0, 1, bytes[0], 1) == LATE)
        assert_true(++late <= CALLS);
    assert_int_equal(late, CALLS - 1);
    assert_int_equal(call(w, MEM_CALL_IN, 0, 1, bytes[0], 1), BUSY);
    assert_true(w->caller.full);
    assert_true(w->caller.refuses(&w->caller, &region[0]));
    assert_false(w->caller.refuses(&w->caller, &region[7]));
    assert_int_equal(out(w, 0, 2), LATE); /* one that was not refused before is made */
    atomic_store(&space[0].open[0], true);
    atomic_store(&space[0].open[1], true);
    atomic_store(&space[0].open[2], true);
    await_copiers(w, 0);
    assert_int_equal(ended, CALLS + 1);
    assert_false(w->caller.full);
    assert_int_equal(out(w, 0, 0), MADE);
}

static void calls_of_a_user_are_limited(void **state)
{
    run(many_calls);
}

static void many_bytes(struct worker *w)
{
    uint8_t *large = calloc(1, FULL_BYTES);

    assert_non_null(large);
    assert_int_equal(out(w, 0, 0), LATE);
    assert_int_equal(call(w, MEM_CALL_OUT, 0, 1, large, FULL_BYTES - 1), LATE);
    assert_false(w->caller.full);
    assert_int_equal(call(w, MEM_CALL_OUT, 0, 1, large, MEM_SMALL + 1), LATE);
    free(large); /* the calls have their own */
    assert_true(w->caller.full);
    atomic_store(&space[0].open[0], true);
    atomic_store(&space[0].open[1], true);
    await_copiers(w, 0);
    assert_false(w->caller.full);
}

static void bytes_of_a_user_are_limited(void **state)
{
    run(many_bytes);
}

/* The first call does not answer in time: it and those behind it are given up, and those that had
 * not begun are not made. */
static void no_answer(struct worker *w)
{
    ns_t later;

    assert_int_equal(out(w, 0, 0), LATE);
    assert_int_equal(out(w, 0, 1), LATE);
    assert_int_equal(call(w, MEM_CALL_IN, 0, 2, bytes[0], 1), LATE);
    later = worker_time() + 11 * NS_PER_SEC;
    copier_end_calls(w, later);
    assert_int_equal(given_up, 3);
    assert_true(TAILQ_EMPTY(&w->late_calls));
    assert_int_equal(space[0].late, 1); /* that moves bytes */
    space[0].open[3] = true;
    assert_int_equal(out(w, 0, 3), MADE); /* other memory of the program works */
    atomic_store(&space[0].open[0], true);
    await_copiers(w, 0);
    assert_int_equal(given_up, 3);
    assert_int_equal(ended, 0);
    assert_false(space[0].begun[1]);
    assert_false(space[0].begun[2]);
}

static void calls_are_given_up(void **state)
{
    run(no_answer);
}

static void all_stuck(struct worker *w)
{
    for (unsigned i = 0; i < LIMIT; i++) {
        assert_int_equal(out(w, i, 0), LATE);
        copier_end_calls(w, worker_time() + 11 * NS_PER_SEC);
    }
    assert_int_equal(out(w, 0, 1), FAILED);
    assert_int_equal(out(w, LIMIT, 1), FAILED);
    space[7].open[0] = true;
    assert_int_equal(out(w, 7, 0), MADE);
}

static void calls_of_a_stuck_user_fail(void **state)
{
    run(all_stuck);
}

/* A copier that is shared keeps its own program's space, and makes no other user's calls. */
static void shared(struct worker *w)
{
    w->accounts[USER % USER_ACCOUNTS] =
        (struct user_account){.since = worker_time(), .debt = 20 * NS_PER_MS};
    for (unsigned i = 0; i < LIMIT; i++)
        assert_int_equal(out(w, i, 0), LATE);
    assert_int_equal(out(w, LIMIT, 0), LATE);
    assert_int_equal(copiers(w), LIMIT);
    for (unsigned i = 0; i < LIMIT; i++)
        atomic_store(&space[i].open[0], true);
    await_begun(LIMIT, 0);
    end_calls(w);
    for (unsigned i = 0; i < LIMIT; i++)
        if (w->copiers) /* its time is not over */
            assert_false(space[i].gone);
    for (const struct carrier *c = w->copiers; c; c = c->next)
        assert_true(((struct space *)c->space)->holders > 1);
    space[7].open[0] = true;
    assert_int_equal(out(w, 7, 0), MADE);
}

static void shared_copiers_keep_their_space(void **state)
{
    run(shared);
}

/* What is charged is the call, and no pause is long. */
static void pauses(struct worker *w)
{
    const struct user_account *other = &w->accounts[(USER + 1) % USER_ACCOUNTS];
    ns_t now;

    w->accounts[USER % USER_ACCOUNTS] =
        (struct user_account){.since = worker_time(), .debt = FAR_AWAY};
    assert_int_equal(out(w, 0, 0), LATE);
    now = worker_time();
    assert_true(w->copiers->until > now);
    assert_true(w->copiers->until <= now + A_PAUSE);
    assert_int_equal(call(w, MEM_CALL_IN, 0, 1, bytes[0], 1), LATE);
    space[0].open[0] = space[0].open[1] = true;
    while (atomic_load(&space[0].late)) /* both have ended, and the copier stays */
        end_calls(w);
    assert_int_equal(ended, 1);
    copier_end_calls(w, worker_time() + A_PAUSE); /* its time is over, whatever the thread does */
    assert_int_equal(ended, 2);
    assert_int_equal(given_up, 0);
    same_pass = true;
    for (ns_t until = worker_time() + 50 * NS_PER_MS; worker_time() < until;)
        pause_briefly(); /* the loop waits for something else */
    w->accounts[(USER + 1) % USER_ACCOUNTS] = (struct user_account){.since = worker_time()};
    assert_int_equal(out(w, 7, 0), LATE);
    same_pass = false;
    assert_true(other->debt > 0);
    assert_true(other->debt <= 20 * NS_PER_MS);
}

static void pauses_are_short(void **state)
{
    run(pauses);
}

/* ---- frames ---- */

static unsigned released;

static void rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    released += n;
}

static struct frame burst[FRAME_BURST];

static void fill_burst(unsigned from)
{
    for (unsigned i = 0; i < FRAME_BURST; i++)
        burst[i] = (struct frame){.data = bytes[from + i], .len = sizeof(bytes[0])};
}

static void frames(struct worker *w)
{
    static const struct pktio_ops ops = {.rx_release = rx_release};
    struct pktio io = {.ops = &ops};
    struct worker_port *p = &w->port[0];

    p->worker = w;
    p->io = &io;
    released = 0;
    for (unsigned i = 0; i < 2; i++) {
        fill_burst(i * FRAME_BURST);
        for (unsigned n = 0; n < 1; n++)
            assert_int_equal(call(w, MEM_CALL_OUT, i, 0, burst[3].data + 60, 1000), LATE);
        copier_keep_frames(w, p, burst, FRAME_BURST, false);
        assert_null(w->late_in_burst);
        assert_int_equal(w->kept, i + 1);
    }
    assert_int_equal(released, 2 * (FRAME_BURST - 1));
    w->kept = KEPT_MAX; /* as if many more were */
    assert_int_equal(call(w, MEM_CALL_OUT, 2, 0, burst[3].data + 60, 1000), LATE);
    copier_keep_frames(w, p, burst, FRAME_BURST, false);
    assert_int_equal(w->kept, KEPT_MAX);
    assert_int_equal(released, 3 * FRAME_BURST - 2);
    w->kept = 2;
    for (unsigned i = 0; i < 3; i++)
        atomic_store(&space[i].open[0], true);
    await_copiers(w, 0);
    assert_int_equal(released, 3 * FRAME_BURST);
    assert_int_equal(w->kept, 0);
}

static void few_frames_are_kept(void **state)
{
    run(frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_call_ends),
        cmocka_unit_test(a_cpu_goes_with_the_loop),
        cmocka_unit_test(calls_of_carriers_are_told_apart),
        cmocka_unit_test(copiers_of_a_user_are_limited),
        cmocka_unit_test(calls_of_a_user_are_limited),
        cmocka_unit_test(bytes_of_a_user_are_limited),
        cmocka_unit_test(calls_are_given_up),
        cmocka_unit_test(calls_of_a_stuck_user_fail),
        cmocka_unit_test(shared_copiers_keep_their_space),
        cmocka_unit_test(pauses_are_short),
        cmocka_unit_test(few_frames_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
