/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices, each opened once in a process, and again when the daemon was restarted. Ids share a
 * protection domain per device.
 */
#include <fcntl.h>

#include "cma.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
/* Those of links that are gone: the program may still have objects in their contexts. */
static SLIST_HEAD(, cma_device) left_open = SLIST_HEAD_INITIALIZER(left_open);

/* Another thread of the parent may hold it, while it opens a device. The child's link has devices
 * of its own. */
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

static struct cma_device *find(const struct cma_link *link, __be64 guid)
{
    struct cma_device *d = SLIST_FIRST(&link->devices);

    while (d && d->guid != guid)
        d = SLIST_NEXT(d, next);
    return d;
}

static uint8_t at_most_255(int n)
{
    return (uint8_t)(n < 0 ? 0 : n > 0xff ? 0xff : n);
}

/* Not in the list afterwards: it cannot be opened. */
static void open_device(struct cma_link *link, struct ibv_device *device)
{
    struct cma_device *d = calloc(1, sizeof(*d));
    struct ibv_device_attr attr;

    if (!d)
        return;
    d->guid = ibv_get_device_guid(device);
    d->verbs = ibv_open_device(device);
    if (!d->verbs || ibv_query_device(d->verbs, &attr)) {
        if (d->verbs)
            ibv_close_device(d->verbs);
        free(d);
        return;
    }
    d->max_responder_resources = at_most_255(attr.max_qp_rd_atom);
    d->max_initiator_depth = at_most_255(attr.max_qp_init_rd_atom);
    SLIST_INSERT_HEAD(&link->devices, d, next);
}

/* Opens those that are not open yet, the last first, so that the list has the devices' order. */
static void open_devices(struct cma_link *link)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);

    if (!list)
        return;
    while (n--)
        if (!find(link, ibv_get_device_guid(list[n])))
            open_device(link, list[n]);
    ibv_free_device_list(list);
}

struct cma_device *device_get(struct cma_link *link, __be64 guid, int *err)
{
    struct cma_device *d;

    *err = 0;
    lock_devices();
    d = find(link, guid);
    if (!d) {
        open_devices(link);
        d = find(link, guid);
    }
    if (!d) {
        *err = -ENODEV;
    } else if (!d->pd) {
        d->pd = ibv_alloc_pd(d->verbs);
        if (!d->pd)
            *err = cma_errno();
    }
    if (!*err)
        d->ids++;
    pthread_mutex_unlock(&devices_lock);
    return *err ? NULL : d;
}

/* A program that has nothing in it any more may still have its address, but no use for it. */
static bool close_unused(struct cma_device *d)
{
    if (d->listed || !uroce_is_over(d->verbs))
        return false;
    ibv_close_device(d->verbs);
    free(d);
    return true;
}

void devices_leave(struct cma_link *link)
{
    struct cma_device *d, *next;

    lock_devices();
    while ((d = SLIST_FIRST(&link->devices))) {
        SLIST_REMOVE_HEAD(&link->devices, next);
        SLIST_INSERT_HEAD(&left_open, d, next);
    }
    d = SLIST_FIRST(&left_open);
    SLIST_INIT(&left_open);
    for (; d; d = next) {
        next = SLIST_NEXT(d, next);
        if (!close_unused(d))
            SLIST_INSERT_HEAD(&left_open, d, next);
    }
    pthread_mutex_unlock(&devices_lock);
}

/* The domains stay while the program has something in them. */
void device_put(struct cma_device *d)
{
    lock_devices();
    if (!--d->ids) {
        if (d->pd && is_gone(ibv_dealloc_pd(d->pd)))
            d->pd = NULL;
        if (d->xrcd && is_gone(ibv_close_xrcd(d->xrcd)))
            d->xrcd = NULL;
    }
    pthread_mutex_unlock(&devices_lock);
}

struct ibv_xrcd *device_xrcd(struct cma_device *d, int *err)
{
    struct ibv_xrcd_init_attr attr = {.comp_mask =
                                          IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                      .fd = -1,
                                      .oflags = O_CREAT};

    *err = 0;
    lock_devices();
    if (!d->xrcd) {
        d->xrcd = ibv_open_xrcd(d->verbs, &attr);
        if (!d->xrcd)
            *err = cma_errno();
    }
    pthread_mutex_unlock(&devices_lock);
    return d->xrcd;
}

static struct ibv_context **list_open(const struct cma_link *link, int *n)
{
    struct cma_device *d;
    struct ibv_context **list;

    *n = 0;
    for (d = SLIST_FIRST(&link->devices); d; d = SLIST_NEXT(d, next))
        ++*n;
    list = calloc((size_t)*n + 1, sizeof(*list));
    *n = 0;
    for (d = SLIST_FIRST(&link->devices); list && d; d = SLIST_NEXT(d, next)) {
        d->listed = true;
        list[(*n)++] = d->verbs;
    }
    return list;
}

/* Without a daemon the list is empty. Callers read *num_devices whatever we return. */
EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
    struct ibv_context **list;
    struct cma_link *link;
    int err, n = 0;

    link = link_get(&err);
    if (link) {
        lock_devices();
        open_devices(link);
        list = list_open(link, &n);
        pthread_mutex_unlock(&devices_lock);
        link_put(link);
    } else {
        list = calloc(1, sizeof(*list));
    }
    if (num_devices)
        *num_devices = n;
    return list;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}
