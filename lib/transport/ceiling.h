/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A ceiling for what all engines of a port send together, as that of a slower link: whatever the
 * queue pairs, their services and their controllers, acknowledges too. Also where a port that hands
 * up pause frames (IEEE 802.3, annex 31B) has them heeded. What is held back stays in the queue
 * pairs, which take turns.
 */
#ifndef UROCE_CEILING_H
#define UROCE_CEILING_H

#include "common.h"

/** Opaque; for the engine_config.ceiling of each engine of the port. */
struct tx_ceiling;

/**
 * Create a ceiling. Any thread.
 *
 * @param rate  Bits per second, counted from the Ethernet header on; 0: any. Bursts are what it
 *     gives in 64 us, and one frame.
 * @param pause_line  Bits per second of the link to which the quanta of pause frames refer; 0:
 *     pause frames are frames as others.
 * @return  The ceiling, which the caller destroys after the engines; NULL: out of memory.
 */
struct tx_ceiling *tx_ceiling_create(uint64_t rate, uint64_t pause_line);

/** What pause frames have done. */
struct tx_pauses {
    uint64_t frames;          /**< received */
    uint64_t ns;              /**< for which the port has paused */
    uint64_t priority_frames; /**< received, of PFC */
};

/**
 * What pause frames have done so far. Any thread.
 *
 * @param c  The ceiling.
 * @param now  The time of the engines.
 * @return  The numbers, which do not go back.
 */
struct tx_pauses tx_ceiling_pauses(struct tx_ceiling *c, ns_t now);

/**
 * Destroy it. Any thread, when no engine uses it any more.
 *
 * @param c  The ceiling, or NULL.
 */
void tx_ceiling_destroy(struct tx_ceiling *c);

#endif
