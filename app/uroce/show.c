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

/* In the order in which they are printed when no topic is given. */
static const struct topic {
    const char *name, *help;
    int hide_zero; /* rows of value 0 tell nothing here */
} topics[] = {
    {"devices", "the RDMA devices", 0},
    {"ports", "their ports: state, MTU, address", 0},
    {"gids", "the GID tables", 0},
    {"workers", "the dataplane's threads", 0},
    {"clients", "connected programs", 0},
    {"qps", "queue pairs", 0},
    {"counters", "counters that are not 0", 1},
    {"drops", "dropped packets by reason", 1},
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
    const json_t *value = json_object_get(root, topic->name);
    int rows;

    if (value == NULL)
        return 0;
    if (titled)
        printf("%s\n", topic->name);
    rows = table_print(stdout, value, topic->hide_zero);
    if (rows == 0)
        puts(topic->hide_zero ? "all 0" : "none");
    if (titled)
        putchar('\n');
    return rows;
}

static int print(const json_t *root, const struct topic *only, int as_json)
{
    if (as_json) {
        const json_t *value = only != NULL ? json_object_get(root, only->name) : root;

        if (value == NULL || json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY) != 0)
            return 1;
        putchar('\n');
    } else {
        for (size_t i = 0; i < TOPICS; i++)
            if ((only == NULL || only == &topics[i]) &&
                print_topic(root, &topics[i], only == NULL) < 0)
                return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
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
