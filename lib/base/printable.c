/* SPDX-License-Identifier: BSD-3-Clause */
/* See printable.h. */
#include "printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

/* The bytes of the UTF-8 character at p, and its code point; 0: there is none. A NUL ends any. */
static unsigned decode(const uint8_t *p, uint32_t *code)
{
    static const uint32_t first[] = {0, 0, 0x80, 0x800, 0x10000}; /* of this many bytes */
    unsigned n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;

    *code = n > 1 ? *p & (0x7Fu >> n) : *p;
    for (unsigned i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        *code = *code << 6 | (p[i] & 0x3F);
    }
    if (n > 1 && (*code < first[n] || *code > 0x10FFFF || *code >> 11 == 0x1B))
        return 0;
    return n;
}

/* Characters that change how the others are shown. */
static bool is_shown(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},  {0x200B, 0x200F},
                  {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}};

    for (unsigned i = 0; i < ARRAY_SIZE(hidden); i++)
        if (code >= hidden[i].first && code <= hidden[i].last)
            return false;
    return true;
}

void printable(char *out, size_t room, const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t at = 0;

    while (*p) {
        uint32_t code;
        unsigned n = decode(p, &code);
        bool shown = n && is_shown(code);
        size_t len = shown ? n : PRINTABLE_GROWTH;

        if (at + len >= room)
            break;
        if (shown)
            memcpy(out + at, p, n);
        else
            snprintf(out + at, room - at, "\\x%02x", *p);
        at += len;
        p += shown ? n : 1;
    }
    out[at] = '\0';
}
