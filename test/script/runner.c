/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs script files: one TAP test point per case. A case runs with memory that the engine maps and
 * with memory that it copies (unless it has a line `memory direct|copy`), and, when it has a line
 * `each`, once for every row of values.
 *
 *     script [-t] [-c CASE] FILE...      -t: every frame to stderr; -c: one case only
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script.h"

#define MAX_VARS 8

struct line {
    unsigned number;
    char *text;
};

/* A case: its lines, and the rows of its `each` line. */
struct test_case {
    char name[64];
    const char *file;
    const struct line *line;
    unsigned lines;
    unsigned vars, rows;
    char var[MAX_VARS][16];
    char *values[512];
    char *each;         /* the memory of the values */
    const char *memory; /* NULL: both */
};

struct file {
    const char *name;
    char *bytes;
    struct line *line;
    unsigned lines;
};

static unsigned points, failures;
static bool trace;
static const char *only;

static char *read_all(const char *name)
{
    FILE *f = fopen(name, "r");
    char *bytes = NULL;
    size_t len = 0;

    if (!f || getdelim(&bytes, &len, '\0', f) < 0) {
        perror(name);
        exit(2);
    }
    fclose(f);
    return bytes;
}

static struct file load(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct file f = {.name = slash ? slash + 1 : path, .bytes = read_all(path)};
    char *rest = f.bytes, *text;

    for (unsigned n = 1; (text = strsep(&rest, "\n")); n++) {
        char *p = text + strspn(text, " \t");

        if (!*p || *p == '#')
            continue;
        f.line = kit_grow(f.line, (f.lines + 1) * sizeof(*f.line));
        f.line[f.lines++] = (struct line){n, p};
    }
    return f;
}

/* ---- one run ---- */

/* text with every $NAME replaced by its value in this row. */
static void substitute(const struct test_case *c, unsigned row, const char *text, char *out,
                       size_t room)
{
    size_t at = 0;

    while (*text && at + 1 < room) {
        unsigned v;

        for (v = 0; *text == '$' && v < c->vars; v++) {
            size_t len = strlen(c->var[v]);

            if (!strncmp(text + 1, c->var[v], len)) {
                at += (size_t)snprintf(out + at, room - at, "%s", c->values[row * c->vars + v]);
                text += 1 + len;
                break;
            }
        }
        if (v == c->vars || *text != '$')
            if (*text)
                out[at++] = *text++;
    }
    out[min_of(at, room - 1)] = '\0';
}

static bool is_header(const char *text)
{
    return !strncmp(text, "case ", 5) || !strncmp(text, "clause ", 7) ||
           !strncmp(text, "each ", 5) || !strncmp(text, "memory ", 7);
}

static void run_lines(struct script *s, const struct test_case *c, unsigned row)
{
    for (unsigned i = 0; i < c->lines; i++) {
        char text[1024];

        s->line = c->line[i].number;
        if (is_header(c->line[i].text))
            continue;
        substitute(c, row, c->line[i].text, text, sizeof(text));
        split(s, text);
        if (s->trace)
            fprintf(stderr, "%12.3f us  %s:%u %s\n", (double)(s->now - s->start) / 1000, s->file,
                    s->line, text);
        if (s->words)
            statement(s);
    }
    check_end(s);
}

/* Whether it passed; reports a failure. */
static bool run_once(const struct test_case *c, unsigned row, enum kit_mr_kind memory)
{
    struct script *s = kit_alloc(sizeof(*s));
    volatile bool passed = false;

    s->file = c->file;
    s->memory = memory;
    s->trace = trace;
    world_open(s);
    if (!setjmp(s->failed)) {
        run_lines(s, c, row);
        passed = true;
    } else {
        printf("# %s:%u (%s memory", c->file, s->line, memory == KIT_MR_COPY ? "copied" : "mapped");
        for (unsigned v = 0; v < c->vars; v++)
            printf(", %s %s", c->var[v], c->values[row * c->vars + v]);
        printf("): ");
        for (unsigned i = 0; i < s->words; i++)
            printf("%s ", s->word[i]);
        printf("\n#   ");
        for (const char *p = s->message; *p; p++)
            printf(*p == '\n' ? "\n#   " : "%c", *p);
        printf("\n");
    }
    world_close(s);
    free(s);
    return passed;
}

static void run_case(const struct test_case *c)
{
    bool passed = true;

    if (only && strcmp(only, c->name))
        return;
    for (unsigned row = 0; passed && row < (c->vars ? c->rows : 1); row++)
        for (unsigned kind = 0; passed && kind < 2; kind++)
            if (!c->memory || !strcmp(c->memory, kind ? "copy" : "direct"))
                passed = run_once(c, row, kind ? KIT_MR_COPY : KIT_MR_DIRECT);
    failures += !passed;
    printf("%sok %u - %s\n", passed ? "" : "not ", ++points, c->name);
    fflush(stdout);
}

/* ---- cases of a file ---- */

static _Noreturn void malformed(const struct file *f, const struct line *l, const char *why)
{
    printf("Bail out! %s:%u: %s\n", f->name, l->number, why);
    exit(2);
}

/* each VAR... : VALUE... */
static void take_each(const struct file *f, struct test_case *c, const struct line *l)
{
    char *word, *rest = c->each = strdup(l->text + 5);
    unsigned values = 0;
    bool in_values = false;

    while ((word = strsep(&rest, " \t"))) {
        if (!*word)
            continue;
        if (!strcmp(word, ":"))
            in_values = true;
        else if (!in_values && c->vars < MAX_VARS)
            snprintf(c->var[c->vars++], sizeof(c->var[0]), "%s", word);
        else if (in_values && values < ARRAY_SIZE(c->values))
            c->values[values++] = word;
        else
            malformed(f, l, "too many variables or values");
    }
    if (!c->vars || !values || values % c->vars)
        malformed(f, l, "each VAR... : VALUE..., as many for each variable");
    c->rows = values / c->vars;
}

static void take_header(const struct file *f, struct test_case *c)
{
    bool claims = false;

    c->file = f->name;
    if (sscanf(c->line->text, "case %63s", c->name) != 1)
        malformed(f, c->line, "a line before the first case");
    for (unsigned i = 0; i < c->lines; i++) {
        const struct line *l = &c->line[i];

        claims |= !strncmp(l->text, "clause ", 7);
        if (!strncmp(l->text, "each ", 5))
            take_each(f, c, l);
        else if (!strncmp(l->text, "memory ", 7))
            c->memory = l->text + 7;
    }
    if (!claims)
        malformed(f, c->line, "the case names no clause");
}

static void run_file(const char *path)
{
    struct file f = load(path);
    unsigned at = 0;

    while (at < f.lines) {
        struct test_case c = {.line = &f.line[at], .lines = 1};

        while (at + c.lines < f.lines && strncmp(f.line[at + c.lines].text, "case ", 5))
            c.lines++;
        take_header(&f, &c);
        run_case(&c);
        free(c.each);
        at += c.lines;
    }
    free(f.line);
    free(f.bytes);
}

int main(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "tc:")) != -1) {
        if (option == 't')
            trace = true;
        else if (option == 'c')
            only = optarg;
        else
            return 2;
    }
    if (optind == argc) {
        fprintf(stderr, "usage: script [-t] [-c CASE] FILE...\n");
        return 2;
    }
    for (int i = optind; i < argc; i++)
        run_file(argv[i]);
    printf("1..%u\n", points);
    return failures || !points;
}
