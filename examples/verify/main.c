/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, the list of tests, the report. */
#include "verify.h"

#include <fnmatch.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: verify [OPTION]... [HOST]\n"
    "Two programs that check each other's data over RDMA: the server, without HOST, serves one\n"
    "client and ends. The client chooses the tests and the sizes.\n"
    "  -d DEVICE       RDMA device (the first)\n"
    "  -g INDEX        GID index (the first of RoCEv2, over IPv4 if there is one)\n"
    "  -m MTU          path MTU in bytes: 256 512 1024 2048 4096 (what both ports can)\n"
    "  -p PORT         TCP port (18515)\n"
    "  -s SIZE[,SIZE]  message sizes (0 to 1 MiB, around multiples of the path MTU)\n"
    "  -n ROUNDS       number of times for each size (1)\n"
    "  --types LIST    of rc,uc,ud,xrc (all)\n"
    "  --only LIST     only tests of these names; * and ? as in file names\n"
    "  --statuses      only the tests of faults, and nothing but their lines\n"
    "  --seed NUMBER   of all data and addresses (1)\n"
    "  --json          the report in JSON\n"
    "  --list          the names of the tests\n"
    "Exit status: 0 every test passed, 1 a test failed, 2 wrong usage.\n";

enum { OPT_TYPES = 256, OPT_ONLY, OPT_STATUSES, OPT_SEED, OPT_JSON, OPT_LIST, OPT_HELP };

static const struct option long_options[] = {
    {"types", required_argument, NULL, OPT_TYPES}, {"only", required_argument, NULL, OPT_ONLY},
    {"statuses", no_argument, NULL, OPT_STATUSES}, {"seed", required_argument, NULL, OPT_SEED},
    {"json", no_argument, NULL, OPT_JSON},         {"list", no_argument, NULL, OPT_LIST},
    {"help", no_argument, NULL, OPT_HELP},         {0},
};

static const struct {
    const char *name;
    enum ibv_qp_type type;
} type_names[] = {
    {"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD}, {"xrc", IBV_QPT_XRC_SEND}};

struct result {
    const char *name;
    enum outcome outcome;
    uint64_t moved;
    unsigned lost;
    char why[256];
};

static enum outcome note(struct session *s, enum outcome outcome, const char *format, va_list args)
{
    vsnprintf(s->why, sizeof(s->why), format, args);
    return outcome;
}

enum outcome fail(struct session *s, const char *format, ...)
{
    va_list args;
    enum outcome result;

    va_start(args, format);
    result = note(s, FAILED, format, args);
    va_end(args);
    return result;
}

enum outcome skip(struct session *s, const char *format, ...)
{
    va_list args;
    enum outcome result;

    va_start(args, format);
    result = note(s, SKIPPED, format, args);
    va_end(args);
    return result;
}

/* ---- options ---- */

static void wrong_usage(const char *what, const char *value)
{
    fprintf(stderr, "verify: %s: %s\nTry --help.\n", what, value);
    exit(2);
}

static uint64_t number(const char *text, uint64_t most, const char *what)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 0);

    if (text[0] < '0' || text[0] > '9' || *end || value > most)
        wrong_usage(what, text);
    return value;
}

static void parse_sizes(struct options *o, char *list)
{
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        if (o->sizes == MAX_SIZES)
            wrong_usage("too many sizes, from", word);
        o->size[o->sizes++] = number(word, MAX_MESSAGE, "not a size");
    }
}

static void parse_types(struct options *o, char *list)
{
    o->types = 0;
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        unsigned i = 0;

        while (i < 4 && strcmp(word, type_names[i].name))
            i++;
        if (i == 4)
            wrong_usage("not one of rc, uc, ud, xrc", word);
        o->types |= 1u << type_names[i].type;
    }
}

static void parse_one(struct options *o, int c)
{
    switch (c) {
    case 'd':
        o->device = optarg;
        break;
    case 'g':
        o->gid_index = number(optarg, 65535, "not a GID index");
        break;
    case 'm':
        o->mtu = number(optarg, 4096, "not a path MTU");
        if (o->mtu < 256 || (o->mtu & (o->mtu - 1)))
            wrong_usage("not a path MTU", optarg);
        break;
    case 'p':
        number(optarg, 65535, "not a port");
        o->port = optarg;
        break;
    case 's':
        parse_sizes(o, optarg);
        break;
    case 'n':
        o->rounds = number(optarg, 1000000, "not a number of rounds");
        break;
    case OPT_TYPES:
        parse_types(o, optarg);
        break;
    case OPT_ONLY:
        o->only = optarg;
        break;
    case OPT_SEED:
        o->seed = number(optarg, UINT64_MAX, "not a seed");
        break;
    case OPT_STATUSES:
        o->statuses = true;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_LIST:
        o->list = true;
        break;
    case OPT_HELP:
        fputs(usage, stdout);
        exit(0);
    default: /* getopt has printed the reason */
        exit(2);
    }
}

