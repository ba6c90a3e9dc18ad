/* SPDX-License-Identifier: BSD-3-Clause */
/* A laboratory's text, line by line. See spec.h. */
#include "line.h"
#include "printable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(struct line_parser *p);
} commands[] = {
    {"seed", line_seed},         {"until", line_until},       {"sample", line_sample},
    {"converge", line_converge}, {"hosts", line_set_hosts},   {"switches", line_set_switches},
    {"links", line_set_links},   {"host", line_add_hosts},    {"switch", line_add_switches},
    {"link", line_add_link},     {"star", line_star},         {"dumbbell", line_dumbbell},
    {"clos", line_clos},         {"fattree", line_fattree},   {"flow", line_flow},
    {"incast", line_incast},     {"alltoall", line_alltoall}, {"permutation", line_permutation},
    {"poisson", line_poisson},   {"fail", line_link_fails},   {"mark", line_mark},
    {"lose", line_lose},         {"fault", line_rule},
};

/* Cuts the line at blanks; # begins a comment. */
static int split(struct line_parser *p, const char *line, size_t len)
{
    char *at = p->text;

    p->words = 0;
    if (len >= sizeof(p->text))
        return line_fail(p, "a line has at most %u bytes", LAB_LINE_MAX - 1);
    memcpy(p->text, line, len);
    p->text[len] = '\0';
    if (strlen(p->text) != len)
        return line_fail(p, "a line has a byte 0");
    p->text[strcspn(p->text, "#")] = '\0';
    for (;;) {
        at += strspn(at, " \t\r");
        if (!*at)
            return 0;
        if (p->words == WORDS_MAX)
            return line_fail(p, "a line has at most %u words", WORDS_MAX);
        p->word[p->words++] = at;
        at += strcspn(at, " \t\r");
        if (*at)
            *at++ = '\0';
    }
}

static int run_line(struct line_parser *p, const char *line, size_t len)
{
    int err = split(p, line, len);

    if (err || !p->words)
        return err;
    for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
        if (!strcmp(commands[i].name, p->word[0]))
            return commands[i].run(p);
    return line_fail(p, "\"%.40s\" is no word that a line begins with", p->word[0]);
}

/* The node that stands for all those that links join with this one. */
static unsigned join_of(unsigned *up, unsigned node)
{
    while (up[node] != node)
        node = up[node] = up[up[node]];
    return node;
}

/* A flow without links from end to end would send for ever: nothing ever fails it. */
static int check_ways(struct line_parser *p)
{
    const struct lab_spec *spec = p->spec;
    unsigned *up = malloc(spec->nodes * sizeof(*up));
    int err = 0;

    if (!up)
        return line_fail_with(p, -ENOMEM, "");
    for (unsigned i = 0; i < spec->nodes; i++)
        up[i] = i;
    for (unsigned i = 0; i < spec->links; i++)
        up[join_of(up, spec->link[i].a)] = join_of(up, spec->link[i].b);
    for (unsigned i = 0; i < spec->flows && !err; i++) {
        const struct lab_flow *f = &spec->flow[i];

        if (join_of(up, f->from) == join_of(up, f->to))
            continue;
        p->error->line = f->line;
        err = line_fail(p, "%s: no links lead from %s to %s", f->name, spec->node[f->from].name,
                        spec->node[f->to].name);
    }
    free(up);
    return err;
}

static int check_whole(struct line_parser *p)
{
    p->error->line = 0;
    if (!p->spec->hosts)
        return line_fail(p, "there are no hosts");
    if (!p->spec->flows)
        return line_fail(p, "there are no flows");
    if (!p->spec->sample)
        p->spec->sample = max_of(p->spec->until / 500, (ns_t)100);
    if (p->spec->until / p->spec->sample > 100000)
        return line_fail(p, "more than 100000 samples: make sample longer");
    return check_ways(p);
}

int lab_spec_read(struct lab_spec *spec, const char *text, size_t len, const uint64_t *seed,
                  ns_t until, struct lab_error *error)
{
    struct line_parser *p = malloc(sizeof(*p));
    const char *end = text + len;
    int err = 0;

    *error = (struct lab_error){0};
    lab_spec_init(spec, seed ? *seed : 1);
    if (!p)
        return -ENOMEM;
    p->spec = spec;
    p->error = error;
    p->seed_given = seed != NULL;
    p->until_given = until != 0;
    if (until)
        spec->until = until;
    if (len >= strlen(BYTE_ORDER_MARK) && !memcmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)))
        text += strlen(BYTE_ORDER_MARK);
    while (text < end && !err) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));

        if (!stop)
            stop = end;
        error->line++;
        err = run_line(p, text, (size_t)(stop - text));
        text = stop < end ? stop + 1 : end;
    }
    if (!err)
        err = check_whole(p);
    free(p);
    return err;
}
