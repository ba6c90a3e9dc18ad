/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol (ctl_msg.h): work queues for raw packets, and flow rules. */
#ifndef UROCE_CTL_RAW_H
#define UROCE_CTL_RAW_H

#include "ctl_place.h"
#include "flow_match.h"

struct ctl_rx_hash {
    uint32_t function; /* enum ibv_rx_hash_function_flags, or 1 << 1: XOR */
    uint32_t fields;   /* enum ibv_rx_hash_fields */
    uint32_t ind;      /* handle; 0: no receive-side scaling */
    uint32_t key_len;
    uint8_t key[40];
};

enum ctl_wq_type { CTL_WQ_RQ = 0, CTL_WQ_SRQ = 1 }; /* enum ibv_wq_type, and the proposal's */

/* A work queue for raw packets; -EPERM without CAP_NET_RAW. */
struct ctl_create_wq {
    uint32_t pd, cq, type;    /* enum ctl_wq_type */
    uint32_t srq;             /* CTL_WQ_SRQ: handle, and then no segment */
    uint32_t max_wr, max_sge; /* wanted; reply: given */
    uint32_t uidx;            /* in completions */
    /* reply */
    uint32_t handle; /* also its number, in completions; at most 65535 */
    uint32_t size, stride;
    uint64_t rq_off, segment_bytes; /* the segment begins with a struct qp_shared */
    struct ctl_place place;
};

struct ctl_modify_wq {
    uint32_t handle;
    uint32_t state; /* enum wq_state; reply: the state it is in */
};

#define CTL_RWQ_IND_MAX 128

struct ctl_rwq_ind {
    uint32_t handle;              /* reply; request of CTL_MODIFY_RWQ_IND */
    uint32_t size;                /* a power of two */
    uint16_t wq[CTL_RWQ_IND_MAX]; /* handles */
};

struct ctl_create_flow {
    uint32_t qpn, type; /* enum ibv_flow_attr_type */
    uint32_t priority, port;
    uint32_t drop, tagged, tag;
    struct flow_match match;
    uint32_t handle; /* reply */
    struct flow_deep deep;
};

struct ctl_flow_count {
    uint32_t handle; /* request */
    uint32_t reserved;
    uint64_t frames, bytes; /* reply: that the rule has taken since its creation */
};

#endif
