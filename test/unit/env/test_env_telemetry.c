/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of any size through DPDK's telemetry socket: they arrive whole, or not at all. */
#include "unit.h"

#include <rte_eal.h>
#include <rte_telemetry.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "env.h"
#include "env_telemetry.h"

#define REPLY_MAX (16 * 1024)

static int sock = -1;

/* The EAL does not free all of its memory, and never unloads its drivers. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* ---- answers: the parameters say how much ---- */

static json_t *members(const char *parameters)
{
    json_t *object = json_object();
    char name[16];

    for (int i = 0; i < atoi(parameters); i++) {
        snprintf(name, sizeof(name), "m%d", i);
        json_object_set_new(object, name, json_integer(i));
    }
    return object;
}

static json_t *text_of(int length)
{
    char text[REPLY_MAX] = "";

    memset(text, 'x', (size_t)length);
    return json_string(text);
}

static json_t *text(const char *parameters)
{
    return json_pack("{s:o}", "text", text_of(atoi(parameters)));
}

static json_t *bytes(const char *parameters)
{
    json_t *object = json_object();
    char name[16];

    for (int i = 0; i < atoi(parameters); i++) {
        snprintf(name, sizeof(name), "m%d", i);
        json_object_set_new(object, name, text_of(120));
    }
    return object;
}

static json_t *numbers(const char *parameters)
{
    json_t *list = json_array();

    for (int i = 0; i < atoi(parameters); i++)
        json_array_append_new(list, json_integer(i));
    return list;
}

static json_t *names(const char *parameters)
{
    return json_pack("[s, s]", "one", "two");
}

static json_t *kinds(const char *parameters)
{
    return json_pack("{s:I, s:b, s:s}", "large", (json_int_t)INT64_MAX, "yes", 1, "word", "a b");
}

static json_t *nested(const char *parameters)
{
    return json_pack("{s:i, s:{s:i}}", "a", 1, "b", "c", 2);
}

static json_t *negative(const char *parameters)
{
    return json_pack("{s:i}", "a", -1);
}

static json_t *none(const char *parameters)
{
    return NULL;
}

static const struct telemetry_command commands[] = {
    {"/test/members", "members", members}, {"/test/text", "a text", text},
    {"/test/bytes", "bytes", bytes},       {"/test/numbers", "numbers", numbers},
    {"/test/names", "names", names},       {"/test/kinds", "each kind", kinds},
    {"/test/nested", "nested", nested},    {"/test/negative", "negative", negative},
    {"/test/none", "nothing", none},
};

/* ---- a client ---- */

/* What the socket answers to a command: the value of its only member. */
static json_t *ask(const char *command)
{
    static char reply[REPLY_MAX + 1024];
    ssize_t n;
    json_t *root, *value;

    assert_int_equal(send(sock, command, strlen(command), 0), (ssize_t)strlen(command));
    n = recv(sock, reply, sizeof(reply), 0);
    assert_true(n > 0);
    root = json_loadb(reply, (size_t)n, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_object_size(root), 1);
    value = json_incref(json_object_iter_value(json_object_iter(root)));
    json_decref(root);
    return value;
}

static void assert_answer(const char *command, json_t *wanted)
{
    json_t *value = ask(command);

    if (!json_equal(value, wanted))
        print_error("%s: %s\n", command, json_dumps(value, JSON_ENCODE_ANY));
    assert_true(json_equal(value, wanted));
    json_decref(value);
    json_decref(wanted);
}

static void test_values(void **state)
{
    assert_answer("/test/kinds", json_pack("{s:I, s:i, s:s}", "large", (json_int_t)INT64_MAX, "yes",
                                           1, "word", "a b"));
    assert_answer("/test/names", json_pack("[s, s]", "one", "two"));
    assert_answer("/test/numbers,3", json_pack("[i, i, i]", 0, 1, 2));
    assert_answer("/test/numbers,0", json_array());
    assert_answer("/test/members,0", json_object());
    assert_answer("/test/members", json_object());
}

static void test_limits(void **state)
{
    char command[64];

    assert_answer("/test/text,127", text("127"));
    assert_answer("/test/text,128", json_null());
    snprintf(command, sizeof(command), "/test/members,%d", RTE_TEL_MAX_DICT_ENTRIES);
    assert_answer(command, members(strchr(command, ',') + 1));
    snprintf(command, sizeof(command), "/test/members,%d", RTE_TEL_MAX_DICT_ENTRIES + 1);
    assert_answer(command, json_null());
    snprintf(command, sizeof(command), "/test/numbers,%d", RTE_TEL_MAX_ARRAY_ENTRIES);
    assert_answer(command, numbers(strchr(command, ',') + 1));
    snprintf(command, sizeof(command), "/test/numbers,%d", RTE_TEL_MAX_ARRAY_ENTRIES + 1);
    assert_answer(command, json_null());
}

/* All that is let through arrives, up to the first size that is not. */
static void test_bytes(void **state)
{
    char command[64];
    unsigned whole = 0;

    for (unsigned n = 60; n <= 140; n++) {
        json_t *value;

        snprintf(command, sizeof(command), "/test/bytes,%u", n);
        value = ask(command);
        if (!json_is_null(value)) {
            assert_int_equal(whole, n == 60 ? 0 : n - 1);
            assert_int_equal(json_object_size(value), n);
            whole = n;
        }
        json_decref(value);
    }
    assert_true(whole > 80 && whole < 140);
}

static void test_refused(void **state)
{
    assert_answer("/test/none", json_null());
    assert_answer("/test/nested", json_null());
    assert_answer("/test/negative", json_null());
    assert_answer("/test/nothing", json_null());
}

static void test_help(void **state)
{
    assert_answer("/help,/test/text", json_pack("{s:s}", "/test/text", "a text"));
}

static int start(void **state)
{
    const struct env_config config = {.program = "test_env_telemetry", .telemetry = true};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char hello[1024];

    if (env_dpdk.init(&config) ||
        env_telemetry_register(commands, sizeof(commands) / sizeof(commands[0])))
        return -1;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/dpdk_telemetry.v2",
             rte_eal_get_runtime_dir());
    sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    return connect(sock, (const struct sockaddr *)&address, sizeof(address)) ||
                   recv(sock, hello, sizeof(hello), 0) <= 0
               ? -1
               : 0;
}

/* Nothing of it remains in the file system. */
static int end(void **state)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];

    close(sock);
    snprintf(folder, sizeof(folder), "%s", rte_eal_get_runtime_dir());
    env_dpdk.fini();
    return access(folder, F_OK) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_limits), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_help),
    };

    return cmocka_run_group_tests(tests, start, end);
}
