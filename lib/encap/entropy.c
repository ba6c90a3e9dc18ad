/* SPDX-License-Identifier: BSD-3-Clause */
#include "entropy.h"

#define FLOW_LABEL_MASK UINT32_C(0xFFFFF)
#define QPN_MULTICAST   UINT32_C(0xFFFFFF)

uint16_t entropy_port_kernel(uint32_t flow_label, uint32_t src_qpn, uint32_t dest_qpn)
{
    uint32_t fl = flow_label & FLOW_LABEL_MASK;

    if (!fl) {
        uint64_t v = (uint64_t)src_qpn * dest_qpn;

        v ^= v >> 20;
        v ^= v >> 40;
        fl = (uint32_t)v & FLOW_LABEL_MASK;
    }
    return (uint16_t)((fl & 0x3FFF) ^ (fl >> 14)) | ENTROPY_PORT_MIN;
}

uint32_t entropy_flow_label_cm(uint16_t src_port, uint16_t dest_port)
{
    return ((uint32_t)src_port * 31 + dest_port) & FLOW_LABEL_MASK;
}

/* A QPN's low 16 bits with its third byte folded into the first. */
static uint16_t folded(uint32_t qpn)
{
    return (uint16_t)(qpn ^ (qpn >> 16 & 0xFF));
}

uint16_t entropy_port_rfc_rc(uint32_t src_qpn, uint32_t dest_qpn)
{
    uint16_t port = folded(src_qpn);

    if (src_qpn != dest_qpn)
        port ^= folded(dest_qpn);
    return port | ENTROPY_PORT_MIN;
}

uint16_t entropy_port_rfc_ud(uint32_t src_qpn, uint32_t dest_qpn)
{
    if (dest_qpn == QPN_MULTICAST)
        return folded(src_qpn) | ENTROPY_PORT_MIN;
    return entropy_port_rfc_rc(src_qpn, dest_qpn);
}

uint16_t entropy_port_rfc_cm(uint16_t src_port, uint16_t dest_port)
{
    return (src_port ^ dest_port) | ENTROPY_PORT_MIN;
}
