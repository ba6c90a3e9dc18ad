/* SPDX-License-Identifier: BSD-3-Clause */
/* See folder.h. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int link_entries(const char *folder, const char *name)
{
    char from[PATH_MAX], to[PATH_MAX];
    const struct dirent *e;
    DIR *dir;
    int err = 0;

    if (snprintf(to, sizeof(to), "%s/%s", folder, name) >= (int)sizeof(to))
        return -ENAMETOOLONG;
    if (mkdir(to, 0755) != 0)
        return -errno;
    snprintf(from, sizeof(from), "/sys/%s", name);
    dir = opendir(from);
    while (dir != NULL && err == 0 && (e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || strncmp(e->d_name, "infiniband", strlen("infiniband")) == 0 ||
            strcmp(e->d_name, "pci_bus") == 0)
            continue;
        if (snprintf(from, sizeof(from), "/sys/%s/%s", name, e->d_name) >= (int)sizeof(from) ||
            snprintf(to, sizeof(to), "%s/%s/%s", folder, name, e->d_name) >= (int)sizeof(to))
            err = -ENAMETOOLONG;
        else if (symlink(from, to) != 0)
            err = -errno;
    }
    if (dir != NULL)
        closedir(dir);
    return err;
}

int folder_make(char folder[PATH_MAX])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int err;

    if (runtime == NULL || runtime[0] != '/' || access(runtime, W_OK) != 0)
        runtime = "/tmp";
    if (snprintf(folder, PATH_MAX, "%s/uroce-sys-XXXXXX", runtime) >= PATH_MAX)
        return -ENAMETOOLONG;
    if (mkdtemp(folder) == NULL)
        return -errno;
    err = link_entries(folder, "class");
    if (err == 0)
        err = link_entries(folder, "devices");
    if (err != 0)
        folder_remove(folder);
    return err;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
    return remove(path);
}

void folder_remove(const char *folder)
{
    /* With one descriptor: the process may have few. */
    nftw(folder, remove_entry, 1, FTW_DEPTH | FTW_PHYS);
}
