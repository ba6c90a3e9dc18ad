/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that end, or are refused, while what closes them waits for their application. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/connection.h"
#include "control/errand.h"
#include "device_kit.h"
#include "device_private.h"
#include "server.h"

#define CONNECTIONS 8u
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static struct sockaddr_un addr = {.sun_family = AF_UNIX};
static struct event_loop *loop;
static struct rnic *rnic;
static struct server *server;
static struct errand waits[2 * ERRAND_CLIENT_THREADS];
static unsigned waiting;
static int gate[2];
static int listener; /* the server's; 0: it makes its own */

static struct server *open_server(void)
{
    struct server_config config = {.listen_fd = listener,
                                   .loop = loop,
                                   .rnic = rnic,
                                   .path = addr.sun_path,
                                   .mode = 0600,
                                   .group = -1,
                                   .stop_fd = -1};
    int err;

    return server_open(&config, &err);
}

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    rnic->errands = errands_create(loop, &err);
    rnic->quota.limit[QUOTA_CONNECTION].total = CONNECTIONS;
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/tmp/uroce-test-server.%d", getpid());
    server = open_server();
    waiting = 0;
    return server ? pipe(gate) : -1;
}

/* As Linux before 6.16: descriptors may come before a connection is accepted. */
static int setup_older(void **state)
{
    const int on = 1;

    snprintf(addr.sun_path, sizeof(addr.sun_path), "/tmp/uroce-test-server.%d", getpid());
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 4096), 0);
    assert_int_equal(setup(state), 0);
    setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on));
    listener = 0;
    return 0;
}

static int teardown(void **state)
{
    close(gate[1]); /* all errands go on */
    server_close(server);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    close(gate[0]);
    unlink(addr.sun_path);
    return 0;
}

static void run_wait(struct errand *e)
{
    char byte;

    assert_int_equal(read(gate[0], &byte, 1), 0);
}

static void wait_done(struct errand *e)
{
}

/* All threads that the errands of a process may have. */
static void block_line(pid_t pid)
{
    for (unsigned i = 0; i < ERRAND_CLIENT_THREADS; i++) {
        struct errand *e = &waits[waiting++];

        *e = (struct errand){.run = run_wait, .done = wait_done};
        errands_post(rnic->errands, &(struct ucred){.pid = pid, .uid = getuid()}, e);
    }
}

static unsigned open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static int connect_client(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static void send_request(int sock, int fd)
{
    struct ctl_msg m = {
        .magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_QUERY_DEVICE, .seq = 1};

    assert_int_equal(ctl_send(sock, &m, &fd, fd >= 0, 0), 0);
}

/* Until the server has no more to do. */
static void serve(void)
{
    while (event_loop_step(loop, 50)) {
    }
}

static uint64_t used(enum quota_kind kind)
{
    return rnic->quota.used[quota_count(0, kind)];
}

/* A connection costs what it costs until its socket is closed. */
static void check_ended(bool is_read)
{
    unsigned before;

    block_line(getpid());
    before = open_files();
    for (unsigned i = 0; i < 50; i++) {
        int client = connect_client();

        if (is_read)
            send_request(client, gate[0]);
        else /* ends the connection */
            assert_int_equal(send(client, "x", 1, 0), 1);
        send_request(client, gate[0]);
        close(client);
        serve();
    }
    assert_int_equal(used(QUOTA_CONNECTION), CONNECTIONS);
    assert_in_range(open_files(), before, before + used(QUOTA_DESCRIPTOR));
    assert_int_equal(close(gate[1]), 0);
    while (used(QUOTA_CONNECTION))
        assert_true(event_loop_step(loop, 5000));
    assert_int_equal(used(QUOTA_DESCRIPTOR), 0);
    assert_in_range(open_files(), before - 1, before);
    gate[1] = -1;
}

static void test_ended(void **state)
{
    check_ended(false);
}

static void test_ended_with_a_message(void **state)
{
    check_ended(true);
}

/* Without descriptors on their way the end of a connection needs no errand. */
static void test_ended_at_once(void **state)
{
    unsigned before;

    block_line(getpid());
    before = open_files();
    for (unsigned i = 0; i < 50; i++) {
        int client = connect_client();

        serve();
        assert_int_equal(used(QUOTA_CONNECTION), 1);
        send_request(client, -1);
        send_request(client, -1);
        assert_int_equal(send(client, NULL, 0, 0), 0);
        close(client);
        serve();
        assert_int_equal(used(QUOTA_CONNECTION), 0);
        assert_int_equal(open_files(), before);
    }
}

static void expect_answer(int client, int status)
{
    unsigned ticks = 1000; /* of timers */
    struct ctl_msg m;

    while (recv(client, &m, sizeof(m), MSG_DONTWAIT) < 0 && ticks--)
        assert_true(event_loop_step(loop, 5000));
    assert_int_equal(m.status, status);
}

/* Nothing is charged for those, so there are few at a time; and they end before others connect. */
static void test_refused(void **state)
{
    int client[100];
    unsigned before;

    for (unsigned i = 0; i < CONNECTIONS; i++)
        client[i] = connect_client();
    serve();
    block_line(-1);
    before = open_files();
    for (unsigned i = 0; i < 60; i++) {
        int refused = connect_client();

        send_request(refused, gate[0]);
        close(refused);
    }
    for (unsigned i = 0; i < 100; i++)
        event_loop_step(loop, 0);
    assert_in_range(open_files(), before, before + 40);
    close(client[0]);
    close(gate[1]);
    gate[1] = -1;
    serve();
    client[0] = connect_client();
    send_request(client[0], -1);
    expect_answer(client[0], 0);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        close(client[i]);
}

static bool kernel_has_option(int sock)
{
    socklen_t len = sizeof(int);
    int on;

    return !getsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &on, &len);
}

