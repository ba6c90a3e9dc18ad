/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of uroced. */
#ifndef UROCED_H
#define UROCED_H

#include "config.h"
#include "device.h"
#include "env.h"

extern const struct mem_provider uroced_memory;

/*
 * Opens the port that p describes. loopback: how many loopback ports came before. NULL: error says
 * why.
 */
struct pktio *port_open(const struct uroced_port *p, unsigned loopback, char *error, size_t size);

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
