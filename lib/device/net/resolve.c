/* SPDX-License-Identifier: BSD-3-Clause */
/* See resolve.h. */
#include "net/resolve.h"

#include <errno.h>
#include <string.h>

#include "control/device_state.h"

#define HOP_LIMIT_DEFAULT 64

/*
 * CA17-10 takes the hop limit from the address vector. But some programs put 1 there
 * (ibv_rc_pingpong does), and the kernel replaces it by the route's, so that unicast packets of
 * RoCEv2 get through routers unless the program chose a limit itself. RoCEv1 is not routed.
 */
static uint8_t hop_limit(const struct ah_attr *attr, const struct gid_entry *source,
                         const union gid *dgid)
{
    bool routed = source->type == GID_TYPE_ROCE_V2 && !gid_is_multicast(dgid);

    return !attr->hop_limit || (routed && attr->hop_limit == 1) ? HOP_LIMIT_DEFAULT
                                                                : attr->hop_limit;
}

int device_resolve_path(struct device *d, const struct ah_attr *attr, struct address_vector *av,
                        struct net_path *path)
{
    const struct gid_entry *source;
    struct encap_template probe;
    int err;

    *av = (struct address_vector){0};
    if (!attr->is_global || attr->port_num != 1)
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
    av->sl = attr->sl & 15; /* as NICs: the upper bits are of no use to RoCE, and no error */
    av->pcp = d->qos.sl_to_pcp[av->sl];
    av->traffic_class = qos_traffic_class(&d->qos, attr->traffic_class);
    av->hop_limit = hop_limit(attr, source, &av->dgid);
    /* NICs and the kernel ignore the other bits, too: UCX sets all 32. */
    av->flow_label = attr->flow_label & 0xFFFFF;
    if (encap_template_make(&probe, av))
        return -EINVAL;
    err = net_resolve(d, source, &av->dgid, path);
    if (err)
        return err;
    memcpy(av->dmac, path->mac, sizeof(av->dmac));
    return 0;
}

int device_resolve(struct device *d, const struct ah_attr *attr, struct address_vector *av,
                   uint32_t *mtu)
{
    struct net_path path;
    int err = device_resolve_path(d, attr, av, &path);

    if (!err)
        *mtu = path.mtu;
    return err;
}
