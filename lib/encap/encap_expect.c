/* SPDX-License-Identifier: BSD-3-Clause */
#include "encap_expect.h"

#include "encap_layout.h"
#include "pkt.h"

/* What the template has of the IP header: no length, identification or checksum. */
static void sum(struct encap_expect *x)
{
    const uint8_t *b = (const uint8_t *)x->word;
    uint16_t word;

    x->ip_sum = 0;
    for (unsigned at = ETH_LEN; at < ETH_LEN + IPV4_LEN; at += sizeof(word)) {
        memcpy(&word, b + at, sizeof(word));
        x->ip_sum += word;
    }
}

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
    put_be16(b + ENCAP_EXPECT_BTH + 2, PKEY_DEFAULT);
    memcpy(x->word, b, sizeof(b));
    x->own = av->sgid.word[1];
    x->sgid_index = av->sgid_index % GID_TABLE_MAX;
    x->some = true;
    sum(x);
}

void encap_expect_like(struct encap_expect *x, const uint8_t *frame)
{
    uint8_t *b = (uint8_t *)x->word;

    b[15] = frame[15]; /* traffic class */
    memcpy(b + 20, frame + 20, 2);
    b[22] = frame[22]; /* TTL */
    sum(x);
}
