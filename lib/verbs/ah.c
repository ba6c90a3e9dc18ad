/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles, also from the headers of received datagrams. */
#include <arpa/inet.h>

#include "shim.h"

#define GRH_BYTES       40
#define IPV4_BYTES      20
#define IPV4_AT         (GRH_BYTES - IPV4_BYTES) /* an IPv4 header is the end of the GRH's bytes */
#define GRH_VERSION_IB  6
#define GRH_NEXT_HDR_IB 0x1B /* a GRH on the wire (RoCE v1); UDP otherwise */

void ah_attr_to_ctl(struct ah_attr *to, const struct ibv_ah_attr *from)
{
    *to = (struct ah_attr){.flow_label = from->grh.flow_label,
                           .sgid_index = from->grh.sgid_index,
                           .hop_limit = from->grh.hop_limit,
                           .traffic_class = from->grh.traffic_class,
                           .sl = from->sl,
                           .port_num = from->port_num,
                           .is_global = from->is_global,
                           .static_rate = from->static_rate};
    memcpy(to->dgid, from->grh.dgid.raw, sizeof(to->dgid));
}

void ah_attr_from_ctl(struct ibv_ah_attr *to, const struct ah_attr *from)
{
    *to = (struct ibv_ah_attr){.grh = {.flow_label = from->flow_label,
                                       .sgid_index = from->sgid_index,
                                       .hop_limit = from->hop_limit,
                                       .traffic_class = from->traffic_class},
                               .sl = from->sl,
                               .port_num = from->port_num,
                               .is_global = from->is_global,
                               .static_rate = from->static_rate};
    memcpy(to->grh.dgid.raw, from->dgid, sizeof(from->dgid));
}

static int create_ah(struct ibv_context *context, uint32_t pd, const struct ibv_ah_attr *attr,
                     struct ctl_msg *m)
{
    *m = (struct ctl_msg){.create_ah = {.pd = pd}};
    if (!attr->is_global)
        return EINVAL; /* Ethernet has no local addresses */
    ah_attr_to_ctl(&m->create_ah.attr, attr);
    return shim_call(context, CTL_CREATE_AH, m);
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct shim_ah *ah = calloc(1, sizeof(*ah));
    struct ctl_msg m;
    int err;

    if (!ah)
        return NULL;
    err = create_ah(pd->context, pd->handle, attr, &m);
    if (err) {
        free(ah);
        return refuse(-err);
    }
    ah->base.context = pd->context;
    ah->base.pd = pd;
    ah->base.handle = m.create_ah.handle;
    ah->number = m.create_ah.number;
    ah->attr = *attr;
    return &ah->base;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *base)
{
    struct ctl_msg m = {.handle = base->handle};
    int err = shim_call(base->context, CTL_DESTROY_AH, &m);

    if (is_destroyed(err))
        free(base);
    return failed(err);
}

/* The daemon resolves addresses when it makes an address handle, so this makes one and destroys it.
 */
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                       uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ctl_msg m;
    int err;

    if (!pd)
        return errno;
    err = create_ah(context, pd->handle, attr, &m);
    if (!err) {
        memcpy(eth_mac, m.create_ah.dmac, ETHERNET_LL_SIZE);
        if (vid)
            *vid = m.create_ah.vlan;
        conn_call_handle(&to_context(context)->client.conn, CTL_DESTROY_AH, m.create_ah.handle);
    }
    ibv_dealloc_pd(pd);
    return failed(err);
}

/* The fields of a received packet's headers that an answer needs. */
struct source {
    union ibv_gid sgid, dgid;
    uint32_t gid_type, flow_label;
    uint8_t traffic_class;
};

static bool ipv4_checksum_ok(const uint8_t *h)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < IPV4_BYTES; i += 2)
        sum += (uint32_t)h[i] << 8 | h[i + 1];
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    return sum == 0xFFFF;
}

static void set_ipv4_mapped(union ibv_gid *gid, const uint8_t *addr)
{
    memset(gid->raw, 0, 10);
    memset(gid->raw + 10, 0xFF, 2);
    memcpy(gid->raw + 12, addr, 4);
}

/* The last 20 bytes are an IPv4 header if they form a valid one. Else the 40 bytes are a GRH or an
 * IPv6 header, which have the same form (A17.4.2). Returns 0 or -EINVAL. */
static int parse_grh(struct source *f, const struct ibv_grh *grh)
{
    const uint8_t *v4 = (const uint8_t *)grh + IPV4_AT;
    uint32_t word = ntohl(grh->version_tclass_flow);

    if (v4[0] == 0x45 && ipv4_checksum_ok(v4)) {
        set_ipv4_mapped(&f->sgid, v4 + 12);
        set_ipv4_mapped(&f->dgid, v4 + 16);
        f->gid_type = IBV_GID_TYPE_ROCE_V2;
        f->traffic_class = v4[1];
        f->flow_label = 0;
        return 0;
    }
    if (word >> 28 != GRH_VERSION_IB)
        return -EINVAL;
    f->sgid = grh->sgid;
    f->dgid = grh->dgid;
    f->gid_type = grh->next_hdr == GRH_NEXT_HDR_IB ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    f->traffic_class = (uint8_t)(word >> 20);
    f->flow_label = word & IB_GRH_FLOWLABEL_MASK;
    return 0;
}

/* The index of the port's GID that the packet was sent to, or -EINVAL. */
static int find_gid(struct ibv_context *context, uint8_t port, const union ibv_gid *gid,
                    uint32_t type)
{
    struct ibv_gid_entry entry;
    struct ibv_port_attr attr;

    if (shim_query_port(context, port, &attr, sizeof(attr)))
        return -EINVAL;
    for (int i = 0; i < attr.gid_tbl_len; i++)
        if (!ibv_query_gid_ex(context, port, (uint32_t)i, &entry, 0) && entry.gid_type == type &&
            !memcmp(&entry.gid, gid, sizeof(*gid)))
            return i;
    return -EINVAL;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                               struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    struct source from;
    int index;

    memset(attr, 0, sizeof(*attr));
    attr->sl = wc->sl & CQE_SL_KIND ? 0 : wc->sl;
    attr->port_num = port_num;
    if (!(wc->wc_flags & IBV_WC_GRH) || parse_grh(&from, grh)) {
        errno = EINVAL;
        return -1;
    }
    index = find_gid(context, port_num, &from.dgid, from.gid_type);
    if (index < 0) {
        errno = EINVAL;
        return -1;
    }
    attr->is_global = 1;
    attr->grh.dgid = from.sgid;
    attr->grh.sgid_index = (uint8_t)index;
    attr->grh.hop_limit = 0xFF;
    attr->grh.flow_label = from.flow_label;
    attr->grh.traffic_class = from.traffic_class;
    return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
                                            struct ibv_grh *grh, uint8_t port_num)
{
    struct ibv_ah_attr attr;

    if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
        return NULL;
    return ibv_create_ah(pd, &attr);
}
