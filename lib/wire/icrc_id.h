/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The IPv4 identification that a packet was sealed with. The ICRC covers it (Annex A17.3.3), and a
 * UDP socket does not tell it. Pure; any thread.
 */
#ifndef UROCE_ICRC_ID_H
#define UROCE_ICRC_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Find the identification, and whether fragments were forbidden, by the ICRC, and write both into
 * the header.
 *
 * A CRC is linear: what another identification changes in it depends on the change and on the
 * number of bytes behind it. Each of the 2^17 headers that come into question has an ICRC of its
 * own, so a packet with any other error is accepted with a probability of 2^-15: the caller needs
 * something else that finds errors, as the UDP checksum.
 *
 * @param ip  The first byte of the IPv4 header, without options; identification and flags may be
 *     anything, and are as before when there is no answer. The fragment offset is zero.
 * @param len  Bytes from there through the ICRC; a multiple of four.
 * @return  True when the ICRC fits now; the header's checksum does not.
 */
bool icrc_find_id(uint8_t *ip, size_t len);

#endif
