/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of [weight]: the names or numbers of users. See config_reader.h and share.h. */
#include "config_reader.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>

static int find_user(struct reader *r, uint32_t *uid)
{
    const struct passwd *user = getpwnam(r->key);
    unsigned long number;
    char *end;

    if (user) {
        *uid = user->pw_uid;
        return 0;
    }
    errno = 0;
    number = strtoul(r->key, &end, 10);
    if (r->key[0] < '0' || r->key[0] > '9' || *end || errno || number >= UINT32_MAX)
        return config_fail(r, "is neither the name of a user nor a number");
    *uid = (uint32_t)number;
    return 0;
}

int config_weight_key(struct reader *r, const char *value)
{
    struct uroced_config *c = r->config;
    struct user_weight w;

    if (find_user(r, &w.uid) || config_number(r, value, 1, SHARE_WEIGHT_MAX, 10, &w.weight))
        return -1;
    for (unsigned i = 0; i < c->weights; i++) {
        if (c->weight[i].uid == w.uid)
            return config_fail(r, "is a user who has a weight already");
    }
    if (c->weights == CONFIG_WEIGHTS_MAX)
        return config_fail(r, "is one too many: there are at most %d", CONFIG_WEIGHTS_MAX);
    c->weight[c->weights++] = w;
    return 0;
}
