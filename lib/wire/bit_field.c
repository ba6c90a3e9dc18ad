/* SPDX-License-Identifier: BSD-3-Clause */
/* See bit_field.h. */
#include "bit_field.h"

static uint64_t mask_of(const struct bit_field *f)
{
    return UINT64_MAX >> (BIT_FIELD_NUMBER_MAX - f->bits);
}

/* How many bytes it touches, and how many bits of the last one follow it. */
static unsigned bytes_of(const struct bit_field *f)
{
    return (f->bit + f->bits + 7u) / 8;
}

static unsigned bits_behind(const struct bit_field *f)
{
    return -(f->bit + f->bits) & 7u;
}

static uint64_t load(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | p[i];
    return value;
}

uint64_t bit_field_get(const uint8_t *p, const struct bit_field *f)
{
    return load(p + f->byte, bytes_of(f)) >> bits_behind(f) & mask_of(f);
}

void bit_field_put(uint8_t *p, const struct bit_field *f, uint64_t value)
{
    unsigned bytes = bytes_of(f), behind = bits_behind(f);
    uint64_t mask = mask_of(f) << behind;

    value = (load(p + f->byte, bytes) & ~mask) | (value << behind & mask);
    for (unsigned i = bytes; i-- > 0; value >>= 8)
        p[f->byte + i] = (uint8_t)value;
}
