/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon gives up when its ports are open: its user, capabilities, system calls. Linux
 * keeps capabilities per thread, and all threads share their memory, so all of them are restricted.
 */
#ifndef UROCED_RESTRICT_H
#define UROCED_RESTRICT_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Threads that block signals leave this one open: each thread restricts itself in its handler. */
#define RESTRICT_SIGNAL SIGRTMAX

struct restrict_config {
    bool capabilities; /* all but those of `keep` are dropped */
    uint64_t keep;     /* 1 << CAP_ */
    bool seccomp;
    bool known_calls; /* the filter allows what known drivers call, and nothing else */
    bool change_user;
    uid_t uid;
    gid_t gid;
    const char *user; /* its name, for its supplementary groups */
};

/*
 * Restricts all threads of the process, which from now on starts no program and gains no privilege
 * (no_new_privs). Called once, by the main thread, while no other thread makes threads. Returns 0,
 * or a negative errno with the reason on stderr: the process is then to end. A system without
 * filters of system calls is no error; a line on stderr says so.
 */
int restrict_process(const struct restrict_config *c);

/*
 * Refuses system calls, for all threads: they fail with EPERM. known: all but those that a daemon
 * with known drivers makes; else those for which a daemon with open ports has no use. Needs
 * no_new_privs. Threads can be made, processes cannot. Returns 0 or a negative errno: -EOPNOTSUPP,
 * -ENOSYS or -EINVAL where the processor or the kernel has no such filters.
 */
int restrict_system_calls(bool known);

/* The filter itself; returns its length, 0: none for this processor. For tests. */
#define RESTRICT_FILTER_MAX 512
unsigned restrict_filter(bool known, struct sock_filter filter[RESTRICT_FILTER_MAX]);

#endif
