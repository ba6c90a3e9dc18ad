/* SPDX-License-Identifier: BSD-3-Clause */
/* What all lines of a laboratory's text have in common: see line.h. */
#include "line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int line_fail(struct line_parser *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->error->text, sizeof(p->error->text), format, args);
    va_end(args);
    return -EINVAL;
}

int line_fail_with(struct line_parser *p, int err, const char *what)
{
    switch (err) {
    case -EEXIST:
        return line_fail(p, "%.60s: a name is taken already", what);
    case -EMLINK:
        return line_fail(p, "%.60s: a host has one link, a switch %u", what, FABRIC_PORTS_MAX);
    case -ENOSPC:
        return line_fail(p, "%.60s: too many", what);
    case -ERANGE:
        return line_fail(p, "%.60s: too late", what);
    case -ENOMEM:
        line_fail(p, "out of memory");
        return -ENOMEM;
    default:
        return line_fail(p, "%.60s: not possible", what);
    }
}

bool line_is_key(const char *word)
{
    return strchr(word, '=');
}

int line_apply_keys(struct line_parser *p, unsigned first, enum lab_section section, void *object)
{
    char why[LAB_WHY];

    for (unsigned i = first; i < p->words; i++)
        if (!lab_apply_key(section, object, p->word[i], why))
            return line_fail(p, "%s", why);
    return 0;
}

int line_find_node(struct line_parser *p, unsigned word, unsigned *node)
{
    int found = word < p->words ? lab_find_node(p->spec, p->word[word]) : -ENOENT;

    if (found < 0)
        return word < p->words ? line_fail(p, "there is no node \"%.40s\"", p->word[word])
                               : line_fail(p, "a node is missing");
    *node = (unsigned)found;
    return 0;
}

int line_find_port(struct line_parser *p, unsigned *port)
{
    unsigned a, b;
    int found;

    if (line_find_node(p, 1, &a) || line_find_node(p, 2, &b))
        return -EINVAL;
    found = lab_find_port(p->spec, a, b);
    if (found < 0)
        return line_fail(p, "there is no link from %s to %s", p->word[1], p->word[2]);
    *port = (unsigned)found;
    return 0;
}
