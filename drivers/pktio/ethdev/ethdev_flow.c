/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules that put the packets of one flow on a queue, before RSS. Control thread. */
#include "ethdev_internal.h"

#include <errno.h>
#include <rte_flow.h>
#include <rte_version.h>
#include <string.h>

#include "bytes.h"
#include "encap.h"

#define HAVE_BTH (RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0))

/* The pattern of a rule, header by header. */
struct match {
    struct rte_flow_item_ipv4 ipv4, ipv4_mask;
    struct rte_flow_item_ipv6 ipv6, ipv6_mask;
    struct rte_flow_item_udp udp, udp_mask;
#if HAVE_BTH
    struct rte_flow_item_ib_bth bth, bth_mask;
#endif
    struct rte_flow_item items[5];
    unsigned count;
};

static void add_item(struct match *m, enum rte_flow_item_type type, const void *spec,
                     const void *mask)
{
    m->items[m->count++] = (struct rte_flow_item){.type = type, .spec = spec, .mask = mask};
}

static void match_ipv4(struct match *m, const struct pktio_flow *flow, bool from)
{
    memcpy(&m->ipv4.hdr.dst_addr, flow->dst.raw + 12, 4);
    memset(&m->ipv4_mask.hdr.dst_addr, 0xFF, 4);
    if (from) {
        memcpy(&m->ipv4.hdr.src_addr, flow->src.raw + 12, 4);
        memset(&m->ipv4_mask.hdr.src_addr, 0xFF, 4);
    }
    add_item(m, RTE_FLOW_ITEM_TYPE_IPV4, &m->ipv4, &m->ipv4_mask);
}

static void match_ipv6(struct match *m, const struct pktio_flow *flow, bool from)
{
    memcpy(&m->ipv6.hdr.dst_addr, flow->dst.raw, 16);
    memset(&m->ipv6_mask.hdr.dst_addr, 0xFF, 16);
    if (from) {
        memcpy(&m->ipv6.hdr.src_addr, flow->src.raw, 16);
        memset(&m->ipv6_mask.hdr.src_addr, 0xFF, 16);
    }
    add_item(m, RTE_FLOW_ITEM_TYPE_IPV6, &m->ipv6, &m->ipv6_mask);
}

static void match_udp(struct match *m, uint16_t sport)
{
    m->udp.hdr.dst_port = rte_cpu_to_be_16(ROCE_UDP_PORT);
    m->udp_mask.hdr.dst_port = UINT16_MAX;
    if (sport) {
        m->udp.hdr.src_port = rte_cpu_to_be_16(sport);
        m->udp_mask.hdr.src_port = UINT16_MAX;
    }
    add_item(m, RTE_FLOW_ITEM_TYPE_UDP, &m->udp, &m->udp_mask);
}

static int match_qpn(struct match *m, uint32_t qpn)
{
#if HAVE_BTH
    put_be24(m->bth.hdr.dst_qp, qpn);
    memset(m->bth_mask.hdr.dst_qp, 0xFF, sizeof(m->bth_mask.hdr.dst_qp));
    add_item(m, RTE_FLOW_ITEM_TYPE_IB_BTH, &m->bth, &m->bth_mask);
    return 0;
#else
    return -ENOTSUP;
#endif
}

/* With a source port, addresses and ports identify the flow; without one, its QPN does. */
static int fill_match(struct match *m, const struct pktio_flow *flow)
{
    bool ipv4 = gid_is_ipv4(&flow->dst), from = flow->sport;
    int ret = 0;

    if (from && gid_is_ipv4(&flow->src) != ipv4)
        return -EINVAL;
    memset(m, 0, sizeof(*m));
    add_item(m, RTE_FLOW_ITEM_TYPE_ETH, NULL, NULL);
    if (ipv4)
        match_ipv4(m, flow, from);
    else
        match_ipv6(m, flow, from);
    match_udp(m, flow->sport);
    if (!from)
        ret = match_qpn(m, flow->dest_qpn);
    add_item(m, RTE_FLOW_ITEM_TYPE_END, NULL, NULL);
    return ret;
}

/* Maps the errors of rte_flow.h to -ENOSPC (no room), -ENOTSUP (never possible), and others. */
static int flow_error(int ret)
{
    switch (ret) {
    case -ENOMEM:
    case -ENOSPC:
        return -ENOSPC;
    case -EINVAL:
    case -ENOSYS:
    case -ENOTSUP:
        return -ENOTSUP;
    default:
        return ret < 0 ? ret : -EIO;
    }
}

int ethdev_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue, void **rule)
{
    static const struct rte_flow_attr attr = {.ingress = 1};
    struct rte_flow_action_queue to = {.index = (uint16_t)queue};
    struct rte_flow_action actions[] = {{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
                                        {.type = RTE_FLOW_ACTION_TYPE_END}};
    struct ethdev *d = ethdev_of(io);
    struct rte_flow_error error = {0};
    struct match m;
    int ret;

    if (queue >= d->queues)
        return -EINVAL;
    ret = fill_match(&m, flow);
    if (ret)
        return ret;
    ret = rte_flow_validate(d->port, &attr, m.items, actions, &error);
    if (ret)
        return flow_error(ret);
    atomic_store(&d->rss.steered, true);
    *rule = rte_flow_create(d->port, &attr, m.items, actions, &error);
    return *rule ? 0 : flow_error(-rte_errno);
}

void ethdev_flow_remove(struct pktio *io, void *rule)
{
    struct rte_flow_error error = {0};

    rte_flow_destroy(ethdev_of(io)->port, rule, &error);
}

void ethdev_flow_flush(struct ethdev *d)
{
    struct rte_flow_error error = {0};

    if (d->started && atomic_load(&d->rss.steered))
        rte_flow_flush(d->port, &error);
}
