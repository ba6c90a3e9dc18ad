/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames that the port itself heeds and sends. */
#include "ethdev_internal.h"

#include <errno.h>

static int set_mode(struct ethdev *d, enum pktio_pause pause)
{
    static const enum rte_eth_fc_mode mode[] = {
        [PKTIO_PAUSE_OFF] = RTE_ETH_FC_NONE,
        [PKTIO_PAUSE_RX] = RTE_ETH_FC_RX_PAUSE,
        [PKTIO_PAUSE_TX] = RTE_ETH_FC_TX_PAUSE,
        [PKTIO_PAUSE_BOTH] = RTE_ETH_FC_FULL,
    };
    struct rte_eth_fc_conf conf = {0};
    int ret = rte_eth_dev_flow_ctrl_get(d->port, &conf);

    if (ret)
        return ret;
    conf.mode = mode[pause];
    return rte_eth_dev_flow_ctrl_set(d->port, &conf);
}

/* Most virtual devices have no flow control. They neither need it turned off nor eat the frames
 * that the caller can heed. */
static bool may_be_missing(enum pktio_pause pause)
{
    return pause == PKTIO_PAUSE_OFF || pause == PKTIO_PAUSE_RX;
}

int ethdev_pause(struct ethdev *d, enum pktio_pause pause)
{
    int ret;

    if (pause == PKTIO_PAUSE_DEFAULT)
        return 0;
    ret = set_mode(d, pause);
    if (!ret)
        d->pause = pause;
    return ret == -ENOTSUP && may_be_missing(pause) ? 0 : ret;
}
