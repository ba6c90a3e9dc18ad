/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics: the rules of the table, its fields in the state of devices, and the text. */
#include "unit.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cm_types.h"
#include "counters.h"
#include "device_app.h"
#include "device_metrics.h"
#include "metrics.h"
#include "net_host.h"

/* ---- the table ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && !strcmp(text + length - tail, end);
}

static void check_name(const struct metric *m)
{
    static const char *const reserved[] = {"_total", "_created", "_count", "_sum", "_bucket"};
    char unit[64];

    assert_memory_equal(m->name, "uroce_", 6);
    for (const char *c = m->name; *c; c++)
        assert_true(islower(*c) || isdigit(*c) || *c == '_');
    for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
        assert_false(ends_with(m->name, reserved[i]));
    if (!strcmp(m->unit, "none"))
        return;
    snprintf(unit, sizeof(unit), "_%s", m->unit);
    assert_true(ends_with(m->name, unit));
}

static void test_names(void **state)
{
    for (const struct metric *m = metrics; m->name; m++) {
        check_name(m);
        assert_true(m->scale != METRIC_MS || !strcmp(m->unit, "seconds"));
        assert_true(strlen(m->help) > 3 && !ends_with(m->help, "."));
        assert_null(strpbrk(m->help, "\\\"\n"));
        for (const struct metric *n = metrics; n != m; n++) {
            assert_string_not_equal(n->name, m->name);
            assert_false(n->topic == m->topic && !strcmp(n->field, m->field));
        }
    }
}

static const struct metric *find(enum metrics_topic topic, const char *field)
{
    for (const struct metric *m = metrics; m->name; m++)
        if (m->topic == topic && !strcmp(m->field, field))
            return m;
    return NULL;
}

/* mlx5's names of the sums over queue pairs. */
static void test_names_of_hw_counters(void **state)
{
    unsigned same = 0;

    for (const struct sys_counter *c = sys_counters; c->name; c++) {
        const struct metric *m;
        char name[64];

        if (strcmp(c->folder, "hw_counters") || !c->source[0] || c->source[0][0] != 't')
            continue;
        snprintf(name, sizeof(name), "uroce_qp_%s", c->name);
        m = find(METRIC_TOTALS, c->source[0] + 2);
        assert_non_null(m);
        assert_string_equal(m->name, name);
        same++;
    }
    assert_true(same > 10);
}

static void test_all_counters_are_there(void **state)
{
#define X(name) assert_non_null(find(METRIC_TOTALS, #name));
    QP_COUNTERS(X)
#undef X
#define X(name) assert_non_null(find(METRIC_NETWORK, #name));
    NET_COUNTERS(X)
#undef X
#define X(name, about) assert_non_null(find(METRIC_CM, #name));
    CM_COUNTERS(X)
#undef X
}

/* ---- the state of devices ---- */

static struct event_loop *loop;
static struct rnic *rnic;
static struct app user;
static struct app_cq cq;
static struct app_qp qp;

static int setup(void **state)
{
    struct port_address a = {.prefix = 8, .vlan = VLAN_NONE};
    int err;

    gid_parse(&a.gid, "127.0.0.1");
    loop = event_loop_create(&err);
    rnic = kit_rnic_with(
        loop, NULL,
        (struct port_config){.address = &a, .addresses = 1, .flow_control = PKTIO_PAUSE_RX});
    app_open_as(&user, rnic, 4242);
    app_cq(&user, &cq, 64);
    assert_int_equal(app_qp(&user, &qp, QPT_RC, &cq, 0, 0), 0);
    return 0;
}

static int teardown(void **state)
{
    app_close(&user);
    rnic_destroy(rnic);
    event_loop_destroy(loop);
    return 0;
}

static json_t *take_state(void)
{
    struct rnic_metrics *m = rnic_metrics_begin(rnic);
    json_t *state;

    while (rnic_metrics_some(m)) {
    }
    state = rnic_metrics_end(m);
    assert_non_null(state);
    return state;
}

static bool is_label(enum metrics_topic topic, const char *name)
{
    for (const char *const *l = metrics_labels(topic); *l; l++)
        if (!strcmp(*l, name))
            return true;
    return false;
}

