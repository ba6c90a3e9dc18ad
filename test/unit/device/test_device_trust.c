/* SPDX-License-Identifier: BSD-3-Clause */
/* Which users a process trusts: also where a number is that of several of them. */
#include "trust.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/account.h"
#include "unit.h"

#define OVERFLOW_USER 65534

static void the_first_namespace(void **state)
{
    assert_true(trust_user(0));
    assert_true(trust_user(geteuid()));
    assert_false(trust_user(geteuid() + 1));
    assert_true(trust_same_user(1000, 1000));
    assert_false(trust_same_user(1000, 1001));
}

/* In a namespace that knows no user. */
static int judge(void)
{
    struct quota quota;
    static const struct quota_limits none;

    if (unshare(CLONE_NEWUSER) || geteuid() != OVERFLOW_USER)
        return 77;
    if (!trust_user(0) || !trust_same_user(1000, 1000))
        return 1;
    if (trust_user(OVERFLOW_USER) || trust_same_user(OVERFLOW_USER, OVERFLOW_USER))
        return 2;
    quota_init(&quota, &none, geteuid());
    return quota_user_limit(&quota, OVERFLOW_USER, QUOTA_PD) < quota.limit[QUOTA_PD].total ? 0 : 3;
}

static void strangers_are_not_the_daemons_user(void **state)
{
    pid_t child = fork();
    int status;

    if (!child)
        _exit(judge());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_not_the_daemons_user), /* before the other one has looked */
        cmocka_unit_test(the_first_namespace),
    };

    return cmocka_run_group_tests_name("device_trust", tests, NULL, NULL);
}
