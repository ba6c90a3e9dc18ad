/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to lib/wire: the ICRC of short packets, and of the part of long ones that holds the
 * masked fields, by carry-less multiplication (x86). */
#ifndef UROCE_ICRC_SHORT_H
#define UROCE_ICRC_SHORT_H

#include "icrc.h"

#define ICRC_SIZE      4
#define ICRC_HEAD_LEN  64  /* includes all masked fields of every kind */
#define ICRC_SHORT_LEN 256 /* above, ISA-L is faster: it folds several streams at a time */

/* The bits that count as ones, by offset from the network header. */
extern const uint8_t icrc_mask[3][ICRC_HEAD_LEN + 16];

/* Whether this CPU has the instructions. */
bool icrc_short_is_fast(void);

/* The ICRC of len bytes, a multiple of four from 40 on; any CRC-32 can continue it. Requires
 * icrc_short_is_fast. */
uint32_t icrc_short(enum icrc_l3 kind, const uint8_t *l3, size_t len);

/* icrc_verify_batch and icrc_seal_batch (frames up to ICRC_SHORT_LEN); icrc_short_is_fast. */
unsigned icrc_short_verify_batch(enum icrc_l3 kind, const struct icrc_span *s, unsigned n);

void icrc_short_seal_batch(enum icrc_l3 kind, size_t l3_off, const struct frame *f, unsigned n);

/* From this payload length on, icrc_seal_copy copies and computes in one pass. */
#define ICRC_COPY_LEN 512

/* icrc_seal_copy as a CPU without AVX-512 executes it; for tests. */
void icrc_seal_copy_narrow(enum icrc_l3 kind, uint8_t *l3, size_t head_len, const uint8_t *from,
                           size_t len);

#endif
