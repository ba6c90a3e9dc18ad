/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The map of kept packets: an extension of the project's own behind the AETH of an ACK or NAK,
 * which a responder sends to a requester that has agreed to it, and to no other. It says which
 * requests behind a gap the responder has. The length of the packet says that it is there. Pure;
 * any thread.
 *
 * Layout on the wire: duplicates 1 | first PSN 3 | 1 to 8 words of 8 bytes. Bit b of byte i of the
 * words is set if the request with PSN first + 8 * i + b is kept. `first` is the PSN that the
 * responder expects, whatever the packet's own PSN is: an ACK may be of less. Words behind the last
 * one that has a bit are left out.
 *
 * In a NAK with the code NAK_LOSSES the bits mean the reverse: the request is lost, because its
 * headers came without its payload (frame_trim.h). Each such copy is told of once. Requesters that
 * know of no such maps ignore it.
 */
#ifndef UROCE_KEPT_MAP_H
#define UROCE_KEPT_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "psn.h"

#define KEPT_MAP_HEAD    4
#define KEPT_MAP_WORDS   8
#define KEPT_MAP_PACKETS (64 * KEPT_MAP_WORDS) /**< PSNs that a map is about, at most */
#define KEPT_MAP_MAX_LEN (KEPT_MAP_HEAD + 8 * KEPT_MAP_WORDS)

/** A map as values. */
struct kept_map {
    psn_t first;
    uint8_t duplicates; /**< requests that came again though they were not missing, modulo 256 */
    unsigned words;     /**< 1 to KEPT_MAP_WORDS */
    uint64_t bits[KEPT_MAP_WORDS]; /**< bit i % 64 of word i / 64: PSN first + i is kept */
};

/**
 * Whether a map may be as long.
 *
 * @param len  Bytes behind the AETH, without the ICRC.
 * @return  True for the lengths of 1 to KEPT_MAP_WORDS words.
 */
static inline bool kept_map_len_ok(size_t len)
{
    return len > KEPT_MAP_HEAD && len <= KEPT_MAP_MAX_LEN && !((len - KEPT_MAP_HEAD) & 7);
}

/**
 * The length of a map on the wire.
 *
 * @param m  The map.
 * @return  Bytes, a multiple of four.
 */
static inline uint32_t kept_map_len(const struct kept_map *m)
{
    return KEPT_MAP_HEAD + 8 * m->words;
}

/**
 * Whether nothing is kept.
 *
 * @param m  The map.
 * @return  True if no bit is set.
 */
static inline bool kept_map_is_empty(const struct kept_map *m)
{
    uint64_t any = 0;

    for (unsigned i = 0; i < KEPT_MAP_WORDS; i++)
        any |= m->bits[i];
    return !any;
}

/**
 * Read a map.
 *
 * @param m  Set; bits of words that are not there are 0.
 * @param bytes  The bytes behind the AETH.
 * @param len  How many: kept_map_len_ok() is true for it.
 */
void kept_map_parse(struct kept_map *m, const uint8_t *bytes, size_t len);

/**
 * Write a map.
 *
 * @param bytes  Where it begins, with room for KEPT_MAP_MAX_LEN bytes.
 * @param m  The map; its number of words is from 1 to KEPT_MAP_WORDS.
 * @return  Its length in bytes, a multiple of four.
 */
size_t kept_map_build(uint8_t *bytes, const struct kept_map *m);

#endif
