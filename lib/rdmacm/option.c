/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of ids. The daemon knows which there are. */
#include "cma.h"

static int set_option(struct cma_id *id, uint32_t level, uint32_t name, const void *value,
                      size_t len)
{
    struct ctl_msg m = {.cm_option = {.id = id->entry.handle, .level = level, .name = name}};

    if (!value || len > sizeof(m.cm_option.value))
        return -EINVAL;
    m.cm_option.length = (uint32_t)len;
    memcpy(m.cm_option.value, value, len);
    id->steps_mask[0] = 0; /* they may change, and the path, too */
    id->path_known = false;
    return link_call(id->link, CTL_CM_SET_OPTION, &m);
}

/* The primary path of both directions, which management datagrams take, too. */
static const struct ibv_path_record *find_path(const void *value, size_t len)
{
    const uint32_t wanted = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
    const struct ibv_path_data *path = value;

    if (!value || len % sizeof(*path))
        return NULL;
    for (size_t i = 0; i < len / sizeof(*path); i++)
        if (path[i].flags == wanted)
            return &path[i].path;
    return NULL;
}

#define SELECTED 0x3F /* of a field whose upper bits say how it is compared */

static void route_of(const struct ibv_path_record *path, struct ctl_cm_route *r)
{
    uint32_t flow_hop = be32toh(path->flowlabel_hoplimit);

    *r = (struct ctl_cm_route){.flow_label = flow_hop >> 8 & 0xFFFFF,
                               .pkey = be16toh(path->pkey),
                               .hop_limit = (uint8_t)flow_hop,
                               .traffic_class = path->tclass,
                               .sl = be16toh(path->qosclass_sl) & 0xF,
                               .mtu = path->mtu & SELECTED,
                               .rate = path->rate & SELECTED,
                               .packet_life_time = path->packetlifetime & SELECTED};
    memcpy(r->sgid, path->sgid.raw, sizeof(r->sgid));
    memcpy(r->dgid, path->dgid.raw, sizeof(r->dgid));
}

/* The route is resolved by it; ROUTE_RESOLVED follows, which also the program of a synchronous id
 * has to read: rdma-core's library waits for it in no call but rsocket's. */
static int set_path(struct cma_id *id, const void *value, size_t len)
{
    const struct ibv_path_record *path = find_path(value, len);
    struct ctl_cm_route route;

    if (!path || id->route_told)
        return -EINVAL;
    route_of(path, &route);
    return set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &route, sizeof(route));
}

EXPORT int rdma_set_option(struct rdma_cm_id *base, int level, int name, void *value, size_t len)
{
    struct cma_id *id = to_id(base);

    if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
        return cma_result(set_path(id, value, len));
    return cma_result(set_option(id, (uint32_t)level, (uint32_t)name, value, len));
}
