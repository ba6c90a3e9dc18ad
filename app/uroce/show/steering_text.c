/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers of steering_answer.c as text. */
#include "steering_answer.h"

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

static json_int_t number_of(const json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

static void print_hash(const json_t *answer)
{
    char fields[256];

    if (!json_object_get(answer, "hash")) {
        puts("  hash      unknown, or the port has one queue");
        return;
    }
    steering_describe_fields(answer, fields, sizeof(fields));
    printf("  input     %s (%s)\n", text_of(answer, "input"), fields);
    printf("  hash      %s (%s)\n", text_of(answer, "hash"), text_of(answer, "function"));
    printf("  entry     %d of %d\n", (int)number_of(answer, "index"),
           (int)number_of(answer, "table_size"));
}

static void print_rule(const json_t *answer)
{
    json_t *qpn;
    size_t i;

    if (json_object_get(answer, "rule_of_qp"))
        printf("  rule      that of queue pair %u has precedence over the hash\n",
               (unsigned)number_of(answer, "rule_of_qp"));
    else
        puts("  rule      none");
    json_array_foreach(json_object_get(answer, "rules_by_number"), i, qpn)
        printf("            packets to queue pair %u are placed by their number\n",
               (unsigned)json_integer_value(qpn));
}

static void print_arrival(const json_t *answer)
{
    if (json_object_get(answer, "queue"))
        printf("  arrives   on queue %d, worker %d\n", (int)number_of(answer, "queue"),
               (int)number_of(answer, "worker"));
    else
        puts("  arrives   on an unknown queue");
}

static void print_owner(const json_t *answer)
{
    printf("  queue pair %u (%s) lives on queue %d, worker %d: %s\n",
           (unsigned)number_of(answer, "qpn"), text_of(answer, "type"),
           (int)number_of(answer, "lives_on_queue"), (int)number_of(answer, "lives_on_worker"),
           text_of(answer, "steering"));
    if (json_is_false(json_object_get(answer, "lives_there")))
        puts("  its packets are forwarded to it");
    else if (json_is_true(json_object_get(answer, "lives_there")))
        puts("  its packets arrive there");
}

void steering_print(const json_t *answer)
{
    if (json_object_get(answer, "without_flow")) {
        printf("  flow      unknown: %s\n", text_of(answer, "without_flow"));
    } else {
        if (json_object_get(answer, "src"))
            printf("  flow      %s to %s, UDP source port %d\n", text_of(answer, "src"),
                   text_of(answer, "dst"), (int)number_of(answer, "sport"));
        print_hash(answer);
        print_rule(answer);
        print_arrival(answer);
    }
    if (json_object_get(answer, "qpn"))
        print_owner(answer);
}
