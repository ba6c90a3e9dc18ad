/* SPDX-License-Identifier: BSD-3-Clause */
/* See verbs_calls.h. */
#include "peer/verbs_calls.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static bool find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);

    memcpy(function, &address, sizeof(address));
    return address;
}

const struct verbs_calls *verbs_calls_load(const char **error)
{
    static struct verbs_calls calls;
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    void *rdmacm = verbs ? dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
    bool complete = rdmacm;

#define X(name) complete = complete && find(verbs, #name, &calls.name);
    VERBS_CALLS(X)
#undef X
#define X(name) complete = complete && find(rdmacm, #name, &calls.name);
    RDMACM_CALLS(X)
#undef X
    if (complete)
        return &calls;
    *error = dlerror();
    return NULL;
}
