/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames: see pause.h. */
#include "pause.h"

#include <string.h>

#include "bytes.h"
#include "encap_layout.h"

#define ETHERTYPE_MAC_CONTROL 0x8808
#define OPCODE_PAUSE          0x0001
#define OPCODE_PFC            0x0101

/* The type, and what follows the Ethernet header; PFC has a vector of priorities first. */
enum {
    TYPE_AT = ETH_LEN - 2,
    OPCODE_AT = ETH_LEN,
    QUANTA_AT = ETH_LEN + 2,
    PAUSE_LEN = QUANTA_AT + 2,
    VECTOR_AT = ETH_LEN + 2,
    PFC_QUANTA_AT = VECTOR_AT + 2,
    PFC_LEN = PFC_QUANTA_AT + 8 * 2,
};

static bool is_for(const uint8_t *frame, const uint8_t mac[6])
{
    static const uint8_t group[6] = {0x01, 0x80, 0xC2, 0x00, 0x00, 0x01};

    return !memcmp(frame, group, sizeof(group)) || !memcmp(frame, mac, sizeof(group));
}

static bool parse_pfc(struct pause *p, const uint8_t *frame, uint32_t len)
{
    if (len < PFC_LEN)
        return false;
    *p = (struct pause){.by_priority = true, .priorities = frame[VECTOR_AT + 1]};
    for (unsigned i = 0; i < 8; i++)
        p->quanta[i] = get_be16(frame + PFC_QUANTA_AT + 2 * i);
    return true;
}

bool pause_parse(struct pause *p, const uint8_t *frame, uint32_t len, const uint8_t mac[6])
{
    if (len < PAUSE_LEN || get_be16(frame + TYPE_AT) != ETHERTYPE_MAC_CONTROL ||
        !is_for(frame, mac))
        return false;
    if (get_be16(frame + OPCODE_AT) == OPCODE_PFC)
        return parse_pfc(p, frame, len);
    if (get_be16(frame + OPCODE_AT) != OPCODE_PAUSE)
        return false;
    *p = (struct pause){.quanta = {get_be16(frame + QUANTA_AT)}};
    return true;
}
