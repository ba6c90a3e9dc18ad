/* SPDX-License-Identifier: BSD-3-Clause */
/* CTL_FAULT: who may change rules, what is wrong with one, which workers get them, and their list.
 */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device_app.h"
#include "device_host.h"
#include "port_inject.h"

#define STRANGER 12345

static struct event_loop *loop;
static struct rnic *rnic;
static struct app app;

static int setup(void **state)
{
    int err;

    loop = event_loop_create(&err);
    rnic = kit_rnic(loop, NULL);
    app_open(&app, rnic);
    return 0;
}

static int teardown(void **state)
{
    app_close(&app);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static int add(const char *text, struct ctl_fault *reply)
{
    struct ctl_msg m = {.fault.op = CTL_FAULT_ADD};
    int err;

    snprintf(m.fault.text, sizeof(m.fault.text), "%s", text);
    err = app_call(&app, CTL_FAULT, &m);
    *reply = m.fault;
    return err;
}

static int remove_rule(uint32_t number, uint32_t *removed)
{
    struct ctl_msg m = {.fault = {.op = CTL_FAULT_REMOVE, .number = number}};
    int err = app_call(&app, CTL_FAULT, &m);

    *removed = m.fault.number;
    return err;
}

/* Whether each part of the device uses the port itself. */
static bool has_port_itself(void)
{
    const struct device *d = rnic->device[0];
    unsigned own = 0;

    for (unsigned i = 0; i < d->parts; i++)
        own += d->port[i]->io == d->io;
    assert_true(own == 0 || own == d->parts);
    return own;
}

static json_t *faults(uid_t viewer)
{
    char *text = rnic_show(rnic, viewer);
    json_t *root = json_loads(text, 0, NULL), *list = json_object_get(root, "faults");

    assert_true(json_is_array(list));
    json_incref(list);
    json_decref(root);
    free(text);
    return list;
}

static void test_add_and_remove(void **state)
{
    struct ctl_fault first, second;
    uint32_t removed;
    json_t *list;

    assert_true(has_port_itself());
    assert_int_equal(add("drop rx opcode RC_ACK nth 10", &first), 0);
    assert_false(has_port_itself());
    assert_int_equal(add("mark tx device uroce0", &second), 0);
    assert_true(second.number > first.number);
    list = faults(STRANGER);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "rule")),
                        "drop rx opcode RC_ACK nth 10");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "device")),
                        "all");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "device")),
                        "uroce0");
    json_decref(list);

    assert_int_equal(remove_rule(first.number, &removed), 0);
    assert_int_equal(removed, 1);
    assert_false(has_port_itself());
    assert_int_equal(remove_rule(first.number, &removed), -ENOENT);
    assert_int_equal(remove_rule(second.number, &removed), 0);
    assert_true(has_port_itself());
    assert_int_equal(remove_rule(0, &removed), 0);
    assert_int_equal(removed, 0);
    list = faults(0);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

static void test_wrong_rules(void **state)
{
    static const char *const row[][2] = {
        {"", "is no rule"},
        {"explode", "\"explode\""},
        {"drop opcode RC_NACK", "\"RC_NACK\""},
        {"drop device uroce9", "\"uroce9\" is no device"},
        {"event port_err", "say uroce fault now"},
        {"fail listen EIO device uroce0", "of no device"},
    };
    struct ctl_msg m = {.fault.op = CTL_FAULT_ADD};
    struct ctl_fault reply;

    for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
        assert_int_equal(add(row[i][0], &reply), -EINVAL);
        assert_non_null(memchr(reply.text, '\0', sizeof(reply.text)));
        if (!strstr(reply.text, row[i][1]))
            fail_msg("%s: %s", row[i][0], reply.text);
    }
    memset(m.fault.text, 'a', sizeof(m.fault.text)); /* without an end */
    assert_int_equal(app_call(&app, CTL_FAULT, &m), -EINVAL);
    m = (struct ctl_msg){.fault.op = CTL_FAULT_NOW + 1};
    assert_int_equal(app_call(&app, CTL_FAULT, &m), -EINVAL);
    assert_true(has_port_itself());
}

