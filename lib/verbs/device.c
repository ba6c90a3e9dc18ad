/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device list. A device lives until the process ends: applications use it after
 * ibv_free_device_list, and after a restart of the daemon.
 */
#include <stdio.h>

#include "shim.h"

#define MAX_DEVICES 16

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_device *devices[MAX_DEVICES];
static const int our_driver;

/* Another thread of the parent may hold it, while the daemon answers. What it guards is whole at
 * any time: an entry is written when the device is. */
static void after_fork_in_child(void)
{
    devices_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void register_fork_handlers(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void lock_devices(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&devices_lock);
}

static void set_names(struct shim_device *d, const struct ctl_device *info)
{
    const char *sys = ibv_get_sysfs_path();

    ctl_device_name(getenv(DEVICE_NAMES_ENV), d->index, info->name, d->base.name);
    snprintf(d->base.dev_name, sizeof(d->base.dev_name), "uverbs%u", d->index);
    snprintf(d->base.dev_path, sizeof(d->base.dev_path), "%.160s/class/infiniband_verbs/uverbs%u",
             sys, d->index);
    snprintf(d->base.ibdev_path, sizeof(d->base.ibdev_path), "%.160s/class/infiniband/%s", sys,
             d->base.name);
}

/* The process's one object for device `index`. */
static struct shim_device *get_or_create_device(uint32_t index, const struct ctl_device *info)
{
    struct shim_device *d = devices[index];

    if (!d) {
        d = calloc(1, sizeof(*d));
        if (!d)
            return NULL;
        d->base.node_type = IBV_NODE_CA;
        d->base.transport_type = IBV_TRANSPORT_IB;
        d->driver = &our_driver;
        d->index = index;
        devices[index] = d;
    }
    if (strcmp(d->daemons_name, info->name)) {
        set_names(d, info);
        snprintf(d->daemons_name, sizeof(d->daemons_name), "%s", info->name);
    }
    d->guid = info->node_guid;
    return d;
}

struct ibv_device *shim_device_of(uint32_t index, const struct ctl_device *info)
{
    struct shim_device *d = NULL;

    lock_devices();
    if (index < MAX_DEVICES)
        d = get_or_create_device(index, info);
    pthread_mutex_unlock(&devices_lock);
    return d ? &d->base : NULL;
}

/* Fills list[0..MAX_DEVICES) and returns how many. Without a daemon there are none. */
static int list_devices(struct ibv_device **list)
{
    struct ctl_device info;
    struct conn conn;
    int n = 0;

    if (conn_open(&conn))
        return 0;
    lock_devices();
    for (uint32_t i = 0; i < MAX_DEVICES && !client_query_device(&conn, i, &info); i++) {
        struct shim_device *d = get_or_create_device(i, &info);

        if (d)
            list[n++] = &d->base;
    }
    pthread_mutex_unlock(&devices_lock);
    conn_close(&conn);
    return n;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct ibv_device **list = calloc(MAX_DEVICES + 1, sizeof(*list));
    int n = list ? list_devices(list) : 0;

    if (num_devices)
        *num_devices = n;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

/* The kernel has given it none: UCX asks the kernel about the device that has this index there. */
EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return -1;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    return ((struct shim_device *)device)->guid;
}