static void parse(struct options *o, int argc, char **argv)
{
    int c;

    *o = (struct options){.port = "18515", .gid_index = -1, .types = ~0u, .rounds = 1, .seed = 1};
    while ((c = getopt_long(argc, argv, "d:g:m:p:s:n:", long_options, NULL)) != -1)
        parse_one(o, c);
    if (optind < argc)
        o->host = argv[optind++];
    if (optind < argc)
        wrong_usage("one host is enough", argv[optind]);
    if (!o->rounds)
        wrong_usage("not a number of rounds", "0");
}

static bool named(const char *list, const char *name)
{
    while (*list) {
        char pattern[64];
        size_t length = strcspn(list, ",");

        snprintf(pattern, sizeof(pattern), "%.*s", (int)length, list);
        if (!fnmatch(pattern, name, 0))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static bool chosen(const struct options *o, const struct test *t)
{
    if (o->statuses && t->run != faulty)
        return false;
    return (o->types & 1u << t->type) && (!o->only || named(o->only, t->name));
}

/* ---- running ---- */

/* Both directions of a test that both sides know by this name. */
static struct result run_test(struct session *s, const char *name)
{
    struct result r = {.name = name, .outcome = PASSED};
    const struct test *t = tests;

    while (t < tests + test_count && strcmp(t->name, name))
        t++;
    s->why[0] = s->note[0] = s->line[0][0] = s->line[1][0] = '\0';
    s->moved = s->lost = 0;
    for (unsigned back = 0; back < 2 && r.outcome == PASSED; back++) {
        bool requester = s->opt.host ? !back : back;

        s->seed = mix(s->opt.seed, 2 * s->peer.test + back);
        r.outcome = t == tests + test_count ? skip(s, "not known here") : t->run(s, t, requester);
    }
    r.outcome = peer_end_test(s, r.outcome);
    r.moved = s->moved;
    r.lost = s->lost;
    snprintf(r.why, sizeof(r.why), "%s", r.outcome == PASSED ? s->note : s->why);
    return r;
}

static const char *const outcome_names[] = {"passed", "skipped", "failed", "lost"};

static void print_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < 0x20 ? ' ' : *text);
    }
    putchar('"');
}

static void report_json(const struct session *s, const struct result *r, bool first)
{
    printf("%s{\"test\": \"%s\", \"result\": \"%s\", \"messages\": %lu, \"lost\": %u, \"why\": ",
           first ? "[" : ",\n ", r->name, outcome_names[r->outcome], (unsigned long)r->moved,
           r->lost);
    print_string(r->why);
    for (unsigned i = 0; i < 2; i++) {
        printf(i ? ", " : ", \"lines\": [");
        print_string(s->line[i]);
    }
    printf("]}");
}

static void report(const struct session *s, const struct result *r, bool first)
{
    if (s->opt.json) {
        report_json(s, r, first);
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (s->line[i][0])
            puts(s->line[i]);
    }
    if (!s->opt.statuses) {
        printf("%-32s %-8s %6lu%s%s", r->name, outcome_names[r->outcome], (unsigned long)r->moved,
               r->why[0] ? "  " : "", r->why);
        printf(r->lost ? "  (%u lost)\n" : "\n", r->lost);
    } else if (r->outcome != PASSED) {
        fprintf(stderr, "verify: %s %s: %s\n", r->name, outcome_names[r->outcome], r->why);
    }
    fflush(stdout);
}

static int run_all(struct session *s)
{
    unsigned counts[3] = {0}, next = 0, n = 0;
    char name[64] = "";

    if (!s->opt.json && !s->opt.statuses)
        printf("path MTU %u, GID index %d, seed %lu\n%-32s %-8s %6s\n", s->mtu, s->opt.gid_index,
               (unsigned long)s->opt.seed, "test", "result", "count");
    fflush(stdout);
    for (;;) {
        struct result r;

        if (s->opt.host) {
            while (next < test_count && !chosen(&s->opt, &tests[next]))
                next++;
            snprintf(name, sizeof(name), "%s", next < test_count ? tests[next++].name : "");
        }
        if (!peer_next_test(s, name)) {
            fprintf(stderr, "verify: %s\n", s->why);
            return 1;
        }
        if (!name[0])
            break;
        r = run_test(s, name);
        report(s, &r, !n++);
        counts[r.outcome]++;
    }
    if (s->opt.json)
        printf("%s]\n", n ? "" : "[");
    else if (!s->opt.statuses)
        printf("%u passed, %u skipped, %u failed\n", counts[PASSED], counts[SKIPPED],
               counts[FAILED]);
    if (!n)
        fprintf(stderr, "verify: no test was chosen\n");
    return counts[FAILED] || !n;
}

static int run_session(struct session *s)
{
    int status = 1;

    if (!device_open(s))
        return 1;
    if (peer_open(s)) {
        if (device_agree(s))
            status = run_all(s);
        peer_close(s);
    }
    device_close(s);
    return status;
}

int main(int argc, char **argv)
{
    struct session s = {0};

    parse(&s.opt, argc, argv);
    if (!s.opt.list)
        return run_session(&s);
    for (unsigned i = 0; i < test_count; i++) {
        if (chosen(&s.opt, &tests[i]))
            puts(tests[i].name);
    }
    return 0;
}
