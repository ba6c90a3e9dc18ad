/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command.h"
#include "ctl_msg.h"
#include "endpoint.h"
#include "table.h"

/* ---- topics: what of the daemon's state they show, as a list of objects that the caller takes
 * over ---- */

typedef void port_visitor(json_t *rows, const char *device, json_t *port);

/* Calls visit for every port, which adds to the list that is returned. */
static json_t *from_ports(const json_t *root, port_visitor *visit)
{
    json_t *rows = json_array(), *device, *port;
    size_t d, p;

    json_array_foreach(json_object_get(root, "devices"), d, device)
    {
        json_array_foreach(json_object_get(device, "ports"), p, port)
            visit(rows, json_string_value(json_object_get(device, "name")), port);
    }
    return rows;
}

/* Adds the members of `from` that are neither lists nor objects. */
static void add_scalars(json_t *row, const json_t *from)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)from, key,
                        value) if (!json_is_array(value) && !json_is_object(value))
        json_object_set(row, key, value);
}

static void add_port(json_t *rows, const char *device, json_t *port)
{
    json_t *row = json_pack("{s:s?}", "device", device);

    add_scalars(row, port);
    json_array_append_new(rows, row);
}

static void add_gids(json_t *rows, const char *device, json_t *port)
{
    json_t *gid;
    size_t i;

    json_array_foreach(json_object_get(port, "gids"), i, gid)
    {
        json_t *row =
            json_pack("{s:s?, s:O?}", "device", device, "port", json_object_get(port, "port"));

        add_scalars(row, gid);
        json_array_append_new(rows, row);
    }
}

/* A row for each member of an object of numbers. */
static void add_numbers(json_t *rows, const char *device, const json_t *port, const json_t *numbers,
                        const char *title)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)numbers, key, value) if (json_is_integer(value))
        json_array_append_new(rows,
                              json_pack("{s:s?, s:O?, s:s, s:O}", "device", device, "port",
                                        json_object_get(port, "port"), title, key, "value", value));
}

static void add_counters(json_t *rows, const char *device, json_t *port)
{
    add_numbers(rows, device, port, json_object_get(port, "counters"), "counter");
}

static void add_drops(json_t *rows, const char *device, json_t *port)
{
    add_numbers(rows, device, port, json_object_get(json_object_get(port, "counters"), "drops"),
                "reason");
}

