/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of `uroce sim`, and its files. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "number.h"
#include "sim.h"

const char sim_help[] =
    "usage: uroce sim [OPTIONS] FILE\n"
    "\n"
    "Runs the transport engines of many hosts in virtual time, over switches with queues, marks,\n"
    "pauses and equal paths. FILE describes the network and its traffic (doc/lab.md); - is the\n"
    "standard input. The same file and seed give the same output, byte for byte.\n"
    "\n"
    "  -j, --json         all results as JSON, instead of a summary\n"
    "  --csv DIR          flows.csv, ports.csv, rates.csv and queues.csv\n"
    "  --svg DIR          rates.svg, queues.svg and fct.svg\n"
    "  --pcap DIR         the frames of each link, LINK.pcap\n"
    "  --link PATTERN     with --pcap: only of these links, as \"h1-*\"; may be repeated\n"
    "  --fault RULE       a rule as those of uroce fault, also \"HOSTS RULE\"; may be repeated\n"
    "  --seed N           instead of the file's\n"
    "  --until TIME       instead of the file's, as \"20ms\"\n";

enum { OPT_CSV = 256, OPT_SVG, OPT_PCAP, OPT_LINK, OPT_FAULT, OPT_SEED, OPT_UNTIL };

static const struct option options[] = {
    {"json", no_argument, NULL, 'j'},
    {"csv", required_argument, NULL, OPT_CSV},
    {"svg", required_argument, NULL, OPT_SVG},
    {"pcap", required_argument, NULL, OPT_PCAP},
    {"link", required_argument, NULL, OPT_LINK},
    {"fault", required_argument, NULL, OPT_FAULT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"until", required_argument, NULL, OPT_UNTIL},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int refuse(const char *option, const char *takes)
{
    fprintf(stderr, "uroce sim: --%s takes %s\n", option, takes);
    return -EINVAL;
}

static int set_seed(struct sim_arguments *a, const char *text)
{
    char *end;

    errno = 0;
    a->seed = strtoull(text, &end, number_base(text));
    a->has_seed = true;
    /* JSON has no larger ones. */
    if (*end || errno || *text < '0' || *text > '9' || a->seed > INT64_MAX)
        return refuse("seed", "a number of 63 bits");
    return 0;
}

static int add_link(struct sim_arguments *a, const char *pattern)
{
    if (a->links == SIM_LINKS_MAX)
        return refuse("link", "64 patterns at most");
    a->link[a->links++] = pattern;
    return 0;
}

static int add_fault(struct sim_arguments *a, const char *rule)
{
    if (a->faults == LAB_RULES_MAX)
        return refuse("fault", "32 rules at most");
    a->fault[a->faults++] = rule;
    return 0;
}

static int apply(struct sim_arguments *a, int option, const char *text)
{
    switch (option) {
    case 'j':
        a->json = true;
        return 0;
    case OPT_CSV:
        a->csv = text;
        return 0;
    case OPT_SVG:
        a->svg = text;
        return 0;
    case OPT_PCAP:
        a->pcap = text;
        return 0;
    case OPT_LINK:
        return add_link(a, text);
    case OPT_FAULT:
        return add_fault(a, text);
    case OPT_SEED:
        return set_seed(a, text);
    case OPT_UNTIL:
        return lab_read_time(text, &a->until) && a->until && a->until <= LAB_TIME_MAX
                   ? 0
                   : refuse("until", "a time up to an hour, as 20ms");
    default: /* getopt_long has printed the reason */
        return -EINVAL;
    }
}

int sim_parse_arguments(struct sim_arguments *a, int argc, char **argv)
{
    int option, err;

    optind = 0; /* getopt scans a new argument vector */
    while ((option = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
        if (option == 'h')
            return 1;
        err = apply(a, option, optarg);
        if (err)
            return err;
    }
    if (optind + 1 != argc) {
        fputs("uroce sim: one FILE is wanted\n", stderr);
        return -EINVAL;
    }
    if (a->links && !a->pcap) {
        fputs("uroce sim: --link goes with --pcap\n", stderr);
        return -EINVAL;
    }
    a->file = argv[optind];
    return 0;
}

/* ---- names and files ---- */

void sim_link_name(const struct lab_spec *spec, unsigned link, char out[SIM_LINK_NAME])
{
    const struct lab_link *l = &spec->link[link];

    snprintf(out, SIM_LINK_NAME, "%s-%s", spec->node[l->a].name, spec->node[l->b].name);
}

void sim_port_name(const struct lab_spec *spec, unsigned port, char out[SIM_LINK_NAME])
{
    const struct lab_link *l = &spec->link[port / 2];

    snprintf(out, SIM_LINK_NAME, "%s>%s", spec->node[port % 2 ? l->b : l->a].name,
             spec->node[port % 2 ? l->a : l->b].name);
}

static void complain(const char *folder, const char *name)
{
    fprintf(stderr, "uroce sim: %s/%s: %s\n", folder, name, strerror(errno));
}

bool sim_make_folder(const char *folder)
{
    struct stat st;

    if ((!mkdir(folder, 0777) || errno == EEXIST) && !stat(folder, &st)) {
        if (S_ISDIR(st.st_mode) && !access(folder, W_OK | X_OK))
            return true;
        if (!S_ISDIR(st.st_mode))
            errno = ENOTDIR;
    }
    fprintf(stderr, "uroce sim: %s: %s\n", folder, strerror(errno));
    return false;
}

FILE *sim_open(const char *folder, const char *name)
{
    char path[4096];
    FILE *f = NULL;

    if (!sim_make_folder(folder))
        return NULL;
    errno = ENAMETOOLONG;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path))
        f = fopen(path, "we");
    if (!f)
        complain(folder, name);
    return f;
}

bool sim_close(FILE *f, const char *folder, const char *name)
{
    int err = ferror(f);

    if (!(fclose(f) | err))
        return true;
    complain(folder, name);
    return false;
}
