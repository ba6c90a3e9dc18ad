/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps uroce's own libibverbs out of the daemon: see scrub_library_path() in uroced.h. */
#include "uroced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const libraries[] = {"libibverbs.so.1", "librdmacm.so.1"};

static bool is_rdma_library(const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash ? slash + 1 : file;

    for (unsigned i = 0; i < ARRAY_SIZE(libraries); i++) {
        if (!strcmp(base, libraries[i]))
            return true;
    }
    return false;
}

static bool has_rdma_library(const char *folder)
{
    char path[4096];

    for (unsigned i = 0; i < ARRAY_SIZE(libraries); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, libraries[i]);
        if (!access(path, F_OK))
            return true;
    }
    return false;
}

/* Removes the entries of a list variable that `bad` matches. True if there were any. */
static bool remove_entries(const char *variable, const char *separators, bool (*bad)(const char *))
{
    const char *value = getenv(variable);
    char *copy, *kept, *entry, *next;
    bool changed = false;

    if (!value)
        return false;
    copy = strdup(value);
    kept = calloc(1, strlen(value) + 1);
    for (entry = copy; copy && kept && entry; entry = next) {
        next = strpbrk(entry, separators);
        if (next)
            *next++ = 0;
        if (*entry && bad(entry)) {
            changed = true;
        } else if (*entry) {
            strcat(kept, *kept ? ":" : "");
            strcat(kept, entry);
        }
    }
    if (changed && *kept)
        setenv(variable, kept, 1);
    else if (changed)
        unsetenv(variable);
    free(copy);
    free(kept);
    return changed;
}

void scrub_library_path(char **argv)
{
    bool changed = remove_entries("LD_LIBRARY_PATH", ":;", has_rdma_library);

    changed |= remove_entries("LD_PRELOAD", ": ", is_rdma_library);
    if (changed)
        execv("/proc/self/exe", argv);
}
