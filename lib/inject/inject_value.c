/* SPDX-License-Identifier: BSD-3-Clause */
/* See inject_value.h. */
#include "inject_value.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Decimal digits, or 0x and hexadecimal ones, up to `end`. */
bool inject_read_number(const char *text, const char *end, uint64_t max, uint64_t *out)
{
    unsigned base = end - text > 2 && text[0] == '0' && text[1] == 'x' ? 16 : 10;
    uint64_t value = 0;

    if (base == 16)
        text += 2;
    if (text == end)
        return false;
    for (; text < end; text++) {
        unsigned digit;

        if (is_digit(*text))
            digit = (unsigned)(*text - '0');
        else if (base == 16 && *text >= 'a' && *text <= 'f')
            digit = (unsigned)(*text - 'a') + 10;
        else if (base == 16 && *text >= 'A' && *text <= 'F')
            digit = (unsigned)(*text - 'A') + 10;
        else
            return false;
        if (value > (max - min_of(digit, max)) / base)
            return false;
        value = value * base + digit;
    }
    *out = value;
    return value <= max;
}

/* 0 to 1, with at most nine decimals. */
bool inject_read_chance(const char *text, uint64_t *billionths)
{
    uint64_t part = 0, unit = INJECT_BILLION;

    if ((text[0] != '0' && text[0] != '1') || (text[1] && text[1] != '.'))
        return false;
    if (text[1] && !text[2])
        return false;
    for (const char *at = text + (text[1] ? 2 : 1); *at; at++) {
        unit /= 10;
        if (!is_digit(*at) || !unit)
            return false;
        part += (uint64_t)(*at - '0') * unit;
    }
    *billionths = (text[0] == '1' ? INJECT_BILLION : 0) + part;
    return *billionths <= INJECT_BILLION;
}

bool inject_read_time(const char *text, ns_t max, ns_t *out)
{
    static const struct {
        const char *name;
        ns_t ns;
    } unit[] = {{"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_SEC}};
    const char *end = text;

    while (is_digit(*end))
        end++;
    for (unsigned i = 0; i < ARRAY_SIZE(unit); i++)
        if (!strcmp(end, unit[i].name) && inject_read_number(text, end, max / unit[i].ns, out)) {
            *out *= unit[i].ns;
            return *out > 0;
        }
    return false;
}
