/* SPDX-License-Identifier: BSD-3-Clause */
/* See ip_cm.h. */
#include "ip_cm.h"

#include <string.h>

#define X(field, byte, bit, bits) [IP_CM_##field] = {#field, byte, bits, bit},
const struct bit_field ip_cm_fields[IP_CM_FIELD_COUNT] = {IP_CM_FIELDS(X)};
#undef X

/* An IPv4 address is in the last four bytes of its field, behind zeros. */
#define IPV4_AT 12

enum ip_cm_port_space ip_cm_port_space_of(uint64_t service_id)
{
    switch (service_id >> 16) {
    case IP_CM_PS_IPOIB:
    case IP_CM_PS_TCP:
    case IP_CM_PS_UDP:
    case IP_CM_PS_IB:
        return (enum ip_cm_port_space)(service_id >> 16);
    default:
        return IP_CM_PS_NONE;
    }
}

static void load_address(uint8_t gid[16], const uint8_t *field, uint8_t ip_version)
{
    memcpy(gid, field, 16);
    if (ip_version == 4) {
        memset(gid, 0, IPV4_AT - 2);
        memset(gid + IPV4_AT - 2, 0xFF, 2);
    }
}

static void store_address(uint8_t *field, const uint8_t gid[16], uint8_t ip_version)
{
    memcpy(field, gid, 16);
    if (ip_version == 4)
        memset(field, 0, IPV4_AT);
}

bool ip_cm_parse(struct ip_cm_header *h, const uint8_t *p, size_t len)
{
    if (len < IP_CM_HEADER || bit_field_get(p, &ip_cm_fields[IP_CM_major_version]))
        return false;
    h->ip_version = (uint8_t)bit_field_get(p, &ip_cm_fields[IP_CM_ip_version]);
    if (h->ip_version != 4 && h->ip_version != 6)
        return false;
    h->src_port = (uint16_t)bit_field_get(p, &ip_cm_fields[IP_CM_src_port]);
    load_address(h->src_addr, p + ip_cm_fields[IP_CM_src_addr].byte, h->ip_version);
    load_address(h->dst_addr, p + ip_cm_fields[IP_CM_dst_addr].byte, h->ip_version);
    return true;
}

void ip_cm_build(uint8_t *p, const struct ip_cm_header *h)
{
    memset(p, 0, IP_CM_HEADER);
    bit_field_put(p, &ip_cm_fields[IP_CM_ip_version], h->ip_version);
    bit_field_put(p, &ip_cm_fields[IP_CM_src_port], h->src_port);
    store_address(p + ip_cm_fields[IP_CM_src_addr].byte, h->src_addr, h->ip_version);
    store_address(p + ip_cm_fields[IP_CM_dst_addr].byte, h->dst_addr, h->ip_version);
}
