/* SPDX-License-Identifier: BSD-3-Clause */
/* What a receiver of datagrams gets besides the payload (A17.4.5.2). */
#ifndef UROCE_RESP_DATAGRAM_H
#define UROCE_RESP_DATAGRAM_H

#include "completion.h"
#include "encap.h"
#include "encap_layout.h"

/*
 * RoCE carries no service level. A tag's priority is one; otherwise the CQE says what the network
 * header is, as NICs do: UCX reads it there, and drops datagrams whose header it takes for another.
 */
static inline uint8_t resp_service_level(enum icrc_l3 kind, uint16_t vlan_tci)
{
    static const uint8_t kinds[] = {
        [ICRC_IPV4] = CQE_SL_IPV4, [ICRC_IPV6] = CQE_SL_IPV6, [ICRC_GRH] = 0};

    if (vlan_tci != VLAN_NONE && vlan_tci >> 13)
        return (uint8_t)(vlan_tci >> 13);
    return kinds[kind];
}

/* What the CQEs of datagrams say of the network header and the tag. */
static inline void resp_datagram_cqe(struct cqe *c, enum icrc_l3 kind, uint16_t vlan_tci)
{
    c->wc_flags |= WC_GRH;
    c->sl = resp_service_level(kind, vlan_tci);
    c->vlan = vlan_tci == VLAN_NONE ? VLAN_NONE : vlan_tci & VLAN_ID_MASK;
}

#endif
