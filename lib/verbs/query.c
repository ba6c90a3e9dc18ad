/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries: devices, ports, GIDs and P_Keys. */
#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "later.h"
#include "number.h"
#include "private.h"
#include "shim.h"

#define DEFAULT_PKEY 0xFFFF
#define PAGE_SIZES   0xFFFFF000u

/* perftest uses ibv_wr_* only for part ids that it knows; a user can set one of these here. */
#define PART_ID_ENV "UROCE_VENDOR_PART_ID"

int shim_part_id_chosen(struct ctl_device *info)
{
    const char *text = getenv(PART_ID_ENV);
    char *end;
    unsigned long id;

    if (!text || !*text)
        return 0;
    id = strtoul(text, &end, number_base(text));
    if (text[0] < '0' || text[0] > '9' || *end || id > UINT32_MAX) {
        fprintf(stderr,
                "uroce: " PART_ID_ENV "=%s is no number of 32 bits (by default %u): no device "
                "can be opened\n",
                text, info->vendor_part_id);
        return -EINVAL;
    }
    info->vendor_part_id = (uint32_t)id;
    return 0;
}

static int clamp_to_int(uint64_t v)
{
    return (int)min_of(v, (uint64_t)INT_MAX);
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct ctl_device *d = &to_context(context)->info;

    *attr = (struct ibv_device_attr){
        .node_guid = d->node_guid,
        .sys_image_guid = d->node_guid,
        .max_mr_size = d->max_mr_size,
        .page_size_cap = PAGE_SIZES,
        .vendor_id = d->vendor_id,
        .vendor_part_id = d->vendor_part_id,
        .hw_ver = d->hw_version,
        .max_qp = clamp_to_int(d->max_qp),
        .max_qp_wr = clamp_to_int(d->max_qp_wr),
        .device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                            IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                            IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_N_NOTIFY_CQ |
                            IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
                            IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS,
        .max_sge = clamp_to_int(d->max_sge),
        .max_sge_rd = clamp_to_int(d->max_sge),
        .max_cq = clamp_to_int(d->max_cq),
        .max_cqe = clamp_to_int(d->max_cqe),
        .max_mr = clamp_to_int(d->max_mr),
        .max_pd = clamp_to_int(d->max_pd),
        .max_qp_rd_atom = clamp_to_int(d->max_qp_rd_atom),
        .max_res_rd_atom = clamp_to_int((uint64_t)d->max_qp_rd_atom * d->max_qp),
        .max_qp_init_rd_atom = clamp_to_int(d->max_qp_init_rd_atom),
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_ah = clamp_to_int(d->max_ah),
        .max_mw = clamp_to_int(d->max_mw),
        .max_srq = clamp_to_int(d->max_srq),
        .max_srq_wr = clamp_to_int(d->max_srq_wr),
        .max_srq_sge = clamp_to_int(d->max_srq_sge),
        .max_mcast_grp = clamp_to_int(d->max_mcast_grp),
        .max_mcast_qp_attach = clamp_to_int(min_of(d->max_qp, d->max_mcast_qp)),
        .max_total_mcast_qp_attach = clamp_to_int(d->max_mcast_join),
        .max_pkeys = 1,
        .phys_port_cnt = (uint8_t)d->ports,
    };
    if (d->max_wq)
        attr->device_cap_flags |= IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_IP_CSUM;
    memcpy(attr->fw_ver, d->fw_version, sizeof(d->fw_version));
    return 0;
}

/* max_wq is 0 if the program may not use them. */
static void set_raw_caps(struct ibv_device_attr_ex *all, const struct ctl_device *d)
{
    if (!d->max_wq)
        return;
    all->raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM;
    all->max_wq_type_rq = d->max_wq;
    all->rss_caps = (struct ibv_rss_caps){
        .supported_qpts = 1 << IBV_QPT_RAW_PACKET,
        .max_rwq_indirection_tables = d->max_rwq_ind,
        .max_rwq_indirection_table_size = d->max_rwq_ind_size,
        .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 |
                               IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_TCP |
                               IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP |
                               IBV_RX_HASH_DST_PORT_UDP,
        .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ | UROCE_RX_HASH_FUNC_XOR,
    };
}

