/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of a packet's headers, in place: for code that handles many packets of one kind, whose
 * lengths are known to be sound. All other code works with a struct pkt (pkt.h). Offsets are those
 * of volume 1, 9.2 (BTH) and 9.3 (the others). Pure; any thread.
 */
#ifndef UROCE_BTH_H
#define UROCE_BTH_H

#include "bytes.h"
#include "pkt.h"

#define RETH_LEN       16
#define DETH_LEN       8
#define AETH_LEN       4
#define IMM_LEN        4
#define FETH_LEN       4
#define XRCETH_LEN     4
#define ATOMIC_ETH_LEN 28

/* ---- BTH: opcode, flags and P_Key | destination QPN | AckReq and PSN, four bytes each ---- */

#define BTH_QPN_OFF 5 /* three bytes */
#define BTH_PSN_OFF 9 /* three bytes */

#define BTH_SOLICITED (UINT32_C(1) << 23) /* in the first word */
#define BTH_PAD_SHIFT 20
#define BTH_ACK_REQ   (UINT32_C(1) << 31) /* in the last word */

/* The first word, in the default partition; flags: BTH_SOLICITED or 0. */
static inline uint32_t bth_first_word(uint8_t opcode, uint32_t flags, unsigned pad)
{
    return (uint32_t)opcode << 24 | flags | (uint32_t)pad << BTH_PAD_SHIFT | PKEY_DEFAULT;
}

static inline void bth_put_flow(uint8_t *bth, uint32_t first_word, uint32_t dest_qpn)
{
    put_be32(bth, first_word);
    put_be32(bth + 4, dest_qpn);
}

/* The last word: a PSN, perhaps with BTH_ACK_REQ. */
static inline void bth_put_last_word(uint8_t *bth, uint32_t word)
{
    put_be32(bth + 8, word);
}

static inline uint8_t bth_opcode(const uint8_t *bth)
{
    return bth[0];
}

static inline bool bth_is_solicited(const uint8_t *bth)
{
    return bth[1] >> 7;
}

static inline unsigned bth_pad(const uint8_t *bth)
{
    return bth[1] >> 4 & 3;
}

static inline uint32_t bth_dest_qpn(const uint8_t *bth)
{
    return get_be24(bth + BTH_QPN_OFF);
}

static inline bool bth_wants_ack(const uint8_t *bth)
{
    return bth[8] & 0x80;
}

static inline psn_t bth_psn(const uint8_t *bth)
{
    return psn(get_be24(bth + BTH_PSN_OFF));
}

/* Destination QPN and PSN as one number: the next packet's is one more, until the PSN wraps around.
 */
#define BTH_POSITION_MASK UINT64_C(0x00FFFFFF00FFFFFF)
static inline uint64_t bth_position(const uint8_t *bth)
{
    return get_be64(bth + 4) & BTH_POSITION_MASK;
}

static inline uint64_t bth_position_of(uint32_t dest_qpn, psn_t p)
{
    return (uint64_t)dest_qpn << 32 | p.v;
}

/* The payload of a packet, or the ICRC of one without. */
static inline const uint8_t *bth_payload(const uint8_t *bth)
{
    return bth + opcode_table[bth[0]].header_len;
}

/* ---- XRCETH: the SRQ, behind the BTH of XRC requests ---- */

static inline uint32_t xrceth_word(const uint8_t *xrceth)
{
    return get_be32(xrceth);
}

static inline uint32_t xrceth_srqn(const uint8_t *xrceth)
{
    return get_be24(xrceth + 1);
}

static inline void xrceth_put(uint8_t *xrceth, uint32_t srqn)
{
    put_be32(xrceth, srqn & 0xFFFFFF);
}

/* ---- RETH: virtual address, R_Key, DMA length ---- */

static inline uint64_t reth_va(const uint8_t *reth)
{
    return get_be64(reth);
}

static inline uint32_t reth_rkey(const uint8_t *reth)
{
    return get_be32(reth + 8);
}

static inline uint32_t reth_len(const uint8_t *reth)
{
    return get_be32(reth + 12);
}

static inline void reth_put(uint8_t *reth, uint64_t va, uint32_t rkey, uint32_t len)
{
    put_be64(reth, va);
    put_be32(reth + 8, rkey);
    put_be32(reth + 12, len);
}

/* ---- FETH: selectivity level, placement type; a RETH follows ---- */

static inline uint8_t feth_selectivity(const uint8_t *feth)
{
    return feth[3] >> 4 & 0x3;
}

static inline uint8_t feth_placement(const uint8_t *feth)
{
    return feth[3] & 0xF;
}

static inline void feth_put(uint8_t *feth, uint8_t selectivity, uint8_t placement)
{
    put_be32(feth, (selectivity & 0x3u) << 4 | (placement & 0xFu));
}

/* ---- DETH: Q_Key, source QPN ---- */

static inline uint32_t deth_qkey(const uint8_t *deth)
{
    return get_be32(deth);
}

static inline uint32_t deth_src_qpn(const uint8_t *deth)
{
    return get_be24(deth + 5);
}

static inline void deth_put(uint8_t *deth, uint32_t qkey, uint32_t src_qpn)
{
    put_be32(deth, qkey);
    put_be32(deth + 4, src_qpn);
}

/* ---- AETH: syndrome, MSN ---- */

static inline uint8_t aeth_syndrome(const uint8_t *aeth)
{
    return aeth[0];
}

static inline uint32_t aeth_msn(const uint8_t *aeth)
{
    return get_be24(aeth + 1);
}

static inline void aeth_put(uint8_t *aeth, uint8_t syndrome, uint32_t msn)
{
    put_be32(aeth, (uint32_t)syndrome << 24 | (msn & PSN_MASK));
}

/* ---- AtomicETH: virtual address, R_Key, swap or add, compare ---- */

static inline uint64_t atomic_eth_va(const uint8_t *eth)
{
    return get_be64(eth);
}

static inline uint32_t atomic_eth_rkey(const uint8_t *eth)
{
    return get_be32(eth + 8);
}

static inline uint64_t atomic_eth_swap_add(const uint8_t *eth)
{
    return get_be64(eth + 12);
}

static inline uint64_t atomic_eth_compare(const uint8_t *eth)
{
    return get_be64(eth + 20);
}

static inline void atomic_eth_put(uint8_t *eth, uint64_t va, uint32_t rkey, uint64_t swap_add,
                                  uint64_t compare)
{
    put_be64(eth, va);
    put_be32(eth + 8, rkey);
    put_be64(eth + 12, swap_add);
    put_be64(eth + 20, compare);
}

/* ---- AtomicAckETH: the value before ---- */

static inline uint64_t atomic_ack_original(const uint8_t *eth)
{
    return get_be64(eth);
}

static inline void atomic_ack_put(uint8_t *eth, uint64_t original)
{
    put_be64(eth, original);
}

#endif
