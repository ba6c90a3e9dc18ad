/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment without DPDK: see env.h. */
#include "env.h"

#include <stdio.h>

static int posix_init(const struct env_config *config)
{
    return 0;
}

static void posix_fini(void)
{
}

static int posix_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
    int err = pthread_create(thread, NULL, fn, arg);

    if (!err)
        pthread_setname_np(*thread, name);
    return -err;
}

const struct env_ops env_posix = {
    .name = "posix",
    .init = posix_init,
    .fini = posix_fini,
    .thread_start = posix_thread_start,
};
