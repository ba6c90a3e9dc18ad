/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One transport packet (BTH to ICRC) as a flat value: parsed once, after which no accessor can
 * read past the bytes; built from values, never by patching fields. Pure; any thread.
 *
 * Layout on the wire (volume 1, 9.2-9.3): BTH 12 | extension headers | payload | pad 0-3 | ICRC 4.
 */
#ifndef UROCE_PKT_H
#define UROCE_PKT_H

#include <stddef.h>

#include "drop.h"
#include "opcode.h"
#include "psn.h"

#define BTH_LEN        12
#define ICRC_LEN       4
#define PKT_MAX_HEADER (BTH_LEN + 4 + 28 + 4) /**< BTH, XRCETH, AtomicETH; with slack */
#define PKT_MTU_MIN    256
#define PKT_MTU_MAX    4096
#define PKEY_DEFAULT   0xFFFF
#define QPN_MULTICAST  0xFFFFFF

/** AETH syndrome (volume 1, 9.3.5): bits 7:5 the class, 4:0 credit, timer or NAK code. Other
 * classes than these, all with bit 7 among them, are reserved. */
#define AETH_CLASS_MASK  0xE0
#define AETH_ACK         0x00
#define AETH_RNR         0x20
#define AETH_NAK         0x60
#define AETH_VALUE_MASK  0x1F
#define AETH_CREDIT_NONE 0x1F /**< no end-to-end credits */

/** NAK codes (volume 1, 9.7.5.2.8). */
enum nak_code {
    NAK_PSN_SEQUENCE = 0,
    NAK_INVALID_REQUEST = 1,
    NAK_REMOTE_ACCESS = 2,
    NAK_REMOTE_OPERATIONAL = 3,
    NAK_INVALID_RD_REQUEST = 4,
    NAK_LOSSES = 30, /**< a reserved code: only with a map (kept_map.h), to peers that agreed */
};

/** FETH (A19.2.2): what a FLUSH makes sure of, bits of the placement type. */
enum { FETH_GLOBAL = 1, FETH_PERSISTENT = 2 };

/** FETH: for how much, the selectivity level. */
enum { FETH_RANGE = 0, FETH_REGION = 1 };

/**
 * A transport packet as values. pkt_parse() sets the fields that the opcode's row has;
 * pkt_build_headers() reads those and no others.
 */
struct pkt {
    /* BTH */
    uint8_t opcode;
    uint8_t pad; /**< computed from payload_len when building */
    bool solicited, mig_req, ack_req, fecn, becn;
    uint16_t pkey;
    uint32_t dest_qpn;
    psn_t psn;
    /* Extension headers: valid when the opcode's row has the flag. */
    struct {
        uint64_t va;
        uint32_t rkey, len;
    } reth;
    struct {
        uint64_t va, swap_add, compare;
        uint32_t rkey;
    } atomic;
    struct {
        uint8_t syndrome;
        uint32_t msn;
    } aeth;
    uint64_t atomic_ack; /**< original remote data */
    uint32_t imm;        /**< immediate data, host order of the big-endian field */
    uint32_t ieth_rkey;
    struct {
        uint32_t qkey, src_qpn;
    } deth;
    uint32_t xrc_srqn;
    struct {
        uint8_t placement, selectivity;
    } feth;
    const uint8_t *payload; /**< parse: into the parsed bytes; build: ignored */
    uint32_t payload_len;
};

/**
 * The opcode's row.
 *
 * @param p  A packet; its opcode may be any.
 * @return  The row, constant; its name is NULL for an undefined opcode.
 */
static inline const struct opcode_info *pkt_info(const struct pkt *p)
{
    return &opcode_table[p->opcode];
}

/**
 * Pad bytes that make a payload a multiple of four.
 *
 * @param payload_len  The payload's length in bytes.
 * @return  0 to 3.
 */
static inline unsigned pkt_pad(uint32_t payload_len)
{
    return -payload_len & 3;
}

/**
 * The length of a packet on the wire, from the BTH through the ICRC.
 *
 * @param opcode  A defined opcode.
 * @param payload_len  The payload's length in bytes, without pad.
 * @return  The length in bytes.
 */
static inline size_t pkt_len(uint8_t opcode, uint32_t payload_len)
{
    return opcode_table[opcode].header_len + payload_len + pkt_pad(payload_len) + ICRC_LEN;
}

/**
 * Parse a packet, from the BTH through the ICRC; the ICRC is not verified here (icrc_verify).
 * Clauses C9-7, C9-34, 9.6.1.
 *
 * @param p  Set when the packet is good, its payload then leads into the bytes at bth; undefined
 *     otherwise.
 * @param bth  The first byte of the BTH; borrowed as long as p's payload is used.
 * @param len  Bytes at bth; no byte behind them is read.
 * @return  DROP_NONE; DROP_truncated: shorter than the opcode's headers and the ICRC;
 *     DROP_unknown_opcode; DROP_transport_version; or DROP_pad_length: the pad exceeds what follows
 *     the headers, a packet without payload has some, a fixed-size payload has another size, or a
 *     FIRST or MIDDLE packet carries a pad. What an ACK carries as a payload has the length of a
 * map of kept packets (kept_map.h); whether its receiver has agreed to that is not known here.
 */
enum drop pkt_parse(struct pkt *p, const uint8_t *bth, size_t len);

/**
 * Write BTH and extension headers. Reserved bits are written as zero.
 *
 * @param bth  Where the BTH begins, with room for PKT_MAX_HEADER bytes.
 * @param p  The packet; its opcode must be defined. The pad count follows from payload_len, and
 *     payload and pad are not read.
 * @return  The headers' length in bytes, opcode_table[p->opcode].header_len.
 */
size_t pkt_build_headers(uint8_t *bth, const struct pkt *p);

/**
 * Write the pad behind a payload. The ICRC comes right behind the pad (icrc_seal).
 *
 * @param payload  The payload's first byte, with room for the payload and up to three bytes more.
 * @param payload_len  The payload's length in bytes.
 * @return  The pad's length, 0 to 3.
 */
unsigned pkt_build_pad(uint8_t *payload, uint32_t payload_len);

/**
 * Format a packet in one line, for people and for tests that compare by text: "RC_WRITE_ONLY qp
 * 0x000011 psn 1193046 ack va 0x7f.. rkey 0x3ab9 dma 64 len 64".
 *
 * @param out  The text, always terminated when size is not 0.
 * @param size  Room at out in bytes.
 * @param p  The packet; of its payload a map of kept packets alone is read.
 * @return  The length that the text would have with room enough, as snprintf returns it.
 */
int pkt_format(char *out, size_t size, const struct pkt *p);

#endif
