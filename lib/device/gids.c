/* SPDX-License-Identifier: BSD-3-Clause */
/* From a port's addresses to its GID table. */
#include "object.h"

#include <errno.h>
#include <string.h>

static int add_gid(struct device *d, const struct port_address *a, enum gid_type type)
{
    struct gid_entry e = {
        .gid = a->gid, .type = (uint8_t)type, .vlan = a->vlan, .ifindex = d->info.ifindex};
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

/* Index 0 is what people try first: it should be an address that reaches others. */
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
    unsigned wanted = config->gid_types ? config->gid_types : 1u << GID_TYPE_ROCE_V2;
    int err = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(types) && !err; i++)
        if (wanted & 1u << types[i])
            err = add_type(d, config, types[i]);
    return err;
}
