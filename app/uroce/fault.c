/* SPDX-License-Identifier: BSD-3-Clause */
/* `uroce fault`: adds, lists and removes the daemon's rules that make packets and calls go wrong.
 */
#include <errno.h>
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
#include "table.h"

struct arguments {
    const char *socket;
    int as_json;
    char **word; /* the command, and what follows it */
    int words;
};

static void usage(FILE *out)
{
    fputs(
        "usage: uroce fault add RULE... [--socket PATH]\n"
        "       uroce fault now qp_error qp N [device NAME] [--socket PATH]\n"
        "       uroce fault now event NAME [device NAME] [--socket PATH]\n"
        "       uroce fault now daemon_death [--socket PATH]\n"
        "       uroce fault list [--socket PATH] [--json]\n"
        "       uroce fault remove N|all [--socket PATH]\n"
        "\nA rule is what becomes of a packet, and then which packets, in any order:\n"
        "  drop | duplicate | corrupt [payload|header] [sealed] | mark | delay TIME | reorder N |\n"
        "  nak rnr|sequence|invalid_request|remote_access|remote_operational\n"
        "  rx, tx                  received or sent by the port; both without\n"
        "  device NAME             of one device\n"
        "  opcode NAME[,NAME...]   as uroce dissect names them: RC_ACK, RC_READ_*\n"
        "  peer ADDRESS            from or to this address\n"
        "  program NAME            with rx: for a queue pair of this program\n"
        "  qp N                    to this queue pair\n"
        "  psn N | psn FIRST-LAST  of these PSNs\n"
        "  sport N                 from this UDP source port\n"
        "  nth N                   every Nth of them\n"
        "  count N                 the first N of these\n"
        "  chance P, seed S        each with this probability, by this sequence\n"
        "  after TIME, for TIME    from then on, and for how long: 20us, 5ms, 3s\n"
        "\nOr a link that is down: link_down [after TIME] [for TIME]\n"
        "Or a call that fails: fail VERB ERROR [program NAME], such as fail reg_mr ENOMEM nth 3\n"
        "Or a work request that fails: complete STATUS [operation NAME] [program NAME] [qp N],\n"
        "  such as complete retry_exc_err operation write count 1\n"
        "\nOnly root and the user who runs uroced may add and remove rules.\n",
        out);
}

/* Without an answer: the daemon did what it was asked to. */
static bool has_died(const struct arguments *a, int err)
{
    return (err == -ECONNRESET || err == -EPIPE) && a->words > 1 && !strcmp(a->word[0], "now") &&
           !strcmp(a->word[1], "daemon_death");
}

/* 0: m is the daemon's answer, with a good status; else the reason is on stderr. */
static int request(const struct arguments *a, struct ctl_msg *m)
{
    char path[ENDPOINT_PATH_MAX] = "";
    int fds[CTL_MAX_FDS], sock = endpoint_connect(a->socket, path), err;
    unsigned nfds = 0;

    if (sock < 0) {
        endpoint_print_error(path, sock);
        return -1;
    }
    m->magic = CTL_MAGIC;
    m->version = CTL_VERSION;
    m->type = CTL_FAULT;
    m->seq = 1;
    err = ctl_request(sock, m, NULL, 0, fds, &nfds);
    close(sock);
    while (nfds)
        close(fds[--nfds]);
    if (has_died(a, err))
        return 0;
    if (!err)
        err = m->status;
    m->fault.text[sizeof(m->fault.text) - 1] = '\0';
    if (err == -EPERM)
        fputs("uroce: fault: only root and the user who runs uroced may change rules\n", stderr);
    else if (err == -ENOENT && m->fault.op == CTL_FAULT_NOW)
        fputs("uroce: fault: there is no such queue pair\n", stderr);
    else if (err == -ENOENT)
        fprintf(stderr, "uroce: fault: there is no rule %s\n", a->word[1]);
    else if (err)
        fprintf(stderr, "uroce: fault: %s\n",
                m->status && m->fault.text[0] ? m->fault.text : strerror(-err));
    return err;
}

/* Words with blanks between them. 0 or -1 with the reason on stderr. */
static int join(const struct arguments *a, char text[CTL_FAULT_TEXT_MAX])
{
    size_t len = 0;

    for (int i = 1; i < a->words; i++) {
        int n = snprintf(text + len, CTL_FAULT_TEXT_MAX - len, "%s%s", len ? " " : "", a->word[i]);

        if (n < 0 || (size_t)n >= CTL_FAULT_TEXT_MAX - len) {
            fputs("uroce: fault: the rule is too long\n", stderr);
            return -1;
        }
        len += (size_t)n;
    }
    return 0;
}

static int add(const struct arguments *a)
{
    struct ctl_msg m = {.fault.op = CTL_FAULT_ADD};

    if (join(a, m.fault.text) || request(a, &m))
        return 1;
    printf("rule %u\n", m.fault.number);
    return output_end("uroce: fault", 0);
}

static int act_now(const struct arguments *a)
{
    struct ctl_msg m = {.fault.op = CTL_FAULT_NOW};

    return join(a, m.fault.text) || request(a, &m) ? 1 : 0;
}

static int remove_rules(const struct arguments *a)
{
    struct ctl_msg m = {.fault.op = CTL_FAULT_REMOVE};
    unsigned long number;
    char *end;

    if (strcmp(a->word[1], "all")) {
        errno = 0;
        number = strtoul(a->word[1], &end, 10);
        if (errno || *end || !number || number > UINT32_MAX) {
            fprintf(stderr, "uroce: fault: \"%s\" is no rule's number, and not \"all\"\n",
                    a->word[1]);
            return EXIT_USAGE;
        }
        m.fault.number = (uint32_t)number;
    }
    return request(a, &m) ? 1 : 0;
}

static int list(const struct arguments *a)
{
    json_t *root = show_state(a->socket, CTL_SHOW_ALL);
    const json_t *rules = json_object_get(root, "faults");
    int err;

    if (!root)
        return 1;
    if (a->as_json)
        err = json_dumpf(rules, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
    else if (!json_array_size(rules))
        err = puts("none") == EOF;
    else
        err = table_print(stdout, rules, SHOW_FAULT_COLUMNS);
    json_decref(root);
    return output_end("uroce: fault", err);
}

static void print_wrong_words(const struct arguments *a)
{
    const char *const word = a->word[0];

    if (strcmp(word, "add") && strcmp(word, "now") && strcmp(word, "list") &&
        strcmp(word, "remove"))
        fprintf(stderr, "uroce: fault: \"%s\" is not add, now, list or remove\n", word);
    else
        fprintf(stderr, "uroce: fault: too %s words after \"%s\"\n", a->words == 1 ? "few" : "many",
                word);
}

static int read_options(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    int option;

    while ((option = getopt_long(argc, argv, COMMON_LETTERS, options, NULL)) != -1)
        if (!common_option(option, &a->socket, &a->as_json, usage))
            return -1;
    a->word = argv + optind;
    a->words = argc - optind;
    return 0;
}

int cmd_fault(int argc, char **argv)
{
    struct arguments a = {0};

    if (!read_options(&a, argc, argv) && a.words) {
        if (!strcmp(a.word[0], "add") && a.words > 1)
            return add(&a);
        if (!strcmp(a.word[0], "now") && a.words > 1)
            return act_now(&a);
        if (!strcmp(a.word[0], "list") && a.words == 1)
            return list(&a);
        if (!strcmp(a.word[0], "remove") && a.words == 2)
            return remove_rules(&a);
        print_wrong_words(&a);
    }
    usage(stderr);
    return EXIT_USAGE;
}
