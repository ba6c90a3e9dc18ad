/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of messages. */
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

bool flow_holds(const struct flow *f, unsigned n, const uint8_t *unit)
{
    uint32_t len = f->message[n].len;

    for (uint32_t i = 0; i < len; i++)
        if (unit[i] != content(f, n, i))
            return false;
    return untouched(unit, len, UNIT);
}
