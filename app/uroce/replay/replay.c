/* SPDX-License-Identifier: BSD-3-Clause */
/* See replay.h: the command, its options and exit status. */
#include "replay.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

enum {
    STATUS_MATCH = 0,
    STATUS_DIFFERENT = 1,
    STATUS_ERROR = 2,
};

static void usage(FILE *out)
{
    fputs(
        "usage: uroce replay [--json] [--verbose] [--side A|B|both] FILE\n"
        "\n"
        "Plays each side of a capture's RoCE conversations: feeds what the other side sent, with\n"
        "the recorded timing, to the transport engine, and compares what it sends with what was\n"
        "recorded. Side A sent the conversation's first frame.\n"
        "\n"
        "  -s, --side A|B|both  which side to play; default: both, one after the other\n"
        "  -j, --json           one JSON object instead of text\n"
        "  -v, --verbose        also the frames of differences that the specification allows\n"
        "\n"
        "Exit status: 0 when all matches or differs as the specification allows, 1 when it\n"
        "differs, 2 when FILE cannot be read or has no frame that can be replayed. FILE \"-\" is\n"
        "the standard input.\n",
        out);
}

static int replay_conversation(struct report *p, struct capture *c, struct conversation *t,
                               int only_side)
{
    int status = STATUS_MATCH;

    for (int side = 0; side < 2; side++) {
        struct run r;

        if (only_side >= 0 && side != only_side)
            continue;
        replay_run(&r, c, t, (unsigned)side);
        report_run(p, &r);
        if (r.failed != NULL)
            status = STATUS_ERROR;
        replay_run_free(&r);
    }
    return status;
}

static bool has_use(const struct capture *c, enum replay_use use)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->rec[i].use == use)
            return true;
    return false;
}

static bool has_replayed(const struct capture *c)
{
    return has_use(c, USE_replay);
}

static bool is_cut(const struct capture *c)
{
    return has_use(c, USE_cut_short) || has_use(c, USE_cut_conversation);
}

static int replay_file(struct report *p, int only_side)
{
    FILE *f = strcmp(p->file, "-") == 0 ? stdin : fopen(p->file, "rbe");
    struct capture c;
    char error[256] = "";
    int status = STATUS_MATCH;

    if (f == NULL) {
        fprintf(stderr, "uroce replay: %s: %s\n", p->file, strerror(errno));
        return STATUS_ERROR;
    }
    if (replay_load(&c, f, error)) {
        fprintf(stderr, "uroce replay: %s: %s\n", p->file, error);
        replay_free(&c);
        return STATUS_ERROR;
    }
    if (replay_reconstruct(&c)) {
        fprintf(stderr, "uroce replay: %s: more payload than can be held\n", p->file);
        replay_free(&c);
        return STATUS_ERROR;
    }
    report_begin(p, &c);
    for (unsigned i = 0; i < c.conversations; i++)
        status |= replay_conversation(p, &c, c.conversation[i], only_side);
    report_end(p, &c);
    if (!has_replayed(&c)) {
        fprintf(stderr, "uroce replay: %s: none of %u frames can be replayed%s\n", p->file, c.count,
                is_cut(&c) ? "; those that were not captured whole need a larger snap length" : "");
        status = STATUS_ERROR;
    }
    replay_free(&c);
    if (fflush(stdout) || ferror(stdout)) {
        perror("uroce replay: standard output");
        return STATUS_ERROR;
    }
    return status ? status : p->differences ? STATUS_DIFFERENT : STATUS_MATCH;
}

/* 0 or 1; -1: both; -2: neither. */
static int side_of(const char *text)
{
    if (strcmp(text, "both") == 0)
        return -1;
    if (text[0] != '\0' && text[1] == '\0')
        return text[0] == 'A' || text[0] == 'a' ? 0 : text[0] == 'B' || text[0] == 'b' ? 1 : -2;
    return -2;
}

int uroce_replay(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"side", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct report p = {.json = false};
    int opt, side = -1;

    optind = 0; /* scan a new argument vector */
    while ((opt = getopt_long(argc, argv, "jvs:h", options, NULL)) != -1) {
        switch (opt) {
        case 'j':
            p.json = true;
            break;
        case 'v':
            p.verbose = true;
            break;
        case 's':
            side = side_of(optarg);
            if (side != -2)
                break;
            fprintf(stderr, "uroce replay: --side is A, B or both, not \"%s\"\n", optarg);
            usage(stderr);
            return STATUS_ERROR;
        case 'h':
            usage(stdout);
            return STATUS_MATCH;
        default:
            usage(stderr);
            return STATUS_ERROR;
        }
    }
    if (optind != argc - 1) {
        fputs("uroce replay: one FILE is wanted\n", stderr);
        usage(stderr);
        return STATUS_ERROR;
    }
    p.file = argv[optind];
    return replay_file(&p, side);
}
