/* SPDX-License-Identifier: BSD-3-Clause */
/* On which node of the machine the daemon runs: where its ports are. */
#ifndef UROCED_NUMA_NODE_H
#define UROCED_NUMA_NODE_H

#include "config.h"

/*
 * The node that all ports are on whose node is known; -1: none is, or they differ. By what the
 * kernel says of PCI devices ("0000:03:00.0") and of interfaces ("...,iface=eth1"). sysfs: "/sys".
 */
int numa_node_of_ports(const struct uroced_config *c, const char *sysfs);

/*
 * Has the process, with the threads and memory that it makes from now on, stay on that node. Does
 * nothing on a machine with one, and where whoever started it has chosen CPUs already.
 */
void numa_node_bind(const struct uroced_config *c);

#endif
