/* SPDX-License-Identifier: BSD-3-Clause */
/* Which format a request accepts: RFC 9110, 12.5.1. Parameters other than the weight are not
 * compared, as a client that names several versions of a format reads the one that there is. */
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "metrics.h"

#define WEIGHT_ALL 1000

/* A part of a list, without the blanks around it. */
struct part {
    const char *text;
    size_t length;
};

/* The next part, behind which *text goes on. False: there is none. */
static bool next_part(const char **text, const char *end, char separator, struct part *p)
{
    const char *stop;

    if (*text >= end)
        return false;
    stop = memchr(*text, separator, (size_t)(end - *text));
    if (!stop)
        stop = end;
    *p = (struct part){*text, (size_t)(stop - *text)};
    *text = stop + 1;
    while (p->length && strchr(" \t", p->text[0])) {
        p->text++;
        p->length--;
    }
    while (p->length && strchr(" \t", p->text[p->length - 1]))
        p->length--;
    return true;
}

static bool is_word(const struct part *p, const char *word)
{
    return p->length == strlen(word) && !strncasecmp(p->text, word, p->length);
}

/* "0.5" in thousandths. What is no weight counts as none given. */
static int read_weight(const struct part *p)
{
    int weight = 0, unit = WEIGHT_ALL;

    for (size_t i = 2; i < p->length; i++) {
        char c = p->text[i];

        if (i == 3 ? c != '.' : c < '0' || c > '9')
            return WEIGHT_ALL;
        if (i == 3)
            continue;
        weight += (c - '0') * unit;
        unit /= 10;
    }
    return p->length > 2 && weight < WEIGHT_ALL ? weight : WEIGHT_ALL;
}

static int weight_of(const char *text, const char *end)
{
    struct part p;

    while (next_part(&text, end, ';', &p))
        if (p.length >= 2 && !strncasecmp(p.text, "q=", 2))
            return read_weight(&p);
    return WEIGHT_ALL;
}

/* The weight of a type, or of the range that has it; -1: neither is in the list. A client may name
 * a type several times, with parameters. */
static int weight_in(const char *accept, const char *type)
{
    const char *end = accept + strlen(accept);
    struct part range, name;
    int weight = -1;

    while (next_part(&accept, end, ',', &range)) {
        const char *text = range.text, *range_end = range.text + range.length;

        if (!next_part(&text, range_end, ';', &name) || !is_word(&name, type))
            continue;
        if (weight_of(text, range_end) > weight)
            weight = weight_of(text, range_end);
    }
    return weight;
}

/* Without the header, or with ranges alone, a client gets what all of them read. */
enum metrics_format metrics_accepted(const char *accept)
{
    static const char *const text[] = {"text/plain", "text/*", "*/*"};
    int open = accept ? weight_in(accept, "application/openmetrics-text") : -1, plain = -1;

    for (unsigned i = 0; accept && i < sizeof(text) / sizeof(text[0]) && plain < 0; i++)
        plain = weight_in(accept, text[i]);
    return open > 0 && open >= plain ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}
