/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file: what it may say, and that whoever errs is told where. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static struct uroced_config config;
static char error[512];
static char path[] = "/tmp/uroce-config-XXXXXX";

static int load(const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    error[0] = 0;
    return config_load(&config, path, error, sizeof(error));
}

static void test_everything(void **state)
{
    assert_int_equal(load("# comment\n"
                          "[uroced]\n"
                          "socket = /tmp/x.sock\n"
                          "mode=0640\n"
                          "workers = 2\n"
                          "idle_exit = 30\n"
                          "\n"
                          "[port.7]\n"
                          "device = net_af_packet0,iface=eth1,framesz=8192\n"
                          "mtu = 4200\n"
                          "address.0 = 10.0.0.1/24\n"
                          "address.1 = fd00::1/64\n"
                          "address = 10.0.0.9\n"
                          "neighbour.0 = 10.0.0.2 02:00:00:aa:BB:0c\n"
                          "neighbour.12 =  fd00::2   02:00:00:00:00:03\n"
                          "capture = /tmp/a.pcap   1000\n"
                          "[port.3]\n"
                          "device = loopback\n"
                          "address = 127.0.0.1\n"),
                     0);
    assert_string_equal(config.socket, "/tmp/x.sock");
    assert_int_equal(config.mode, 0640);
    assert_int_equal(config.workers, 2);
    assert_int_equal(config.idle_exit, 30);
    assert_int_equal(config.ports, 2);
    assert_int_equal(config.port[0].number, 3);
    assert_string_equal(config.port[0].device, "loopback");
    assert_int_equal(config.port[0].address[0].prefix, 32);
    assert_string_equal(config.port[1].device, "net_af_packet0,iface=eth1,framesz=8192");
    assert_int_equal(config.port[1].mtu, 4200);
    assert_int_equal(config.port[1].addresses, 3);
    assert_int_equal(config.port[1].address[0].prefix, 24);
    assert_int_equal(config.port[1].address[1].prefix, 64);
    assert_int_equal(config.port[1].address[1].gid.raw[15], 1);
    assert_string_equal(config.port[1].capture, "/tmp/a.pcap");
    assert_int_equal(config.port[1].capture_frames, 1000);
    assert_int_equal(config.port[1].neighbours, 2);
    assert_int_equal(config.port[1].neighbour[0].mac[4], 0xbb);
    assert_int_equal(config.port[1].neighbour[1].mac[5], 3);
}

#define PORT "[port.0]\ndevice = loopback\n"
#define OK   PORT "address = 127.0.0.1\n"

/* The text, and what the message must say besides the file's name. */
static const char *const bad[][3] = {
    {"", "no [port.N] section", ""},
    {"[uroced]\n", "no [port.N] section", ""},
    {"[urocd]\n" OK, "[urocd]", "not a section"},
    {"[uroced]\nsokcet = /x\n" OK, "[uroced] sokcet", "not a key"},
    {"[uroced]\nworkers = 0\n" OK, "[uroced] workers", "from 1 to 16"},
    {"[uroced]\nworkers = 17\n" OK, "[uroced] workers", "from 1 to 16"},
    {"[uroced]\nworkers = two\n" OK, "[uroced] workers", "\"two\""},
    {"[uroced]\nworkers = 2x\n" OK, "[uroced] workers", "\"2x\""},
    {"[uroced]\nworkers = -1\n" OK, "[uroced] workers", "\"-1\""},
    {"[uroced]\nmode = 999\n" OK, "[uroced] mode", "octal"},
    {"[uroced]\nmode = 1777\n" OK, "[uroced] mode", "octal"},
    {"[uroced]\nsocket =\n" OK, "[uroced] socket", "no value"},
    {"[uroced]\nidle_exit = 99999999999999999999\n" OK, "[uroced] idle_exit", "number"},
    {"[port]\ndevice = loopback\n", "[port]", "not a section"},
    {"[port.x]\ndevice = loopback\n", "[port.x]", "number N"},
    {"[port.]\ndevice = loopback\n", "[port.]", "number N"},
    {"[port.-1]\ndevice = loopback\n", "[port.-1]", "number N"},
    {"[port.0]\naddress = 10.0.0.1\n", "[port.0]", "names no device"},
    {PORT, "[port.0]", "no address"},
    {OK "[port.00]\ndevice = loopback\naddress = 10.0.0.1\n", "[port.00]", "twice"},
    {OK "adress = 10.0.0.1\n", "[port.0] adress", "not a key"},
    {OK "address.x = 10.0.0.1\n", "[port.0] address.x", "not a key"},
    {OK "address. = 10.0.0.1\n", "[port.0] address.", "not a key"},
    {OK "address.1 = 127.0.0.1/8\n", "[port.0] address.1", "repeats"},
    {OK "address.1 = 10.0.0.256\n", "[port.0] address.1", "10.0.0.256"},
    {OK "address.1 = 10.0.0.1/33\n", "[port.0] address.1", "from 0 to 32"},
    {OK "address.1 = ::2/129\n", "[port.0] address.1", "from 0 to 128"},
    {OK "address.1 = 10.0.0.1/\n", "[port.0] address.1", "\"\""},
    {OK "address.1 = 224.0.0.1\n", "[port.0] address.1", "of a host"},
    {OK "address.1 = ::\n", "[port.0] address.1", "of a host"},
    {OK "mtu = 100\n", "[port.0] mtu", "from 576"},
    {OK "capture =\n", "[port.0] capture", "no value"},
    {OK "capture = /tmp/a many\n", "[port.0] capture", "many"},
    {OK "capture = /tmp/a 0\n", "[port.0] capture", "from 1"},
    {OK "neighbour.0 = 10.0.0.2\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 02:00:00:00:00\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 02:00:00:00:00:02:03\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = 10.0.0.2 01:00:00:00:00:02\n", "[port.0] neighbour.0", "and a MAC"},
    {OK "neighbour.0 = ten 02:00:00:00:00:02\n", "[port.0] neighbour.0", "ten"},
    {"loopback\n" OK, "line 1", "neither"},
    {"device = loopback\n" OK, "line 1", "neither"},
    {OK "garbage\n", "line 4", "neither"},
    {OK "= x\n", "line 4", "neither"},
    {"[port.0\ndevice = loopback\n", "no INI file", ""},
};

