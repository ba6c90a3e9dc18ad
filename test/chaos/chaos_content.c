/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of messages. */
#include <stdio.h>

#include "chaos.h"

static uint8_t content(const struct flow *f, unsigned n, unsigned at)
{
    return (uint8_t)(n * 37 + at * 7 + (at >> 8) * 3 + f->number * 101);
}

void flow_fill(const struct flow *f, unsigned n, uint8_t *p, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        p[i] = content(f, n, i);
}

bool untouched(const uint8_t *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (p[i] != NOT_WRITTEN)
            return false;
    return true;
}

/* Reports the first wrong byte. */
static bool differs(const struct flow *f, unsigned n, const uint8_t *unit, uint32_t at)
{
    fprintf(stderr, "flow %u of kind %u: message %u of %u bytes (operation %u), at %u: ", f->number,
            f->kind, n, f->message[n].len, f->message[n].op, at);
    for (uint32_t i = at; i < min_of(at + 16, (uint32_t)UNIT); i++)
        fprintf(stderr, " %02x", unit[i]);
    fprintf(stderr, ", not");
    for (uint32_t i = at; i < min_of(at + 16, f->message[n].len); i++)
        fprintf(stderr, " %02x", content(f, n, i));
    fprintf(stderr, "\n");
    return false;
}

/* A UC message that lost a packet may have left bytes in its receive WQE, which another message
 * then uses: the next one, or an earlier one that it overtook when the queue pair migrated. */
static bool is_remains(const struct flow *f, unsigned n, uint32_t at, uint8_t byte)
{
    unsigned first = n > 4 * WINDOW ? n - 4 * WINDOW : 0;

    for (unsigned k = first; k < f->posted && k <= n + 4 * WINDOW; k++)
        if (k != n && at < f->message[k].len && content(f, k, at) == byte)
            return f->kind == FLOW_UC;
    return false;
}

bool flow_holds(const struct flow *f, unsigned n, const uint8_t *unit)
{
    uint32_t len = f->message[n].len;

    for (uint32_t i = 0; i < len; i++)
        if (unit[i] != content(f, n, i))
            return differs(f, n, unit, i);
    for (uint32_t i = len; i < UNIT; i++)
        if (unit[i] != NOT_WRITTEN && !is_remains(f, n, i, unit[i]))
            return differs(f, n, unit, i);
    return true;
}
