/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the peer or the application did wrong, as the responder sees it, and what follows from it:
 * one table (volume 1, tables 52 to 54 of 9.9). resp_fault applies a row. Two faults are found
 * outside of the responder and recorded without it, so their syndromes and counters do not apply:
 * FAULT_QUEUE_INDEX of a send queue (req_take.c), and FAULT_CQ_OVERRUN (post.c, always). A work
 * queue for raw packets uses recv_status alone (raw_wq.c). FAULT_SUSPENDED stands in for a fault,
 * and has no row.
 */
#ifndef UROCE_FAULT_H
#define UROCE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault {
    FAULT_NONE,
    FAULT_PSN_SEQUENCE,    /* a request was lost (C9-110 NAK) */
    FAULT_RNR,             /* no receive entry */
    FAULT_OPCODE_SEQUENCE, /* FIRST, MIDDLE, LAST out of order */
    FAULT_UNSUPPORTED,     /* an operation this queue pair does not offer */
    FAULT_QP_ACCESS,       /* the queue pair does not allow remote WRITE, READ or atomics */
    FAULT_LENGTH,          /* a packet's payload disagrees with path MTU or DMA length */
    FAULT_TOO_MANY_READS,  /* more than max_dest_rd_atomic */
    FAULT_MISALIGNED,      /* atomic address */
    FAULT_INVALIDATE,      /* the key that a SEND invalidates cannot be: class J (9.9.6.3) */
    FAULT_RECV_TOO_SMALL,  /* the message does not fit the receive buffer */
    FAULT_REMOTE_ACCESS,   /* R_Key check */
    FAULT_RECV_PROTECTION, /* L_Key check of the receive buffer */
    FAULT_RECV_MALFORMED,  /* the receive entry makes no sense */
    FAULT_QUEUE_INDEX,     /* the application's producer index makes no sense */
    FAULT_MEMORY,          /* the application's memory could not be reached */
    FAULT_CQ_OVERRUN,      /* a CQE did not fit its completion queue */
    FAULT_SUSPENDED,       /* no fault: a copy for the queue pair has not ended yet (late.h) */
    FAULT_COUNT,
};

struct fault_rule {
    uint8_t syndrome; /* reliable services: AETH to send, or FAULT_SILENT; resp_fault adds the queue
                         pair's min_rnr_timer to that of FAULT_RNR */
    bool fatal;       /* reliable services: the queue pair goes to ERR */
    bool own; /* our application's fault: UC and UD go to ERR too, else they drop the message */
    uint8_t recv_status; /* fatal: completes the receive entry in use with this (enum wc_status) */
    int8_t event;        /* enum qp_event to raise, or -1 */
    size_t counter;      /* offset in struct qp_counters */
};
#define FAULT_SILENT 0xFF

extern const struct fault_rule fault_rules[FAULT_COUNT];

#endif
