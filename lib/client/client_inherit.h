/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After fork() a context is the parent's. When the parent has ended, as a program's that becomes a
 * daemon, the first use of the context in a child makes it the child's: queues and regions are as
 * they were at the fork, and the regions are the same addresses of the child's memory. While the
 * parent lives, calls in the child fail with -EIO.
 */
#ifndef UROCE_CLIENT_INHERIT_H
#define UROCE_CLIENT_INHERIT_H

#include "client.h"

/* The context is open: from now on calls in a child of this process take it over. */
void client_may_be_inherited(struct client *c);
/* In a child, tries to take the context over. True: it did, or another thread has; what failed
 * before can be tried again. Without locks of the context, except for rings'. Any thread. */
bool client_inherit(struct client *c);
/* Whether the context is this process's, after an attempt to take it over. As above. */
bool client_may_use(struct client *c);
/* In the child, at the fork. */
void client_in_child(struct client *c);
/* Held while a context becomes a child's (client_child.c). */
extern pthread_mutex_t client_inherit_lock;

#endif
