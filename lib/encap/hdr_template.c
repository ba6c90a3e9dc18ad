/* SPDX-License-Identifier: BSD-3-Clause */
/* The headers that a connection's packets arrive with: see hdr_template.h. */
#include "hdr_template.h"

/* The template's share of the IP header's sum: all but length, identification, ECN and checksum. */
static void sum_constant_words(struct hdr_template *t)
{
    const uint8_t *b = (const uint8_t *)t->word;
    uint16_t word;

    t->ip_sum = 0;
    for (unsigned at = ETH_LEN; at < ETH_LEN + IPV4_LEN; at += sizeof(word)) {
        memcpy(&word, b + at, sizeof(word));
        t->ip_sum += word;
    }
}

void hdr_template_make(struct hdr_template *t, const struct encap_port *port,
                       const struct address_vector *av)
{
    uint8_t b[sizeof(t->word)] = {0};

    t->valid = false;
    if (port->promiscuous || av->gid_type != GID_TYPE_ROCE_V2 || av->vlan != VLAN_NONE ||
        !gid_is_ipv4(&av->sgid) || !gid_is_ipv4(&av->dgid))
        return;
    memcpy(b, port->mac, 6);
    put_be16(b + 12, ETHERTYPE_IPV4);
    b[ETH_LEN] = IPV4_VERSION_IHL;
    b[ETH_LEN + 9] = IP_PROTO_UDP;
    memcpy(b + ETH_LEN + 12, av->dgid.raw + 12, 4); /* from the peer */
    memcpy(b + ETH_LEN + 16, av->sgid.raw + 12, 4);
    put_be16(b + ETH_LEN + IPV4_LEN + 2, ROCE_UDP_PORT);
    put_be16(b + HDR_BTH + 2, PKEY_DEFAULT);
    memcpy(t->word, b, sizeof(b));
    t->own = av->sgid.word[1];
    t->sgid_index = av->sgid_index % GID_TABLE_MAX;
    t->valid = true;
    sum_constant_words(t);
}

void hdr_template_take(struct hdr_template *t, const uint8_t *frame)
{
    uint8_t *b = (uint8_t *)t->word;

    b[HDR_TRAFFIC_CLASS] = frame[HDR_TRAFFIC_CLASS] & (uint8_t)~ECN_MASK;
    memcpy(b + HDR_IP_FLAGS, frame + HDR_IP_FLAGS, 2);
    b[HDR_IP_TTL] = frame[HDR_IP_TTL];
    sum_constant_words(t);
}