/* Regions are read and written through the program's address space, as it is at that moment. */
static void set_odp_caps(struct ibv_device_attr_ex *all)
{
    const uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
    const uint32_t connected = messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
    const uint32_t reliable = connected | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                              LATER_ODP_FLUSH | LATER_ODP_ATOMIC_WRITE;

    all->odp_caps = (struct ibv_odp_caps){
        .general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
        .per_transport_caps = {.rc_odp_caps = reliable,
                               .uc_odp_caps = connected,
                               .ud_odp_caps = messages | IBV_ODP_SUPPORT_SRQ_RECV},
    };
    all->xrc_odp_caps = reliable;
}

int shim_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex all = {
        .completion_timestamp_mask = UINT64_MAX,
        .hca_core_clock = 1000000, /* kHz: timestamps are nanoseconds */
        .phys_port_cnt_ex = to_context(context)->info.ports,
        .max_dm_size = to_context(context)->info.max_dm_size,
        .packet_pacing_caps = {.qp_rate_limit_min = 1,
                               .qp_rate_limit_max = UINT32_MAX, /* kbps: 4.3 Tb/s */
                               .supported_qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC |
                                                 1 << IBV_QPT_UD | 1 << IBV_QPT_XRC_SEND |
                                                 1 << IBV_QPT_RAW_PACKET},
        .cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX},
    };

    if (input && input->comp_mask)
        return failed(EINVAL);
    ibv_query_device(context, &all.orig_attr);
    set_odp_caps(&all);
    set_raw_caps(&all, &to_context(context)->info);
    all.device_cap_flags_ex =
        all.orig_attr.device_cap_flags | LATER_DEVICE_FLUSH_GLOBAL | LATER_DEVICE_ATOMIC_WRITE;
    memset(attr, 0, size);
    memcpy(attr, &all, min_of(size, sizeof(all)));
    return 0;
}

/* The clock of completion timestamps. */
int shim_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    uint32_t wanted = values->comp_mask;

    values->comp_mask = 0;
    if (wanted & IBV_VALUES_MASK_RAW_CLOCK) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        values->raw_clock = (struct timespec){
            .tv_nsec = (long)((uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec)};
        values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    }
    return failed(wanted & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK ? EOPNOTSUPP : 0);
}

/* The speed of a port whose driver does not know it. Programs choose their protocols by the speed
 * (UCX sends 64 KiB by copies over a slow port), so the lowest one would be no cautious answer. */
#define SPEED_UNKNOWN_MBPS 10000

/* A port's speed as lanes and speed per lane, as InfiniBand counts them. */
static void set_speed(struct ibv_port_attr *attr, uint32_t mbps)
{
    static const struct {
        uint32_t mbps;
        uint8_t width, speed;
    } rate[] = {
        {2500, 1, 1},   {10000, 1, 8},   {20000, 2, 2},   {25000, 1, 32},       {40000, 2, 8},
        {50000, 1, 64}, {100000, 2, 32}, {200000, 2, 64}, {UINT32_MAX, 2, 128},
    };
    unsigned i = 0;

    while (mbps > rate[i].mbps)
        i++;
    attr->active_width = rate[i].width;
    attr->active_speed = rate[i].speed;
}

uint32_t shim_port_speed(const struct ctl_port *port)
{
    return port->speed_mbps ? port->speed_mbps : SPEED_UNKNOWN_MBPS;
}

int shim_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                    size_t size)
{
    struct ctl_msg m = {.port = {.port = port}};
    int err = shim_call(context, CTL_QUERY_PORT, &m);
    struct ibv_port_attr all = {
        .state = m.port.state,
        .max_mtu = m.port.max_mtu,
        .active_mtu = m.port.active_mtu,
        .gid_tbl_len = (int)m.port.gid_tbl_len,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = MESSAGE_MAX,
        .pkey_tbl_len = (uint16_t)m.port.pkey_tbl_len,
        .max_vl_num = 1,
        .phys_state = m.port.state == IBV_PORT_ACTIVE ? 5 : 3, /* link up, disabled */
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .flags = IBV_QPF_GRH_REQUIRED,
    };

    if (err)
        return err;
    set_speed(&all, shim_port_speed(&m.port));
    memset(attr, 0, size);
    memcpy(attr, &all, min_of(size, sizeof(all)));
    return 0;
}