static void test_errors_name_the_place(void **state)
{
    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        if (load(bad[i][0]) != -1)
            fail_msg("row %u is taken", i);
        if (!strstr(error, path) || !strstr(error, bad[i][1]) || !strstr(error, bad[i][2]))
            fail_msg("row %u: \"%s\" lacks \"%s\" or \"%s\"", i, error, bad[i][1], bad[i][2]);
        if (strchr(error, '\n'))
            fail_msg("row %u: several lines", i);
    }
}

static void test_missing_file(void **state)
{
    assert_int_equal(config_load(&config, "/nonexistent/uroced.ini", error, sizeof(error)), -1);
    assert_non_null(strstr(error, "/nonexistent/uroced.ini"));
    assert_non_null(strstr(error, "No such file"));
}

static void test_too_many(void **state)
{
    char text[20000];
    int n = snprintf(text, sizeof(text), "%s", PORT);

    for (unsigned i = 0; i <= GID_TABLE_MAX; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "address.%u = 10.0.1.%u\n", i, i);
    assert_int_equal(load(text), -1);
    assert_non_null(strstr(error, "one too many"));
    n = snprintf(text, sizeof(text), "%s", OK);
    for (unsigned i = 0; i <= NEIGHBOUR_MAX; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "neighbour.%u = 10.0.%u.1 02:00:00:00:00:01\n", i, i % 256);
    assert_int_equal(load(text), -1);
    assert_non_null(strstr(error, "one too many"));
}

static void test_loopback(void **state)
{
    memset(&config, 0, sizeof(config));
    config_loopback(&config);
    assert_int_equal(config.ports, 1);
    assert_int_equal(config.port[0].addresses, 2);
    assert_true(gid_is_ipv4(&config.port[0].address[0].gid));
    assert_false(gid_is_ipv4(&config.port[0].address[1].gid));
}

static void test_samples(void **state)
{
    static const char *const sample[] = {"loopback.ini", "af_packet.ini"};
    char file[512];

    for (unsigned i = 0; i < ARRAY_SIZE(sample); i++) {
        snprintf(file, sizeof(file), "%s/%s", TEST_CONFIGS, sample[i]);
        if (config_load(&config, file, error, sizeof(error)))
            fail_msg("%s", error);
    }
}

static int setup(void **state)
{
    int fd = mkstemp(path);

    close(fd);
    return fd < 0;
}

static int teardown(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),   cmocka_unit_test(test_errors_name_the_place),
        cmocka_unit_test(test_missing_file), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_loopback),     cmocka_unit_test(test_samples),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
