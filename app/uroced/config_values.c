/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of the configuration: numbers, words, addresses, tables. See config_reader.h. */
#include "config_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void config_split(struct words *w, const char *value)
{
    char *rest = w->text, *word;

    w->count = 0;
    snprintf(w->text, sizeof(w->text), "%s", value);
    while (w->count < CONFIG_WORDS_MAX && (word = strsep(&rest, " \t"))) {
        if (*word)
            w->word[w->count++] = word;
    }
}

int config_number(struct reader *r, const char *text, unsigned min, unsigned max, int base,
                  unsigned *out)
{
    unsigned long v;
    char *end;

    errno = 0;
    v = strtoul(text, &end, base);
    if (errno || end == text || *end || text[0] == '-' || v < min || v > max) {
        if (base == 8)
            return config_fail(r, "must be octal permissions, not \"%s\"", text);
        return config_fail(r, "must be a number from %u to %u, not \"%s\"", min, max, text);
    }
    *out = (unsigned)v;
    return 0;
}

int config_text(struct reader *r, const char *value, char *out, size_t size)
{
    if (!value[0])
        return config_fail(r, "has no value");
    if ((size_t)snprintf(out, size, "%s", value) >= size)
        return config_fail(r, "is longer than %zu characters", size - 1);
    return 0;
}

int config_yes_no(struct reader *r, const char *value, bool *out)
{
    *out = !strcmp(value, "yes");
    return *out || !strcmp(value, "no") ? 0
                                        : config_fail(r, "must be yes or no, not \"%s\"", value);
}

/* 0.0.0.0/8, groups, and the addresses above them. */
static bool no_ipv4_host(const union gid *g)
{
    return gid_is_ipv4(g) && (!g->raw[12] || g->raw[12] >= 224);
}

int config_host(struct reader *r, const char *text, union gid *out)
{
    if (gid_parse(out, text) || gid_is_zero(out) || gid_is_multicast(out) || no_ipv4_host(out))
        return config_fail(
            r, "must be an address of a host, as 10.0.0.1/24 or fd00::1/64, not \"%s\"", text);
    return 0;
}

int config_prefix(struct reader *r, const char *text, union gid *addr, uint8_t *prefix)
{
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    unsigned bits, number;
    char address[64];

    snprintf(address, sizeof(address), "%.*s", (int)min_of(len, sizeof(address)), text);
    if (gid_parse(addr, address))
        return config_fail(r, "must be an address, as 10.0.0.1/24 or fd00::1/64, not \"%s\"", text);
    bits = gid_is_ipv4(addr) ? 32 : 128;
    number = bits;
    if (slash && config_number(r, slash + 1, 0, bits, 10, &number))
        return -1;
    *prefix = (uint8_t)number;
    return 0;
}

int config_mac(struct reader *r, const char *text, uint8_t mac[6])
{
    unsigned b[6];
    int end = 0;

    if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &end) !=
            6 ||
        text[end] || b[0] & 1 || !(b[0] | b[1] | b[2] | b[3] | b[4] | b[5]))
        return config_fail(r, "must be an address and a MAC, as 10.0.0.2 02:00:00:00:00:02");
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)b[i];
    return 0;
}

int config_vlan(struct reader *r, const struct words *w, unsigned first, uint16_t *vlan)
{
    unsigned id;

    *vlan = VLAN_NONE;
    if (w->count == first)
        return 0;
    if (w->count != first + 2 || strcmp(w->word[first], "vlan"))
        return config_fail(r, "ends with \"%s\", which is not vlan ID", w->word[first]);
    if (config_number(r, w->word[first + 1], 1, VLAN_ID_MAX, 10, &id))
        return -1;
    *vlan = (uint16_t)id;
    return 0;
}

int config_table(struct reader *r, const char *value, uint8_t out[16], unsigned max)
{
    struct words w;
    unsigned number;

    config_split(&w, value);
    if (w.count != 8 && w.count != 16)
        return config_fail(r, "must be 8 or 16 numbers from 0 to %u", max);
    for (unsigned i = 0; i < 16; i++) {
        if (config_number(r, w.word[i % w.count], 0, max, 10, &number))
            return -1;
        out[i] = (uint8_t)number;
    }
    return 0;
}

bool config_same_network(const union gid *a, const union gid *b, unsigned bits)
{
    unsigned skip = gid_is_ipv4(a) ? 12 : 0, bytes = bits / 8;
    uint8_t mask = (uint8_t)(0xFF00 >> bits % 8);

    if (gid_is_ipv4(a) != gid_is_ipv4(b) || memcmp(a->raw + skip, b->raw + skip, bytes))
        return false;
    return !mask || !((a->raw[skip + bytes] ^ b->raw[skip + bytes]) & mask);
}
