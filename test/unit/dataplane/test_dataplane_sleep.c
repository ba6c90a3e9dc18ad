/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker sleeps on: an eventfd for each application, and the ports' descriptors. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit.h"
#include "worker_internal.h"

#define SHORT   NS_PER_MS
#define FOREVER (60 * NS_PER_SEC)

static struct worker_group group = {.notify_fd = -1};
static struct worker *w;
static int own, other; /* two applications' */

static bool sleep_for(ns_t limit)
{
    return worker_sleep(w, worker_time(), limit);
}

static int setup(void **state)
{
    w = worker_create(&(struct worker_config){.group = &group});
    if (!w)
        return 1;
    return worker_wake_add(w, &own) || worker_wake_add(w, &other);
}

static int teardown(void **state)
{
    worker_wake_remove(w, own);
    worker_wake_remove(w, other);
    worker_destroy(w);
    return 0;
}

static void test_each_write_wakes_once(void **state)
{
    assert_false(sleep_for(SHORT));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(eventfd_write(own, 1), 0);
        assert_true(sleep_for(FOREVER));
        assert_false(sleep_for(SHORT));
    }
    assert_int_equal(eventfd_write(own, 1), 0);
    assert_int_equal(eventfd_write(other, 1), 0);
    assert_true(sleep_for(FOREVER));
    assert_false(sleep_for(SHORT));
}

/* An application that reads, fills or sleeps on its own takes nothing from another one. */
static void test_applications_are_apart(void **state)
{
    eventfd_t value;

    assert_int_equal(eventfd_write(own, 1), 0);
    assert_int_equal(eventfd_read(own, &value), 0);
    assert_false(sleep_for(SHORT));
    assert_int_equal(eventfd_write(own, UINT64_MAX - 1), 0);
    assert_true(sleep_for(FOREVER));
    assert_int_equal(eventfd_write(own, 1), -1);
    assert_int_equal(eventfd_write(other, 1), 0);
    assert_true(sleep_for(FOREVER));
}

static void test_kick(void **state)
{
    worker_kick(w);
    assert_false(sleep_for(SHORT)); /* it was not armed */
    atomic_store(&w->armed, 1);
    worker_kick(w);
    worker_kick(w);
    assert_true(sleep_for(FOREVER));
    assert_false(sleep_for(SHORT));
}

/* A port's frames end each sleep for as long as the driver has not taken them. */
static void test_ports_wake_until_read(void **state)
{
    int port = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    eventfd_t value;

    assert_int_equal(worker_wake_add_port(w, port), 0);
    assert_false(sleep_for(SHORT));
    assert_int_equal(eventfd_write(port, 1), 0);
    assert_true(sleep_for(FOREVER));
    assert_true(sleep_for(FOREVER));
    assert_int_equal(eventfd_read(port, &value), 0);
    assert_false(sleep_for(SHORT));
    assert_int_equal(eventfd_write(port, 1), 0); /* taken before the worker sleeps */
    assert_int_equal(eventfd_read(port, &value), 0);
    assert_false(sleep_for(SHORT));
    assert_int_equal(worker_wake_add_port(w, -1), -EBADF);
    close(port);
}

/* The application keeps its descriptor when its context is closed. */
static void test_removed(void **state)
{
    int kept;

    assert_int_equal(worker_wake_add(w, &kept), 0);
    own = dup2(kept, own) == own ? own : -1; /* what the application has; the other is removed */
    worker_wake_remove(w, kept);
    assert_int_equal(eventfd_write(own, 1), 0);
    assert_false(sleep_for(SHORT));
}

/* A timer that is armed ends later sleeps, too, unless it is too late for them. */
static void test_timer_is_kept(void **state)
{
    ns_t before = worker_time();

    assert_int_equal(eventfd_write(own, 1), 0);
    assert_true(worker_sleep(w, before, 20 * NS_PER_MS));
    assert_true(w->timer_at == before + 20 * NS_PER_MS);
    assert_int_equal(eventfd_write(own, 1), 0);
    assert_true(worker_sleep(w, before + 1, 30 * NS_PER_MS)); /* as if the deadline had moved */
    assert_true(w->timer_at == before + 20 * NS_PER_MS);
    assert_false(sleep_for(30 * NS_PER_MS));
    assert_true(worker_time() >= before + 20 * NS_PER_MS);
    before = worker_time();
    assert_false(sleep_for(5 * NS_PER_MS));
    assert_true(worker_time() >= before + 5 * NS_PER_MS);
    assert_int_equal(eventfd_write(own, 1), 0);
    assert_true(sleep_for(50 * NS_PER_MS));
    before = worker_time();
    assert_false(sleep_for(NS_PER_MS)); /* an earlier deadline */
    assert_true(w->timer_at < before + 5 * NS_PER_MS);
}

int main(void)
{
#define TEST(test)                         \
    {                                      \
#test, test, setup, teardown, NULL \
    }
    const struct CMUnitTest tests[] = {TEST(test_each_write_wakes_once),
                                       TEST(test_applications_are_apart),
                                       TEST(test_kick),
                                       TEST(test_ports_wake_until_read),
                                       TEST(test_removed),
                                       TEST(test_timer_is_kept)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
