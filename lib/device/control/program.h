/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs, which share a device's engines by turns (share.h): processes, whatever the number of
 * their connections. Processes that the daemon's pid namespace does not know are one program of
 * their user. Control thread.
 */
#ifndef UROCE_DEVICE_PROGRAM_H
#define UROCE_DEVICE_PROGRAM_H

#include <sys/queue.h>
#include <sys/socket.h>

#include "share.h"

struct device;
struct program_user;

struct device_program {
    LIST_ENTRY(device_program) link;
    struct program_user *user;
    pid_t pid;
    unsigned refs;         /* contexts */
    struct share share[0]; /* by lane */
};

/* The users of a device that have a program, and the programs of a user. */
LIST_HEAD(program_users, program_user);

/* The program of a process, for one more context. NULL: out of memory. */
struct device_program *program_get(struct device *d, const struct ucred *peer);
/* The context is detached from all workers. */
void program_put(struct device_program *p);

#endif
