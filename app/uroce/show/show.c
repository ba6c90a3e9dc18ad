/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce show`: its options; gets the daemon's state and prints the topics. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "common_options.h"
#include "ctl_msg.h"
#include "endpoint.h"
#include "output.h"
#include "show.h"
#include "state.h"
#include "table.h"

static void usage(FILE *out)
{
    fputs("usage: uroce show [TOPIC] [--socket PATH] [--json]\n"
          "       uroce show qos [--sl N] [--tos N] [--tclass N] [--socket PATH] [--json]\n"
          "       uroce show steering [--qps | --flow SRC,DST,SPORT | --qp QPN] [DEVICE]\n"
          "                           [--socket PATH] [--json]\n"
          "\ntopics (all without one):\n",
          out);
    for (const struct topic *t = show_topics; t->name; t++)
        fprintf(out, "  %-12s%s\n", t->name, t->help);
    fputs("\nWith --sl (service level), --tos (rdma_cm) or --tclass (traffic class of an address\n"
          "handle): the fields of packets that are sent with it. With --flow (addresses and UDP\n"
          "source port of packets as they arrive) or --qp: the queue on which packets arrive, and\n"
          "why.\n"
          "\nA user other than root and the daemon's sees the programs of this user and their "
          "objects,\n"
          "without PSNs, keys and addresses of memory, and the numbers of all others.\n",
          out);
}

static const struct topic *find_topic(const char *name)
{
    for (const struct topic *t = show_topics; t->name; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

/* NULL with the reason on stderr. */
static json_t *request_state(int sock, enum ctl_show_what what)
{
    int err;
    json_t *root = state_ask(sock, what, &err);

    if (root == NULL)
        fprintf(stderr, "uroce: show: %s\n",
                err == -EAGAIN ? "uroced does not answer in time" : strerror(-err));
    return root;
}

/* The daemon shows each user what is that user's, and root everything. */
static void print_others(const json_t *root, const struct topic *topic)
{
    const json_t *others = json_object_get(root, "others");
    json_int_t n = topic->others ? json_integer_value(json_object_get(others, topic->others)) : 0;

    if (n)
        printf("(%" JSON_INTEGER_FORMAT " of other users)\n", n);
}

static int print_topic(const json_t *root, const struct topic *topic, int titled)
{
    json_t *rows = show_select(topic, root);
    int err = 0;

    if (titled)
        printf("%s\n", topic->name);
    if (json_array_size(rows) == 0)
        puts("none");
    else if (topic->print)
        err = topic->print(rows);
    else
        err = table_print(stdout, rows, topic->columns);
    print_others(root, topic);
    if (titled)
        putchar('\n');
    json_decref(rows);
    return err;
}

static int print_json(const json_t *root, const struct topic *only)
{
    json_t *value = only != NULL ? show_select(only, root) : json_incref((json_t *)root);
    int err = value == NULL ? -1 : json_dumpf(value, stdout, JSON_INDENT(2));

    json_decref(value);
    putchar('\n');
    return err;
}

static int print_state(const json_t *root, const struct topic *only, int as_json)
{
    int err = 0;

    if (as_json)
        err = print_json(root, only);
    for (const struct topic *t = show_topics; !as_json && err == 0 && t->name; t++)
        if (only == NULL || only == t)
            err = print_topic(root, t, only == NULL);
    return output_end("uroce: show", err);
}

json_t *show_state(const char *socket_option, enum ctl_show_what what)
{
    char path[ENDPOINT_PATH_MAX] = "";
    int sock = endpoint_connect(socket_option, path);
    json_t *root;

    if (sock < 0) {
        endpoint_print_error(path, sock);
        return NULL;
    }
    root = request_state(sock, what);
    close(sock);
    return root;
}

static int show_daemon_state(const char *socket_option, const struct topic *only, int as_json)
{
    json_t *root = show_state(socket_option, CTL_SHOW_ALL);
    int status;

    if (root == NULL)
        return 1;
    status = only && only->check && only->check(root) ? 1 : print_state(root, only, as_json);
    json_decref(root);
    return status;
}

struct arguments {
    const char *socket;
    const struct topic *only;
    int as_json;
    int asks_qos;      /* a qos question */
    int asks_steering; /* a steering question */
};

static int read_steering(struct arguments *a, int option)
{
    a->asks_steering = 1;
    if (option == STEERING_ASK_FLOW)
        return show_steering_flow(optarg);
    if (option == STEERING_ASK_QP)
        return show_steering_qp(optarg);
    show_steering_qps();
    return 0;
}

static int read_options(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"sl", required_argument, NULL, QOS_ASK_SL},
        {"tos", required_argument, NULL, QOS_ASK_TOS},
        {"tclass", required_argument, NULL, QOS_ASK_TCLASS},
        {"flow", required_argument, NULL, STEERING_ASK_FLOW},
        {"qp", required_argument, NULL, STEERING_ASK_QP},
        {"qps", no_argument, NULL, STEERING_ASK_QPS},
        {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, COMMON_LETTERS, options, NULL)) != -1) {
        if (common_option(option, &a->socket, &a->as_json, usage))
            continue;
        switch (option) {
        case QOS_ASK_SL:
        case QOS_ASK_TOS:
        case QOS_ASK_TCLASS:
            a->asks_qos = 1;
            if (show_qos_ask((enum qos_question)option, optarg) == 0)
                break;
            fprintf(stderr,
                    "uroce: show: \"%s\" is no service level (0 to 15), TOS or traffic class "
                    "(0 to 255)\n",
                    optarg);
            return -1;
        case STEERING_ASK_FLOW:
        case STEERING_ASK_QP:
        case STEERING_ASK_QPS:
            if (read_steering(a, option))
                return -1;
            break;
        default:
            return -1;
        }
    }
    return 0;
}

/* A topic; after `steering` also a device. */
static int read_topic(struct arguments *a, int argc, char **argv)
{
    if (optind < argc) {
        a->only = find_topic(argv[optind++]);
        if (!a->only) {
            fprintf(stderr, "uroce: show: there is no topic \"%s\"\n", argv[optind - 1]);
            return -1;
        }
    }
    if (optind < argc && a->only->print == show_steering_print &&
        show_steering_device(argv[optind++]))
        return -1;
    if (a->asks_qos && (!a->only || a->only->print != show_qos_print)) {
        fputs("uroce: show: --sl, --tos and --tclass go with qos\n", stderr);
        return -1;
    }
    if (a->asks_steering && (!a->only || a->only->print != show_steering_print)) {
        fputs("uroce: show: --qps, --flow and --qp go with steering\n", stderr);
        return -1;
    }
    return options_end("show", argc, argv);
}

int cmd_show(int argc, char **argv)
{
    struct arguments a = {0};
    int err = read_options(&a, argc, argv);

    if (!err)
        err = read_topic(&a, argc, argv);
    if (err) {
        usage(stderr);
        return EXIT_USAGE;
    }
    return show_daemon_state(a.socket, a.only, a.as_json);
}
