/* SPDX-License-Identifier: BSD-3-Clause */
#include "roce_frame.h"

#include <string.h>

#include "encap.h"

#define BTH_LEN 12

struct roce_flow roce_flow_number(unsigned n, bool ipv6)
{
    struct roce_flow f = {.smac = {2, 0, 0, 0, 0, 1},
                          .dmac = {2, 0, 0, 0, 0, 2},
                          .sport = (uint16_t)(0xC000 + n * 7),
                          .dest_qpn = 0x100 + n};

    gid_parse(&f.src, ipv6 ? "fd00::1" : "10.0.0.1");
    gid_parse(&f.dst, ipv6 ? "fd00::2" : "10.0.0.2");
    return f;
}

uint32_t roce_frame_write(uint8_t out[ROCE_FRAME_MAX], const struct roce_flow *flow,
                          uint32_t number)
{
    struct address_vector av = {.sgid = flow->src,
                                .dgid = flow->dst,
                                .gid_type = GID_TYPE_ROCE_V2,
                                .vlan = flow->tagged ? 5 : VLAN_NONE,
                                .hop_limit = 64,
                                .udp_sport = flow->sport};
    size_t body = BTH_LEN + 4 + 4;
    struct encap_template t;
    uint8_t *bth;

    memcpy(av.smac, flow->smac, 6);
    memcpy(av.dmac, flow->dmac, 6);
    if (encap_template_make(&t, &av))
        return 0;
    bth = out + encap_tx(out, &t, body, 0);
    memset(bth, 0, body);
    put_be32(bth + 4, flow->dest_qpn);
    put_be32(bth + BTH_LEN, number);
    return (uint32_t)encap_seal(out, &t, body);
}

uint32_t roce_frame_number(const uint8_t *frame, uint32_t len)
{
    return get_be32(frame + len - 8);
}

struct rss_frame roce_flow_tuple(const struct roce_flow *flow)
{
    return (struct rss_frame){
        .tuple = {.src = flow->src, .dst = flow->dst, .sport = flow->sport, .dport = ROCE_UDP_PORT},
        .dest_qpn = flow->dest_qpn};
}