/* A counter that is new in the daemon's state needs a line in the table, or one here. */
static bool is_no_metric(enum metrics_topic topic, const char *member)
{
    static const struct {
        enum metrics_topic topic;
        const char *member;
    } known[] = {{METRIC_DAEMON, "pid"},      {METRIC_WORKER, "index"}, {METRIC_USER, "uid"},
                 {METRIC_USER_MEMORY, "uid"}, {METRIC_ALL, "uid"},      {METRIC_ALL_MEMORY, "uid"}};

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (known[i].topic == topic && !strcmp(known[i].member, member))
            return true;
    return false;
}

static void test_rows_have_metrics(void **state)
{
    json_t *devices = take_state(), *rows, *row, *value;
    const char *name;
    size_t i;

    for (unsigned topic = 0; topic < METRIC_TOPICS; topic++) {
        rows = metrics_select((enum metrics_topic)topic, devices);
        json_array_foreach(rows, i, row) json_object_foreach(row, name, value)
        {
            if (!json_is_integer(value) || is_label((enum metrics_topic)topic, name) ||
                is_no_metric((enum metrics_topic)topic, name))
                continue;
            if (!find((enum metrics_topic)topic, name))
                fail_msg("no metric of topic %u has %s", topic, name);
        }
        json_decref(rows);
    }
    json_decref(devices);
}

static bool has_field(const json_t *rows, const char *field)
{
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) if (json_is_integer(json_object_get(row, field))) return true;
    return false;
}

static void test_metrics_have_rows(void **state)
{
    json_t *devices = take_state();

    for (const struct metric *m = metrics; m->name; m++) {
        json_t *rows = metrics_select(m->topic, devices);
        bool may_lack = !strcmp(m->field, "limit") || /* of kinds without one */
                        m->topic == METRIC_LATENCY;   /* nothing is timed */

        if (!has_field(rows, m->field) && !may_lack)
            fail_msg("%s: no row has %s", m->name, m->field);
        json_decref(rows);
    }
    json_decref(devices);
}

/* ---- the text ---- */

static char *text_of(const json_t *state, enum metrics_format format)
{
    struct metrics_text *t = metrics_begin(state, format);
    size_t length;
    char *text;

    assert_non_null(t);
    while (metrics_some(t)) {
    }
    text = metrics_end(t, &length);
    assert_non_null(text);
    assert_int_equal(strlen(text), length);
    return text;
}

static void expect_text(const char *json, enum metrics_format format, const char *wanted)
{
    json_t *state = json_loads(json, 0, NULL);
    char *text;

    assert_non_null(state);
    text = text_of(state, format);
    assert_non_null(strstr(text, wanted));
    free(text);
    json_decref(state);
}

static void test_escaping(void **state)
{
    expect_text("{\"version\": \"a\\\\b\\\"c\\nd\\\\\"}", METRICS_OPENMETRICS,
                "\nuroce_build_info{version=\"a\\\\b\\\"c\\nd\\\\\"} 1\n");
    expect_text("{\"version\": \"\"}", METRICS_OPENMETRICS, "\nuroce_build_info{version=\"\"} 1\n");
    expect_text("{\"version\": \"\xc3\xa9\"}", METRICS_PROMETHEUS,
                "\nuroce_build_info{version=\"\xc3\xa9\"} 1\n");
}

static void test_values(void **state)
{
    expect_text("{\"workers\": [{\"index\": 3, \"cpu_ms\": 12034}]}", METRICS_OPENMETRICS,
                "# TYPE uroce_worker_cpu_seconds counter\n"
                "# UNIT uroce_worker_cpu_seconds seconds\n"
                "# HELP uroce_worker_cpu_seconds CPU time of a worker\n"
                "uroce_worker_cpu_seconds_total{worker=\"3\"} 12.034\n");
    expect_text("{\"workers\": [{\"index\": 3, \"cpu_ms\": 7}]}", METRICS_PROMETHEUS,
                "# TYPE uroce_worker_cpu_seconds_total counter\n"
                "# HELP uroce_worker_cpu_seconds_total CPU time of a worker\n"
                "uroce_worker_cpu_seconds_total{worker=\"3\"} 0.007\n");
    expect_text("{\"workers\": [{\"index\": 3, \"cq_events\": 9223372036854775807}]}",
                METRICS_OPENMETRICS,
                "\nuroce_worker_cq_events_total{worker=\"3\"} 9223372036854775807\n");
    expect_text(
        "{\"devices\": [{\"name\": \"d\", \"ports\": [{\"port\": 1, \"speed_mbps\": 100000}]}]}",
        METRICS_OPENMETRICS,
        "\nuroce_port_rate_bytes_per_second{device=\"d\",port=\"1\"} 12500000000\n");
}

