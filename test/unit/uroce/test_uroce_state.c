/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs make of a daemon's state that is not what the daemon says. */
#include "state.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

struct answer {
    int sock;
    const char *text;
    uint64_t length; /* as the answer says */
};

/* The daemon: one answer. */
static void *serve(void *arg)
{
    const struct answer *a = arg;
    struct ctl_msg m;
    int fd = memfd_create("state", MFD_CLOEXEC);

    if (recv(a->sock, &m, sizeof(m), 0) == sizeof(m) &&
        write(fd, a->text, strlen(a->text)) == (ssize_t)strlen(a->text)) {
        m.show.length = a->length;
        m.status = 0;
        ctl_send(a->sock, &m, &fd, 1, 0);
    }
    close(fd);
    return NULL;
}

static json_t *ask(const char *text, uint64_t length, int *err)
{
    struct answer a = {.text = text, .length = length};
    pthread_t daemon;
    json_t *root;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    a.sock = pair[1];
    assert_int_equal(pthread_create(&daemon, NULL, serve, &a), 0);
    root = state_ask(pair[0], CTL_SHOW_ALL, err);
    pthread_join(daemon, NULL);
    close(pair[0]);
    close(pair[1]);
    return root;
}

static void the_whole_text_is_read(void **state)
{
    int err;
    json_t *root = ask("{\"a\": 7}", 8, &err);

    assert_int_equal(err, 0);
    assert_int_equal(json_integer_value(json_object_get(root, "a")), 7);
    json_decref(root);
}

/* Of a file without the pages that it is to have, a mapping would raise SIGBUS. */
static void a_short_file_is_an_error(void **state)
{
    int err;

    assert_null(ask("", 8, &err));
    assert_int_equal(err, -EPROTO);
    assert_null(ask("{\"a\": 7}", 1 << 20, &err));
    assert_int_equal(err, -EPROTO);
    assert_null(ask("{\"a\": 7}", UINT64_MAX, &err));
    assert_int_equal(err, -EPROTO);
    assert_null(ask("{\"a\": 7}", 7, &err));
    assert_int_equal(err, -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_text_is_read),
        cmocka_unit_test(a_short_file_is_an_error),
    };

    return cmocka_run_group_tests_name("uroce_state", tests, NULL, NULL);
}
