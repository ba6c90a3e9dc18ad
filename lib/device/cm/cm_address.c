/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device an address leads to, and the paths from there. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "cm/cm_address.h"
#include "cm/cm_object.h"
#include "device_host.h"
#include "entropy.h"
#include "pkt.h"

static union gid gid_of(const struct ctl_cm_addr *a)
{
    union gid g;

    memcpy(g.raw, a->gid, sizeof(g.raw));
    return g;
}

bool cm_address_is_any(const struct ctl_cm_addr *a)
{
    static const union gid any4 = {.raw = {[10] = 0xFF, [11] = 0xFF}};
    union gid g = gid_of(a);

    return a->family == 0 || gid_is_zero(&g) || gid_eq(&g, &any4);
}

bool cm_address_is_ipv4(const struct ctl_cm_addr *a)
{
    union gid g = gid_of(a);

    return gid_is_ipv4(&g);
}

/* rdma_cm uses one type of GID: RoCEv2 where the port has it. */
static enum gid_type type_for_cm(const struct device *d)
{
    return d->gid_types & 1u << GID_TYPE_ROCE_V2 ? GID_TYPE_ROCE_V2 : GID_TYPE_ROCE_V1;
}

static bool is_for_cm(const struct device *d, const struct gid_entry *e)
{
    return e->valid && e->type == type_for_cm(d);
}

/* Whether an entry is of the interface that an address names. A device that leads nowhere has each
 * address of its host once, whichever interfaces have it. */
static bool is_in_scope(const struct device *d, const struct gid_entry *e, uint32_t scope)
{
    return !scope || !e->ifindex || d->net.isolated || scope == e->ifindex;
}

/* Devices in the order in which an address is looked for: the loopback device may have addresses of
 * real ports, which lead to other hosts, too. */
static struct device *device_in_order(const struct rnic *r, unsigned n)
{
    for (unsigned isolated = 0; isolated < 2; isolated++)
        for (unsigned k = 0; k < r->devices; k++)
            if (r->device[k]->net.isolated == isolated && !n--)
                return r->device[k];
    return NULL;
}

/* The first entry with this GID and scope, or (NULL) any of the IP version. */
static int find_entry(struct rnic *r, const union gid *gid, const struct ctl_cm_addr *a,
                      struct device **d, unsigned *sgid_index)
{
    for (unsigned k = 0; k < r->devices; k++) {
        *d = device_in_order(r, k);
        for (*sgid_index = 0; *sgid_index < (*d)->gids.len; ++*sgid_index) {
            const struct gid_entry *e = &(*d)->gids.entry[*sgid_index];

            if (!is_for_cm(*d, e))
                continue;
            if (gid ? is_in_scope(*d, e, a->scope) && gid_eq(&e->gid, gid)
                    : gid_is_ipv4(&e->gid) == cm_address_is_ipv4(a))
                return 0;
        }
    }
    *d = NULL;
    return -ENODEV;
}

int cm_address_find(struct rnic *r, const struct ctl_cm_addr *a, struct device **d,
                    unsigned *sgid_index)
{
    union gid gid = gid_of(a);

    return find_entry(r, &gid, a, d, sgid_index);
}

/* Requests come by each RoCE version. */
static uint8_t type_of(const struct cm_object *o)
{
    return o->is_request ? cm_id_path(o->id)->gid_type : (uint8_t)type_for_cm(o->device);
}

/* Whether an entry is the id's own address. The same one in another VLAN is on another network. */
static bool is_own(const struct cm_object *o, const struct gid_entry *e)
{
    return e->valid && e->type == type_of(o) &&
           !memcmp(e->gid.raw, o->src.gid, sizeof(o->src.gid)) &&
           (o->vlan == CM_VLAN_ANY || o->vlan == e->vlan);
}

int cm_address_place(const struct cm_object *o)
{
    const struct device *d = o->device;

    if (is_own(o, &d->gids.entry[o->sgid_index]))
        return (int)o->sgid_index;
    for (unsigned i = 0; i < d->gids.len; i++) {
        const struct gid_entry *e = &d->gids.entry[i];

        if (is_own(o, e) && is_in_scope(d, e, o->src.scope))
            return (int)i;
    }
    return -EADDRNOTAVAIL;
}

/* ---- towards a peer ---- */

