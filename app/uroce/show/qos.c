/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce show qos`: a port's maps, its traffic classes, its counters by priority, and what the maps
 * do with a value. */
#include "show.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "number.h"
#include "qos.h"
#include "table.h"

#define QUESTIONS_MAX 64

static struct {
    enum qos_question what;
    uint8_t number;
} question[QUESTIONS_MAX];
static unsigned questions;

int show_qos_ask(enum qos_question what, const char *number)
{
    unsigned long v, max = what == QOS_ASK_SL ? 15 : 255;
    char *end;

    errno = 0;
    v = strtoul(number, &end, number_base(number));
    if (errno || end == number || *end || number[0] == '-' || v > max || questions == QUESTIONS_MAX)
        return -EINVAL;
    question[questions].what = what;
    question[questions++].number = (uint8_t)v;
    return 0;
}

/* ---- from the daemon's state ---- */

static bool read_table(const json_t *qos, const char *name, uint8_t *out, unsigned n, unsigned max)
{
    const json_t *list = json_object_get(qos, name);

    for (unsigned i = 0; i < n; i++) {
        json_int_t v = json_integer_value(json_array_get(list, i));

        if (v < 0 || v > max)
            return false;
        out[i] = (uint8_t)v;
    }
    return json_array_size(list) == n;
}

static bool read_map(const json_t *qos, struct qos_map *m)
{
    return read_table(qos, "sl_to_pcp", m->sl_to_pcp, ARRAY_SIZE(m->sl_to_pcp), 7) &&
           read_table(qos, "dscp", m->dscp, ARRAY_SIZE(m->dscp), 63) &&
           read_table(qos, "priority_to_sl", m->priority_to_sl, ARRAY_SIZE(m->priority_to_sl), 15);
}

/* From a question to the fields of a frame: a service level gives the tag's priority, a traffic
 * class the header's code point, rdma_cm's type of service both. */
static json_t *answer_question(const struct qos_map *m, enum qos_question what, uint8_t number)
{
    static const char *const name[] = {"sl", "tos", "tclass"};
    json_t *o = json_pack("{s:s, s:i}", "asked", name[what - QOS_ASK_SL], "number", (int)number);
    uint8_t sl = what == QOS_ASK_TOS ? qos_tos_to_sl(m, number) : number;

    if (what == QOS_ASK_TOS)
        json_object_set_new(o, "priority", json_integer(qos_tos_to_priority(number)));
    if (what != QOS_ASK_TCLASS) {
        json_object_set_new(o, "sl", json_integer(sl));
        json_object_set_new(o, "pcp", json_integer(m->sl_to_pcp[sl]));
    }
    if (what != QOS_ASK_SL) {
        json_object_set_new(o, "traffic_class", json_integer(number));
        json_object_set_new(o, "dscp", json_integer(qos_traffic_class(m, number) >> 2));
        json_object_set_new(o, "ecn",
                            json_integer(0)); /* uroce clears it, whatever the program requested */
    }
    return o;
}

static void add_qos(json_t *rows, const char *device, json_t *port, const char *member)
{
    json_t *row =
        json_pack("{s:s?, s:O?}", "device", device, "port", json_object_get(port, "port"));
    json_t *qos = json_object_get(port, "qos"), *answers = json_array();
    struct qos_map m;

    json_object_update(row, qos);
    for (unsigned i = 0; i < questions && read_map(qos, &m); i++)
        json_array_append_new(answers, answer_question(&m, question[i].what, question[i].number));
    if (questions)
        json_object_set(row, "answers", answers);
    json_decref(answers);
    json_array_append_new(rows, row);
}

json_t *show_qos_select(const json_t *root)
{
    return show_from_ports(root, add_qos, NULL);
}

/* ---- in tables ---- */

/* One row, with a column for each index. */
static void row_of_map(json_t *rows, const json_t *port, const char *name)
{
    json_t *row = show_begin_row(port), *value;
    size_t i;

    json_object_set_new(row, "map", json_string(name));
    json_array_foreach(json_object_get(port, name), i, value)
    {
        char index[24];

        snprintf(index, sizeof(index), "%zu", i);
        json_object_set(row, index, value);
    }
    json_array_append_new(rows, row);
}

/* The code points that are sent as another one. */
static void rows_of_dscp(json_t *rows, const json_t *port)
{
    json_t *value;
    size_t i;

    json_array_foreach(json_object_get(port, "dscp"), i, value)
    {
        json_t *row;

        if (json_integer_value(value) == (json_int_t)i)
            continue;
        row = show_begin_row(port);
        json_object_set_new(row, "dscp", json_integer((json_int_t)i));
        json_object_set(row, "sent", value);
        json_array_append_new(rows, row);
    }
}

/* The traffic classes, in the order in which they are served. */
static void rows_of_classes(json_t *rows, const json_t *port)
{
    json_t *class;
    size_t i;

    json_array_foreach(json_object_get(port, "classes"), i, class)
    {
        json_t *row = show_begin_row(port), *priority;
        char list[4 * QOS_PRIORITIES] = "";
        size_t k, len = 0;

        json_array_foreach(json_object_get(class, "priorities"), k, priority)
        {
            int n = snprintf(list + len, sizeof(list) - len, "%s%lld", len ? "," : "",
                             (long long)json_integer_value(priority) % 100);

            len = min_of(len + (size_t)n, sizeof(list) - 1);
        }
        json_object_set(row, "class", json_object_get(class, "class"));
        json_object_set_new(row, "priorities", json_string(list));
        json_object_set(row, "selection", json_object_get(class, "selection"));
        if (json_object_get(class, "percent"))
            json_object_set(row, "percent", json_object_get(class, "percent"));
        json_array_append_new(rows, row);
    }
}

/* Prints rows and frees them. */
static int print_rows(json_t *rows, const char *title)
{
    int err = 0;

    if (json_array_size(rows)) {
        printf("%s\n", title);
        err = table_print(stdout, rows, NULL);
        putchar('\n');
    }
    json_decref(rows);
    return err;
}

static int print_answers(const json_t *ports)
{
    json_t *rows = json_array(), *port;
    size_t i;
    int err;

    json_array_foreach(ports, i, port) show_rows_of_list(rows, port, "answers");
    err = table_print(stdout, rows,
                      "device port asked number priority sl pcp traffic_class dscp ecn");
    json_decref(rows);
    return err;
}

int show_qos_print(const json_t *ports)
{
    json_t *maps, *dscp, *classes, *counters, *port;
    size_t i;
    int err;

    if (questions)
        return print_answers(ports);
    maps = json_array();
    dscp = json_array();
    classes = json_array();
    counters = json_array();
    json_array_foreach(ports, i, port)
    {
        row_of_map(maps, port, "sl_to_pcp");
        row_of_map(maps, port, "priority_to_sl");
        rows_of_dscp(dscp, port);
        rows_of_classes(classes, port);
        show_rows_of_list(counters, port, "priorities");
    }
    err = print_rows(maps, "maps");
    err |= print_rows(dscp, "code points that are changed");
    err |= print_rows(classes, "traffic classes, in the order in which they are served");
    err |= print_rows(counters, "counted by priority");
    return err;
}