/* Descriptors are taken from clients that have a connection alone: those of refused ones, whose
 * close may wait, would be in the way of others. */
static void test_refused_without_descriptors(void **state)
{
    struct ctl_msg m = {.magic = CTL_MAGIC, .version = CTL_VERSION};
    int client[CONNECTIONS];
    unsigned before;

    for (unsigned i = 0; i < CONNECTIONS; i++)
        client[i] = connect_client();
    if (!kernel_has_option(client[0]))
        skip();
    serve();
    block_line(-1);
    before = open_files();
    for (unsigned i = 0; i < 60; i++) {
        int refused = connect_client();

        assert_int_equal(ctl_send(refused, &m, gate, 1, 0), -EPERM);
        close(refused);
        serve();
    }
    assert_int_equal(open_files(), before);
    send_request(client[0], gate[0]); /* none is taken for such a request: EINVAL */
    expect_answer(client[0], -EINVAL);
    close(client[0]);
    client[0] = connect_client();
    send_request(client[0], -1);
    expect_answer(client[0], 0);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        close(client[i]);
}

/* Each of the user's errands may keep a descriptor. */
static void test_errands_pending(void **state)
{
    int client;

    rnic->quota.limit[QUOTA_DESCRIPTOR].total = 2 * ERRAND_CLIENT_THREADS;
    block_line(1);
    client = connect_client();
    expect_answer(client, -ENOMEM);
    assert_int_equal(used(QUOTA_CONNECTION), 0);
    close(client);
}

/* Without a descriptor the client is refused; the next one is not, as soon as there are some. */
static void test_no_descriptor(void **state)
{
    struct rlimit limit, none;
    int client, next;

    block_line(getpid());
    block_line(-1);
    client = connect_client();
    send_request(client, gate[0]);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)fcntl(0, F_DUPFD, 0);
    close((int)none.rlim_cur);
    next = connect_client();
    assert_int_equal(next, none.rlim_cur);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (unsigned i = 0; i < 20; i++)
        event_loop_step(loop, 10);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    send_request(next, -1);
    expect_answer(next, 0);
    close(client);
    close(next);
}

/* ---- the process ends while its memory is being opened ---- */

static struct mem_provider counting;
static unsigned spaces; /* open */

static void *count_open(const struct ucred *peer, const struct mem_backend **copy, int *err)
{
    spaces++;
    return kit_provider.space_open(peer, copy, err);
}

