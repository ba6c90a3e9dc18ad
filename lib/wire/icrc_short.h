/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the ICRC: short packets, and the part of long ones that holds the masked fields, by
 * carry-less multiplication (x86). */
#ifndef UROCE_ICRC_SHORT_H
#define UROCE_ICRC_SHORT_H

#include "icrc.h"

#define ICRC_SIZE      4
#define ICRC_HEAD_LEN  64  /* of every kind it holds all masked fields */
#define ICRC_SHORT_LEN 256 /* above, ISA-L's several sums at a time are faster */

/* The bits that are taken as ones, by offset from the network header. */
extern const uint8_t icrc_mask[3][ICRC_HEAD_LEN + 16];

/* Whether this CPU has the instructions. */
bool icrc_short_is_fast(void);

/* The ICRC of so many bytes, a multiple of four from 40 on; it continues as any CRC-32. Only where
 * it is fast. */
uint32_t icrc_short(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/* icrc_verify_batch, where it is fast. */
unsigned icrc_short_verify_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n);
/* icrc_seal_batch, of frames that are as short as that. */
void icrc_short_seal_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f, unsigned n);

/* icrc_seal_copy copies and sums up in one pass from here on; less is not worth it. */
#define ICRC_MOVE_LEN 512

/* icrc_seal_copy as on a CPU without AVX-512. */
void icrc_seal_copy_narrow(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                           size_t len);

#endif