static unsigned common_bits(const union gid *a, const union gid *b)
{
    unsigned n = 0;

    while (n < 128 && !((a->raw[n / 8] ^ b->raw[n / 8]) & 0x80 >> n % 8))
        n++;
    return n;
}

/* How good a way is: the longer prefix; of two, the own network. */
static unsigned rank_of(unsigned bits, bool on_link)
{
    return 1 + 2 * bits + on_link;
}

/* How well an entry reaches dst; 0: not at all. */
static unsigned reach(struct device *d, unsigned i, const union gid *dst, uint32_t scope)
{
    const struct gid_entry *e = &d->gids.entry[i];
    struct net_path path;
    unsigned prefix;
    int err;

    if (!is_for_cm(d, e) || gid_is_ipv4(&e->gid) != gid_is_ipv4(dst) ||
        gid_is_link_local(&e->gid) != gid_is_link_local(dst))
        return 0;
    if (!is_in_scope(d, e, scope))
        return 0;
    prefix = d->prefix[i] + (gid_is_ipv4(dst) ? 96 : 0);
    if (common_bits(&e->gid, dst) >= prefix)
        return rank_of(prefix, true);
    err = net_resolve(d, e, dst, &path);
    return err == -ENETUNREACH ? 0 : rank_of(path.bits, false);
}

/* An own address of any device is reached from there. */
int cm_address_towards(struct rnic *r, const struct ctl_cm_addr *dst, struct device **d,
                       unsigned *sgid_index)
{
    union gid gid = gid_of(dst);
    unsigned best = 0;

    if (cm_address_is_any(dst))
        return find_entry(r, NULL, dst, d, sgid_index);
    if (!cm_address_find(r, dst, d, sgid_index))
        return 0;
    for (unsigned k = 0; k < r->devices; k++) {
        struct device *this = r->device[k];

        for (unsigned i = 0; i < this->gids.len; i++) {
            unsigned n = this->net.isolated ? 0 : reach(this, i, &gid, dst->scope);

            if (n <= best)
                continue;
            best = n;
            *d = this;
            *sgid_index = i;
        }
    }
    return best ? 0 : -ENETUNREACH;
}

/* ---- forms of addresses ---- */

static struct ctl_cm_addr make_address(const union gid *gid, uint16_t number, uint32_t ifindex)
{
    struct ctl_cm_addr a = {.number = number, .family = gid_is_ipv4(gid) ? AF_INET : AF_INET6};

    memcpy(a.gid, gid->raw, sizeof(a.gid));
    if (gid_is_link_local(gid))
        a.scope = ifindex;
    return a;
}

struct ctl_cm_addr cm_address_of(const struct device *d, unsigned sgid_index, uint16_t number)
{
    const struct gid_entry *e = &d->gids.entry[sgid_index];

    return make_address(&e->gid, number, e->ifindex);
}

/* The interface of an own address, or that by which a peer is reached. */
static uint32_t interface_of(const struct device *d, const union gid *gid)
{
    for (unsigned i = 0; i < d->gids.len; i++) {
        const struct gid_entry *e = &d->gids.entry[i];

        if (is_for_cm(d, e) && gid_eq(&e->gid, gid))
            return e->ifindex;
    }
    return d->info.ifindex;
}

struct ctl_cm_addr cm_address_from(const struct rnic *r, const struct cm_addr *a)
{
    uint32_t ifindex = a->port < r->devices ? interface_of(r->device[a->port], &a->gid) : 0;

    return make_address(&a->gid, a->number, ifindex);
}

int cm_object_bind(struct cm_object *o, const struct ctl_cm_addr *addr)
{
    struct cm_addr src = {
        .gid = gid_of(addr), .number = addr->number, .vlan = CM_VLAN_ANY, .port = CM_PORT_ANY};
    struct cm_addr dst = {.gid = gid_of(&o->dst), .number = o->dst.number};
    int err;

    if (o->device && !cm_address_is_any(addr)) {
        src.vlan = o->device->gids.entry[o->sgid_index].vlan;
        src.port = o->device->index;
    }
    err = cm_bind(o->id, &src, o->dst.family ? &dst : NULL,
                  o->bind_flags | (o->o.session->account.user->owner ? CM_BIND_PRIVILEGED : 0));
    if (err)
        return err;
    o->bound = true;
    o->vlan = src.vlan;
    o->src = *addr;
    o->src.number = cm_id_src(o->id)->number;
    return 0;
}