static void count_close(void *space)
{
    spaces--;
    kit_provider.space_close(space);
}

static void test_ended_while_opening(void **state)
{
    struct session *sn = session_create(rnic, &(struct ucred){.pid = 1, .uid = getuid()});
    struct ctl_msg m = {0};
    struct ctl_call k = {0};

    counting = kit_provider;
    counting.space_open = count_open;
    counting.space_close = count_close;
    rnic->config.mem = &counting;
    assert_int_equal(kit_call(sn, CTL_OPEN, &m, &k, false), -EINPROGRESS);
    assert_false(session_process_ended(sn)); /* while the errand may run */
    while (session_busy(sn))
        assert_true(event_loop_step(loop, 5000));
    assert_null(sn->space); /* the request takes it */
    assert_int_equal(kit_call(sn, CTL_OPEN, &m, &k, false), -ESRCH);
    assert_false(sn->away.state);
    assert_int_equal(spaces, 0);
    assert_int_equal(kit_call(sn, CTL_OPEN, &m, &k, false), -ESRCH);
    assert_false(session_busy(sn));
    session_close(sn);
    /* And the connection, too. */
    sn = session_create(rnic, &(struct ucred){.pid = 1, .uid = getuid()});
    assert_int_equal(kit_call(sn, CTL_OPEN, &m, &k, false), -EINPROGRESS);
    while (session_busy(sn))
        assert_true(event_loop_step(loop, 5000));
    assert_int_equal(spaces, 1);
    session_close(sn);
    assert_int_equal(spaces, 0);
    rnic->config.mem = &kit_provider;
}

/* ---- turns ---- */

static unsigned replies(int client)
{
    struct ctl_msg m;
    unsigned n = 0;

    while (recv(client, &m, sizeof(m), MSG_DONTWAIT) == sizeof(m))
        n++;
    return n;
}

static void post(int client, enum ctl_type type, struct ctl_msg m)
{
    m.magic = CTL_MAGIC;
    m.version = CTL_VERSION;
    m.type = (uint16_t)type;
    assert_int_equal(ctl_send(client, &m, NULL, 0, 0), 0);
}

/* The handle of a channel, and its socket. */
static uint32_t make_channel(int client, int *fd)
{
    struct ctl_msg m = {
        .magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_CM_CREATE_CHANNEL, .seq = 1};
    unsigned fds;

    assert_int_equal(ctl_send(client, &m, NULL, 0, 0), 0);
    serve();
    assert_int_equal(ctl_recv(client, &m, fd, &fds, MSG_DONTWAIT), 0);
    assert_int_equal(fds, 1);
    return m.handle;
}

/* Requests without replies are served before what the process asks later on another connection,
 * some in each turn. */
static void test_posted(void **state)
{
    int client[2] = {connect_client(), connect_client()}, fd[CTL_MAX_FDS];
    struct ctl_msg m = {.cm_id = {.channel = make_channel(client[0], fd), .ps = 0x0106}};
    unsigned steps = 0;

    for (unsigned i = 0; i < 40; i++)
        post(client[0], CTL_CM_CREATE_ID, m);
    send_request(client[1], -1);
    for (unsigned n = 0; !n; n = replies(client[1])) {
        assert_int_equal(replies(client[0]), 0);
        assert_true(event_loop_step(loop, 0));
        steps++;
    }
    assert_int_equal(used(QUOTA_CM_ID), 40);
    assert_in_range(steps, 40 / 9, 40);
    serve();
    assert_int_equal(replies(client[0]), 0);
    close(client[0]); /* and then there is none that comes before */
    serve();
    assert_int_equal(used(QUOTA_CM_ID), 0);
    send_request(client[1], -1);
    serve();
    assert_int_equal(replies(client[1]), 1);
    close(client[1]);
    close(fd[0]);
}

/* A connection that cannot be made has an event instead of the reply; one without an id has none.
 */
