/* SPDX-License-Identifier: BSD-3-Clause */
/* Records as JSON and as text. See rdma.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rdma.h"

/* The text's lines of one record. */
static const char *new_line(const struct rdma_call *c)
{
    return c->one_line ? "\\" : "\n";
}

static void print_head(enum rdma_head head, const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "ifname"));
    const json_t *port = json_object_get(record, "port");

    if (head == RDMA_NUMBERED)
        printf("%d: %s: ", (int)json_integer_value(json_object_get(record, "ifindex")), name);
    else if (head == RDMA_DEV)
        printf("dev %s ", name);
    else if (port)
        printf("link %s/%d ", name, (int)json_integer_value(port));
    else
        printf("link %s/- ", name);
}

static void print_list(const struct rdma_call *c, const char *name, const json_t *list)
{
    bool is_caps = !strcmp(name, "caps");
    json_t *item;
    size_t i;

    if (is_caps)
        printf("%s    caps: <", new_line(c));
    else
        printf("%s ", name);
    json_array_foreach(list, i, item) printf("%s%s",
                                             i == 0    ? ""
                                             : is_caps ? ", "
                                                       : ",",
                                             json_string_value(item));
    fputs(is_caps ? ">" : " ", stdout);
}

/* Keys are strings with hexadecimal digits. */
static bool is_key(const char *name)
{
    return !strcmp(name, "rkey") || !strcmp(name, "lkey") || !strcmp(name, "local_dma_lkey");
}

static void print_member(const struct rdma_call *c, const char *name, const json_t *value)
{
    if (json_is_array(value))
        print_list(c, name, value);
    else if (json_is_boolean(value))
        printf("%s %s ", name, json_is_true(value) ? "on" : "off");
    else if (json_is_integer(value))
        printf("%s %" JSON_INTEGER_FORMAT " ", name, json_integer_value(value));
    else if (json_is_string(value))
        printf("%s %s%s ", name, is_key(name) ? "0x" : "", json_string_value(value));
}

/* What the head has, or the text has with --details alone. */
static bool is_silent(const struct rdma_call *c, const char *name)
{
    return !strcmp(name, "ifindex") || !strcmp(name, "ifname") || !strcmp(name, "port") ||
           (!strcmp(name, "netdev_index") && !c->details);
}

static void print_text(const struct rdma_call *c, enum rdma_head head, json_t *record)
{
    const char *name;
    json_t *value;

    print_head(head, record);
    json_object_foreach(record, name, value)
    {
        if (is_silent(c, name))
            continue;
        if (head == RDMA_COUNTERS)
            printf("%s    ", new_line(c));
        print_member(c, name, value);
    }
    putchar('\n');
}

int rdma_print(const struct rdma_call *c, enum rdma_head head, json_t *records)
{
    json_t *record;
    size_t i;
    int err = 0;

    if (c->as_json)
        err = json_dumpf(records, stdout, c->is_pretty ? JSON_INDENT(4) : JSON_COMPACT) ||
              putchar('\n') == EOF;
    else
        json_array_foreach(records, i, record) print_text(c, head, record);
    json_decref(records);
    if (!err && !fflush(stdout) && !ferror(stdout))
        return 0;
    return rdma_failed("%s", errno ? strerror(errno) : "out of memory");
}
