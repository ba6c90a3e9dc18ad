/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the fields of a frame's headers are, for tests that forge and damage frames. */
#ifndef UROCE_TEST_FRAME_LAYOUT_H
#define UROCE_TEST_FRAME_LAYOUT_H

#include "encap_layout.h"

/* In each header. */
enum field_offset {
    ETH_DMAC_OFF = 0,
    ETH_SMAC_OFF = 6,
    ETH_TYPE_OFF = 12, /* without a tag */
    TAG_TCI_OFF = 14,  /* with one */
    TAG_TYPE_OFF = 16,

    IPV4_TOS_OFF = 1,
    IPV4_TOTAL_OFF = 2, /* the total length */
    IPV4_ID_OFF = 4,
    IPV4_FRAGMENT_OFF = 6, /* DF, MF, the fragment's offset */
    IPV4_TTL_OFF = 8,
    IPV4_PROTO_OFF = 9,
    IPV4_SUM_OFF = 10,
    IPV4_SRC_OFF = 12,
    IPV4_DST_OFF = 16,

    IPV6_PAYLOAD_OFF = 4, /* the payload's length */
    IPV6_NEXT_OFF = 6,
    IPV6_SRC_OFF = 8,
    IPV6_DST_OFF = 24,

    UDP_SPORT_OFF = 0,
    UDP_DPORT_OFF = 2,
    UDP_LENGTH_OFF = 4,

    ARP_OP_OFF = 6,
    ARP_SHA_OFF = 8,
    ARP_SPA_OFF = 14,
    ARP_THA_OFF = 18,
    ARP_TPA_OFF = 24,
};

/* In a frame without a tag, of an IPv4 packet without options; a RoCEv2 packet, if it is one. */
enum frame_offset {
    AT_IP = ETH_LEN,
    AT_IP_TOS = AT_IP + IPV4_TOS_OFF,
    AT_IP_TOTAL = AT_IP + IPV4_TOTAL_OFF,
    AT_IP_ID = AT_IP + IPV4_ID_OFF,
    AT_IP_FRAGMENT = AT_IP + IPV4_FRAGMENT_OFF,
    AT_IP_TTL = AT_IP + IPV4_TTL_OFF,
    AT_IP_SUM = AT_IP + IPV4_SUM_OFF,
    AT_UDP = AT_IP + IPV4_LEN,
    AT_UDP_SPORT = AT_UDP + UDP_SPORT_OFF,
    AT_UDP_DPORT = AT_UDP + UDP_DPORT_OFF,
    AT_UDP_LENGTH = AT_UDP + UDP_LENGTH_OFF,
    AT_BTH = AT_UDP + UDP_LEN,
    AT_BTH_OPCODE = AT_BTH,
    AT_BTH_FLAGS = AT_BTH + 1, /* solicited event, MigReq, pad count, version */
    AT_BTH_PKEY = AT_BTH + 2,
    AT_BTH_ACK_REQ = AT_BTH + 8, /* its highest bit */
    AT_BTH_PSN = AT_BTH + 9,     /* three bytes */
    AT_BTH_END = AT_BTH + 12,
    AT_RETH = AT_BTH_END,
    AT_RETH_RKEY = AT_RETH + 8,
    AT_RETH_LENGTH = AT_RETH + 12,
    AT_RETH_END = AT_RETH + 16,
    AT_AETH = AT_BTH_END,
    AT_AETH_MSN = AT_AETH + 1, /* three bytes */
    AT_AETH_END = AT_AETH + 4,
};

#endif
