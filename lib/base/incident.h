/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What failed lately: a ring with one writer that overwrites the oldest record, and that any thread
 * may read concurrently. A record stays when its queue pair and its program are gone.
 */
#ifndef UROCE_INCIDENT_H
#define UROCE_INCIDENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "cause.h"

#define INCIDENTS 256 /* a power of two */

enum incident_kind {
    INCIDENT_SEND = 1, /* a work request of the send queue failed */
    INCIDENT_REQUEST,  /* a request of the peer failed, or what the application has for it */
    INCIDENT_DROPPED,  /* a message was dropped, or is to wait: the queue pair goes on */
    INCIDENT_CALL,     /* no work request: a call of the program failed, or its memory */
    INCIDENT_KINDS,
};

/* Counters of a queue pair that tell something about a failure: X(name). */
#define INCIDENT_COUNTERS(X) \
    X(tx_packets)            \
    X(rx_packets)            \
    X(retransmits)           \
    X(timeouts)              \
    X(probes)                \
    X(rnr_nak_sent)          \
    X(rnr_nak_rcvd)          \
    X(seq_nak_sent)          \
    X(seq_nak_rcvd)          \
    X(duplicate_request)     \
    X(out_of_sequence)       \
    X(rx_discards)

/* Whose a queue pair is. */
struct incident_program {
    uint32_t pid, uid;
    char comm[16];
};

struct incident {
    uint64_t time; /* ns */
    uint64_t wr_id;
    uint64_t detail[CAUSE_DETAILS]; /* what each is: cause.def */
    uint64_t silent;                /* ns since a packet of the peer is known to have come; 0: ? */
    uint8_t dgid[16];
    uint32_t qpn, dest_qpn; /* 0: none */
    struct incident_program program;
    uint8_t kind; /* enum incident_kind */
    uint8_t cause;
    uint8_t status;      /* enum wc_status */
    uint8_t opcode;      /* enum wc_opcode */
    uint8_t has_wr;      /* wr_id is a work request's */
    uint8_t drop_reason; /* enum drop: of most of */
    uint8_t qp_type;
    uint8_t reserved;
    uint32_t drops; /* packets for the queue pair, of those that the trace still has */
    uint32_t reserved2;
    struct {
#define X(name) uint32_t name;
        INCIDENT_COUNTERS(X)
#undef X
    } counter;
};
#define INCIDENT_WORDS (sizeof(struct incident) / sizeof(uint64_t))
_Static_assert(sizeof(struct incident) % sizeof(uint64_t) == 0, "records are words");

struct incidents {
    _Atomic uint64_t count; /* records ever written */
    _Atomic uint64_t word[INCIDENTS][INCIDENT_WORDS];
};

/* Adds a record. The writer. */
void incident_put(struct incidents *ring, const struct incident *i);

/* Copies the records that the ring holds, the oldest first. Returns how many. Any thread. */
unsigned incident_read(const struct incidents *ring, struct incident out[INCIDENTS]);

#endif
