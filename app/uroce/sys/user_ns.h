/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One user namespace for all programs of a user under `uroce run`. In different ones the kernel
 * lets them neither trace nor read each other, which MPI libraries do (process_vm_readv) and have
 * to.
 *
 * The first watching process serves at an abstract address with the user's number, and tells the
 * others when its namespace is there. When it ends, another one that is in the namespace takes
 * over.
 */
#ifndef UROCE_SYS_USER_NS_H
#define UROCE_SYS_USER_NS_H

struct user_ns {
    int serving; /* an epoll of the address and of those that follow; or -1 */
    int address; /* while serving */
    int leader;  /* a connection to the one that serves; or -1 */
};

#define USER_NS_NONE \
    {                \
        -1, -1, -1   \
    }

/* Enters the user namespace, or makes it, and makes a mount namespace. 0 or a negative errno. */
int user_ns_enter(struct user_ns *s);
/* A descriptor to wait on for input, or -1. Then user_ns_serve() is due. */
int user_ns_descriptor(const struct user_ns *s);
void user_ns_serve(struct user_ns *s);

#endif