static void test_room(void **state)
{
    struct ctl_fault reply;
    uint32_t removed;

    for (unsigned i = 0; i < INJECT_RULES_MAX; i++)
        assert_int_equal(add("drop qp 1", &reply), 0);
    assert_int_equal(add("drop qp 1", &reply), -ENOSPC);
    assert_non_null(strstr(reply.text, "no room"));
    assert_int_equal(remove_rule(0, &removed), 0);
    assert_int_equal(removed, INJECT_RULES_MAX);
    assert_true(has_port_itself());
}

static void test_stranger(void **state)
{
    struct ctl_fault reply;
    struct app stranger;
    struct ctl_msg m = {.fault = {.op = CTL_FAULT_ADD, .text = "drop"}};
    uint32_t removed;
    json_t *list;

    app_open_as(&stranger, rnic, STRANGER);
    assert_int_equal(app_call(&stranger, CTL_FAULT, &m), -EPERM);
    assert_true(has_port_itself());
    assert_int_equal(add("drop qp 1", &reply), 0);
    m = (struct ctl_msg){.fault.op = CTL_FAULT_REMOVE};
    assert_int_equal(app_call(&stranger, CTL_FAULT, &m), -EPERM);
    list = faults(0);
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
    assert_int_equal(remove_rule(0, &removed), 0);
    app_close(&stranger);
}

/* A configured rule is for its port. */
static void test_of_a_port(void **state)
{
    char error[INJECT_ERROR_MAX];
    uint32_t removed;
    json_t *list;
    int number = rnic_add_fault(rnic, 0, "drop tx qp 1", error);

    assert_true(number > 0);
    list = faults(0);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "device")),
                        "uroce0");
    json_decref(list);
    assert_int_equal(remove_rule((uint32_t)number, &removed), 0);
    /* One that is there at the end goes with the devices. */
    assert_true(rnic_add_fault(rnic, -1, "drop tx qp 1", error) > 0);
}

static int alloc_pd(void)
{
    struct ctl_msg m = {0};

    return app_call(&app, CTL_ALLOC_PD, &m);
}

/* A call fails those times that the rule says, and no worker has anything of it. */
static void test_calls(void **state)
{
    struct ctl_fault reply;
    uint32_t removed;
    json_t *list;

    assert_int_equal(add("fail alloc_pd ENOMEM nth 2 count 2", &reply), 0);
    assert_true(has_port_itself());
    assert_int_equal(alloc_pd(), 0);
    assert_int_equal(alloc_pd(), -ENOMEM);
    assert_int_equal(alloc_pd(), 0);
    assert_int_equal(alloc_pd(), -ENOMEM);
    assert_int_equal(alloc_pd(), 0);
    assert_int_equal(alloc_pd(), 0);
    list = faults(0);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "matched")), 6);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "acted")), 2);
    json_decref(list);
    assert_int_equal(remove_rule(reply.number, &removed), 0);

    assert_int_equal(add("fail alloc_pd EPERM program no_such_program", &reply), 0);
    assert_int_equal(alloc_pd(), 0);
    assert_int_equal(add("fail alloc_pd EPERM device uroce0", &reply), 0);
    assert_int_equal(alloc_pd(), -EPERM);
    assert_int_equal(remove_rule(0, &removed), 0);
    assert_int_equal(removed, 2);
    assert_int_equal(alloc_pd(), 0);
}

/* A request that was dispatched before goes on: it has begun. */
static void test_waiting_request(void **state)
{
    struct ctl_msg m = {.magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_ALLOC_PD, .seq = 1};
    struct ctl_call call = {.request = &m};
    struct ctl_fault reply;
    uint32_t removed;

    assert_int_equal(add("fail alloc_pd EIO", &reply), 0);
    session_dispatch(app.session, &call);
    assert_int_equal(call.reply.status, -EIO);
    call.again = true;
    session_dispatch(app.session, &call);
    assert_int_equal(call.reply.status, 0);
    assert_int_equal(remove_rule(0, &removed), 0);
}

