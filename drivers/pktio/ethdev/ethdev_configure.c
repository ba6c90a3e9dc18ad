/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of a port: RSS, interrupts and offloads. */
#include "ethdev_internal.h"

#include <rte_log.h>

/* Removes one optional request from a configuration that the port has refused. */
static void drop_one_request(struct ethdev *d, struct rte_eth_conf *conf)
{
    if (conf->intr_conf.rxq) {
        conf->intr_conf.rxq = 0;
    } else if (d->link_events) {
        d->link_events = false;
        conf->intr_conf.lsc = 0;
    } else {
        conf->rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
        conf->rxmode.offloads &= ~RTE_ETH_RX_OFFLOAD_RSS_HASH;
        conf->rx_adv_conf.rss_conf = (struct rte_eth_rss_conf){0};
        d->rss.on = false;
    }
}

/* quiet: a refusal is expected, and DPDK must not log it as an error. */
static int try_configure(struct ethdev *d, const struct rte_eth_conf *conf, bool quiet)
{
    uint32_t log_level = rte_log_get_global_level();
    uint16_t queues = (uint16_t)d->queues;
    int ret;

    if (quiet)
        rte_log_set_global_level(RTE_LOG_CRIT);
    ret = rte_eth_dev_configure(d->port, queues, queues, conf);
    rte_log_set_global_level(log_level);
    return ret;
}

/*
 * Requests RSS, receive interrupts and link interrupts, as far as the port has them. A driver that
 * accepts every frame length may still report a short maximum; it then gets no MTU.
 */
int ethdev_configure(struct ethdev *d, const struct rte_eth_dev_info *info)
{
    struct rte_eth_conf conf = {.rxmode.mtu = d->mtu, .intr_conf.rxq = 1};
    int ret;

    if (d->mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN > info->max_rx_pktlen)
        conf.rxmode.mtu = 0;
    d->link_events =
        !ethdev_kernel_tells(d) && !d->kind->late_events && *info->dev_flags & RTE_ETH_DEV_INTR_LSC;
    conf.intr_conf.lsc = d->link_events;
    /* The engine checks every IPv4 header, so a port that finds bad ones saves work. A driver that
     * checks in software would only read the header, and its payload, a second time. */
    if (!d->kind->soft_checksum)
        conf.rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
    /* With this offload net_vhost does not complete a guest's partial checksums. */
    if (d->kind->partial_checksum)
        conf.rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    ethdev_rss_configure(d, info, &conf);
    for (;;) {
        bool less = conf.intr_conf.rxq || d->link_events || d->rss.on;

        ret = try_configure(d, &conf, less);
        if (!ret || !less)
            return ret;
        drop_one_request(d, &conf);
    }
}
