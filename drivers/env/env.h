/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of the process: plain POSIX (loopback only: starts at once, needs no privileges
 * and no hugepages) or DPDK's EAL (any port that DPDK drives).
 */
#ifndef UROCE_ENV_H
#define UROCE_ENV_H

#include <pthread.h>
#include <stdbool.h>

struct env_config {
    /* The user's EAL arguments; without any the defaults of env_dpdk apply. */
    int argc;
    char **argv;
    bool telemetry;      /* the defaults include DPDK's telemetry socket */
    bool defaults;       /* add the defaults that the user's arguments do not contradict */
    const char *program; /* the name at the start of messages; NULL: uroced */
    /* PCI addresses of configured ports: only these devices are probed. */
    const char *const *pci;
    unsigned pci_count;
};

struct env_ops {
    const char *name;
    /* Once, before ports are opened. 0, or a negative errno with a line on stderr that says why;
     * -EINVAL: an argument is wrong. */
    int (*init)(const struct env_config *config);
    void (*fini)(void);
    /* Starts a thread that runs fn(arg), named for ps and top (at most 15 characters).
     * Returns 0 or a negative errno. Join it with pthread_join. */
    int (*thread_start)(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);
};

extern const struct env_ops env_posix;
extern const struct env_ops env_dpdk;

#endif
