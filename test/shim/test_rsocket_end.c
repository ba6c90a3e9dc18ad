/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a stream whose first and last messages come without the connection manager's, over a
 * daemon that may lose one of these: run_rsockets.py. */
#define RSOCKET_PORT 33000
#include "rsocket_pair.h"

/* The peer answers, and closes. The end is one in order, even if the connection manager says that
 * the peer has rejected the connection: it never got the confirmation. */
static void test_answer_and_end(void **state)
{
    char byte = 1;
    struct pollfd fd;
    struct pair p;

    make_pair(&p, 0, 0);
    assert_int_equal(rsend(p.a, &byte, 1, 0), 1);
    assert_int_equal(rrecv(p.b, &byte, 1, 0), 1);
    fd = (struct pollfd){.fd = p.a, .events = POLLIN};
    assert_int_equal(rpoll(&fd, 1, 1), 0); /* the next one looks at events first */
    assert_int_equal(rsend(p.b, &byte, 1, 0), 1);
    assert_int_equal(rclose(p.b), 0);
    assert_int_equal(poll(&fd, 1, WAIT_MS), 1); /* an event of the connection manager */
    assert_true(await(p.a, POLLIN) & POLLIN);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 1);
    assert_int_equal(rrecv(p.a, &byte, 1, 0), 0);
    assert_int_equal(rclose(p.a), 0);
    assert_int_equal(rclose(p.listener), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answer_and_end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
