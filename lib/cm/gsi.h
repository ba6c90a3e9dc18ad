/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the general services interface (queue pair 1) answers to MADs that are no messages of the
 * communication manager (13.4.5 to 13.4.8, 13.5): requests for ClassPortInfo of that class, and a
 * status for every other request. cm_rx() uses it; a host with more classes looks at them first.
 * Pure; any thread.
 */
#ifndef UROCE_GSI_H
#define UROCE_GSI_H

#include <stddef.h>

#include "mad.h"

/** Capabilities in the manager's ClassPortInfo (16.7.3.1). */
#define GSI_CM_RELIABLE_CONNECTIONS   (1u << 9)
#define GSI_CM_UNRELIABLE_CONNECTIONS (1u << 12)
#define GSI_CM_SIDR                   (1u << 13)

/**
 * Answer a MAD.
 *
 * @param answer  Set: MAD_LEN bytes.
 * @param mad  The MAD, no message of the communication manager.
 * @param len  Its length, any.
 * @return  False: it is not whole, a response, or of a method that has no response; nothing is to
 *     be sent.
 */
bool gsi_answer(uint8_t *answer, const uint8_t *mad, size_t len);

/**
 * Whether a MAD is a REQ of another class version, which a REJ answers.
 *
 * @param mad  The MAD, no message of the communication manager.
 * @param len  Its length, any.
 * @return  True when it is.
 */
bool gsi_is_req_of_another_version(const uint8_t *mad, size_t len);

#endif
