/* SPDX-License-Identifier: BSD-3-Clause */
/* Where metrics are served: addresses, and the sockets there. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common.h"
#include "metrics_socket.h"

static struct metrics_address address;

static void test_addresses(void **state)
{
    const struct sockaddr_in *in = (struct sockaddr_in *)&address.sa;
    const struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address.sa;

    assert_int_equal(metrics_address_parse(&address, "127.0.0.1:9440"), 0);
    assert_int_equal(in->sin_family, AF_INET);
    assert_int_equal(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(ntohs(in->sin_port), 9440);
    assert_int_equal(address.length, sizeof(*in));
    assert_int_equal(metrics_address_parse(&address, "[::1]:65535"), 0);
    assert_int_equal(in6->sin6_family, AF_INET6);
    assert_memory_equal(&in6->sin6_addr, &in6addr_loopback, 16);
    assert_int_equal(ntohs(in6->sin6_port), 65535);
    assert_int_equal(metrics_address_parse(&address, "unix:/run/a.sock"), 0);
    assert_string_equal(((struct sockaddr_un *)&address.sa)->sun_path, "/run/a.sock");
}

static void test_bad_addresses(void **state)
{
    static const char *const bad[] = {
        "",
        ":",
        "9440",
        ":9440",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "127.0.0.1: 1",
        "127.0.0.1:1x",
        "127.0.0.1:99999999999999999999",
        "127.0.0:80",
        "localhost:80",
        "::1:80",
        "[::1]",
        "[::1:80",
        "[]:80",
        "[:80",
        "]:80",
        "[127.0.0.1]:80",
        "[::1%lo]:80",
        "[00000000000000000000000000000000000000000000000000000000000000000000000000]:80",
        "unix:",
        "unix:relative",
        "unix",
    };
    char path[256] = "unix:/";

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (metrics_address_parse(&address, bad[i]) != -EINVAL)
            fail_msg("\"%s\" is an address", bad[i]);
    memset(path + 6, 'a', METRICS_PATH_MAX - 1);
    assert_int_equal(metrics_address_parse(&address, path), 0);
    path[5 + METRICS_PATH_MAX] = 'a';
    assert_int_equal(metrics_address_parse(&address, path), -EINVAL);
}

/* ---- sockets ---- */

static char folder[] = "/tmp/uroce-metrics-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[64];

    snprintf(path, sizeof(path), "unix:%s/%s", folder, name);
    return path;
}

static void test_path(void **state)
{
    const char *path = in_folder("a.sock") + strlen("unix:");
    struct stat st;
    int fd;

    assert_int_equal(metrics_address_parse(&address, in_folder("a.sock")), 0);
    fd = metrics_socket_open(&address);
    assert_true(fd >= 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(metrics_socket_open(&address), -EADDRINUSE); /* of a live daemon */
    close(fd);
    fd = metrics_socket_open(&address); /* of a dead one */
    assert_true(fd >= 0);
    close(fd);
    metrics_socket_remove(&address);
    assert_int_equal(stat(path, &st), -1);
}

/* The name was removed, and another daemon has it. */
static void test_path_of_another(void **state)
{
    struct metrics_address other;
    struct stat st;
    const char *path = ((struct sockaddr_un *)&address.sa)->sun_path;
    int fd, other_fd;

    assert_int_equal(metrics_address_parse(&address, in_folder("a.sock")), 0);
    fd = metrics_socket_open(&address);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    other = address;
    other_fd = metrics_socket_open(&other);
    assert_true(other_fd >= 0);
    metrics_socket_remove(&address);
    assert_int_equal(stat(path, &st), 0);
    metrics_socket_remove(&other);
    assert_int_equal(stat(path, &st), -1);
    close(fd);
    close(other_fd);
}

static void test_no_socket(void **state)
{
    const char *path;
    FILE *file;

    assert_int_equal(metrics_address_parse(&address, in_folder("file")), 0);
    path = ((struct sockaddr_un *)&address.sa)->sun_path;
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(metrics_socket_open(&address), -EEXIST);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(metrics_address_parse(&address, in_folder("none/a.sock")), 0);
    assert_int_equal(metrics_socket_open(&address), -ENOENT);
}

static void test_port_in_use(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address.sa, &length), 0);
    address.length = length;
    assert_int_equal(metrics_socket_open(&address), -EADDRINUSE);
    close(fd);
    fd = metrics_socket_open(&address);
    assert_true(fd >= 0);
    close(fd);
}

static int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

/* Nothing is left there. */
static int remove_folder(void **state)
{
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_path),      cmocka_unit_test(test_path_of_another),
        cmocka_unit_test(test_no_socket), cmocka_unit_test(test_port_in_use),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
