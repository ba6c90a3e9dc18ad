/* SPDX-License-Identifier: BSD-3-Clause */
/* Which users may open the control socket: see uroced.h. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "uroced.h"

/* The members of this group may use a daemon of root's. */
#define DEFAULT_GROUP "uroce"

static int find_group(const char *name, int64_t *group)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    const struct group *found;

    errno = 0;
    found = getgrnam(name);
    if (found)
        *group = found->gr_gid;
    else if (name[0] >= '0' && name[0] <= '9' && !*end && number < UINT32_MAX)
        *group = (int64_t)number;
    else
        return -ENOENT;
    return 0;
}

int socket_permissions(struct uroced_config *c)
{
    bool root = !geteuid();

    c->group_id = -1;
    if (!c->mode)
        c->mode = root || c->group[0] ? 0660 : 0600;
    if (c->group[0]) {
        if (!find_group(c->group, &c->group_id))
            return 0;
        fprintf(stderr, "uroced: there is no group \"%s\" for the socket\n", c->group);
        return -1;
    }
    if (root)
        find_group(DEFAULT_GROUP, &c->group_id);
    return 0;
}
