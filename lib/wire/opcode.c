/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of BTH opcodes: see opcode.h. */
#include "opcode.h"

/* Bytes on the wire of the BTH and of each extension header that the flags name. */
#define HAS(flags, flag, bytes) ((flags) & (flag) ? (bytes) : 0)
#define HEADER_LEN(f)                                                                            \
    (12 + HAS(f, PF_DETH, 8) + HAS(f, PF_XRCETH, 4) + HAS(f, PF_FETH, 4) + HAS(f, PF_RETH, 16) + \
     HAS(f, PF_ATOMICETH, 28) + HAS(f, PF_AETH, 4) + HAS(f, PF_ATOMICACKETH, 8) +                \
     HAS(f, PF_IMM, 4) + HAS(f, PF_IETH, 4))

#define ROW_FIX(svc, op, row_kind, row_flags, fix)                       \
    [OPCODE(PKT_##svc, OP_##op)] = {.name = #svc "_" #op,                \
                                    .flags = (row_flags),                \
                                    .kind = KIND_##row_kind,             \
                                    .service = PKT_##svc,                \
                                    .header_len = HEADER_LEN(row_flags), \
                                    .payload_fix = (fix)}
#define ROW(svc, op, row_kind, row_flags) ROW_FIX(svc, op, row_kind, row_flags, 0)

#define ONLY       (PF_START | PF_END)
#define REQ        PF_REQUEST
#define REQ_DATA   (PF_REQUEST | PF_PAYLOAD)
#define REPLY      PF_RESPONSE
#define REPLY_DATA (PF_RESPONSE | PF_PAYLOAD)

/* The opcodes that RC, UC and XRC share; eth: the extension header that the service adds to every
 * request. */
#define SEND_AND_WRITE(svc, eth)                                             \
    ROW(svc, SEND_FIRST, SEND, REQ_DATA | PF_START | (eth)),                 \
        ROW(svc, SEND_MIDDLE, SEND, REQ_DATA | (eth)),                       \
        ROW(svc, SEND_LAST, SEND, REQ_DATA | PF_END | (eth)),                \
        ROW(svc, SEND_LAST_IMM, SEND, REQ_DATA | PF_END | PF_IMM | (eth)),   \
        ROW(svc, SEND_ONLY, SEND, REQ_DATA | ONLY | (eth)),                  \
        ROW(svc, SEND_ONLY_IMM, SEND, REQ_DATA | ONLY | PF_IMM | (eth)),     \
        ROW(svc, WRITE_FIRST, WRITE, REQ_DATA | PF_START | PF_RETH | (eth)), \
        ROW(svc, WRITE_MIDDLE, WRITE, REQ_DATA | (eth)),                     \
        ROW(svc, WRITE_LAST, WRITE, REQ_DATA | PF_END | (eth)),              \
        ROW(svc, WRITE_LAST_IMM, WRITE, REQ_DATA | PF_END | PF_IMM | (eth)), \
        ROW(svc, WRITE_ONLY, WRITE, REQ_DATA | ONLY | PF_RETH | (eth)),      \
        ROW(svc, WRITE_ONLY_IMM, WRITE, REQ_DATA | ONLY | PF_RETH | PF_IMM | (eth))

/* The further opcodes of RC and XRC. Responses carry no eth: they go to the requester's QP. */
#define RELIABLE(svc, eth)                                                          \
    ROW(svc, READ_REQUEST, READ_REQUEST, REQ | ONLY | PF_RETH | (eth)),             \
        ROW(svc, READ_RESP_FIRST, READ_RESPONSE, REPLY_DATA | PF_START | PF_AETH),  \
        ROW(svc, READ_RESP_MIDDLE, READ_RESPONSE, REPLY_DATA),                      \
        ROW(svc, READ_RESP_LAST, READ_RESPONSE, REPLY_DATA | PF_END | PF_AETH),     \
        ROW(svc, READ_RESP_ONLY, READ_RESPONSE, REPLY_DATA | ONLY | PF_AETH),       \
        ROW(svc, ACK, ACK, REPLY | ONLY | PF_AETH),                                 \
        ROW(svc, ATOMIC_ACK, ATOMIC_ACK, REPLY | ONLY | PF_AETH | PF_ATOMICACKETH), \
        ROW(svc, CMP_SWP, CMP_SWP, REQ | ONLY | PF_ATOMICETH | (eth)),              \
        ROW(svc, FETCH_ADD, FETCH_ADD, REQ | ONLY | PF_ATOMICETH | (eth)),          \
        ROW(svc, SEND_LAST_INV, SEND, REQ_DATA | PF_END | PF_IETH | (eth)),         \
        ROW(svc, SEND_ONLY_INV, SEND, REQ_DATA | ONLY | PF_IETH | (eth)),           \
        ROW(svc, FLUSH, FLUSH, REQ | ONLY | PF_FETH | PF_RETH | (eth)),             \
        ROW_FIX(svc, ATOMIC_WRITE, ATOMIC_WRITE, REQ_DATA | ONLY | PF_RETH | (eth), 8)

const struct opcode_info opcode_table[256] = {
    SEND_AND_WRITE(RC, 0),
    RELIABLE(RC, 0),
    SEND_AND_WRITE(UC, 0),
    ROW(UD, SEND_ONLY, SEND, REQ_DATA | ONLY | PF_DETH),
    ROW(UD, SEND_ONLY_IMM, SEND, REQ_DATA | ONLY | PF_DETH | PF_IMM),
    SEND_AND_WRITE(XRC, PF_XRCETH),
    RELIABLE(XRC, PF_XRCETH),
    /* A CNP belongs to no message: it is neither request nor response. Its 16 bytes are reserved.
     */
    [OPCODE_CNP] = {.name = "CNP",
                    .flags = ONLY | PF_PAYLOAD,
                    .kind = KIND_CNP,
                    .service = PKT_CNP,
                    .header_len = HEADER_LEN(0),
                    .payload_fix = CNP_PAYLOAD},
};
