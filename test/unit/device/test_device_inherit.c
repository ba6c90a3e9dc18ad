/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection whose context a child inherits, by the server's sockets. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/errand.h"
#include "device_kit.h"
#include "device_private.h"
#include "queue_abi.h"
#include "server.h"

static struct sockaddr_un addr = {.sun_family = AF_UNIX};
static struct event_loop *loop;
static struct rnic *rnic;
static struct server *server;
static struct errand waits[ERRAND_CLIENT_THREADS];
static int gate[2];

/* What a program has of its connection. */
struct program {
    int sock, async_fd;
    struct ctx_shared *shared;
};

static int setup(void **state)
{
    struct server_config config = {.path = addr.sun_path, .mode = 0600, .group = -1, .stop_fd = -1};
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    rnic->errands = errands_create(loop, &err);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/tmp/uroce-test-inherit.%d", getpid());
    config.loop = loop;
    config.rnic = rnic;
    server = server_open(&config, &err);
    return server ? pipe(gate) : -1;
}

static int teardown(void **state)
{
    server_close(server);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    close(gate[0]);
    return 0;
}

/* Until the server has no more to do. */
static void serve(void)
{
    while (event_loop_step(loop, 50)) {
    }
}

static void connect_program(struct program *p)
{
    *p = (struct program){.async_fd = -1};
    p->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(p->sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
    serve();
}

/* The context of the program with this key; NULL: a new one. */
static void send_open(const struct program *p, enum ctl_type type, const struct program *of)
{
    struct ctl_msg m = {
        .magic = CTL_MAGIC, .version = CTL_VERSION, .type = (uint16_t)type, .seq = 1};

    if (of)
        memcpy(m.open.join_key, of->shared->join_key, sizeof(m.open.join_key));
    assert_int_equal(ctl_send(p->sock, &m, NULL, 0, 0), 0);
}

static int32_t receive(const struct program *p, int fd[CTL_MAX_FDS], unsigned *fds)
{
    struct ctl_msg m;

    assert_int_equal(ctl_recv(p->sock, &m, fd, fds, MSG_DONTWAIT), 0);
    return m.status;
}

static void open_program(struct program *p, enum ctl_type type, const struct program *of)
{
    int fd[CTL_MAX_FDS];
    unsigned fds;

    connect_program(p);
    send_open(p, type, of);
    serve();
    assert_int_equal(receive(p, fd, &fds), 0);
    p->shared = mmap(NULL, sizeof(*p->shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0);
    assert_ptr_not_equal(p->shared, MAP_FAILED);
    p->async_fd = fd[1];
    close(fd[0]);
    for (unsigned i = 2; i < fds; i++)
        close(fd[i]);
}

static void close_program(struct program *p)
{
    if (p->async_fd >= 0)
        close(p->async_fd);
    if (p->shared)
        munmap(p->shared, sizeof(*p->shared));
    close(p->sock);
    serve();
}

static void run_wait(struct errand *e)
{
    char byte;

    assert_int_equal(read(gate[0], &byte, 1), 0);
}

static void wait_done(struct errand *e)
{
}

/* All threads that the errands of this process may have. */
static void block_line(void)
{
    for (unsigned i = 0; i < ERRAND_CLIENT_THREADS; i++) {
        waits[i] = (struct errand){.run = run_wait, .done = wait_done};
        errands_post(rnic->errands, &(struct ucred){.pid = getpid(), .uid = getuid()}, &waits[i]);
    }
}

/* The parent's last descriptor closes while the child's request waits. A third program has joined
 * the context, which therefore is there still: the child gets it. */
static void test_parent_ends_while_child_waits(void **state)
{
    struct program parent, friend, child;
    int fd[CTL_MAX_FDS];
    unsigned fds;

    open_program(&parent, CTL_OPEN, NULL);
    open_program(&friend, CTL_JOIN, &parent);
    connect_program(&child);
    atomic_store(&parent.shared->forked, 1);
    close(parent.sock);
    serve();
    assert_int_equal(rnic->session_count, 3);

    block_line();
    send_open(&child, CTL_INHERIT, &parent);
    serve();
    close(parent.async_fd);
    serve();
    assert_int_equal(rnic->session_count, 3);
    close(gate[1]);
    serve();
    assert_int_equal(receive(&child, fd, &fds), 0);
    assert_int_equal(rnic->session_count, 2);

    close_program(&friend);
    assert_int_equal(rnic->session_count, 1);
    close_program(&child);
    assert_int_equal(rnic->session_count, 0);
    munmap(parent.shared, sizeof(*parent.shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parent_ends_while_child_waits, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
