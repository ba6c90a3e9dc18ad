/* SPDX-License-Identifier: BSD-3-Clause */
/* See gids.h. */
#include "net/gids.h"

#include <errno.h>
#include <string.h>

#include "control/device_state.h"

static int add_gid(struct device *d, const struct port_address *a, enum gid_type type)
{
    struct gid_entry e = {.gid = a->gid,
                          .type = (uint8_t)type,
                          .vlan = a->vlan,
                          .ifindex = a->ifindex ? a->ifindex : d->info.ifindex};
    int index;

    if (a->vlan != VLAN_NONE && (!a->vlan || a->vlan > VLAN_ID_MAX))
        return -EINVAL;
    memcpy(e.mac, d->info.mac, sizeof(e.mac));
    index = gid_table_add(&d->gids, &e);
    if (index < 0)
        return index == -EEXIST ? -EINVAL : index;
    d->prefix[index] = a->prefix;
    return 0;
}

/* Users try index 0 first, so it should be an address that reaches other hosts. */
static int add_type(struct device *d, const struct port_config *config, enum gid_type type)
{
    int err = 0;

    for (unsigned rank = 0; rank < GID_RANKS && !err; rank++)
        for (unsigned i = 0; i < config->addresses && !err; i++)
            if (gid_rank(&config->address[i].gid) == rank)
                err = add_gid(d, &config->address[i], type);
    return err;
}

int device_add_gids(struct device *d, const struct port_config *config)
{
    static const enum gid_type types[] = {GID_TYPE_ROCE_V2, GID_TYPE_ROCE_V1};
    int err = 0;

    d->gid_types = config->gid_types ? config->gid_types : 1u << GID_TYPE_ROCE_V2;
    for (unsigned i = 0; i < ARRAY_SIZE(types) && !err; i++)
        if (d->gid_types & 1u << types[i])
            err = add_type(d, config, types[i]);
    return err;
}

/* ---- while the workers run ---- */

struct gid_change {
    struct device *d;
    const struct port_address *a;
    int err;
};

static void remove_all(struct worker *w, void *arg)
{
    struct gid_change *c = arg;
    struct gid_table *t = &c->d->gids;

    c->err = -ENOENT;
    for (unsigned i = 0; i < t->len; i++) {
        struct gid_entry *e = &t->entry[i];

        if (e->valid && e->vlan == c->a->vlan && gid_eq(&e->gid, &c->a->gid)) {
            e->valid = false;
            c->err = 0;
        }
    }
}

static void add_all(struct worker *w, void *arg)
{
    struct gid_change *c = arg;
    struct gid_change undo = *c;

    c->err = 0;
    for (unsigned type = GID_TYPE_ROCE_V2; type >= GID_TYPE_ROCE_V1 && !c->err; type--)
        if (c->d->gid_types & 1u << type)
            c->err = add_gid(c->d, c->a, type);
    if (c->err == -ENOSPC)
        remove_all(w, &undo);
}

int device_gids_add(struct device *d, const struct port_address *a)
{
    struct gid_change c = {.d = d, .a = a};

    device_call_all(d, add_all, &c);
    return c.err;
}

int device_gids_remove(struct device *d, const union gid *gid, uint16_t vlan)
{
    struct port_address a = {.gid = *gid, .vlan = vlan};
    struct gid_change c = {.d = d, .a = &a};

    device_call_all(d, remove_all, &c);
    return c.err;
}

int device_gids_interface(struct device *d, const union gid *gid, uint32_t ifindex)
{
    int err = -ENOENT;

    for (unsigned i = 0; i < d->gids.len; i++) {
        struct gid_entry *e = &d->gids.entry[i];

        if (!e->valid || e->vlan != VLAN_NONE || !gid_eq(&e->gid, gid))
            continue;
        e->ifindex = ifindex ? ifindex : d->info.ifindex;
        err = 0;
    }
    return err;
}
