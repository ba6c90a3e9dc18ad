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

/* What is wrong with it: the first byte that is. */
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

/* Of UC a message that lost a packet may have left some of its bytes in the entry, which then takes
 * the next one. */
static bool may_have_remains(const struct flow *f, unsigned n)
{
    bool all = n >= f->next;

    for (unsigned i = 0; i < n; i++)
        all &= f->message[i].state == ARRIVED;
    return f->kind == FLOW_UC && !all;
}

bool flow_holds(const struct flow *f, unsigned n, const uint8_t *unit)
{
    uint32_t len = f->message[n].len;

    for (uint32_t i = 0; i < len; i++)
        if (unit[i] != content(f, n, i))
            return differs(f, n, unit, i);
    return may_have_remains(f, n) || untouched(unit, len, UNIT) || differs(f, n, unit, len);
}
