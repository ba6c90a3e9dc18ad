/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What rsockets put on the wire; pure. doc/rsockets.md describes the protocol.
 *
 * Streams exchange a hello as private data of the connection. Then each end writes into the
 * buffers that the other one has announced, and every message is the immediate data of an RDMA
 * WRITE. Datagrams have a header of one form over UDP, and one of another form over UD.
 */
#ifndef UROCE_RS_WIRE_H
#define UROCE_RS_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- messages of streams: immediate data ---- */

enum rs_msg {
    RS_MSG_DATA = 0, /* bytes written into the announced buffer */
    RS_MSG_CREDITS =
        4,            /* until which message the peer may send; a buffer may have been announced */
    RS_MSG_IOMAP = 6, /* which entry of the peer's iomap table was written */
    RS_MSG_CONTROL = 7, /* enum rs_control */
};

enum rs_control {
    RS_DISCONNECT = 0, /* the sender neither sends nor receives any more */
    RS_KEEPALIVE = 1,
    RS_SHUTDOWN = 2, /* the sender sends no more */
};

#define RS_MSG_BITS      29
#define RS_MSG_VALUE_MAX ((1u << RS_MSG_BITS) - 1)

static inline uint32_t rs_msg_imm(enum rs_msg kind, uint32_t value)
{
    return (uint32_t)kind << RS_MSG_BITS | (value & RS_MSG_VALUE_MAX);
}

static inline enum rs_msg rs_msg_kind(uint32_t imm)
{
    return (enum rs_msg)(imm >> RS_MSG_BITS);
}

static inline uint32_t rs_msg_value(uint32_t imm)
{
    return imm & RS_MSG_VALUE_MAX;
}

/* ---- tables that the peer writes: in the byte order of their owner ---- */

/* A buffer that may be written; length 0: none. */
struct rs_buffer {
    uint64_t addr;
    uint32_t key;
    uint32_t length;
};

/* An entry of an iomap table: a buffer for the offsets from offset on. */
struct rs_iomap {
    uint64_t offset;
    struct rs_buffer buffer;
};

_Static_assert(sizeof(struct rs_buffer) == 16 && sizeof(struct rs_iomap) == 24, "as on the wire");

/* Swaps the fields' bytes when the owner's order is not ours. */
void rs_buffer_to_peer(struct rs_buffer *b, bool big_endian);
void rs_iomap_to_peer(struct rs_iomap *m, bool big_endian);
bool rs_host_big_endian(void);

/* ---- the hello ---- */

#define RS_HELLO_SIZE 40

struct rs_hello {
    bool big_endian;         /* byte order of the tables */
    uint16_t credits;        /* messages that the peer may send at first */
    uint32_t iomap_entries;  /* behind the buffer table */
    struct rs_buffer table;  /* of announced buffers; length: entries */
    struct rs_buffer buffer; /* the first announced buffer */
};

void rs_hello_write(uint8_t *to, const struct rs_hello *h);

/* -EPROTO: not a hello that we can work with. */
int rs_hello_read(struct rs_hello *h, const void *from, size_t length);

/* The number of iomap entries that the hello can express: n or a few less. */
uint32_t rs_iomap_entries_round(uint32_t n);

/* ---- datagrams ---- */

enum rs_dgram_op {
    RS_DGRAM_DATA = 0,
    RS_DGRAM_CONTROL = 7, /* answers with the queue pair number */
};

/* Before the data of a datagram in UDP: asks the receiver to use our queue pair. */
struct rs_udp_header {
    enum rs_dgram_op op;
    uint32_t qpn;
    struct sockaddr_storage addr; /* of the sender's queue pair; IPv4 or IPv6 */
};

/* Before the data of a datagram in UD: its source address and port. */
#define RS_UDP_HEADER_MAX 28
#define RS_UD_HEADER_MAX  24

size_t rs_udp_header_write(uint8_t *to, const struct rs_udp_header *h);
/* The header's length, or -EPROTO. */
int rs_udp_header_read(struct rs_udp_header *h, const uint8_t *from, size_t length);
size_t rs_ud_header_size(int family);
size_t rs_ud_header_write(uint8_t *to, const struct sockaddr_storage *source);
/* scope: of the address that has received it; that of a link-local source, too. */
int rs_ud_header_read(struct sockaddr_storage *source, uint32_t scope, const uint8_t *from,
                      size_t length);

#endif
