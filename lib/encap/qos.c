/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps of service levels and code points: see qos.h. */
#include "qos.h"

#include "encap_layout.h"

void qos_map_default(struct qos_map *m)
{
    for (unsigned i = 0; i < 16; i++)
        m->sl_to_pcp[i] = m->priority_to_sl[i] = i & 7;
    for (unsigned i = 0; i < 64; i++)
        m->dscp[i] = (uint8_t)i;
}

uint8_t qos_tos_to_priority(uint8_t tos)
{
    /* Best effort, bulk, interactive, interactive bulk, by the four TOS bits of RFC 1349. The lower
     * bits of a code point have the same positions. */
    static const uint8_t priority[16] = {0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4};

    return priority[(tos & 0x1E) >> 1];
}

uint8_t qos_tos_to_sl(const struct qos_map *m, uint8_t tos)
{
    return m->priority_to_sl[qos_tos_to_priority(tos)];
}

uint8_t qos_traffic_class(const struct qos_map *m, uint8_t traffic_class)
{
    return (uint8_t)(m->dscp[traffic_class >> 2] << 2 | (traffic_class & ECN_MASK));
}
