/* SPDX-License-Identifier: BSD-3-Clause */
/* What two ports tell each other: see peer_mad.h. */
#include "peer_mad.h"

#include <string.h>

#include "bytes.h"

#define OUI_AT        37
#define NAME_AT       40
#define FEATURES_AT   48
#define CLASS_VERSION 1

static const uint8_t oui[] = {0x02, 0x75, 0x72}; /* locally administered */
static const char name[8] = "uroce";

void peer_mad_ask(uint8_t *mad, uint64_t transaction, uint32_t features)
{
    memset(mad, 0, MAD_LEN);
    mad_set(mad, MAD_base_version, MAD_BASE_VERSION);
    mad_set(mad, MAD_mgmt_class, PEER_MAD_CLASS);
    mad_set(mad, MAD_class_version, CLASS_VERSION);
    mad_set(mad, MAD_method, MAD_GET);
    mad_set(mad, MAD_transaction_id, transaction);
    mad_set(mad, MAD_attribute_id, PEER_MAD_ATTRIBUTE);
    memcpy(mad + OUI_AT, oui, sizeof(oui));
    memcpy(mad + NAME_AT, name, sizeof(name));
    peer_mad_put(mad, features);
}

void peer_mad_put(uint8_t *mad, uint32_t features)
{
    put_be32(mad + FEATURES_AT, features);
}

bool peer_mad_read(const uint8_t *mad, uint32_t *features)
{
    if (mad_get(mad, MAD_class_version) != CLASS_VERSION || mad_get(mad, MAD_method) != MAD_GET ||
        mad_get(mad, MAD_attribute_id) != PEER_MAD_ATTRIBUTE ||
        mad_get(mad, MAD_status) != MAD_STATUS_OK || memcmp(mad + OUI_AT, oui, sizeof(oui)) ||
        memcmp(mad + NAME_AT, name, sizeof(name)))
        return false;
    *features = get_be32(mad + FEATURES_AT);
    return true;
}
