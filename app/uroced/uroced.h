/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of uroced. */
#ifndef UROCED_H
#define UROCED_H

#include "config.h"
#include "device.h"
#include "env.h"
#include "kernel_addresses.h"

extern const struct mem_provider uroced_memory;

/*
 * Opens the port that p describes, with as many queues as it has, up to what p says or, if that is
 * nothing, `queues`. loopback: how many loopback ports came before. NULL: error says why.
 */
struct pktio *port_open(const struct uroced_port *p, unsigned queues, unsigned loopback,
                        char *error, size_t size);

struct port_attach_config {
    struct event_loop *loop;
    struct rnic *rnic;
    struct uroced_port *port;
    unsigned device;    /* its index in rnic */
    unsigned queues;    /* workers */
    unsigned loopbacks; /* loopback ports before it */
};

/*
 * Makes a configured port a device of the rnic: opens it, puts a kernel behind it if that is
 * wanted, and follows the kernel interface that has its addresses. *follow, or NULL, is to be
 * stopped before the rnic is destroyed. 0; or a negative errno, with a line on stderr that says
 * why.
 */
int port_attach(const struct port_attach_config *c, struct kernel_follow **follow);

static inline bool port_is_loopback(const struct uroced_port *p)
{
    return !strcmp(p->device, CONFIG_DEVICE_LOOPBACK);
}

/*
 * DPDK's drivers in Debian load libmlx5, and that loads libibverbs.so.1: in a shell that is set up
 * for uroce's programs it would be uroce's own. Takes folders and files with an RDMA library out of
 * LD_LIBRARY_PATH and LD_PRELOAD and starts the program again; returns if there are none.
 */
void scrub_library_path(char **argv);

#endif