static void test_posted_connect(void **state)
{
    int client = connect_client(), fd[CTL_MAX_FDS];
    struct ctl_msg m = {.cm_id = {.channel = make_channel(client, fd), .ps = 0x0106, .cookie = 5}};
    struct ctl_cm_told told;
    uint32_t id;

    m.seq = 2;
    post(client, CTL_CM_CREATE_ID, m);
    serve();
    assert_int_equal(recv(client, &m, sizeof(m), MSG_DONTWAIT), sizeof(m));
    id = m.cm_id.id;
    post(client, CTL_CM_CONNECT, (struct ctl_msg){.cm_call = {.id = id + 1}});
    post(client, CTL_CM_DISCONNECT, (struct ctl_msg){.cm_call = {.id = id}});
    post(client, CTL_CM_CONNECT, (struct ctl_msg){.cm_call = {.id = id}});
    serve();
    assert_int_equal(recv(fd[0], &told, sizeof(told), MSG_DONTWAIT), sizeof(told));
    assert_int_equal(told.event.type, CTL_CM_CONNECT_ERROR);
    assert_int_equal(told.event.status, -EINVAL);
    assert_int_equal(told.event.cookie, 5);
    assert_true(recv(fd[0], &told, sizeof(told), MSG_DONTWAIT) < 0);
    assert_int_equal(replies(client), 0);
    close(client);
    close(fd[0]);
    serve();
}

/* What waits is served in as many steps of the loop as there are messages, however the connections
 * of the process are spread over loops, and each connection's own waits for no other's. */
static void test_turns(void **state)
{
    int client[TURN_DIRECT + 2];

    for (unsigned i = 0; i < ARRAY_SIZE(client); i++)
        client[i] = connect_client();
    serve();
    for (unsigned i = 0; i < ARRAY_SIZE(client); i++)
        for (unsigned n = 0; n < 3; n++)
            send_request(client[i], -1);
    /* The connections beyond the first ones share a place: each pass serves one of theirs. */
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < TURN_DIRECT + 1; i++)
            assert_true(event_loop_step(loop, 0));
    for (unsigned i = 0; i < TURN_DIRECT; i++)
        assert_int_equal(replies(client[i]), 2);
    assert_int_equal(replies(client[TURN_DIRECT]) + replies(client[TURN_DIRECT + 1]), 2);
    serve();
    for (unsigned i = 0; i < TURN_DIRECT; i++)
        assert_int_equal(replies(client[i]), 1);
    assert_int_equal(replies(client[TURN_DIRECT]) + replies(client[TURN_DIRECT + 1]), 4);
    /* The place of one that ends is the next one's. */
    close(client[0]);
    serve();
    client[0] = connect_client();
    serve();
    for (unsigned i = 0; i < 2; i++)
        send_request(client[0], -1);
    for (unsigned n = 0; n < 2; n++)
        send_request(client[TURN_DIRECT], -1);
    for (unsigned i = 0; i < 2; i++)
        assert_true(event_loop_step(loop, 0));
    assert_int_equal(replies(client[0]), 1);
    assert_int_equal(replies(client[TURN_DIRECT]), 1);
    for (unsigned i = 0; i < ARRAY_SIZE(client); i++)
        close(client[i]);
    serve();
    assert_int_equal(used(QUOTA_CONNECTION), 0);
}

/* The name was removed while the first server ran, and a second one took it. */
static void test_path_of_another(void **state)
{
    struct server *first = server;

    assert_int_equal(unlink(addr.sun_path), 0);
    server = open_server();
    assert_non_null(server);
    server_close(first);
    assert_int_equal(access(addr.sun_path, F_OK), 0);
    close(connect_client());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ended, setup_older, teardown),
        cmocka_unit_test_setup_teardown(test_ended_with_a_message, setup_older, teardown),
        cmocka_unit_test_setup_teardown(test_ended_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup_older, teardown),
        cmocka_unit_test_setup_teardown(test_refused_without_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errands_pending, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_descriptor, setup_older, teardown),
        cmocka_unit_test_setup_teardown(test_ended_while_opening, setup, teardown),
        cmocka_unit_test_setup_teardown(test_posted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_posted_connect, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path_of_another, setup, teardown),
    };

    return cmocka_run_group_tests_name("device_server", tests, NULL, NULL);
}
