/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol (ctl_msg.h): completion queues, queue pairs, SRQs and what they use. */
#ifndef UROCE_CTL_QUEUE_H
#define UROCE_CTL_QUEUE_H

#include "ctl_cm.h"
#include "ctl_place.h"
#include "ctl_raw.h"
#include "qp_attr.h"

enum ctl_cq_flag { CTL_CQ_IGNORES_OVERRUN = 1 << 0 };

struct ctl_create_cq {
    uint32_t cqe;     /* wanted; reply: given (a power of two) */
    uint32_t channel; /* handle, or 0 */
    uint32_t vector;
    uint32_t handle, lanes; /* reply */
    uint32_t flags;         /* enum ctl_cq_flag */
    uint64_t cookie;        /* the value that events carry */
    uint64_t segment_bytes;
    struct ctl_place place;
};

struct ctl_modify_cq {
    uint32_t handle;
    uint16_t count, period_us; /* an event waits for as many completions, or as long */
};

/* A queue pair's own source port policy. */
struct ctl_entropy {
    uint16_t rule; /* enum entropy_rule + 1; 0: the port's */
    uint16_t port; /* of `fixed`, else 0 */
};

struct ctl_create_qp {
    uint32_t pd, send_cq, recv_cq, type; /* enum qp_type */
    uint32_t sq_sig_all, uidx;
    uint32_t srq, xrcd;         /* handles, or 0 */
    struct ctl_rx_hash rx_hash; /* QPT_RAW_PACKET; ind 0: it has queues of its own */
    struct ctl_entropy entropy; /* QPT_RAW_PACKET: none */
    struct qp_caps caps;        /* wanted; reply: given, each at least what was wanted */
    /* reply */
    uint32_t qpn;     /* also the handle */
    uint32_t db_slot; /* on every worker; which one: struct ctx_shared */
    uint32_t reserved[2];
    uint32_t sq_size, sq_stride, rq_size, rq_stride;
    uint64_t sq_off, rq_off, segment_bytes; /* offsets in the segment */
    struct ctl_place place;
};

/* Up to QP_STEPS changes, each with its own mask and all with the attributes of one structure:
 * the first to attr.state, then the others, whose mask is not 0. The first that fails ends it. */
struct ctl_modify_qp {
    uint32_t qpn, mask; /* qpn: or a handle, see CTL_QP_OPENED; enum qp_attr_mask */
    struct qp_attr attr;
    struct {
        uint32_t state, mask;
    } next[QP_STEPS - 1];
    uint32_t done; /* reply, also after an error: steps */
    uint32_t ece;  /* ECE_SAID with the features that the peer has, too; 0: nothing was said */
};

/* Begins with a create_qp. The reply has status 0 if the queue pair was created, also when it could
 * not be modified. */
struct ctl_create_qp_in {
    struct ctl_create_qp create;
    struct ctl_modify_qp modify;
    int32_t modify_status; /* reply: 0 or a negative errno, not below -CTL_ERRNO_MAX */
    uint32_t reserved;
};

/*
 * A connection's queue pair changes its state with the connection. The key is that of the context
 * segment of the connection that has the queue pair (ctx_shared), which its program alone can read.
 * modify.done of the reply says whether an error is that of the change or, after all steps, of the
 * call. CTL_CM_CONNECT changes nothing at once, and reads no more of `modify` than its number: when
 * the peer has accepted, the daemon leads the queue pair to RTS and establishes the connection.
 */
struct ctl_cm_with_qp {
    struct ctl_cm_call call;
    uint32_t type; /* CTL_CM_CONNECT, CTL_CM_ACCEPT, CTL_CM_ESTABLISH or CTL_CM_DISCONNECT */
    uint32_t reserved;
    uint64_t key[2];
    struct ctl_modify_qp modify;
};

/* In handles that CTL_OPEN_QP returns. They take the place of the queue pair's number in
 * CTL_MODIFY_QP, CTL_QUERY_QP and CTL_DESTROY_QP. */
#define CTL_QP_OPENED 0x80000000u

struct ctl_open_qp {
    uint32_t xrcd, qpn;
    uint32_t uidx; /* the application's own number of the handle, in async events */
    /* reply */
    uint32_t handle;
    uint32_t sq_sig_all;
    struct qp_caps caps;
};

struct ctl_query_qp {
    uint32_t qpn; /* or a handle, see CTL_QP_OPENED; reply: the number */
    uint32_t sq_sig_all;
    struct qp_attr attr;
    struct qp_caps caps;
};

struct ctl_create_ah {
    uint32_t pd;
    struct ah_attr attr;
    uint32_t handle; /* reply */
    uint8_t dmac[6];
    uint16_t vlan;
    uint32_t number; /* its name in work requests (struct sqe, ud.ah) */
};

enum ctl_srq_type { CTL_SRQ_BASIC = 0, CTL_SRQ_XRC = 1 };              /* enum ibv_srq_type */
enum ctl_srq_mask { CTL_SRQ_MAX_WR = 1 << 0, CTL_SRQ_LIMIT = 1 << 1 }; /* enum ibv_srq_attr_mask */

struct ctl_create_srq {
    uint32_t pd, type;               /* enum ctl_srq_type */
    uint32_t xrcd, cq;               /* CTL_SRQ_XRC: handles */
    uint32_t max_wr, max_sge, limit; /* wanted; reply: given */
    uint32_t uidx;                   /* the application's own number of it, in async events */
    /* reply */
    uint32_t handle; /* also the SRQ number that XRC senders name */
    uint32_t size, stride;
    uint32_t reserved;
    uint64_t ring_off, segment_bytes;
    struct ctl_place place;
};

struct ctl_modify_srq {
    uint32_t handle, mask; /* enum ctl_srq_mask */
    uint32_t max_wr, limit;
};

struct ctl_open_xrcd {
    uint32_t oflags; /* O_CREAT, O_EXCL, as ibv_open_xrcd; without an fd the domain has no name */
    uint32_t handle;
};

enum ctl_counter_type { CTL_COUNTER_WRS = 0, CTL_COUNTER_BYTES = 1 }; /* enum ibv_comp_cntr_type */

/* A completion counter; its segment has `lanes` of struct counter_line. */
struct ctl_create_counter {
    uint32_t type;          /* enum ctl_counter_type */
    uint32_t handle, lanes; /* reply */
    uint32_t reserved;
    struct ctl_place place;
};

struct ctl_attach_counter {
    uint32_t qpn, counter; /* qpn: not a handle that CTL_OPEN_QP returned */
    uint32_t what;         /* enum qp_count */
    uint32_t reserved;
};

enum ctl_import_kind { CTL_IMPORT_PD, CTL_IMPORT_MR, CTL_IMPORT_DM };

/* An object of the connection that this one has joined. */
struct ctl_import {
    uint32_t kind;   /* enum ctl_import_kind */
    uint32_t handle; /* there; reply, except of regions: the handle here */
    uint32_t pd;     /* request, CTL_IMPORT_MR: a domain here, which is the region's */
    uint32_t lkey, rkey;
    uint32_t reserved;
    uint64_t length, offset;
};

struct ctl_mcast {
    uint32_t qpn;
    uint8_t gid[16];
};

struct ctl_set_entropy {
    uint32_t qpn;
    struct ctl_entropy entropy;
};

#endif
