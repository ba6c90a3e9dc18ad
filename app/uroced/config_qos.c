/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of [port.N] about service levels, priorities and traffic classes. See config_reader.h.
 */
#include "config_reader.h"

#include <string.h>

int config_sl_to_pcp(struct reader *r, const char *value)
{
    return config_table(r, value, r->port->qos.sl_to_pcp, 7);
}

int config_priority_to_sl(struct reader *r, const char *value)
{
    return config_table(r, value, r->port->qos.priority_to_sl, 15);
}

/* "46 26" */
int config_dscp(struct reader *r, const char *value)
{
    unsigned from, to;
    struct words w;

    config_split(&w, value);
    if (w.count != 2)
        return config_fail(r, "must be two code points from 0 to 63, not \"%s\"", value);
    if (config_number(r, w.word[0], 0, 63, 10, &from) ||
        config_number(r, w.word[1], 0, 63, 10, &to))
        return -1;
    r->port->qos.dscp[from] = (uint8_t)to;
    if (r->port->dscp_set & UINT64_C(1) << from)
        return config_fail(r, "repeats the code point %u", from);
    r->port->dscp_set |= UINT64_C(1) << from;
    return 0;
}

/* ---- traffic classes ---- */

/* A class as it is written. */
struct class_words {
    unsigned priorities; /* bits */
    unsigned percent;    /* 0: it is strict */
};

/* "3", "0,1,2" */
static int read_priorities(struct reader *r, char *list, unsigned *priorities)
{
    char *one;

    while ((one = strsep(&list, ","))) {
        unsigned priority = 0;

        if (config_number(r, one, 0, QOS_PRIORITIES - 1, 10, &priority))
            return -1;
        if (*priorities & 1u << priority)
            return config_fail(r, "names the priority %u twice", priority);
        *priorities |= 1u << priority;
    }
    return 0;
}

/* "3:60", "7:strict"; all: the priorities of the classes before it, and then of this one, too. */
static int read_class(struct reader *r, char *word, unsigned *all, struct class_words *c)
{
    char *share = strchr(word, ':');
    unsigned before = *all;

    if (!share)
        return config_fail(
            r, "must be PRIORITIES:strict or PRIORITIES:PERCENT for each class, not \"%s\"", word);
    *share++ = 0;
    c->percent = 0;
    if (read_priorities(r, word, all) ||
        (strcmp(share, "strict") && config_number(r, share, 1, 100, 10, &c->percent)))
        return -1;
    c->priorities = *all & ~before;
    return 0;
}

/* Strict ones are served first; of two of a kind the one with the higher priority. */
static bool goes_before(const struct class_words *a, const struct class_words *b)
{
    return !a->percent != !b->percent ? !a->percent : a->priorities > b->priorities;
}

/* Adds a class at its position. */
static void insert(struct class_words *list, unsigned n, struct class_words c)
{
    for (; n && goes_before(&c, &list[n - 1]); n--)
        list[n] = list[n - 1];
    list[n] = c;
}

/* Those that are not named are of the class of priority 0. */
static void use_classes(struct qos_classes *q, const struct class_words *list, unsigned n,
                        unsigned named)
{
    q->count = n;
    for (unsigned i = 0; i < n; i++) {
        unsigned priorities = list[i].priorities;

        if (priorities & 1)
            priorities |= ~named;
        q->percent[i] = (uint8_t)list[i].percent;
        for (unsigned p = 0; p < QOS_PRIORITIES; p++)
            if (priorities >> p & 1)
                q->of_priority[p] = (uint8_t)i;
    }
}

/* "7:strict 3:60 0:40" */
int config_ets(struct reader *r, const char *value)
{
    struct class_words list[QOS_PRIORITIES], c;
    unsigned named = 0, sum = 0;
    struct words w;

    config_split(&w, value);
    if (!w.count)
        return config_fail(r, "has no value");
    for (unsigned i = 0; i < w.count; i++) {
        if (read_class(r, w.word[i], &named, &c))
            return -1;
        insert(list, i, c); /* each has a priority of its own: there is room */
        sum += c.percent;
    }
    if (!(named & 1))
        return config_fail(r, "must name priority 0, to whose class those belong that it does not "
                              "name");
    if (sum && sum != 100)
        return config_fail(r, "must give 100 percent in all, not %u", sum);
    use_classes(&r->port->classes, list, w.count, named);
    return 0;
}
