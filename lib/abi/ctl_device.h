/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol (ctl_msg.h): devices, ports and what is asked of the daemon itself. */
#ifndef UROCE_CTL_DEVICE_H
#define UROCE_CTL_DEVICE_H

#include <stdint.h>

#define CTL_NAME_MAX 64

struct ctl_device {
    uint32_t index; /* request */
    uint32_t ports;
    char name[CTL_NAME_MAX];
    char fw_version[32];
    uint64_t node_guid; /* big-endian word */
    uint32_t vendor_id, vendor_part_id, hw_version;
    uint32_t max_qp, max_qp_wr, max_sge, max_inline, max_cq, max_cqe, max_mr, max_pd, max_ah;
    uint32_t max_qp_rd_atom, max_qp_init_rd_atom;
    uint32_t max_srq, max_srq_wr, max_srq_sge, max_mw, max_xrcd, max_mcast_grp;
    uint64_t max_mr_size;
    uint32_t workers;                               /* = completion vectors */
    uint32_t max_wq, max_rwq_ind, max_rwq_ind_size; /* 0: this application may not use them */
    uint64_t max_dm_size;
    uint32_t max_mcast_join;
    uint32_t features;     /* that connections may have, if their peers do: ece.h */
    uint32_t max_counter;  /* completion counters; 0: a daemon that has none */
    uint32_t max_mcast_qp; /* queue pairs in a group */
};

struct ctl_port {
    uint32_t port;                /* request: 1-based */
    uint32_t state;               /* enum ibv_port_state: 1 down, 4 active */
    uint32_t max_mtu, active_mtu; /* enum ibv_mtu */
    uint32_t gid_tbl_len, pkey_tbl_len;
    uint32_t speed_mbps;
    uint8_t mac[6];
    char netdev[16];
};

struct ctl_gid {
    uint32_t port, index; /* request */
    uint8_t gid[16];
    uint32_t type; /* enum gid_type */
    uint32_t ifindex;
};

struct ctl_open {
    uint32_t device; /* request: index; reply of CTL_JOIN */
    uint32_t workers;
    uint32_t pid; /* the daemon's, for PR_SET_PTRACER */
    uint32_t
        wakes; /* bit w: an eventfd of this connection wakes worker w; in the order of workers */
    uint64_t join_key[2]; /* CTL_JOIN */
};

enum ctl_show_what {
    CTL_SHOW_ALL = 0,
    CTL_SHOW_TRACE = 1,
    CTL_SHOW_PORTS = 2, /* devices, their ports with counters and GIDs, and sums over queue pairs */
    CTL_SHOW_METRICS = 3,   /* what has a number and is no object of a client's: doc/metrics.md */
    CTL_SHOW_INCIDENTS = 4, /* what failed lately, the trace, and the rules of `uroce fault` */
};

struct ctl_show {
    uint32_t what; /* enum ctl_show_what */
    uint32_t reserved;
    uint64_t length; /* reply */
};

enum ctl_fault_op {
    CTL_FAULT_ADD = 0,    /* text: a rule (doc/fault.md). -EINVAL: the reply's text says why */
    CTL_FAULT_REMOVE = 1, /* -ENOENT: there is no such rule */
    CTL_FAULT_NOW = 2,    /* text: what is to happen. -ENOENT: there is no such queue pair */
};

#define CTL_FAULT_TEXT_MAX 256

struct ctl_fault {
    uint32_t op; /* enum ctl_fault_op */
    /* ADD: reply: the rule's. REMOVE: the rule's, or 0: all; reply: how many were removed. */
    uint32_t number;
    char text[CTL_FAULT_TEXT_MAX]; /* with its terminator */
};

/* Calls of libibverbs that need no message, and that rules can let fail. */
enum ctl_judged {
    CTL_JUDGE_POST_SEND,
    CTL_JUDGE_POST_RECV,
    CTL_JUDGE_POST_SRQ_RECV,
    CTL_JUDGE_POLL_CQ,
    CTL_JUDGE_REQ_NOTIFY_CQ,
    CTL_JUDGED
};

struct ctl_judge {
    uint32_t call; /* enum ctl_judged */
    uint32_t reserved;
};

struct ctl_watch {
    uint32_t latency; /* 1: work requests are timed, of all programs; 0 */
    uint32_t reserved;
};

#endif