/* The totals of all users are no user's, and bytes are not among what is counted. */
static void test_quotas(void **state)
{
    const char *json =
        "{\"quotas\": [{\"uid\": 7, \"device\": \"d\", \"kind\": \"qps\", \"used\": 1},"
        "{\"uid\": 7, \"kind\": \"mapped_memory\", \"used\": 2},"
        "{\"uid\": \"all\", \"device\": \"d\", \"kind\": \"qps\", \"used\": 3},"
        "{\"uid\": \"all\", \"kind\": \"memory\", \"used\": 4}]}";

    expect_text(json, METRICS_OPENMETRICS,
                "user_objects{user=\"7\",device=\"d\",kind=\"qps\"} 1\n# TYPE");
    expect_text(json, METRICS_OPENMETRICS,
                "user_memory_bytes{user=\"7\",kind=\"mapped_memory\"} 2\n# TYPE");
    expect_text(json, METRICS_OPENMETRICS, "\nuroce_objects{device=\"d\",kind=\"qps\"} 3\n# TYPE");
    expect_text(json, METRICS_OPENMETRICS, "\nuroce_memory_bytes{kind=\"memory\"} 4\n# TYPE");
}

/* Reasons that have not occurred have a value, too; a state that lacks everything is no error. */
static void test_lacking(void **state)
{
    json_t *nothing = json_object();
    char *text = text_of(nothing, METRICS_OPENMETRICS);

    assert_true(ends_with(text, "\n# EOF\n"));
    free(text);
    text = text_of(nothing, METRICS_PROMETHEUS);
    assert_null(strstr(text, "EOF"));
    free(text);
    json_decref(nothing);
    expect_text("{\"devices\": [{\"name\": \"d\", \"ports\": [{\"port\": 1}]}]}",
                METRICS_OPENMETRICS,
                "\nuroce_port_drops_total{device=\"d\",port=\"1\",reason=\"bad_icrc\"} 0\n");
    expect_text(
        "{\"late\": [{\"what\": \"descriptor\", \"ms\": 1500}, {\"what\": \"descriptor\"}]}",
        METRICS_OPENMETRICS, "\nuroce_late_longest_seconds{what=\"descriptor\"} 1.500\n");
    expect_text("{\"late\": 5, \"devices\": {}, \"quotas\": [1, {\"kind\": 2}], \"cm\": []}",
                METRICS_OPENMETRICS, "\nuroce_late{what=\"descriptor\"} 0\n");
}

/* A text that is not complete is none. */
static void test_end_early(void **state)
{
    json_t *devices = take_state();
    struct metrics_text *t = metrics_begin(devices, METRICS_OPENMETRICS);
    size_t length = 1;

    assert_true(metrics_some(t));
    assert_null(metrics_end(t, &length));
    assert_int_equal(length, 0);
    json_decref(devices);
}

/* ---- HTTP ---- */

static void test_accept(void **state)
{
    static const char *const open[] = {
        "application/openmetrics-text",
        "Application/OpenMetrics-Text ; version=1.0.0",
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0."
        "75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/"
        "openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
        "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        "text/plain;q=0.9 , application/openmetrics-text",
        "text/plain;q=0.5,application/openmetrics-text;q=0.5",
        "text/plain;q=0,application/openmetrics-text;q=0.001",
        ",, application/openmetrics-text;Q=1.000",
    };
    static const char *const plain[] = {
        NULL,
        "",
        "*/*",
        "application/*",
        "text/plain",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text; q=0.000",
        "text/plain, application/openmetrics-text;version=1.0.0;q=0.1",
        "text/plain;q=0.51,application/openmetrics-text;q=0.5",
        "application/openmetrics-text;q=0.5,*/*;q=0.9",
        "application/openmetrics-texts",
        "text/html;note=application/openmetrics-text",
    };

    for (size_t i = 0; i < ARRAY_SIZE(open); i++)
        assert_int_equal(metrics_accepted(open[i]), METRICS_OPENMETRICS);
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        assert_int_equal(metrics_accepted(plain[i]), METRICS_PROMETHEUS);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_of_hw_counters),
        cmocka_unit_test(test_all_counters_are_there),
        T(test_rows_have_metrics),
        T(test_metrics_have_rows),
        cmocka_unit_test(test_escaping),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_quotas),
        cmocka_unit_test(test_lacking),
        T(test_end_early),
        cmocka_unit_test(test_accept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