static json_t *select_devices(const json_t *root)
{
    json_t *rows = json_array(), *device;
    size_t i;

    json_array_foreach(json_object_get(root, "devices"), i, device)
    {
        json_t *row = json_object();

        add_scalars(row, device);
        json_object_set_new(
            row, "ports",
            json_integer((json_int_t)json_array_size(json_object_get(device, "ports"))));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *select_ports(const json_t *root)
{
    return from_ports(root, add_port);
}

static json_t *select_gids(const json_t *root)
{
    return from_ports(root, add_gids);
}

static json_t *select_counters(const json_t *root)
{
    return from_ports(root, add_counters);
}

static json_t *select_drops(const json_t *root)
{
    return from_ports(root, add_drops);
}

static json_t *select_workers(const json_t *root)
{
    return json_incref(json_object_get(root, "workers"));
}

static json_t *select_clients(const json_t *root)
{
    return json_incref(json_object_get(root, "clients"));
}

static json_t *select_qps(const json_t *root)
{
    return json_incref(json_object_get(root, "qps"));
}

/* In the order in which they are printed when no topic is given. */
static const struct topic {
    const char *name, *help;
    json_t *(*select)(const json_t *root);
    const char *columns; /* of the table; NULL: all that there are */
} topics[] = {
    {"devices", "the RDMA devices", select_devices, NULL},
    {"ports", "their ports: state, address, MTU", select_ports, NULL},
    {"gids", "the GID tables", select_gids, NULL},
    {"workers", "the dataplane's threads", select_workers, NULL},
    {"clients", "connected programs", select_clients, NULL},
    {"qps", "queue pairs (their counters: with --json)", select_qps,
     "device qpn pid type state dest_qpn path_mtu sgid dgid"},
    {"counters", "what the ports counted", select_counters, NULL},
    {"drops", "dropped packets by reason", select_drops, NULL},
};
#define TOPICS (sizeof(topics) / sizeof(topics[0]))

static void usage(FILE *out)
{
    fputs("usage: uroce show [TOPIC] [--socket PATH] [--json]\n\ntopics (all without one):\n", out);
    for (size_t i = 0; i < TOPICS; i++)
        fprintf(out, "  %-10s%s\n", topics[i].name, topics[i].help);
}

static const struct topic *find_topic(const char *name)
{
    for (size_t i = 0; i < TOPICS; i++)
        if (strcmp(topics[i].name, name) == 0)
            return &topics[i];
    return NULL;
}

/* The JSON in a memfd of the daemon's. NULL with the reason on stderr. */
static json_t *load(int memfd, size_t length)
{
    json_error_t error;
    json_t *root = NULL;
    void *text = mmap(NULL, length, PROT_READ, MAP_PRIVATE, memfd, 0);

    if (text == MAP_FAILED) {
        perror("uroce: mmap");
        return NULL;
    }
    root = json_loadb(text, length, 0, &error);
    if (root == NULL)
        fprintf(stderr, "uroce: the daemon's answer: %s (at byte %d)\n", error.text,
                error.position);
    munmap(text, length);
    return root;
}

/* Asks for everything. NULL with the reason on stderr. */
static json_t *fetch(int sock)
{
    struct ctl_msg m = {.magic = CTL_MAGIC, .version = CTL_VERSION, .type = CTL_SHOW, .seq = 1};
    int fds[CTL_MAX_FDS];
    unsigned nfds = 0;
    json_t *root = NULL;
    int err;

    m.show.what = CTL_SHOW_ALL;
    err = ctl_send(sock, &m, NULL, 0, 0);
    if (err == 0)
        err = ctl_recv(sock, &m, fds, &nfds, 0);
    if (err == 0)
        err = m.status;
    if (err == 0 && (nfds != 1 || m.show.length == 0))
        err = -EPROTO;
    if (err == 0)
        root = load(fds[0], m.show.length);
    else
        fprintf(stderr, "uroce: show: %s\n", strerror(-err));
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    return root;
}

static int print_topic(const json_t *root, const struct topic *topic, int titled)
{
    json_t *rows = topic->select(root);
    int err = 0;

    if (titled)
        printf("%s\n", topic->name);
    if (json_array_size(rows) == 0)
        puts("none");
    else
        err = table_print(stdout, rows, topic->columns);
    if (titled)
        putchar('\n');
    json_decref(rows);
    return err;
}

static int print_json(const json_t *root, const struct topic *only)
{
    json_t *value = only != NULL ? only->select(root) : json_incref((json_t *)root);
    int err = value == NULL ? -1 : json_dumpf(value, stdout, JSON_INDENT(2));

    json_decref(value);
    putchar('\n');
    return err;
}

static int print(const json_t *root, const struct topic *only, int as_json)
{
    int err = 0;

    if (as_json)
        err = print_json(root, only);
    for (size_t i = 0; !as_json && err == 0 && i < TOPICS; i++)
        if (only == NULL || only == &topics[i])
            err = print_topic(root, &topics[i], only == NULL);
    return err == 0 && fflush(stdout) == 0 ? 0 : 1;
}

static int show(const char *socket_option, const struct topic *only, int as_json)
{
    char path[ENDPOINT_PATH_MAX] = "";
    int sock = endpoint_connect(socket_option, path);
    json_t *root;
    int status;

    if (sock < 0) {
        endpoint_complain(path, sock);
        return 1;
    }
    root = fetch(sock);
    close(sock);
    if (root == NULL)
        return 1;
    status = print(root, only, as_json);
    json_decref(root);
    return status;
}

int cmd_show(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *socket_option = NULL;
    const struct topic *only = NULL;
    int as_json = 0, option;

    while ((option = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
        switch (option) {
        case 's':
            socket_option = optarg;
            break;
        case 'j':
            as_json = 1;
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc)
        only = find_topic(argv[optind]);
    if (optind + 1 < argc || (optind < argc && only == NULL)) {
        usage(stderr);
        return EXIT_USAGE;
    }
    return show(socket_option, only, as_json);
}