/* Of a connection of librdmacm no device is known. */
static void test_call_of_no_device(void **state)
{
    struct session *sn = session_create(rnic, &(struct ucred){.pid = getpid(), .uid = getuid()});
    struct ctl_msg m = {
        .magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_CM_CREATE_ID, .seq = 1};
    struct ctl_call call = {.request = &m};
    struct ctl_fault reply;
    uint32_t removed;

    assert_non_null(sn);
    assert_int_equal(add("fail alloc_pd ENOMEM device uroce0", &reply), 0);
    m.type = CTL_ALLOC_PD;
    session_dispatch(sn, &call);
    assert_int_equal(call.reply.status, -ENOTCONN); /* it has opened no device */
    m.type = CTL_CM_CREATE_ID;
    session_dispatch(sn, &call);
    assert_int_equal(call.reply.status, -EINVAL); /* there is no such channel */
    assert_int_equal(add("fail create_id ENOMEM", &reply), 0);
    session_dispatch(sn, &call);
    assert_int_equal(call.reply.status, -ENOMEM);
    assert_int_equal(remove_rule(0, &removed), 0);
    session_close(sn);
}

static void expect_port(const char *state)
{
    char *text = rnic_show(rnic, 0);
    json_t *root = json_loads(text, 0, NULL), *device, *port;

    device = json_array_get(json_object_get(root, "devices"), 0);
    port = json_array_get(json_object_get(device, "ports"), 0);
    assert_string_equal(json_string_value(json_object_get(port, "state")), state);
    json_decref(root);
    free(text);
}

/* The next asynchronous event of the program; 0: there is none. */
static uint32_t next_event(void)
{
    struct ctl_async_event e = {0};

    return recv(app.async_fd, &e, sizeof(e), MSG_DONTWAIT) == sizeof(e) ? e.type : 0;
}

/* The port's state follows the rule, as far as the rule is in force. */
static void test_link(void **state)
{
    struct ctl_fault reply;
    uint32_t removed, event = 0;

    while (next_event())
        ;
    assert_int_equal(add("link_down after 3s", &reply), 0);
    expect_port("active");
    assert_int_equal(remove_rule(0, &removed), 0);
    assert_int_equal(next_event(), 0);
    assert_int_equal(add("link_down device uroce0 for 1s", &reply), 0);
    assert_false(has_port_itself());
    expect_port("down");
    assert_int_equal(next_event(), 10); /* IBV_EVENT_PORT_ERR */
    for (unsigned i = 0; i < 10 && !event; i++, event = next_event())
        event_loop_step(loop, 2000);
    assert_int_equal(event, 9); /* IBV_EVENT_PORT_ACTIVE */
    expect_port("active");
    assert_int_equal(add("link_down", &reply), 0);
    expect_port("down");
    assert_int_equal(remove_rule(0, &removed), 0);
    expect_port("active");
    assert_int_equal(next_event(), 10);
    assert_int_equal(next_event(), 9);
    assert_true(has_port_itself());
}

static int happen(const char *text, struct ctl_fault *reply)
{
    struct ctl_msg m = {.fault.op = CTL_FAULT_NOW};
    int err;

    snprintf(m.fault.text, sizeof(m.fault.text), "%s", text);
    err = app_call(&app, CTL_FAULT, &m);
    *reply = m.fault;
    return err;
}

static void test_now(void **state)
{
    struct ctl_fault reply;

    assert_int_equal(happen("event port_err", &reply), 0);
    assert_int_equal(happen("event port_err device uroce0", &reply), 0);
    assert_int_equal(happen("qp_error qp 0xABCDEF", &reply), -ENOENT);
    assert_int_equal(happen("drop", &reply), -EINVAL);
    assert_non_null(strstr(reply.text, "say uroce fault add"));
    assert_int_equal(happen("event port_err device uroce9", &reply), -EINVAL);
    assert_non_null(strstr(reply.text, "is no device"));
    assert_true(has_port_itself());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_and_remove),
        cmocka_unit_test(test_wrong_rules),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_stranger),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_now),
        cmocka_unit_test(test_waiting_request),
        cmocka_unit_test(test_call_of_no_device),
        cmocka_unit_test(test_of_a_port),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
