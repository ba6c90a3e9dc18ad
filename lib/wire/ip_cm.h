/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA IP CM service (Annex A11): programs connect to IP addresses and port numbers. A port
 * number of a port space is a service ID, and the addresses are in front of the private data of REQ
 * and SIDR_REQ. Pure; any thread.
 */
#ifndef UROCE_IP_CM_H
#define UROCE_IP_CM_H

#include <stddef.h>

#include "bit_field.h"

/* Port spaces, as rdma_cm names them: the upper bits of a service ID. */
enum ip_cm_port_space {
    IP_CM_PS_NONE = 0, /* a service ID that is no port number */
    IP_CM_PS_IPOIB = 0x0002,
    IP_CM_PS_TCP = 0x0106,
    IP_CM_PS_UDP = 0x0111,
    IP_CM_PS_IB = 0x013F,
};

static inline uint64_t ip_cm_service_id(enum ip_cm_port_space ps, uint16_t port)
{
    return (uint64_t)ps << 16 | port;
}

/* The port space of a service ID, whose lower 16 bits are the port; or IP_CM_PS_NONE. */
enum ip_cm_port_space ip_cm_port_space_of(uint64_t service_id);

#define IP_CM_HEADER 36

/* X(field, byte, bit, bits): the header (A11.6.2). */
#define IP_CM_FIELDS(X)       \
    X(major_version, 0, 0, 4) \
    X(minor_version, 0, 4, 4) \
    X(ip_version, 1, 0, 4)    \
    X(src_port, 2, 0, 16)     \
    X(src_addr, 4, 0, 128)    \
    X(dst_addr, 20, 0, 128)

enum ip_cm_field {
#define X(field, byte, bit, bits) IP_CM_##field,
    IP_CM_FIELDS(X)
#undef X
        IP_CM_FIELD_COUNT
};

extern const struct bit_field ip_cm_fields[IP_CM_FIELD_COUNT];

/* A header. Addresses are GIDs, IPv4 ones as ::ffff:a.b.c.d. */
struct ip_cm_header {
    uint8_t ip_version; /* 4 or 6 */
    uint16_t src_port;
    uint8_t src_addr[16], dst_addr[16];
};

/* False: fewer than IP_CM_HEADER bytes, another major version than 0, or another IP version. */
bool ip_cm_parse(struct ip_cm_header *h, const uint8_t *p, size_t len);

/* Writes IP_CM_HEADER bytes. */
void ip_cm_build(uint8_t *p, const struct ip_cm_header *h);

#endif
