/* SPDX-License-Identifier: BSD-3-Clause */
/* See net_port.h. */
#include "net_port.h"

bool net_port_send(struct net_port *p, const uint8_t *frame, uint32_t len)
{
    if (!p->link || !len)
        return false;
    p->cfg.ops->send(p->cfg.ctx, frame, len);
    return true;
}

bool net_port_send_ip(struct net_port *p, const struct inet_tx *tx, const uint8_t *message,
                      uint32_t len)
{
    uint8_t frame[INET_FRAME_ROOM];

    return net_port_send(p, frame, inet_build(frame, p->cfg.mac, tx, message, len));
}

ns_t net_port_random(struct net_port *p, ns_t limit)
{
    return random_below(&p->random, (uint32_t)(limit / NS_PER_US)) * NS_PER_US;
}

bool net_port_has_mac(const struct net_port *p, const uint8_t mac[6])
{
    return !memcmp(mac, p->cfg.mac, 6);
}
