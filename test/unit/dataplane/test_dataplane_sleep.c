/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker sleeps on: an eventfd for each application. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit.h"
#include "worker_internal.h"

#define SHORT   NS_PER_MS
#define FOREVER (60 * NS_PER_SEC)

static struct worker_group group = {.notify_fd = -1};
static struct worker *w;
static int own, other; /* two applications' */

/* state: whether the kernel has epoll_pwait2. */
static int setup(void **state)
{
    w = worker_create(&(struct worker_config){.group = &group});
    if (!w)
        return 1;
    w->no_pwait2 = *(bool *)*state;
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
    assert_false(worker_sleep(w, SHORT));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(eventfd_write(own, 1), 0);
        assert_true(worker_sleep(w, FOREVER));
        assert_false(worker_sleep(w, SHORT));
    }
    assert_int_equal(eventfd_write(own, 1), 0);
    assert_int_equal(eventfd_write(other, 1), 0);
    assert_true(worker_sleep(w, FOREVER));
    assert_false(worker_sleep(w, SHORT));
}

/* An application that reads, fills or sleeps on its own takes nothing from another one. */
static void test_applications_are_apart(void **state)
{
    eventfd_t value;

    assert_int_equal(eventfd_write(own, 1), 0);
    assert_int_equal(eventfd_read(own, &value), 0);
    assert_false(worker_sleep(w, SHORT));
    assert_int_equal(eventfd_write(own, UINT64_MAX - 1), 0);
    assert_true(worker_sleep(w, FOREVER));
    assert_int_equal(eventfd_write(own, 1), -1);
    assert_int_equal(eventfd_write(other, 1), 0);
    assert_true(worker_sleep(w, FOREVER));
}

static void test_kick(void **state)
{
    worker_kick(w);
    assert_false(worker_sleep(w, SHORT)); /* it was not armed */
    atomic_store(&w->armed, 1);
    worker_kick(w);
    worker_kick(w);
    assert_true(worker_sleep(w, FOREVER));
    assert_false(worker_sleep(w, SHORT));
}

/* The application keeps its descriptor when its context is closed. */
static void test_removed(void **state)
{
    int kept;

    assert_int_equal(worker_wake_add(w, &kept), 0);
    own = dup2(kept, own) == own ? own : -1; /* what the application has; the other is removed */
    worker_wake_remove(w, kept);
    assert_int_equal(eventfd_write(own, 1), 0);
    assert_false(worker_sleep(w, SHORT));
}

int main(void)
{
    static bool lacks[] = {false, true};
#define BOTH(test)                                                      \
    {#test, test, setup, teardown, &lacks[0]},                          \
    {                                                                   \
#test " without epoll_pwait2", test, setup, teardown, &lacks[1] \
    }
    const struct CMUnitTest tests[] = {BOTH(test_each_write_wakes_once),
                                       BOTH(test_applications_are_apart), BOTH(test_kick),
                                       BOTH(test_removed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
