/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every field of a RoCE frame, and where its bits are: for tools and tests that compare frames, or
 * change a field in place. The packet path does neither: it works with struct encap_view and struct
 * pkt. Pure; any thread.
 */
#ifndef UROCE_FRAME_FIELD_H
#define UROCE_FRAME_FIELD_H

#include "encap.h"
#include "pkt.h"

/* X(header, bytes), in the order on the wire. */
#define FRAME_HEADERS(X)                     \
    X(ETH, 14)                               \
    X(VLAN, 4)                               \
    X(IPV4, 20)                              \
    X(IPV6, 40) /* also the GRH of RoCEv1 */ \
    X(UDP, 8)                                \
    X(BTH, 12)                               \
    X(DETH, 8)                               \
    X(XRCETH, 4)                             \
    X(FETH, 4)                               \
    X(RETH, 16)                              \
    X(ATOMICETH, 28)                         \
    X(AETH, 4)                               \
    X(ATOMICACKETH, 8)                       \
    X(IMM, 4)                                \
    X(IETH, 4)

enum frame_header {
#define X(header, bytes) FRAME_HEADER_##header,
    FRAME_HEADERS(X)
#undef X
        FRAME_HEADER_COUNT
};

/*
 * X(header, field, byte, bit, bits), in the order on the wire: the byte counts from the start of
 * the header, the bit from the byte's most significant one. Each bit of a header is in one row.
 */
#define FRAME_FIELDS(X)                 \
    X(ETH, dmac, 0, 0, 48)              \
    X(ETH, smac, 6, 0, 48)              \
    X(ETH, ethertype, 12, 0, 16)        \
    X(VLAN, pcp, 0, 0, 3)               \
    X(VLAN, dei, 0, 3, 1)               \
    X(VLAN, id, 0, 4, 12)               \
    X(VLAN, ethertype, 2, 0, 16)        \
    X(IPV4, version, 0, 0, 4)           \
    X(IPV4, ihl, 0, 4, 4)               \
    X(IPV4, dscp, 1, 0, 6)              \
    X(IPV4, ecn, 1, 6, 2)               \
    X(IPV4, total_length, 2, 0, 16)     \
    X(IPV4, id, 4, 0, 16)               \
    X(IPV4, flags, 6, 0, 3)             \
    X(IPV4, fragment_offset, 6, 3, 13)  \
    X(IPV4, ttl, 8, 0, 8)               \
    X(IPV4, protocol, 9, 0, 8)          \
    X(IPV4, checksum, 10, 0, 16)        \
    X(IPV4, src, 12, 0, 32)             \
    X(IPV4, dst, 16, 0, 32)             \
    X(IPV6, version, 0, 0, 4)           \
    X(IPV6, dscp, 0, 4, 6)              \
    X(IPV6, ecn, 1, 2, 2)               \
    X(IPV6, flow_label, 1, 4, 20)       \
    X(IPV6, payload_length, 4, 0, 16)   \
    X(IPV6, next_header, 6, 0, 8)       \
    X(IPV6, hop_limit, 7, 0, 8)         \
    X(IPV6, src, 8, 0, 128)             \
    X(IPV6, dst, 24, 0, 128)            \
    X(UDP, sport, 0, 0, 16)             \
    X(UDP, dport, 2, 0, 16)             \
    X(UDP, length, 4, 0, 16)            \
    X(UDP, checksum, 6, 0, 16)          \
    X(BTH, opcode, 0, 0, 8)             \
    X(BTH, solicited, 1, 0, 1)          \
    X(BTH, mig_req, 1, 1, 1)            \
    X(BTH, pad, 1, 2, 2)                \
    X(BTH, version, 1, 4, 4)            \
    X(BTH, pkey, 2, 0, 16)              \
    X(BTH, fecn, 4, 0, 1)               \
    X(BTH, becn, 4, 1, 1)               \
    X(BTH, reserved6, 4, 2, 6)          \
    X(BTH, dest_qpn, 5, 0, 24)          \
    X(BTH, ack_req, 8, 0, 1)            \
    X(BTH, reserved7, 8, 1, 7)          \
    X(BTH, psn, 9, 0, 24)               \
    X(DETH, qkey, 0, 0, 32)             \
    X(DETH, reserved, 4, 0, 8)          \
    X(DETH, src_qpn, 5, 0, 24)          \
    X(XRCETH, reserved, 0, 0, 8)        \
    X(XRCETH, srqn, 1, 0, 24)           \
    X(FETH, reserved, 0, 0, 26)         \
    X(FETH, selectivity, 3, 2, 2)       \
    X(FETH, placement, 3, 4, 4)         \
    X(RETH, va, 0, 0, 64)               \
    X(RETH, rkey, 8, 0, 32)             \
    X(RETH, len, 12, 0, 32)             \
    X(ATOMICETH, va, 0, 0, 64)          \
    X(ATOMICETH, rkey, 8, 0, 32)        \
    X(ATOMICETH, swap_add, 12, 0, 64)   \
    X(ATOMICETH, compare, 20, 0, 64)    \
    X(AETH, class, 0, 0, 3)             \
    X(AETH, value, 0, 3, 5)             \
    X(AETH, msn, 1, 0, 24)              \
    X(ATOMICACKETH, original, 0, 0, 64) \
    X(IMM, data, 0, 0, 32)              \
    X(IETH, rkey, 0, 0, 32)

enum frame_field {
#define X(header, field, byte, bit, bits) FRAME_##header##_##field,
    FRAME_FIELDS(X)
#undef X
        FRAME_FIELD_COUNT
};

/* Which headers a frame has, and where. */
struct frame_layout {
    bool has[FRAME_HEADER_COUNT];
    uint16_t at[FRAME_HEADER_COUNT]; /* bytes from the start of the frame */
};

/* The layout of a frame that encap_rx and pkt_parse accepted. */
void frame_layout(struct frame_layout *l, const uint8_t *frame, const struct encap_view *v,
                  const struct pkt *p);

/* The bits of a field in a frame. */
struct frame_bits {
    uint32_t byte; /* from the start of the frame */
    uint8_t bit;   /* below 8; from the byte's most significant one */
    uint8_t bits;
};

/* False if the frame does not have the field. */
bool frame_field_at(const struct frame_layout *l, enum frame_field field, struct frame_bits *at);

/* Writes a field of at most 64 bits, if the frame has it. The ICRC is the caller's. */
void frame_field_put(uint8_t *frame, const struct frame_layout *l, enum frame_field field,
                     uint64_t value);

#endif
