/* SPDX-License-Identifier: BSD-3-Clause */
/* Which records are shown. See rdma.h. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "rdma.h"

static const struct rdma_filter *find(const struct rdma_filter *known, const char *word)
{
    for (; known->name; known++)
        if (rdma_is(word, known->name))
            return known;
    return NULL;
}

/* ---- numbers ---- */

/* Moves *text behind it; false: none begins there. One too large is as the largest. */
static bool read_number(const char **text, uint64_t *number)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    *number = strtoull(*text, &end, 10);
    *text = end;
    return true;
}

/* A number, or two with a '-'. */
static bool read_range(const char **text, uint64_t *first, uint64_t *last)
{
    if (!read_number(text, first))
        return false;
    *last = *first;
    if (**text != '-')
        return true;
    ++*text;
    return read_number(text, last);
}

static bool are_ranges(const char *value)
{
    uint64_t first, last;

    while (read_range(&value, &first, &last)) {
        if (!*value)
            return true;
        if (*value++ != ',')
            break;
    }
    return false;
}

bool rdma_in_ranges(const char *value, json_int_t number)
{
    uint64_t first, last;

    for (; read_range(&value, &first, &last); value++) {
        if (first <= (uint64_t)number && (uint64_t)number <= last)
            return true;
        if (*value != ',')
            break;
    }
    return false;
}

/* ---- words ---- */

int rdma_filters_read(struct rdma_filters *f, const struct rdma_filter *known, char **word)
{
    *f = (struct rdma_filters){.known = known, .pair = word};
    for (; *word; word += 2, f->pairs++) {
        const struct rdma_filter *filter = find(known, *word);

        if (!filter)
            return rdma_wrong("there is no filter \"%s\"", *word);
        if (!word[1])
            return rdma_wrong("\"%s\" needs a value", filter->name);
        if (filter->is_number && !are_ranges(word[1]))
            return rdma_wrong("\"%s\" is no number, list or range of %s", word[1], filter->name);
    }
    return 0;
}

const char *rdma_filters_value(const struct rdma_filters *f, const char *name)
{
    for (size_t i = 0; i < f->pairs; i++)
        if (!strcmp(find(f->known, f->pair[2 * i])->name, name))
            return f->pair[2 * i + 1];
    return NULL;
}

/* Words with commas between them; capitals do not matter. */
static bool in_words(const char *value, const char *word)
{
    for (;;) {
        size_t length = strcspn(value, ",");

        if (length == strlen(word) && !strncasecmp(value, word, length))
            return true;
        if (!value[length])
            return false;
        value += length + 1;
    }
}

/* A part of a record's "src-addr" or "dst-addr", which ends with the port. */
static bool passes_address(const char *name, const char *value, const json_t *record)
{
    char key[] = "src-addr", address[64];
    const char *text, *colon;

    memcpy(key, name, strlen("src"));
    text = json_string_value(json_object_get(record, key));
    colon = text ? strrchr(text, ':') : NULL;
    if (!colon)
        return false;
    if (!strcmp(name + strlen("src"), "-port"))
        return rdma_in_ranges(value, strtoll(colon + 1, NULL, 10));
    snprintf(address, sizeof(address), "%.*s", (int)(colon - text), text);
    return in_words(value, address);
}

static bool passes(const struct rdma_filter *filter, const char *value, const json_t *record)
{
    const json_t *member = json_object_get(record, filter->name);

    if (!strcmp(filter->name, "dev") || !strcmp(filter->name, "link"))
        return true;
    if (!strncmp(filter->name, "src-", 4) || !strncmp(filter->name, "dst-", 4))
        return passes_address(filter->name, value, record);
    if (json_is_array(member)) /* whose items were chosen by the filter */
        return json_array_size(member);
    if (filter->is_number && json_is_string(member)) /* a key, in hexadecimal */
        return rdma_in_ranges(value, strtoll(json_string_value(member), NULL, 16));
    if (filter->is_number)
        return json_is_integer(member) && rdma_in_ranges(value, json_integer_value(member));
    return json_is_string(member) && in_words(value, json_string_value(member));
}

bool rdma_filters_pass(const struct rdma_filters *f, const json_t *record)
{
    for (size_t i = 0; i < f->pairs; i++)
        if (!passes(find(f->known, f->pair[2 * i]), f->pair[2 * i + 1], record))
            return false;
    return true;
}
