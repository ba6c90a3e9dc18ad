/* SPDX-License-Identifier: BSD-3-Clause */
/* Acts on received neighbour solicitations and advertisements. */
#include "nd.h"

#include "net_internal.h"

struct nd_options {
    const uint8_t *source, *target; /* MACs, or NULL */
};

static bool read_options(struct nd_options *o, const uint8_t *p, uint32_t len)
{
    *o = (struct nd_options){0};
    while (len) {
        uint32_t size = len < ND_OPTION ? 0 : p[1] * 8u;

        if (!size || size > len)
            return false;
        if (size == ND_OPTION && p[0] == ND_OPTION_SOURCE_MAC)
            o->source = p + 2;
        if (size == ND_OPTION && p[0] == ND_OPTION_TARGET_MAC)
            o->target = p + 2;
        p += size;
        len -= size;
    }
    return (!o->source || inet_mac_is_host(o->source)) &&
           (!o->target || inet_mac_is_host(o->target));
}

/* Answers the solicitation rx for target. mac: the sender's if the solicitation names it, or NULL.
 */
static void answer_solicitation(struct net_host *h, const struct inet_rx *rx,
                                const union gid *target, const uint8_t *mac)
{
    /* RFC 4429 3.3 */
    bool override = address_find(&h->addresses, target, rx->vlan)->state == NET_PREFERRED;

    if (gid_is_zero(&rx->src)) {
        nd_advertise(&h->port, rx->vlan, target, NULL, NULL, override);
        return;
    }
    if (!mac)
        mac = ncache_mac(&h->neighbours, &rx->src, rx->vlan);
    /* Without a known MAC, the frame's source is where the sender is; there is no need to solicit.
     */
    nd_advertise(&h->port, rx->vlan, target, &rx->src, mac ? mac : rx->smac, override);
}

static enum inet_verdict rx_solicit(struct net_host *h, const struct inet_rx *rx,
                                    const union gid *target, const struct nd_options *o, ns_t now)
{
    bool probe = gid_is_zero(&rx->src);
    struct own_address *own = address_find(&h->addresses, target, rx->vlan);

    if (probe) {
        union gid group = inet_solicited_node(target);

        /* 7.1.1 */
        if (o->source || !gid_eq(&rx->dst, &group))
            return INET_MALFORMED;
        if (own && own->phase == ADDRESS_DETECTING) {
            address_conflict(h, own, now);
            return INET_OK;
        }
    }
    if (!address_is_usable(&h->addresses, target, rx->vlan))
        return INET_IGNORED;
    if (!probe && address_is_usable(&h->addresses, &rx->src, rx->vlan))
        return INET_IGNORED; /* another host sends from an address of ours */
    if (o->source && net_port_has_mac(&h->port, o->source))
        return INET_IGNORED;
    if (o->source)
        ncache_learn(&h->neighbours, &rx->src, rx->vlan, o->source, false, true, now);
    if (!address_is_quiet(&h->addresses, own))
        answer_solicitation(h, rx, target, o->source);
    return INET_OK;
}

static enum inet_verdict rx_advertise(struct net_host *h, const struct inet_rx *rx,
                                      const union gid *target, const struct nd_options *o, ns_t now)
{
    uint8_t flags = rx->data[4];
    struct own_address *own = address_find(&h->addresses, target, rx->vlan);

    if (gid_is_multicast(&rx->dst) && (flags & ND_SOLICITED))
        return INET_MALFORMED; /* 7.1.2 */
    if (own && own->state != NET_DUPLICATE) {
        address_conflict(h, own, now);
        return INET_OK;
    }
    if (o->target && net_port_has_mac(&h->port, o->target))
        return INET_IGNORED;
    ncache_advertised(&h->neighbours, target, rx->vlan, o->target, flags & ND_SOLICITED,
                      flags & ND_OVERRIDE, now);
    return INET_OK;
}

enum inet_verdict nd_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    struct nd_options options;
    union gid target;

    h->port.count.nd_rx++;
    if (rx->hop_limit != ND_HOPS || rx->data[1] || rx->len < ND_LEN ||
        !read_options(&options, rx->data + ND_LEN, rx->len - ND_LEN))
        return INET_MALFORMED;
    memcpy(target.raw, rx->data + 8, 16);
    if (!inet_is_unicast(&target) || gid_is_ipv4(&target))
        return INET_MALFORMED;
    return rx->data[0] == ND_SOLICIT ? rx_solicit(h, rx, &target, &options, now)
                                     : rx_advertise(h, rx, &target, &options, now);
}
