/* SPDX-License-Identifier: BSD-3-Clause */
/* The GID table follows the port's addresses. Its worker reads it, so only the worker changes it.
 */
#include <errno.h>
#include <string.h>

#include "object.h"

struct gid_change {
    struct device *d;
    struct gid_entry entry;
    uint8_t prefix;
    int err;
};

static void add_entry(struct worker *w, void *arg)
{
    struct gid_change *change = arg;
    int index = gid_table_add(&change->d->gids, &change->entry);

    change->err = index < 0 ? index : 0;
    if (index >= 0)
        change->d->prefix[index] = change->prefix;
}

static void remove_entry(struct worker *w, void *arg)
{
    struct gid_change *change = arg;
    const struct gid_entry *e = &change->entry;
    int index = gid_table_find(&change->d->gids, &e->gid, e->type, e->vlan);

    change->err = index < 0 ? index : 0;
    if (index >= 0)
        change->d->gids.entry[index].valid = false;
}

static struct gid_change change_of(struct device *d, const union gid *gid, uint16_t vlan,
                                   unsigned type)
{
    struct gid_change change = {.d = d,
                                .entry = {.gid = *gid,
                                          .type = (uint8_t)type,
                                          .valid = true,
                                          .vlan = vlan,
                                          .ifindex = d->info.ifindex}};

    memcpy(change.entry.mac, d->info.mac, sizeof(change.entry.mac));
    return change;
}

int net_gids_add(struct device *d, const struct port_address *a, unsigned types)
{
    int err = 0;

    for (unsigned type = GID_TYPE_ROCE_V2; type >= GID_TYPE_ROCE_V1 && !err; type--) {
        struct gid_change change = change_of(d, &a->gid, a->vlan, type);

        if (!(types & 1u << type))
            continue;
        change.prefix = a->prefix;
        worker_call(d->worker, add_entry, &change);
        err = change.err;
    }
    if (err)
        net_gids_remove(d, &a->gid, a->vlan);
    else
        net_gids_changed(d);
    return err;
}

int net_gids_remove(struct device *d, const union gid *gid, uint16_t vlan)
{
    int err = -ENOENT;

    for (unsigned type = GID_TYPE_ROCE_V1; type <= GID_TYPE_ROCE_V2; type++) {
        struct gid_change change = change_of(d, gid, vlan, type);

        worker_call(d->worker, remove_entry, &change);
        if (!change.err)
            err = 0;
    }
    if (!err)
        net_gids_changed(d);
    return err;
}
