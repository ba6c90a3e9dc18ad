/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fields of management datagrams, as rows of tables: a field's name and position as in the
 * specification's tables. One row serves reading, writing, dissection and tests. Pure; any thread.
 */
#ifndef UROCE_BIT_FIELD_H
#define UROCE_BIT_FIELD_H

#include <stdbool.h>
#include <stdint.h>

/* The byte counts from the start of the structure, the bit from the byte's most significant one. A
 * field of up to 64 bits is a number and ends within 64 bits of its first byte's start; a longer
 * one is a string of whole bytes. */
struct bit_field {
    const char *name;
    uint16_t byte, bits;
    uint8_t bit;
};

#define BIT_FIELD_NUMBER_MAX 64

static inline bool bit_field_is_number(const struct bit_field *f)
{
    return f->bits <= BIT_FIELD_NUMBER_MAX;
}

/* The value of a number. */
uint64_t bit_field_get(const uint8_t *p, const struct bit_field *f);

/* Writes a number; of a value that is too large its lower bits. Bits beside the field stay. */
void bit_field_put(uint8_t *p, const struct bit_field *f, uint64_t value);

#endif
