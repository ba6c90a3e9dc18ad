/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce rdma`: its options, and which object is shown. See rdma.h. */
#include "rdma.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "output.h"

static void usage(FILE *out)
{
    fputs("usage: uroce rdma [OPTIONS] dev [show [DEV]]\n"
          "       uroce rdma [OPTIONS] link [show [DEV/PORT]]\n"
          "       uroce rdma [OPTIONS] resource [show [DEV]]\n"
          "       uroce rdma [OPTIONS] resource show qp|cm_id [link DEV/PORT] [FILTER VALUE]...\n"
          "       uroce rdma [OPTIONS] resource show cq|mr|pd|ctx|srq [dev DEV] [FILTER VALUE]...\n"
          "       uroce rdma [OPTIONS] statistic [show [link DEV/PORT]]\n"
          "\nWhat rdma(8) of iproute2 prints of the kernel's devices, of the running uroced's. "
          "Words\n"
          "may be abbreviated. Nothing can be changed.\n"
          "\n  -j, --json     JSON, with rdma's names\n"
          "  -p, --pretty   with -j: indented\n"
          "  -d, --details  capabilities of devices, and indexes of interfaces\n"
          "  -o, --oneline  each record in a line\n"
          "  --socket PATH  the daemon's control socket\n"
          "\nA user other than root and the daemon's sees the objects of programs of this user,\n"
          "without PSNs and keys.\n",
          out);
}

/* ---- words ---- */

bool rdma_is(const char *word, const char *name)
{
    return word && *word && !strncmp(word, name, strlen(word));
}

static void complain(const char *sentence, va_list args)
{
    fputs("uroce: rdma: ", stderr);
    vfprintf(stderr, sentence, args);
    fputc('\n', stderr);
}

int rdma_wrong(const char *sentence, ...)
{
    va_list args;

    va_start(args, sentence);
    complain(sentence, args);
    va_end(args);
    return EXIT_USAGE;
}

int rdma_failed(const char *sentence, ...)
{
    va_list args;

    va_start(args, sentence);
    complain(sentence, args);
    va_end(args);
    return 1;
}

/* ---- objects and their commands, in rdma's order, which decides about abbreviations ---- */

#define COMMANDS_MAX 12

static const struct object {
    const char *name;
    int (*show)(struct rdma_call *c);  /* NULL: uroce does not have it */
    const char *lacking[COMMANDS_MAX]; /* commands of rdma that uroce does not have */
} objects[] = {
    {"dev", rdma_dev_show, {"add", "delete", "set"}},
    {"link", rdma_link_show, {"add", "delete"}},
    {"resource", rdma_resource_show, {"set"}},
    {"system", NULL, {NULL}},
    {"statistic", rdma_statistic_show, {"qp", "mr", "mode", "set", "unset"}},
    {"monitor", NULL, {NULL}},
};

static int run_command(struct rdma_call *c, const struct object *o)
{
    const char *word = *c->word;

    if (!o->show)
        return rdma_failed("%s is not supported: uroce has dev, link, resource and statistic",
                           o->name);
    if (!word)
        return o->show(c);
    for (size_t i = 0; i < COMMANDS_MAX && o->lacking[i]; i++)
        if (rdma_is(word, o->lacking[i]) && !rdma_is(word, "show"))
            return rdma_failed("%s %s is not supported: of these commands uroce has show", o->name,
                               o->lacking[i]);
    if (rdma_is(word, "help")) {
        usage(stdout);
        return 0;
    }
    if (!rdma_is(word, "show") && !rdma_is(word, "list"))
        return rdma_wrong("%s has no command \"%s\"", o->name, word);
    c->word++;
    return o->show(c);
}

static int run_object(struct rdma_call *c)
{
    const char *word = *c->word;

    if (!word || rdma_is(word, "help")) {
        usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        if (!rdma_is(word, objects[i].name))
            continue;
        c->word++;
        return run_command(c, &objects[i]);
    }
    return rdma_wrong("there is no object \"%s\"", word);
}

static int read_options(struct rdma_call *c, int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"pretty", no_argument, NULL, 'p'},
        {"details", no_argument, NULL, 'd'},
        {"oneline", no_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "jpdoh", options, NULL)) != -1) {
        if (option == 's')
            c->socket = optarg;
        else if (option == 'j')
            c->as_json = 1;
        else if (option == 'p')
            c->is_pretty = 1;
        else if (option == 'd')
            c->details = 1;
        else if (option == 'o')
            c->one_line = true;
        else if (option != 'h')
            return EXIT_USAGE;
        else {
            usage(stdout);
            exit(output_end("uroce: rdma", 0));
        }
    }
    c->word = argv + optind;
    return 0;
}

int cmd_rdma(int argc, char **argv)
{
    struct rdma_call c = {0};
    int status = read_options(&c, argc, argv);

    if (status) {
        usage(stderr);
        return status;
    }
    return run_object(&c);
}