/* ---- paths ---- */

/* What the Linux kernel's rdma_cm says of RoCE, and its rdma_rxe of itself: codes of 4.096 us * 2^n
 */
#define PACKET_LIFE_TIME 18
#define ACK_DELAY        15
#define HOP_LIMIT        64

/* A code of enum ibv_rate that is no faster than the port. */
static uint8_t rate_code(uint32_t mbps)
{
    static const struct {
        uint32_t mbps;
        uint8_t code;
    } rate[] = {{400000, 21}, {200000, 18}, {100000, 16}, {56000, 12}, {40000, 7},
                {25000, 15},  {20000, 6},   {10000, 3},   {5000, 5}};

    for (unsigned i = 0; i < ARRAY_SIZE(rate); i++)
        if (mbps >= rate[i].mbps)
            return rate[i].code;
    return 2; /* 2.5 Gbit/s */
}

void cm_address_port_path(const struct device *d, unsigned sgid_index, const union gid *dgid,
                          struct cm_path *path)
{
    const struct gid_entry *source = &d->gids.entry[sgid_index];

    *path = (struct cm_path){.sgid = source->gid,
                             .dgid = *dgid,
                             .ca_guid = be64toh(device_node_guid(d)),
                             .port = d->index,
                             .vlan = source->vlan,
                             .pkey = PKEY_DEFAULT,
                             .port_num = 1,
                             .gid_type = source->type,
                             .sgid_index = (uint8_t)sgid_index,
                             .hop_limit = HOP_LIMIT,
                             .rate = rate_code(d->info.speed_mbps),
                             .mtu = (uint8_t)device_mtu_code(d->info.mtu),
                             .packet_life_time = PACKET_LIFE_TIME,
                             .ack_delay = ACK_DELAY};
}

int cm_address_path(struct cm_object *o, struct cm_path *path)
{
    struct device *d = o->device;
    const struct gid_entry *e = &d->gids.entry[o->sgid_index];
    struct net_path net;
    int err;

    if (!is_own(o, e))
        return -EADDRNOTAVAIL; /* it has gone, and perhaps another has its entry */
    err = net_resolve(d, e, &o->dgid, &net);
    if (err)
        return err;
    cm_address_port_path(d, o->sgid_index, &o->dgid, path);
    path->mtu = min_of(path->mtu, (uint8_t)device_mtu_code(net.mtu));
    path->flow_label = entropy_flow_label_cm(o->src.number, o->dst.number);
    path->traffic_class = o->tos;
    path->sl = qos_tos_to_sl(&d->qos, o->tos);
    cm_route_apply(&o->route, path);
    if (o->has_ack_timeout && o->ack_timeout)
        path->packet_life_time = (uint8_t)(o->ack_timeout - 1);
    return 0;
}

static void put_path(const struct cm_object *o, const struct cm_path *p, struct ctl_cm_info *info)
{
    info->has_path = 1;
    info->flow_label = p->flow_label;
    info->sl = p->sl;
    info->traffic_class = p->traffic_class;
    info->hop_limit = p->hop_limit;
    info->rate = p->rate;
    info->mtu = p->mtu;
    info->packet_life_time = p->packet_life_time;
}

void cm_object_info(const struct cm_object *o, struct ctl_cm_info *info)
{
    const struct gid_entry *e;
    struct cm_path path;

    *info = (struct ctl_cm_info){.id = o->o.handle, .src = o->src, .dst = o->dst};
    if (!o->device || (o->searches && o->progress == CM_AT_QUERY))
        return;
    e = &o->device->gids.entry[o->sgid_index];
    info->has_device = 1;
    info->node_guid = device_node_guid(o->device);
    info->device = o->device->index;
    info->pkey = PKEY_DEFAULT;
    info->vlan = e->vlan;
    info->port_num = 1;
    info->gid_type = e->type;
    info->sgid_index = (uint8_t)o->sgid_index;
    memcpy(info->sgid, e->gid.raw, sizeof(info->sgid));
    memcpy(info->dgid, o->dgid.raw, sizeof(info->dgid));
    if (o->is_request)
        put_path(o, cm_id_path(o->id), info);
    else if (o->progress >= CM_AT_ADDRESS && !cm_address_path((struct cm_object *)o, &path))
        put_path(o, &path, info);
}