/* Programs older than port_cap_flags2 have a structure that ends before it. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
                          struct _compat_ibv_port_attr *attr)
{
    return shim_query_port(context, port, (struct ibv_port_attr *)attr,
                           offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* 0 or a positive errno: ENOENT for an empty slot, EINVAL past the table. */
static int query_gid(struct ibv_context *context, uint32_t port, uint32_t index,
                     struct ctl_gid *gid)
{
    struct ctl_msg m = {.gid = {.port = port, .index = index}};
    int err = shim_call(context, CTL_QUERY_GID, &m);

    *gid = m.gid;
    return err;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
                         union ibv_gid *gid)
{
    struct ctl_gid g;
    int err = index < 0 ? EINVAL : query_gid(context, port_num, (uint32_t)index, &g);

    if (err && err != ENOENT) {
        errno = err;
        return -1;
    }
    if (err)
        memset(gid, 0, sizeof(*gid));
    else
        memcpy(gid->raw, g.gid, sizeof(gid->raw));
    return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    struct ibv_gid_entry all = {.gid_index = gid_index, .port_num = port_num};
    struct ctl_gid g;
    int err;

    if (flags)
        return failed(EOPNOTSUPP);
    err = query_gid(context, port_num, gid_index, &g);
    if (err)
        return failed(err == ENOENT ? ENODATA : err);
    memcpy(all.gid.raw, g.gid, sizeof(all.gid.raw));
    all.gid_type = g.type;
    all.ndev_ifindex = g.ifindex;
    memset(entry, 0, entry_size);
    memcpy(entry, &all, min_of(entry_size, sizeof(all)));
    return 0;
}

/* Appends the valid entries of a port; -EINVAL when there is no more room. */
static ssize_t gid_table_port(struct ibv_context *context, uint32_t port, uint8_t *out, size_t room,
                              size_t entry_size)
{
    struct ibv_port_attr attr;
    ssize_t n = 0;
    int err = shim_query_port(context, (uint8_t)port, &attr, sizeof(attr));

    for (uint32_t i = 0; !err && i < (uint32_t)attr.gid_tbl_len; i++) {
        struct ibv_gid_entry entry;

        err = _ibv_query_gid_ex(context, port, i, &entry, 0, sizeof(entry));
        if (err == ENODATA) {
            err = 0;
            continue;
        }
        if (!err && (size_t)n == room)
            err = EINVAL;
        if (!err)
            memcpy(out + (size_t)n++ * entry_size, &entry, min_of(entry_size, sizeof(entry)));
    }
    return err ? -err : n;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                    size_t max_entries, uint32_t flags, size_t entry_size)
{
    size_t total = 0;

    if (flags)
        return -EOPNOTSUPP;
    memset(entries, 0, max_entries * entry_size);
    for (uint32_t port = 1; port <= to_context(context)->info.ports; port++) {
        ssize_t n = gid_table_port(context, port, (uint8_t *)entries + total * entry_size,
                                   max_entries - total, entry_size);

        if (n < 0)
            return n;
        total += (size_t)n;
    }
    return (ssize_t)total;
}

/* The kernel's two kinds, as sysfs names them. In no public header. */
enum gid_type_sysfs { GID_SYSFS_IB_ROCE_V1, GID_SYSFS_ROCE_V2 };

static int private_ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
                                      unsigned int index, enum gid_type_sysfs *type)
{
    struct ctl_gid g;
    int err = query_gid(context, port_num, index, &g);

    if (err && err != ENOENT) {
        errno = err;
        return -1;
    }
    *type = !err && g.type == IBV_GID_TYPE_ROCE_V2 ? GID_SYSFS_ROCE_V2 : GID_SYSFS_IB_ROCE_V1;
    return 0;
}
PRIVATE(ibv_query_gid_type);

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
    struct ctl_msg m = {.port = {.port = port_num}};
    int err = shim_call(context, CTL_QUERY_PORT, &m);

    if (!err && (index < 0 || (uint32_t)index >= m.port.pkey_tbl_len))
        err = EINVAL;
    if (err) {
        errno = err;
        return -1;
    }
    *pkey = htons(index ? 0 : DEFAULT_PKEY);
    return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
    __be16 entry;

    for (int i = 0; !ibv_query_pkey(context, port_num, i, &entry); i++)
        if (entry == pkey)
            return i;
    return -1;
}
