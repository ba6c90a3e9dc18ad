/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of uroced. */
#ifndef UROCED_H
#define UROCED_H

#include "config.h"
#include "device.h"
#include "env.h"
#include "kernel_addresses.h"

extern const struct mem_provider uroced_memory;

/*
 * Fills in the socket's permissions, as far as the configuration does not name them, and its group.
 * 0; or -1 with the reason on stderr: there is no such group.
 */
int socket_permissions(struct uroced_config *c);

/*
 * Opens the port that p describes, with up to p->queues queues or, if that is 0, up to `queues`.
 * loopback: the number of loopback ports before it. NULL with the reason in error.
 */
struct pktio *port_open(const struct uroced_port *p, unsigned queues, unsigned loopback,
                        char *error, size_t size);

struct port_attach_config {
    struct event_loop *loop;
    struct rnic *rnic;
    struct uroced_port *port;
    unsigned device;    /* its index in rnic */
    unsigned queues;    /* the number of workers */
    unsigned loopbacks; /* loopback ports before it */
};

/*
 * Makes a configured port a device of the rnic: opens it, creates the tap interface of its
 * exception path if configured, and follows the kernel interfaces that have its addresses. *follow,
 * or NULL, must be stopped before the rnic is destroyed. 0; or a negative errno with the reason on
 * stderr.
 */
int port_attach(const struct port_attach_config *c, struct kernel_follow **follow);

/* "0000:03:00.0" and the like. The name of a virtual device has no colon before its first comma. */
static inline bool port_is_pci(const struct uroced_port *p)
{
    return strcspn(p->device, ":") < strcspn(p->device, ",");
}

/* Capabilities, 1 << CAP_, that a daemon with these ports open may need later. */
/* Whether the drivers of all ports make no other system calls than those of the filter's list. */
bool privileges_calls_known(const struct uroced_config *c);
uint64_t privileges_needed(const struct uroced_config *c);

/* Finds the user to run as. 0; or -1 with the reason on stderr: there is no such user. */
int privileges_user(struct uroced_config *c);

/* Gives up what the open ports do not need, as the configuration says: see restrict.h. 0; or a
 * negative errno with the reason on stderr. */
int privileges_drop(const struct uroced_config *c);

/*
 * DPDK's drivers in Debian load libmlx5, which loads libibverbs.so.1. In a shell that is set up for
 * uroce's programs that would be uroce's own. Removes files and folders with an RDMA library from
 * LD_LIBRARY_PATH and LD_PRELOAD, and executes the program again; returns if there are none.
 */
void scrub_library_path(char **argv);

#endif
