/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames: see pause.h. */
#include "pause.h"

#include <string.h>

#include "bytes.h"
#include "encap_layout.h"

#define ETHERTYPE_MAC_CONTROL 0x8808
#define OPCODE_PAUSE          1

/* The type, and what follows the Ethernet header. */
enum {
    TYPE_AT = ETH_LEN - 2,
    OPCODE_AT = ETH_LEN,
    QUANTA_AT = ETH_LEN + 2,
    PAUSE_LEN = ETH_LEN + 4
};

bool pause_parse(uint16_t *quanta, const uint8_t *frame, uint32_t len, const uint8_t mac[6])
{
    static const uint8_t group[6] = {0x01, 0x80, 0xC2, 0x00, 0x00, 0x01};

    if (len < PAUSE_LEN || get_be16(frame + TYPE_AT) != ETHERTYPE_MAC_CONTROL ||
        get_be16(frame + OPCODE_AT) != OPCODE_PAUSE)
        return false;
    if (memcmp(frame, group, sizeof(group)) && memcmp(frame, mac, sizeof(group)))
        return false;
    *quanta = get_be16(frame + QUANTA_AT);
    return true;
}
