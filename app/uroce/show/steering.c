/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce show steering`: how packets and queue pairs are spread over a port's workers. */
#include "show.h"

#include <stdbool.h>
#include <string.h>

#include "common.h"
#include "steering_answer.h"
#include "table.h"

static struct steering_question question;
static bool with_qps;

int show_steering_flow(const char *text)
{
    return steering_parse_flow(&question, text);
}

int show_steering_qp(const char *text)
{
    return steering_parse_qp(&question, text);
}

void show_steering_qps(void)
{
    with_qps = true;
}

int show_steering_device(const char *name)
{
    if (question.device)
        return -EINVAL;
    question.device = name;
    return 0;
}

/* ---- from the daemon's state ---- */

static bool is_selected(const char *device)
{
    return !question.device || (device && !strcmp(device, question.device));
}

static json_t *qps_of(const json_t *root, const char *device)
{
    json_t *rows = json_array(), *qp;
    size_t i;

    json_array_foreach(json_object_get(root, "qps"), i, qp)
    {
        const char *of = json_string_value(json_object_get(qp, "device"));

        if (of && device && !strcmp(of, device))
            json_array_append(rows, qp);
    }
    return rows;
}

/* A row for each port: its steering as the daemon reports it, its queue pairs, and the answers. */
static void add_port(json_t *rows, const json_t *root, const char *device, json_t *port)
{
    json_t *row =
        json_pack("{s:s?, s:O?}", "device", device, "port", json_object_get(port, "port"));
    json_t *qps = qps_of(root, device);

    json_object_update(row, json_object_get(port, "steering"));
    if (steering_is_asked(&question))
        json_object_set_new(row, "answers", steering_answer(&question, port, qps));
    else if (with_qps)
        json_object_set(row, "qps", qps);
    json_decref(qps);
    json_array_append_new(rows, row);
}

json_t *show_steering_select(const json_t *root)
{
    json_t *rows = json_array(), *device, *port;
    size_t d, p;

    json_array_foreach(json_object_get(root, "devices"), d, device)
    {
        const char *name = json_string_value(json_object_get(device, "name"));

        json_array_foreach(json_object_get(device, "ports"), p, port)
        {
            if (is_selected(name))
                add_port(rows, root, name, port);
        }
    }
    return rows;
}

/* Whether the state has what the options ask about. */
int show_steering_check(const json_t *root)
{
    json_t *rows = show_steering_select(root), *row;
    size_t i, answers = 0, ports = json_array_size(rows);

    json_array_foreach(rows, i, row) answers += json_array_size(json_object_get(row, "answers"));
    json_decref(rows);
    if (question.device && !ports)
        fprintf(stderr, "uroce: show: there is no device \"%s\"\n", question.device);
    else if (question.by == STEERING_BY_QP && !answers)
        fprintf(stderr, "uroce: show: there is no queue pair %u%s%s\n", question.qpn,
                question.device ? " on " : "", question.device ? question.device : "");
    else if (question.by == STEERING_BY_FLOW && !answers)
        fprintf(stderr, "uroce: show: no port has the flow's destination address; name a device to "
                        "see how it would place the flow\n");
    else
        return 0;
    return -ENOENT;
}

/* ---- as text ---- */

/* How the port spreads packets of an IP version. */
static void row_of_hash(json_t *rows, const json_t *port, bool ipv6)
{
    const json_t *rss = json_object_get(port, ipv6 ? "rss_ipv6" : "rss_ipv4");
    json_t *row = show_begin_row(port);
    char text[256];

    json_object_set_new(row, "ip", json_string(ipv6 ? "v6" : "v4"));
    if (json_array_size(json_object_get(port, "workers")) < 2) {
        json_object_set_new(row, "hash", json_string("none: one queue"));
    } else if (!rss) {
        json_object_set_new(row, "hash", json_string("unknown"));
    } else {
        json_object_set(row, "hash", json_object_get(rss, "hash"));
        steering_describe_fields(rss, text, sizeof(text));
        json_object_set_new(row, "fields", json_string(text));
        steering_describe_table(rss, text, sizeof(text));
        json_object_set_new(row, "table", json_string(text));
        json_object_set(row, "key", json_object_get(rss, "key"));
    }
    json_array_append_new(rows, row);
}

static void row_of_moves(json_t *rows, const json_t *port)
{
    json_t *row = show_begin_row(port);

    json_object_set(row, "moved_after_misplaced", json_object_get(port, "moved_after_misplaced"));
    json_array_append_new(rows, row);
}

/* Prints rows and frees them. */
static int print_rows(json_t *rows, const char *title, const char *columns)
{
    int err = 0;

    if (json_array_size(rows)) {
        printf("%s\n", title);
        err = table_print(stdout, rows, columns);
        putchar('\n');
    }
    json_decref(rows);
    return err;
}

static int print_tables(const json_t *ports)
{
    json_t *workers = json_array(), *hashes = json_array(), *moves = json_array(), *port;
    json_t *qps = json_array();
    size_t i;
    int err;

    json_array_foreach(ports, i, port)
    {
        show_rows_of_list(workers, port, "workers");
        row_of_hash(hashes, port, false);
        row_of_hash(hashes, port, true);
        row_of_moves(moves, port);
        show_rows_of_list(qps, port, "qps");
    }
    err = print_rows(
        workers, "workers",
        "device port worker queue qps rx_packets tx_packets rx_delivered rx_forwarded_in "
        "rx_forwarded_out rx_copies");
    err |= print_rows(hashes, "how ports spread packets", "device port ip hash fields table key");
    err |= print_rows(moves, "queue pairs that were moved to their packets", NULL);
    err |= print_rows(qps, "queue pairs",
                      "device qpn type state worker queue steering flow_rule sgid dgid peer_sport");
    return err;
}

int show_steering_print(const json_t *ports)
{
    json_t *port, *answer;
    size_t i, k;

    if (!steering_is_asked(&question))
        return print_tables(ports);
    json_array_foreach(ports, i, port)
    {
        json_array_foreach(json_object_get(port, "answers"), k, answer)
        {
            printf("%s port %d\n", json_string_value(json_object_get(port, "device")),
                   (int)json_integer_value(json_object_get(port, "port")));
            steering_print(answer);
        }
    }
    return 0;
}
