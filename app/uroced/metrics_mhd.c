/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics_mhd.h. */
#include "metrics_mhd.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* The interface of 0.9.71 and later. */
#define LIBRARY "libmicrohttpd.so.12"

static bool find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);

    memcpy(function, &address, sizeof(address));
    return address;
}

const struct metrics_mhd *metrics_mhd_load(const char **error)
{
    static struct metrics_mhd mhd;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool complete = library;

#define X(name) complete = complete && find(library, "MHD_" #name, &mhd.name);
    METRICS_MHD(X)
#undef X
    if (complete)
        return &mhd;
    *error = dlerror();
    return NULL;
}
