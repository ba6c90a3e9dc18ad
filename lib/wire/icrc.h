/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC (Annex A17.3.3; volume 1, 7.8.1): CRC-32 over eight bytes of ones and then the
 * packet from its network header to the last pad byte, with the fields that change on the way
 * taken as ones. Stored least significant byte first, right behind the pad. Pure; any thread.
 */
#ifndef UROCE_ICRC_H
#define UROCE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

enum icrc_l3 {
    ICRC_IPV4, /* 20 + 8 bytes before the BTH */
    ICRC_IPV6, /* 40 + 8 */
    ICRC_GRH,  /* RoCEv1: 40 */
};

/* The ICRC of len bytes at l3 (network header to the last pad byte; at least the headers and BTH).
 */
uint32_t icrc_compute(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/* The same by a bit-at-a-time loop over a masked copy: slow, obvious, for tests. */
uint32_t icrc_reference(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/* Computes the ICRC of len bytes at l3 and stores it at l3 + len. */
void icrc_seal(enum icrc_l3 kind, uint8_t *l3, size_t len);

/*
 * The same for a packet whose payload, len bytes, is still at `from`: copies it to l3 + head_len,
 * pads it to four bytes, and stores the ICRC behind it. Each byte is read once: what else writes
 * there meanwhile may choose what is sent, not make its ICRC wrong.
 */
void icrc_seal_copy(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                    size_t len);

/* The same for n whole frames, at least one, of the same length: l3_off bytes into each is its
 * network header, and the ICRC is its last four bytes. They are the same up to the BTH's PSN, and
 * from the network header to the ICRC a multiple of four bytes. */
void icrc_seal_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f, unsigned n);

/* Whether the last four of len bytes at l3 are the ICRC of those before. False if len is too short.
 */
bool icrc_verify(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/* A packet from its network header through its ICRC. */
struct icrc_span {
    const uint8_t *l3;
    struct icrc_size {
        uint16_t len; /* headers, BTH and ICRC at least, and a multiple of four */
        uint16_t own; /* the caller's */
        bool alike;   /* as long as the one before, and the same up to the BTH's P_Key */
    } size;
};

/* How many of the n packets, from the first one on, have the right ICRC. */
unsigned icrc_verify_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n);

#endif
