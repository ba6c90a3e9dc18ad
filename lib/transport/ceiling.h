/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A ceiling for what all engines of a port send together, as that of a slower link: whatever the
 * queue pairs, their services and their controllers, acknowledges too. What is held back stays in
 * the queue pairs, which take turns.
 */
#ifndef UROCE_CEILING_H
#define UROCE_CEILING_H

#include <stdint.h>

/** Opaque; for the engine_config.ceiling of each engine of the port. */
struct tx_ceiling;

/**
 * Create a ceiling. Any thread.
 *
 * @param rate  Bits per second, counted from the Ethernet header on; not 0. Bursts are what it
 * gives in 64 us, and one frame.
 * @return  The ceiling, which the caller destroys after the engines; NULL: out of memory.
 */
struct tx_ceiling *tx_ceiling_create(uint64_t rate);

/**
 * Destroy it. Any thread, when no engine uses it any more.
 *
 * @param c  The ceiling, or NULL.
 */
void tx_ceiling_destroy(struct tx_ceiling *c);

#endif
