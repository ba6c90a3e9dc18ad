/* SPDX-License-Identifier: BSD-3-Clause */
/* Pause frames: MAC control frames of IEEE 802.3, annex 31B. Pure; any thread. */
#ifndef UROCE_PAUSE_H
#define UROCE_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/* A quantum is the time of this many bits. */
#define PAUSE_QUANTUM_BITS 512

/* Whether a frame of any length asks the port with this MAC to pause: sent to the port or to the
 * MAC control group, without a tag. *quanta: for how long from now on; 0: not any longer. */
bool pause_parse(uint16_t *quanta, const uint8_t *frame, uint32_t len, const uint8_t mac[6]);

#endif
