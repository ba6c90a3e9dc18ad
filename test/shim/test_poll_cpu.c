/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that polls on the worker's CPU moves to another CPU; on a simulated machine. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "unit.h"

#define CPUS 4

/* ---- in the place of the C library's: a thread on `cpu` of those in `allowed` ---- */

static int cpu;
static cpu_set_t allowed, history[8], *pinned_meanwhile;
static long online;
static unsigned calls;

int sched_getcpu(void)
{
    return cpu;
}

long sysconf(int name)
{
    assert_int_equal(name, _SC_NPROCESSORS_CONF);
    return online;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    assert_int_equal(pid, 0);
    assert_int_equal(size, sizeof(*set));
    *set = allowed;
    return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    assert_int_equal(pid, 0);
    assert_int_equal(size, sizeof(*set));
    assert_true(calls < ARRAY_SIZE(history));
    history[calls++] = *set;
    while (!CPU_ISSET(cpu, set))
        cpu = (cpu + 1) % CPUS;
    allowed = pinned_meanwhile ? *pinned_meanwhile : *set;
    return 0;
}

/* ---- */

static struct client *client;
static ns_t now = NS_PER_SEC;

static int setup(void **state)
{
    client = calloc(1, sizeof(*client));
    client->workers = 2;
    client->shared = aligned_alloc(CACHE_LINE, ctx_segment_bytes(2));
    memset(client->shared, 0, ctx_segment_bytes(2));
    CPU_ZERO(&allowed);
    for (unsigned i = 0; i < CPUS; i++)
        CPU_SET(i, &allowed);
    cpu = 0;
    calls = 0;
    online = 2 * CPUS;
    now += 100 * NS_PER_SEC; /* all earlier events are long ago */
    return 0;
}

static int teardown(void **state)
{
    free(client->shared);
    free(client);
    return 0;
}

static void worker_is(uint32_t index, uint32_t where, uint32_t times)
{
    atomic_store(&client->shared->worker_cpu[index], worker_cpu_pack(where, times));
}

/* Yields of 10 us for this long; returns whether the thread has moved. */
static bool yields_for(ns_t time)
{
    unsigned before = calls;

    for (ns_t t = 0; t < time && calls == before; t += 10 * NS_PER_US, now += 10 * NS_PER_US)
        client_choose_cpu(client, now, NS_PER_US);
    return calls != before;
}

static void stays(void)
{
    assert_false(yields_for(10 * NS_PER_SEC));
}

static void steps_aside(void **state)
{
    cpu_set_t all = allowed;

    worker_is(0, 0, 0);
    worker_is(1, 1, 7);
    assert_false(yields_for(4 * NS_PER_MS));
    assert_true(yields_for(2 * NS_PER_MS));
    assert_int_equal(cpu, 2);
    assert_int_equal(calls, 2);
    assert_int_equal(CPU_COUNT(&history[0]), 2);
    assert_true(CPU_EQUAL(&history[1], &all)); /* it may go anywhere, as before */
    stays();
}

static void only_where_it_may_go(void **state)
{
    worker_is(0, 0, 0);
    CPU_CLR(2, &allowed);
    CPU_CLR(1, &allowed);
    assert_true(yields_for(6 * NS_PER_MS));
    assert_int_equal(cpu, 3);
    cpu = 0;
    CPU_ZERO(&allowed);
    CPU_SET(0, &allowed); /* pinned */
    stays();
}

static void not_without_reason(void **state)
{
    stays(); /* the workers' CPUs are unknown */
    worker_is(0, 1, 0);
    worker_is(1, 2, 0);
    stays();
    worker_is(0, 0, 0);
    atomic_store(&client->shared->spin_limit, 64);
    stays(); /* there are enough CPUs */
    atomic_store(&client->shared->spin_limit, 0);
    worker_is(0, WORKER_CPU_NONE, 1);
    stays();
    /* Another thread sometimes keeps the worker from its CPU. */
    for (uint32_t i = 0; i < 100; i++) {
        worker_is(0, 0, i);
        assert_false(yields_for(4 * NS_PER_MS));
    }
}

/* It yields only once per message, as a program that polls memory does. */
static void not_who_seldom_yields(void **state)
{
    worker_is(0, 0, 0);
    for (unsigned i = 0; i < 16; i++, now += NS_PER_MS)
        client_choose_cpu(client, now, NS_PER_US);
    assert_int_equal(calls, 0);
    client_choose_cpu(client, now, NS_PER_US);
    assert_int_equal(calls, 2);
    /* Nor if it has done something else in between. */
    cpu = 0;
    calls = 0;
    online = 2 * CPUS;
    now += 100 * NS_PER_SEC;
    for (unsigned i = 0; i < 100; i++, now += 6 * NS_PER_MS)
        client_choose_cpu(client, now, NS_PER_US);
    assert_int_equal(calls, 0);
}

static void leaves_others_orders_alone(void **state)
{
    cpu_set_t pin;

    CPU_ZERO(&pin);
    CPU_SET(3, &pin);
    pinned_meanwhile = &pin;
    worker_is(0, 0, 0);
    assert_true(yields_for(6 * NS_PER_MS));
    pinned_meanwhile = NULL;
    assert_int_equal(calls, 1);
    assert_true(CPU_EQUAL(&allowed, &pin));
}

/* All CPUs of the machine are allowed, also those added later. */
static void all_is_more_than_what_there_is(void **state)
{
    online = CPUS;
    worker_is(0, 0, 0);
    assert_true(yields_for(6 * NS_PER_MS));
    assert_int_equal(calls, 2);
    assert_int_equal(CPU_COUNT(&history[1]), CPU_SETSIZE);
}

static void stays_if_told_to(void **state)
{
    setenv(CLIENT_CPU_ENV, "stay", 1);
    assert_int_equal(client_cpu_policy_read(), 0);
    worker_is(0, 0, 0);
    stays();
    setenv(CLIENT_CPU_ENV, "away", 1);
    assert_int_equal(client_cpu_policy_read(), -EINVAL);
    setenv(CLIENT_CPU_ENV, "auto", 1);
    assert_int_equal(client_cpu_policy_read(), 0);
    assert_true(yields_for(6 * NS_PER_MS));
}

static void waits_longer_when_put_back(void **state)
{
    ns_t last = 0, start;

    worker_is(0, 0, 0);
    for (unsigned i = 0; i < 4; i++) {
        start = now;
        assert_true(yields_for(NS_PER_SEC));
        assert_true(now - start > last);
        last = 3 * (now - start) / 2;
        cpu = 0;
        calls = 0;
    }
    now += 10 * NS_PER_SEC;
    client_choose_cpu(client, now, NS_PER_US);
    cpu = 3;
    assert_false(yields_for(NS_PER_MS));
    cpu = 0;
    assert_true(yields_for(NS_PER_SEC));
}

static void comes_back_from_who_computes(void **state)
{
    worker_is(0, 0, 0);
    assert_true(yields_for(6 * NS_PER_MS));
    assert_int_equal(cpu, 1);
    now += 4 * NS_PER_MS;
    client_choose_cpu(client, now, 4 * NS_PER_MS);
    assert_int_equal(cpu, 0);
    assert_int_equal(calls, 4);
    assert_false(yields_for(900 * NS_PER_MS));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {T(steps_aside),
                                       T(only_where_it_may_go),
                                       T(not_without_reason),
                                       T(not_who_seldom_yields),
                                       T(waits_longer_when_put_back),
                                       T(comes_back_from_who_computes),
                                       T(leaves_others_orders_alone),
                                       T(all_is_more_than_what_there_is),
                                       T(stays_if_told_to)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
