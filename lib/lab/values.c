/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units. See parse_internal.h. */
#include <string.h>
#include <strings.h>

#include "parse_internal.h"

struct unit {
    const char *name;
    uint64_t value;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool find_unit(const struct unit *units, const char *name, uint64_t *value)
{
    for (; units->name; units++)
        if (!strcasecmp(units->name, name)) {
            *value = units->value;
            return true;
        }
    return false;
}

/* "digits[.digits]unit". A fraction is cut to whole units of 1. */
static bool read_decimal(const char *text, const struct unit *units, uint64_t *out)
{
    uint64_t whole = 0, part = 0, scale = 1, unit;
    const char *at = text;

    for (; is_digit(*at); at++) {
        if (whole > UINT64_MAX / 10 - 1)
            return false;
        whole = whole * 10 + (uint64_t)(*at - '0');
    }
    if (at == text)
        return false;
    if (*at == '.') {
        if (!is_digit(*++at))
            return false;
        for (; is_digit(*at); at++)
            if (scale < LAB_BILLION) {
                part = part * 10 + (uint64_t)(*at - '0');
                scale *= 10;
            }
    }
    if (!find_unit(units, at, &unit) || whole > (UINT64_MAX / 2) / unit)
        return false;
    *out = whole * unit + (uint64_t)((unsigned __int128)part * unit / scale);
    return true;
}

bool lab_read_size(const char *text, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {NULL, 0}};

    return read_decimal(text, units, bytes);
}

bool lab_read_time(const char *text, ns_t *time)
{
    static const struct unit units[] = {
        {"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_SEC}, {NULL, 0}};

    if (!strcmp(text, "0")) {
        *time = 0;
        return true;
    }
    return read_decimal(text, units, time);
}

bool lab_read_rate(const char *text, uint64_t *bps)
{
    static const struct unit units[] = {
        {"", 1}, {"k", 1000}, {"m", 1000000}, {"g", LAB_BILLION}, {NULL, 0}};

    return read_decimal(text, units, bps);
}

bool lab_read_part(const char *text, uint64_t *billionths)
{
    static const struct unit units[] = {{"", LAB_BILLION}, {NULL, 0}};

    return read_decimal(text, units, billionths) && *billionths <= LAB_BILLION;
}

bool lab_read_count(const char *text, uint64_t *count)
{
    static const struct unit units[] = {{"", 1}, {NULL, 0}};

    return !strchr(text, '.') && read_decimal(text, units, count);
}

/* Outputs have it as it is: as a cell between commas, in JSON, and in a picture's XML. */
bool lab_is_name(const char *text)
{
    size_t len = strlen(text);

    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~' || strchr(",\"&<", *at))
            return false;
    return len && len < LAB_NAME_MAX;
}

bool lab_read_yes(const char *text, bool *yes)
{
    *yes = !strcmp(text, "yes");
    return *yes || !strcmp(text, "no");
}
