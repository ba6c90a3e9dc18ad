/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of [quota]: total.KIND, user.KIND, client.KIND. See config_reader.h and quota.h. */
#include "config_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the largest to the smallest. */
enum scope { TOTAL, USER, CLIENT, SCOPES };

static const char *const scope_name[SCOPES] = {"total", "user", "client"};

static uint64_t *limit_of(struct uroced_config *c, enum scope scope, unsigned kind)
{
    struct quota_limits *l = &c->quota;

    return &(scope == TOTAL ? l->total : scope == USER ? l->user : l->client)[kind];
}

static bool is_bytes(unsigned kind)
{
    return kind == QUOTA_MEMORY || kind == QUOTA_MAPPED;
}

/* "4096"; "64M" of bytes. */
static int read_limit(struct reader *r, const char *value, unsigned kind, uint64_t *out)
{
    static const char units[] = "KMG";
    uint64_t max = quota_kind_max((enum quota_kind)kind), scale = 1;
    unsigned long long n;
    char *end;

    errno = 0;
    n = strtoull(value, &end, 10);
    if (end != value && *end && is_bytes(kind)) {
        const char *unit = strchr(units, *end);

        if (unit) {
            scale = UINT64_C(1) << 10 * (unit - units + 1);
            end++;
        }
    }
    max = min_of(max, (uint64_t)CONFIG_QUOTA_MAX);
    if (!errno && value[0] >= '0' && value[0] <= '9' && !*end && n && n <= max / scale) {
        *out = n * scale;
        return 0;
    }
    if (is_bytes(kind))
        return config_fail(r, "must be bytes, as 4096, 512K, 64M or 2G, not \"%s\"", value);
    return config_fail(r, "must be a number from 1 to %llu, not \"%s\"", (unsigned long long)max,
                       value);
}

static int fail_key(struct reader *r)
{
    char names[512] = "";

    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        size_t len = strlen(names);

        snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "",
                 quota_kind_name((enum quota_kind)k));
    }
    return config_fail(r, "is not total, user or client, a period, and one of %s", names);
}

int config_quota_key(struct reader *r, const char *value)
{
    size_t len = strcspn(r->key, ".");

    for (unsigned s = 0; s < SCOPES && r->key[len]; s++) {
        if (strlen(scope_name[s]) != len || strncmp(r->key, scope_name[s], len))
            continue;
        for (unsigned k = 0; k < QUOTA_KINDS; k++) {
            if (!strcmp(r->key + len + 1, quota_kind_name((enum quota_kind)k)))
                return read_limit(r, value, k, limit_of(r->config, (enum scope)s, k));
        }
    }
    return fail_key(r);
}

/* A part that is larger than the whole is a mistake. */
static int check_pair(struct reader *r, enum scope part, enum scope whole, unsigned kind)
{
    const char *name = quota_kind_name((enum quota_kind)kind);
    uint64_t limit = *limit_of(r->config, whole, kind);
    char key[64];

    if (!limit || *limit_of(r->config, part, kind) <= limit)
        return 0;
    snprintf(key, sizeof(key), "%s.%s", scope_name[part], name);
    r->key = key;
    config_fail(r, "is more than %s.%s", scope_name[whole], name);
    r->key = NULL;
    return -1;
}

int config_check_quota(struct reader *r)
{
    for (unsigned k = 0; k < QUOTA_KINDS; k++) {
        if (check_pair(r, USER, TOTAL, k) || check_pair(r, CLIENT, USER, k) ||
            check_pair(r, CLIENT, TOTAL, k))
            return -1;
    }
    return 0;
}
