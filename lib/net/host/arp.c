/* SPDX-License-Identifier: BSD-3-Clause */
/* Acts on received ARP packets: conflicts (RFC 5227), neighbours, requests for our addresses. */
#include "arp.h"

#include "bytes.h"

#include "net_internal.h"

/* True: the packet's sender, or the target of its probe, was an address of ours. */
static bool handle_conflict(struct net_host *h, const union gid *spa, const union gid *tpa,
                            uint16_t vlan, ns_t now)
{
    bool probe = inet_is_unspecified(spa);
    struct own_address *o = address_find(&h->addresses, probe ? tpa : spa, vlan);

    /* A probe for an address in use is a request that the host answers. */
    if (!o || o->state == NET_DUPLICATE || (probe && o->phase != ADDRESS_DETECTING))
        return false;
    address_conflict(h, o, now);
    return true;
}

enum inet_verdict arp_rx(struct net_host *h, const struct inet_rx *rx, ns_t now)
{
    const uint8_t *arp = rx->data, *sha = arp + 8;
    bool aimed, request;
    union gid spa, tpa;

    if (rx->len < ARP_LEN || !inet_rest_is_padding(ARP_LEN, rx->len))
        return INET_MALFORMED;
    h->port.count.arp_rx++;
    if (memcmp(arp, arp_fixed, ARP_FIXED_LEN))
        return INET_IGNORED; /* of another protocol or medium */
    request = get_be16(arp + 6) == ARP_REQUEST;
    if (!request && get_be16(arp + 6) != ARP_REPLY)
        return INET_IGNORED;
    if (net_port_has_mac(&h->port, sha))
        return INET_IGNORED; /* our own packet, reflected */
    spa = gid_from_ipv4(arp + 14);
    tpa = gid_from_ipv4(arp + 24);
    if (!inet_mac_is_host(sha) || (!inet_is_unspecified(&spa) && !inet_is_unicast(&spa)))
        return INET_MALFORMED;
    if (handle_conflict(h, &spa, &tpa, rx->vlan, now))
        return INET_OK;
    aimed = address_is_usable(&h->addresses, &tpa, rx->vlan);
    if (!inet_is_unspecified(&spa))
        ncache_learn(&h->neighbours, &spa, rx->vlan, sha,
                     !request && net_port_has_mac(&h->port, rx->dmac), request && aimed, now);
    if (!request || !aimed)
        return request ? INET_IGNORED : INET_OK;
    if (!address_is_quiet(&h->addresses, address_find(&h->addresses, &tpa, rx->vlan)))
        arp_reply(&h->port, rx->vlan, &tpa, sha, &spa);
    return INET_OK;
}
