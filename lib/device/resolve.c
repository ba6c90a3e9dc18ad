/* SPDX-License-Identifier: BSD-3-Clause */
/* From an application's address vector to one that names MACs. */
#include "object.h"

#include <errno.h>
#include <string.h>

#define HOP_LIMIT_DEFAULT 64

int device_resolve(struct device *d, const struct ah_attr *attr, struct address_vector *av,
                   uint32_t *mtu)
{
    const struct gid_entry *source;
    struct encap_template probe;
    struct net_path path;
    int err;

    *av = (struct address_vector){0};
    if (!attr->is_global || attr->port_num != 1 || attr->flow_label > 0xFFFFF || attr->sl > 15)
        return -EINVAL;
    if (attr->sgid_index >= d->gids.len || !d->gids.entry[attr->sgid_index].valid)
        return -EINVAL;
    source = &d->gids.entry[attr->sgid_index];
    memcpy(av->dgid.raw, attr->dgid, sizeof(av->dgid.raw));
    if (gid_is_zero(&av->dgid))
        return -EINVAL;
    av->sgid = source->gid;
    memcpy(av->smac, source->mac, sizeof(av->smac));
    av->gid_type = source->type;
    av->sgid_index = attr->sgid_index;
    av->vlan = source->vlan;
    av->sl = attr->sl;
    av->pcp = d->qos.sl_to_pcp[attr->sl];
    av->traffic_class = qos_traffic_class(&d->qos, attr->traffic_class);
    av->hop_limit = attr->hop_limit ? attr->hop_limit : HOP_LIMIT_DEFAULT;
    av->flow_label = attr->flow_label;
    if (encap_template_make(&probe, av))
        return -EINVAL;
    err = net_resolve(d, source, &av->dgid, &path);
    if (err)
        return err;
    memcpy(av->dmac, path.mac, sizeof(av->dmac));
    *mtu = path.mtu;
    return 0;
}
