/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates of paths and address handles, as path records and the verbs API number them (volume 1,
 * 15.2.5.16; enum ibv_rate). */
#ifndef UROCE_STATIC_RATE_H
#define UROCE_STATIC_RATE_H

#include <stdint.h>

/* 1,000,000 bits per second; 0: no such code, as code 0, the rate of the port. */
uint32_t static_rate_mbps(uint32_t code);

#endif
