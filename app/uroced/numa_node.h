/* SPDX-License-Identifier: BSD-3-Clause */
/* The NUMA node on which the daemon runs: the one of its ports. */
#ifndef UROCED_NUMA_NODE_H
#define UROCED_NUMA_NODE_H

#include "config.h"

/*
 * The common NUMA node of those ports whose node is known; -1: none is known, or they differ. The
 * kernel tells the nodes of PCI devices ("0000:03:00.0") and of interfaces ("...,iface=eth1").
 * sysfs: "/sys".
 */
int numa_node_of_ports(const struct uroced_config *c, const char *sysfs);

/*
 * Binds the process, and the threads and memory that it creates from now on, to that node. Does
 * nothing on a machine with one node, or if the process was started with an affinity.
 */
void numa_node_bind(const struct uroced_config *c);

#endif
