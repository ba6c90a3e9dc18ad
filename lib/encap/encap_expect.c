/* SPDX-License-Identifier: BSD-3-Clause */
#include "encap_expect.h"

#include "encap_layout.h"

void encap_expect_make(struct encap_expect *x, const struct encap_port *port,
                       const struct address_vector *av)
{
    uint8_t b[sizeof(x->word)] = {0};

    x->some = false;
    if (port->promiscuous || av->gid_type != GID_TYPE_ROCE_V2 || av->vlan != VLAN_NONE ||
        !gid_is_ipv4(&av->sgid) || !gid_is_ipv4(&av->dgid))
        return;
    memcpy(b, port->mac, 6);
    put_be16(b + 12, ETHERTYPE_IPV4);
    b[14] = IPV4_VERSION_IHL;
    b[14 + 9] = IP_PROTO_UDP;
    memcpy(b + 14 + 12, av->dgid.raw + 12, 4); /* from the peer */
    memcpy(b + 14 + 16, av->sgid.raw + 12, 4);
    put_be16(b + 14 + IPV4_LEN + 2, ROCE_UDP_PORT);
    memcpy(x->word, b, sizeof(b));
    x->some = true;
}
