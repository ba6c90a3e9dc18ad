/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Enhanced connection establishment (verbs: struct ibv_ece; CM: vendor ID and options of REQ and
 * REP): what two queue pairs of uroce agree on before they are connected. The options of other
 * vendors mean nothing here. Ours have a mark, since other software may use the same vendor ID,
 * which is a locally administered one.
 */
#ifndef UROCE_ECE_H
#define UROCE_ECE_H

#include <stdint.h>

#define ECE_VENDOR     0x020000u /* the device's vendor_id: 24 bits */
#define ECE_VENDOR_MAX 0xFFFFFFu

#define ECE_MARK      0x75720000u
#define ECE_MARK_MASK 0xFFFF0000u

/* Features. */
#define ECE_KEPT_MAPS 1u /* NAKs carry maps of kept packets: selective repeat */

/* In ctl_modify_qp.ece, beside features: the program, or the CM, has said what was agreed on. */
#define ECE_SAID 0x80000000u

static inline uint32_t ece_options(uint32_t features)
{
    return ECE_MARK | features;
}

/* The features that a vendor ID and options name; 0: none, or not ours. */
static inline uint32_t ece_features(uint32_t vendor, uint32_t options)
{
    return vendor == ECE_VENDOR && (options & ECE_MARK_MASK) == ECE_MARK ? options & ECE_KEPT_MAPS
                                                                         : 0;
}

#endif
