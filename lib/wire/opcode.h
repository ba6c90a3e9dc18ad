/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The BTH opcode table (volume 1, 9.2.1 and 9.3; Annexes A14 XRC, A17 CNP, A19 FLUSH and
 * ATOMIC WRITE). One row per opcode; everything that depends on an opcode is read from its
 * row. Constant data; any thread.
 */
#ifndef UROCE_OPCODE_H
#define UROCE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/** Transport service: the upper three bits of the opcode. */
enum pkt_service {
    PKT_RC = 0x00,
    PKT_UC = 0x20,
    PKT_RD = 0x40, /**< never on RoCE: every opcode is undefined */
    PKT_UD = 0x60,
    PKT_CNP = 0x80,
    PKT_XRC = 0xA0,
};
#define PKT_SERVICE_MASK 0xE0

/** Operation: the lower five bits, the same number in every service that has it. */
enum pkt_op {
    OP_SEND_FIRST = 0x00,
    OP_SEND_MIDDLE = 0x01,
    OP_SEND_LAST = 0x02,
    OP_SEND_LAST_IMM = 0x03,
    OP_SEND_ONLY = 0x04,
    OP_SEND_ONLY_IMM = 0x05,
    OP_WRITE_FIRST = 0x06,
    OP_WRITE_MIDDLE = 0x07,
    OP_WRITE_LAST = 0x08,
    OP_WRITE_LAST_IMM = 0x09,
    OP_WRITE_ONLY = 0x0A,
    OP_WRITE_ONLY_IMM = 0x0B,
    OP_READ_REQUEST = 0x0C,
    OP_READ_RESP_FIRST = 0x0D,
    OP_READ_RESP_MIDDLE = 0x0E,
    OP_READ_RESP_LAST = 0x0F,
    OP_READ_RESP_ONLY = 0x10,
    OP_ACK = 0x11,
    OP_ATOMIC_ACK = 0x12,
    OP_CMP_SWP = 0x13,
    OP_FETCH_ADD = 0x14,
    OP_SEND_LAST_INV = 0x16,
    OP_SEND_ONLY_INV = 0x17,
    OP_FLUSH = 0x1C,
    OP_ATOMIC_WRITE = 0x1D,
};
#define PKT_OP_MASK     0x1F
#define OPCODE_CNP      0x81
#define CNP_PAYLOAD     16 /* bytes, reserved */
#define OPCODE(svc, op) ((uint8_t)((svc) | (op)))

/** What kind of message a packet belongs to. */
enum pkt_kind {
    KIND_NONE, /**< undefined opcode */
    KIND_SEND,
    KIND_WRITE,
    KIND_READ_REQUEST,
    KIND_READ_RESPONSE,
    KIND_ACK,
    KIND_ATOMIC_ACK,
    KIND_CMP_SWP,
    KIND_FETCH_ADD,
    KIND_FLUSH,
    KIND_ATOMIC_WRITE,
    KIND_CNP,
};

/** Properties of a row. */
enum pkt_flag {
    PF_START = 1 << 0,    /**< first packet of its message (FIRST, ONLY) */
    PF_END = 1 << 1,      /**< last packet of its message (LAST, ONLY) */
    PF_REQUEST = 1 << 2,  /**< goes to the responder */
    PF_RESPONSE = 1 << 3, /**< goes to the completer */
    PF_PAYLOAD = 1 << 4,  /**< may carry payload */
    PF_DETH = 1 << 5,     /**< extension headers, in their order on the wire */
    PF_XRCETH = 1 << 6,
    PF_FETH = 1 << 7,
    PF_RETH = 1 << 8,
    PF_ATOMICETH = 1 << 9,
    PF_AETH = 1 << 10,
    PF_ATOMICACKETH = 1 << 11,
    PF_IMM = 1 << 12,
    PF_IETH = 1 << 13,
    PF_EXTENSIONS = PF_DETH | PF_XRCETH | PF_FETH | PF_RETH | PF_ATOMICETH | PF_AETH |
                    PF_ATOMICACKETH | PF_IMM | PF_IETH,
};

/** A row of the table. */
struct opcode_info {
    const char *name;    /**< "RC_SEND_FIRST"; NULL when undefined */
    uint16_t flags;      /**< enum pkt_flag */
    uint8_t kind;        /**< enum pkt_kind */
    uint8_t service;     /**< enum pkt_service */
    uint8_t header_len;  /**< bytes of BTH and extension headers */
    uint8_t payload_fix; /**< the payload's only legal length (ATOMIC WRITE 8, CNP 16), or 0: any */
};

/** The rows, indexed by the opcode. Those of undefined opcodes are zero. */
extern const struct opcode_info opcode_table[256];

/**
 * Whether an opcode is defined by the specification and known here.
 *
 * @param opcode  Any opcode.
 * @return  True when its row has a name.
 */
static inline bool opcode_is_defined(uint8_t opcode)
{
    return opcode_table[opcode].name != 0;
}

#endif
