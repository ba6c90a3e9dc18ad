/* SPDX-License-Identifier: BSD-3-Clause */
/* See numa_node.h. */
#include "numa_node.h"

#include <limits.h>
#include <numa.h>
#include <stdio.h>
#include <string.h>

static int read_node(const char *path)
{
    FILE *f = fopen(path, "re");
    int node = -1;

    if (!f)
        return -1;
    if (fscanf(f, "%d", &node) != 1)
        node = -1;
    fclose(f);
    return node;
}

/* Copies the text up to a comma if it is a name without path components; else false. */
static bool copy_name(const char *from, char *name, size_t room)
{
    size_t n = strcspn(from, ",");

    if (!n || n >= room)
        return false;
    memcpy(name, from, n);
    name[n] = '\0';
    return !strchr(name, '/') && name[0] != '.';
}

/* A virtio device has no node itself; the PCI device above it has. */
static int node_of_interface(const char *name, const char *sysfs)
{
    static const char *const files[] = {"device/numa_node", "device/../numa_node"};
    char path[PATH_MAX];
    int node = -1;

    for (unsigned i = 0; i < ARRAY_SIZE(files) && node < 0; i++) {
        snprintf(path, sizeof(path), "%s/class/net/%s/%s", sysfs, name, files[i]);
        node = read_node(path);
    }
    return node;
}

static int node_of_device(const char *device, const char *sysfs)
{
    static const char option[] = ",iface=";
    const char *iface = strstr(device, option);
    char name[64], path[PATH_MAX];

    if (!copy_name(iface ? iface + sizeof(option) - 1 : device, name, sizeof(name)))
        return -1;
    if (iface)
        return node_of_interface(name, sysfs);
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/numa_node", sysfs, name);
    return read_node(path);
}

int numa_node_of_ports(const struct uroced_config *c, const char *sysfs)
{
    int common = -1;

    for (unsigned i = 0; i < c->ports; i++) {
        int node = node_of_device(c->port[i].device, sysfs);

        if (node < 0)
            continue;
        if (common >= 0 && node != common)
            return -1;
        common = node;
    }
    return common;
}

static bool is_bound(void)
{
    struct bitmask *all = numa_allocate_cpumask();
    unsigned cpus;
    bool bound;

    numa_sched_getaffinity(0, all);
    cpus = numa_bitmask_weight(all);
    bound = (int)cpus < numa_num_configured_cpus();
    numa_free_cpumask(all);
    return bound;
}

void numa_node_bind(const struct uroced_config *c)
{
    int node;

    if (numa_available() < 0 || numa_num_configured_nodes() < 2)
        return;
    node = numa_node_of_ports(c, "/sys");
    if (node < 0 || node > numa_max_node() || is_bound() || numa_run_on_node(node))
        return;
    numa_set_preferred(node);
    fprintf(stderr, "uroced: runs on node %d, where its ports are\n", node);
}
