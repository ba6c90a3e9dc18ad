/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once, on a port with several workers: applications send all kinds of messages and
 * check every byte, while the control thread migrates their queue pairs from worker to worker,
 * serves their requests, ends some of them in the middle of their traffic, changes the port's
 * addresses and group memberships, and queries all objects. Messages between objects that stay must
 * arrive once and in order.
 *
 * usage: test_dataplane_chaos [SECONDS [SEED]]
 */
#include "chaos_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

#define ROUNDS       40 /* of disturbances; then all flows must finish without any */
#define DISTURBANCES 12 /* between two checks for requests */

static unsigned seconds = 2;
static uint64_t seed;

/* ---- applications begin and end ---- */

static void start_app(struct app *a)
{
    int wake = a->wake;

    *a = (struct app){.dp = &world.dp, .wake = wake, .random = {random_next(&world.random)}};
    for (unsigned i = 0; i < PROGRAMS; i++)
        a->program[i].dp = &world.dp;
    require(!pthread_create(&a->thread, NULL, app_run, a));
}

/* Its thread stops at once; the contexts close while its requests are in flight. */
static void kill_app(struct app *a)
{
    if (atomic_exchange(&a->killed, true))
        return;
    write_event(a->wake);
    world.kills++;
}

static void bury_app(struct app *a)
{
    uint64_t count;

    pthread_join(a->thread, NULL);
    if (atomic_load(&a->killed))
        require(read(a->wake, &count, sizeof(count)) == sizeof(count));
    for (unsigned i = 0; i < PROGRAMS; i++)
        program_close(&a->program[i]);
}

static void start_raw(void)
{
    struct raw_app *a = &world.raw;
    int wake = a->wake;

    memset(a, 0, sizeof(*a));
    a->wake = wake;
    a->random.state = random_next(&world.random);
    a->program.dp = &world.dp;
    a->port = (uint16_t)(RAW_PORT + raw_tally.lives++ % RAW_LIVES);
    require(!pthread_create(&a->thread, NULL, raw_run, a));
}

static void kill_raw(void)
{
    if (atomic_exchange(&world.raw.killed, true))
        return;
    write_event(world.raw.wake);
    atomic_fetch_add(&raw_tally.kills, 1);
}

static void bury_raw(void)
{
    uint64_t count;

    pthread_join(world.raw.thread, NULL);
    if (atomic_load(&world.raw.killed))
        require(read(world.raw.wake, &count, sizeof(count)) == sizeof(count));
    raw_close(&world.raw);
}

static void disturb(void)
{
    unsigned n = below(700);

    if (n < 300)
        move_one();
    else if (n < 400)
        report_stray();
    else if (n < 460)
        change_bystander();
    else if (n < 480)
        change_address();
    else if (n < 498)
        look();
    else if (n < 500)
        kill_app(&world.app[below(APPS)]);
    else if (n < 630)
        raw_disturb(&world.raw, &world.random);
    else if (n < 699)
        watch_disturb(&world.random);
    else
        kill_raw();
}

static bool raw_is_enough(void)
{
    for (unsigned i = 0; i < RAW_PHASES; i++)
        if (!raw_tally.phases[i] || !raw_tally.sent[i])
            return false;
    return raw_tally.tables > 20 && raw_tally.kills && raw_tally.flushed && raw_tally.resets &&
           raw_tally.remade && raw_tally.watched && raw_tally.watch_ends;
}

/* On a machine of any speed, each kind of event has occurred. */
static bool enough(ns_t end)
{
    for (unsigned i = 0; i < FLOW_KINDS; i++)
        if (!tally.finished[i] || !tally.cut[i])
            return false;
    return raw_is_enough() && worker_time() >= end && world.moves > 20 && world.kills &&
           world.shows && world.changes;
}

/* Serves applications, and restarts them. */
static void attend_to_apps(void)
{
    event_loop_step(world.dp.loop, 1);
    dataplane_control(&world.dp);
    for (unsigned i = 0; i < APPS; i++) {
        if (atomic_load(&world.app[i].ended)) {
            bury_app(&world.app[i]);
            start_app(&world.app[i]);
        }
    }
    if (atomic_load(&world.raw.ended)) {
        bury_raw();
        start_raw();
    }
    watch_poll();
}

/* A queue pair that a worker forgot would continue if it migrated once more. So there are no
 * disturbances until every flow has ended. */
static void leave_in_peace(void)
{
    ns_t deadline = worker_time() + TIMEOUT;
    uint64_t finished = raw_tally.finished;

    for (unsigned i = 0; i < APPS; i++) {
        struct app *a = &world.app[i];

        for (unsigned k = 0; k < FLOWS; k++) {
            unsigned before = atomic_load(&a->begun[k]);

            while (atomic_load(&a->begun[k]) == before) {
                require(worker_time() < deadline);
                attend_to_apps();
            }
        }
    }
    while (raw_tally.finished < finished + 2 * RAW_WINDOW) {
        require(worker_time() < deadline);
        attend_to_apps();
    }
}

static void run(ns_t end)
{
    ns_t deadline;

    while (!enough(end)) {
        for (unsigned n = 0; n < ROUNDS; n++) {
            for (unsigned i = 0; i < DISTURBANCES; i++)
                disturb();
            attend_to_apps();
        }
        leave_in_peace();
    }
    atomic_store(&closing_time, true);
    deadline = worker_time() + TIMEOUT;
    for (unsigned i = 0; i < APPS; i++) {
        while (!atomic_load(&world.app[i].ended)) {
            require(worker_time() < deadline);
            event_loop_step(world.dp.loop, 1);
        }
        bury_app(&world.app[i]);
    }
    while (!atomic_load(&world.raw.ended)) {
        require(worker_time() < deadline);
        event_loop_step(world.dp.loop, 1);
    }
    bury_raw();
}

/* ---- the test ---- */

static void test_everything_at_once(void **state)
{
    world.random.state = seed;
    dataplane_start_loop(&world.dp, WORKERS, &chaos_memory);
    control_open(world.dp.loop);
    world.bystander.dp = &world.dp;
    program_open(&world.bystander);
    for (unsigned i = 0; i < APPS; i++) {
        world.app[i].wake = eventfd(0, EFD_CLOEXEC);
        require(world.app[i].wake >= 0);
        start_app(&world.app[i]);
    }
    world.raw.wake = eventfd(0, EFD_CLOEXEC);
    require(world.raw.wake >= 0);
    watch_open(&world.dp);
    start_raw();
    run(worker_time() + seconds * NS_PER_SEC);
    program_close(&world.bystander);
    watch_close();
    report();
    check_lost();
    check_drops();
    for (unsigned i = 0; i < APPS; i++)
        close(world.app[i].wake);
    close(world.raw.wake);
    control_close(world.dp.loop);
    dataplane_stop(&world.dp);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everything_at_once)};

    seed = (uint64_t)time(NULL);
    if (argc > 1)
        seconds = (unsigned)atoi(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 0);
    fprintf(stderr, "# seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
