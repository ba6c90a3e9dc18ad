/* SPDX-License-Identifier: BSD-3-Clause */
/* invariant(): it ends the program where it is checked, and costs nothing where it is not. */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizer, fuzz and unoptimised builds check invariants. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(UROCE_FUZZ) || \
    !defined(__OPTIMIZE__)
#ifndef UROCE_INVARIANTS
#error "meson.build does not define UROCE_INVARIANTS for this build"
#endif
#endif

/* This file is compiled as in such a build, invariant_release.c as in a release. */
#undef UROCE_INVARIANTS
#define UROCE_INVARIANTS
#include "invariant.h"
#include "unit.h"

int evaluated_in_release(void);

static bool keeps_limit(int value, int limit)
{
    invariant(value <= limit);
    return true;
}

/* Breaks an invariant in a child. Returns its wait status, and in out what it wrote to stderr. */
static int break_in_child(char *out, size_t size)
{
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    assert_false(pipe(fds));
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        dup2(fds[1], STDERR_FILENO);
        keeps_limit(3, 2);
        _exit(0);
    }
    close(fds[1]);
    n = read(fds[0], out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_broken(void **state)
{
    char text[256];
    int status = break_in_child(text, sizeof(text));

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "test_base_invariant.c:"));
    assert_non_null(strstr(text, "value <= limit"));
}

static void test_holds(void **state)
{
    assert_true(keeps_limit(2, 2));
}

static void test_is_not_evaluated_in_a_release(void **state)
{
    assert_int_equal(evaluated_in_release(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_holds),
        cmocka_unit_test(test_is_not_evaluated_in_a_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
