/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of unix sockets: whose they are, and when they are there. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket_path.h"
#include "unit.h"

static char folder[] = "/tmp/uroce-socket-XXXXXX";
static char path[sizeof(folder) + sizeof("/a.sock")];

static int rival = -1; /* another daemon's socket */
static bool rival_comes;

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);

/* Another daemon has looked at the path before, and is there first. */
int __wrap_listen(int fd, int backlog)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    if (rival_comes) {
        memcpy(un.sun_path, path, sizeof(path));
        rival = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(rival, (struct sockaddr *)&un, sizeof(un)), 0);
        assert_int_equal(__real_listen(rival, 1), 0);
    }
    return __real_listen(fd, backlog);
}

/* Another daemon that finds a dead socket at the path, as the first one did: when the first one is
 * about to lock, or to remove the socket. */
static struct socket_path other_path;
static int other = -1;
static enum { NEVER, AT_LOCK, AT_UNLINK } other_comes;

static void start_other(void)
{
    other_comes = NEVER;
    other = socket_path_listen(&other_path, path, SOCK_SEQPACKET, 0640, -1);
}

int __real_unlink(const char *name);
int __wrap_unlink(const char *name);

int __wrap_unlink(const char *name)
{
    if (other_comes == AT_UNLINK && !strcmp(name, path))
        start_other();
    return __real_unlink(name);
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
    if (other_comes == AT_LOCK)
        start_other();
    return __real_flock(fd, operation);
}

static bool exists(const char *name)
{
    return !access(name, F_OK);
}

static int listen_at(struct socket_path *p)
{
    return socket_path_listen(p, path, SOCK_SEQPACKET, 0640, -1);
}

static void test_name(void **state)
{
    struct socket_path p, second;
    char temporary[sizeof(path) + 16];
    struct stat st;
    int fd = listen_at(&p), third;

    assert_true(fd >= 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    snprintf(temporary, sizeof(temporary), "%s.%d", path, getpid());
    assert_false(exists(temporary));
    /* A process listens there: its name stays. */
    assert_int_equal(listen_at(&second), -EADDRINUSE);
    socket_path_remove(&second);
    assert_true(exists(path));
    /* None does: the socket is replaced. */
    close(fd);
    fd = listen_at(&p);
    assert_true(fd >= 0);
    /* The name was removed, and is another socket's by now. */
    assert_int_equal(unlink(path), 0);
    third = listen_at(&second);
    assert_true(third >= 0);
    socket_path_remove(&p);
    assert_true(exists(path));
    socket_path_remove(&second);
    assert_false(exists(path));
    close(fd);
    close(third);
}

static void test_no_name(void **state)
{
    struct socket_path p;
    char text[sizeof(p.addr.sun_path) + 1];
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(listen_at(&p), -EEXIST);
    socket_path_remove(&p);
    assert_int_equal(unlink(path), 0);
    /* Too long; and a folder that leaves no room for a temporary name. */
    memset(text, 'a', sizeof(text));
    text[0] = '/';
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(socket_path_listen(&p, text, SOCK_STREAM, 0600, -1), -ENAMETOOLONG);
    assert_int_equal(p.addr.sun_path[0], '\0');
    text[sizeof(text) - 2] = '\0';
    text[sizeof(text) - 8] = '/';
    assert_int_equal(socket_path_listen(&p, text, SOCK_STREAM, 0600, -1), -ENAMETOOLONG);
    assert_int_equal(p.addr.sun_path[0], '\0');
    /* A socket without a name, such as a service manager's. */
    socket_path_remove(&(struct socket_path){0});
}

/* As long as a name can be, whatever number the process has. */
static void test_longest_name(void **state)
{
    struct socket_path p;
    char text[sizeof(p.addr.sun_path)];
    int fd, len = snprintf(text, sizeof(text), "%s/", folder);

    memset(text + len, 'a', sizeof(text) - 1 - (size_t)len);
    text[sizeof(text) - 1] = '\0';
    fd = socket_path_listen(&p, text, SOCK_STREAM, 0600, -1);
    assert_true(fd >= 0);
    assert_true(exists(text));
    socket_path_remove(&p);
    assert_false(exists(text));
    close(fd);
}

static void test_two_at_once(void **state)
{
    struct socket_path p;
    char temporary[sizeof(path) + 16];

    rival_comes = true;
    assert_int_equal(listen_at(&p), -EADDRINUSE);
    rival_comes = false;
    socket_path_remove(&p);
    assert_true(exists(path));
    assert_int_equal(listen_at(&p), -EADDRINUSE); /* it answers */
    snprintf(temporary, sizeof(temporary), "%s.%d", path, getpid());
    assert_false(exists(temporary));
    close(rival);
    assert_int_equal(unlink(path), 0);
}

/* A dead daemon's socket. */
static void leave_socket(void)
{
    struct socket_path p;
    int fd = listen_at(&p);

    assert_true(fd >= 0);
    close(fd);
}

/* Whether a connection to the path reaches this socket. */
static bool is_reached(int fd)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), end;

    memcpy(un.sun_path, path, sizeof(path));
    assert_int_equal(connect(client, (struct sockaddr *)&un, sizeof(un)), 0);
    end = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    close(client);
    if (end >= 0)
        close(end);
    return end >= 0;
}

static void test_two_over_a_dead_one(void **state)
{
    char lock[sizeof(path) + 8];
    struct socket_path p;
    int fd;

    snprintf(lock, sizeof(lock), "%s.lock", path);
    /* The second one comes too late: the first one is removing the socket. */
    leave_socket();
    other_comes = AT_UNLINK;
    fd = listen_at(&p);
    assert_true(fd >= 0);
    assert_int_equal(other, -EADDRINUSE);
    assert_true(is_reached(fd));
    close(fd);
    /* The second one is faster. */
    other_comes = AT_LOCK;
    assert_int_equal(listen_at(&p), -EADDRINUSE);
    assert_true(other >= 0);
    assert_true(is_reached(other));
    assert_false(exists(lock));
    socket_path_remove(&other_path);
    close(other);
}

static int make_folder(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/a.sock", folder);
    return 0;
}

static int remove_folder(void **state)
{
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_no_name),
        cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_two_over_a_dead_one),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
