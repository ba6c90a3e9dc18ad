/* SPDX-License-Identifier: BSD-3-Clause */
/* encap_tx where it is needed for packet after packet: inlined. Pure; any thread. */
#ifndef UROCE_ENCAP_PUT_H
#define UROCE_ENCAP_PUT_H

#include "common.h"
#include "encap.h"
#include "encap_layout.h"

/* Both copy in pieces of fixed size, the last of which overlaps: no call, no loop. */

static inline void encap_put_ipv4(uint8_t *frame, const struct encap_template *t, size_t bth_len,
                                  uint16_t ip_id)
{
    uint8_t *ip = frame + t->l3_off;
    uint32_t udp_len = (uint32_t)bth_len + UDP_LEN, ip_len = udp_len + IPV4_LEN;

    memcpy(frame, t->bytes, 32);
    memcpy(frame + t->len - 16, t->bytes + t->len - 16, 16); /* of 42 or 46 */
    put_be32(ip + 2, ip_len << 16 | ip_id);
    put_be16(ip + 10, (uint16_t)~sum_fold(t->ip_sum + ip_len + ip_id));
    put_be16(ip + IPV4_LEN + 4, (uint16_t)udp_len);
}

static inline void encap_put_ipv6(uint8_t *frame, const struct encap_template *t, size_t bth_len)
{
    uint8_t *ip = frame + t->l3_off;

    memcpy(frame, t->bytes, 48);
    memcpy(frame + t->len - 32, t->bytes + t->len - 32, 32); /* of 54 to 66 */
    if (t->l3_kind == ICRC_GRH) {
        put_be16(ip + 4, (uint16_t)bth_len);
        return;
    }
    put_be16(ip + 4, (uint16_t)(bth_len + UDP_LEN));
    put_be16(ip + IPV6_LEN + 4, (uint16_t)(bth_len + UDP_LEN));
}

static inline void encap_put(uint8_t *frame, const struct encap_template *t, size_t bth_len,
                             uint16_t ip_id)
{
    if (likely(t->l3_kind == ICRC_IPV4))
        encap_put_ipv4(frame, t, bth_len, ip_id);
    else
        encap_put_ipv6(frame, t, bth_len);
}

#endif
