/* SPDX-License-Identifier: BSD-3-Clause */
/* From an application's address vector to one that names MACs. */
#include "object.h"

#include <errno.h>
#include <string.h>

#define HOP_LIMIT_DEFAULT 64

/* An address of our own leads back to us, whatever the neighbour table says. */
static int resolve_mac(const struct device *d, const union gid *dgid, uint8_t mac[6])
{
    for (unsigned i = 0; i < d->gids.len; i++) {
        if (d->gids.entry[i].valid && gid_eq(&d->gids.entry[i].gid, dgid)) {
            memcpy(mac, d->gids.entry[i].mac, 6);
            return 0;
        }
    }
    return neighbour_resolve(&d->neighbours, dgid, mac);
}

int device_resolve(const struct device *d, const struct ah_attr *attr, struct address_vector *av)
{
    const struct gid_entry *source;
    struct encap_template probe;

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
    return resolve_mac(d, &av->dgid, av->dmac);
}
