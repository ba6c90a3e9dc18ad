/* SPDX-License-Identifier: BSD-3-Clause */
/* See installation.h. */
#include "installation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Paths relative to the folder of this program. */
static const struct layout {
    const char *daemon, *verbs;
    const char *others[2]; /* of the other libraries, where they are not with that one */
    const char *programs;
} layouts[] = {
    {"../uroced/uroced",
     "../../lib/verbs",
     {"../../lib/rdmacm", "../../lib/mlx5"},
     "programs"},                                                       /* build tree */
    {"uroced", UROCE_REL_LIBDIR, {NULL}, UROCE_REL_LIBDIR "/programs"}, /* installed */
};

static int own_folder(char folder[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    char *slash;

    if (n < 0)
        return -errno;
    folder[n] = '\0';
    slash = strrchr(folder, '/');
    if (slash == NULL)
        return -ENOENT;
    *slash = '\0';
    return 0;
}

static int try_layout(const struct layout *layout, const char *folder, struct locations *loc)
{
    char library[PATH_MAX];
    int n;

    n = snprintf(loc->daemon, sizeof(loc->daemon), "%s/%s", folder, layout->daemon);
    if (n >= (int)sizeof(loc->daemon))
        return -ENAMETOOLONG;
    n = snprintf(loc->libraries, sizeof(loc->libraries), "%s/%s", folder, layout->verbs);
    if (n >= (int)sizeof(loc->libraries))
        return -ENAMETOOLONG;
    n = snprintf(loc->programs, sizeof(loc->programs), "%s/%s", folder, layout->programs);
    if (n >= (int)sizeof(loc->programs))
        return -ENAMETOOLONG;
    n = snprintf(library, sizeof(library), "%s/%s/libibverbs.so.1", folder, layout->verbs);
    if (n >= (int)sizeof(library))
        return -ENAMETOOLONG;
    if (access(loc->daemon, X_OK) != 0 || access(library, R_OK) != 0)
        return -ENOENT;
    for (size_t i = 0; i < sizeof(layout->others) / sizeof(layout->others[0]); i++) {
        size_t used = strlen(loc->libraries);

        if (layout->others[i] == NULL)
            break;
        n = snprintf(loc->libraries + used, sizeof(loc->libraries) - used, ":%s/%s", folder,
                     layout->others[i]);
        if (n >= (int)(sizeof(loc->libraries) - used))
            return -ENAMETOOLONG;
    }
    return 0;
}

int locate_installation(struct locations *loc)
{
    char folder[PATH_MAX];
    int err = own_folder(folder);

    for (size_t i = 0; err == 0 && i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        err = try_layout(&layouts[i], folder, loc);
        if (err != -ENOENT)
            return err;
        if (i + 1 < sizeof(layouts) / sizeof(layouts[0]))
            err = 0;
    }
    return err;
}
