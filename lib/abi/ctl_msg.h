/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control protocol between an application and uroced: SOCK_SEQPACKET on a unix socket, one
 * request, one reply, each a struct ctl_msg of fixed size; file descriptors by SCM_RIGHTS. There is
 * one connection per opened device context. When it closes, for any reason, the daemon destroys all
 * its objects.
 *
 * The daemon answers every well-formed message with the same type and seq and a status: 0 or a
 * negative errno. It answers a wrong size or magic with -EPROTO and a wrong version with
 * -EPROTONOSUPPORT (the reply carries the daemon's version), and closes the connection. It answers
 * an unknown type with -EOPNOTSUPP, and descriptors with a type that takes none with -EINVAL. It
 * disconnects a client that does not read its replies.
 *
 * A request with seq 0 is posted: it has no reply, also if it fails, though a CTL_CM_CONNECT or
 * CTL_CM_ACCEPT then has an event. Posted requests of a process are served before what it asks
 * later on any of its connections, unless one of them has to wait for the network or for the
 * process's memory.
 *
 * All numbers are little-endian, reserved bytes zero. The daemon chooses handles; they are valid on
 * their connection only.
 */
#ifndef UROCE_CTL_MSG_H
#define UROCE_CTL_MSG_H

#include <stdbool.h>

#include "ctl_cm.h"
#include "flow_match.h"
#include "qp_attr.h"

#define CTL_MAGIC      UINT32_C(0x434f5255) /* "UROC" */
#define CTL_VERSION    14
#define CTL_MSG_SIZE   640
#define CTL_MAX_FDS    18 /* CTL_OPEN's reply */
#define CTL_NAME_MAX   64
#define CTL_ERRNO_MAX  4095 /* the largest that the kernel has */
#define CTL_SOCKET_ENV "UROCE_SOCKET"
/* Names for the devices, separated by commas, in place of the daemon's. */
#define DEVICE_NAMES_ENV "UROCE_DEVICE_NAMES"
/* Default socket paths, in this order: root's, then the user's ($XDG_RUNTIME_DIR/uroce.sock, or in
 * ctl_run_user_folder). */
#define CTL_SOCKET_SYSTEM "/run/uroce.sock"
#define CTL_SOCKET_USER   "uroce.sock"
/* Behind the socket's path: the file with what failed, when a daemon has ended for lack of
 * programs.
 */
#define CTL_INCIDENTS_SUFFIX ".why"
#define CTL_FOLDER_MAX       32 /* room for ctl_run_user_folder */

enum ctl_type {
    CTL_QUERY_DEVICE = 1, /* device -> device; -ENODEV past the last */
    CTL_QUERY_PORT,       /* port -> port */
    CTL_QUERY_GID,        /* gid -> gid; -EINVAL past the table, -ENOENT for an empty slot */
    CTL_OPEN,       /* open -> open + fds: context segment, async events socket, wake eventfds */
    CTL_ALLOC_PD,   /* -> handle */
    CTL_DEALLOC_PD, /* handle; -EBUSY while in use */
    CTL_REG_MR,     /* reg_mr (+ fd) -> reg_mr */
    CTL_DEREG_MR,   /* handle; -EBUSY while windows are bound to it */
    CTL_CREATE_CHANNEL,  /* -> handle + fd: SEQPACKET socket with 8-byte records, the cookie of a CQ
                          */
    CTL_DESTROY_CHANNEL, /* handle; -EBUSY while CQs use it */
    CTL_CREATE_CQ,       /* create_cq -> create_cq (+ fd: see ctl_place) */
    CTL_DESTROY_CQ,      /* destroy -> destroy; -EBUSY while QPs use it */
    CTL_CREATE_QP,       /* create_qp -> create_qp (+ fd: see ctl_place) */
    CTL_MODIFY_QP,       /* modify_qp -> modify_qp */
    CTL_QUERY_QP,        /* handle -> query_qp */
    CTL_DESTROY_QP,      /* destroy -> destroy; -EBUSY while attached to multicast groups */
    CTL_CREATE_AH,       /* create_ah -> create_ah */
    CTL_DESTROY_AH,      /* handle */
    CTL_CREATE_SRQ,      /* create_srq -> create_srq (+ fd: see ctl_place) */
    CTL_MODIFY_SRQ,      /* modify_srq -> create_srq (when resized: a new segment, + fd) */
    CTL_QUERY_SRQ,       /* handle -> create_srq */
    CTL_DESTROY_SRQ,     /* destroy -> destroy; -EBUSY while QPs use it */
    CTL_OPEN_XRCD,       /* open_xrcd (+ fd: the file whose inode names the domain) -> handle */
    CTL_CLOSE_XRCD,      /* handle; -EBUSY while this connection's objects use it */
    CTL_ALLOC_MW,        /* alloc_mw -> alloc_mw */
    CTL_DEALLOC_MW,      /* handle */
    CTL_ATTACH_MCAST,    /* mcast */
    CTL_DETACH_MCAST,    /* mcast; -EINVAL when not attached */
    CTL_CREATE_WQ,      /* create_wq -> create_wq (+ fd: see ctl_place); needs the right to send raw
                           packets */
    CTL_MODIFY_WQ,      /* modify_wq -> modify_wq */
    CTL_DESTROY_WQ,     /* destroy -> destroy; -EBUSY while an indirection table has it */
    CTL_CREATE_RWQ_IND, /* rwq_ind -> rwq_ind */
    CTL_MODIFY_RWQ_IND, /* rwq_ind */
    CTL_DESTROY_RWQ_IND, /* handle; -EBUSY while QPs use it */
    CTL_CREATE_FLOW,     /* create_flow -> create_flow */
    CTL_DESTROY_FLOW,    /* flow_count -> flow_count: the last */
    CTL_SET_ENTROPY,     /* set_entropy */
    CTL_SHOW,            /* show -> show + fd: a memfd of `length` bytes of JSON */
    /* freeze -> freeze: the daemon touches no memory until CTL_THAW_MRS. -EAGAIN: ask again. */
    CTL_FREEZE_MRS,
    CTL_THAW_MRS, /* */
    CTL_REMAP_MR, /* remap (+ fd) -> remap. -EAGAIN: ask again. */
    CTL_GET_UFFD, /* -> fd: /dev/userfaultfd; -EPERM unless the daemon's configuration allows
                     it */
    CTL_HOT_MRS,  /* -> hot */
    /* ctl_cm.h; all but those that say so have no reply but a status */
    CTL_CM_CREATE_CHANNEL,  /* -> handle + fd */
    CTL_CM_DESTROY_CHANNEL, /* handle; -EBUSY while ids use it */
    CTL_CM_CREATE_ID,       /* cm_id -> cm_id */
    CTL_CM_DESTROY_ID,      /* cm_id -> cm_id */
    CTL_CM_BIND,            /* cm_resolve -> cm_info */
    CTL_CM_RESOLVE_ADDR,    /* cm_resolve -> cm_info; ADDR_RESOLVED or ADDR_ERROR may follow */
    CTL_CM_RESOLVE_ROUTE,   /* cm_resolve -> cm_info; ROUTE_RESOLVED may follow */
    CTL_CM_QUERY,           /* cm_id -> cm_info */
    CTL_CM_LISTEN,          /* cm_id -> cm_info */
    CTL_CM_CONNECT,         /* cm_call */
    CTL_CM_ACCEPT,          /* cm_call */
    CTL_CM_REJECT,          /* cm_call */
    CTL_CM_ESTABLISH,       /* cm_call */
    CTL_CM_DISCONNECT,      /* cm_call */
    CTL_CM_NOTIFY,          /* cm_id */
    CTL_CM_QP_ATTR,         /* cm_qp_attr -> cm_qp_attr */
    CTL_CM_SET_OPTION,      /* cm_option */
    CTL_CM_MIGRATE,         /* cm_id -> cm_id */
    CTL_CM_JOIN,            /* cm_mcast -> cm_mcast */
    CTL_CM_LEAVE,           /* cm_mcast -> cm_mcast */
    CTL_RAISE_CQ,           /* handle: the event for which the CQ is armed, if it still is */
    /* create_cq (handle, cqe) -> create_cq (+ fd: see ctl_place). From the reply on the daemon
       posts into the new segment; the application copies there what it has not read, and then sends
       CTL_RESIZE_CQ_DONE. -EINVAL: more than `cqe` CQEs have not been read; -EBUSY: the old segment
       of the last time is still there; -EAGAIN: ask again. */
    CTL_RESIZE_CQ,
    CTL_RESIZE_CQ_DONE, /* destroy -> destroy: the old segment is free */
    CTL_ALLOC_DM,       /* alloc_dm -> alloc_dm (+ fd: see ctl_place) */
    CTL_FREE_DM,        /* destroy -> destroy; -EBUSY while regions use it */
    CTL_QUERY_FLOW,     /* flow_count -> flow_count */
    CTL_MODIFY_CQ,      /* modify_cq */
    /* open (join_key) -> open + fds, as CTL_OPEN, of the device of the connection that has this
       key; from then on that one's objects can be imported. -EACCES: none has it. */
    CTL_JOIN,
    /* import -> import (+ fd, CTL_IMPORT_DM: memory, in which the device memory is at `offset`);
       -ENOENT: the joined connection has no such object */
    CTL_IMPORT,
    CTL_UNIMPORT, /* import (kind, handle): the object ends when no other uses it any more */
    /* cm_with_qp -> cm_with_qp: CTL_MODIFY_QP of another connection, and then a call of this one.
       -EACCES: the id's device has no such queue pair with this key. */
    CTL_CM_WITH_QP,
    CTL_CREATE_QP_IN, /* create_qp_in -> create_qp_in (+ fd: see ctl_place): CTL_CREATE_QP, and then
                         CTL_MODIFY_QP without an address vector */
    /* open (join_key): this connection becomes that of the context with this key, whose process has
       ended. -EAGAIN: that process still has it; -EACCES: there is none, or it is another user's */
    CTL_INHERIT,
    CTL_FAULT, /* fault -> fault; -EPERM: for root and the daemon's user alone */
    /* open_qp -> open_qp: another handle of an XRC target queue pair, which ends with its last one.
       -EINVAL: the domain has no such queue pair of this user's */
    CTL_OPEN_QP,
    CTL_CREATE_COUNTER,  /* create_counter -> create_counter (+ fd: see ctl_place) */
    CTL_DESTROY_COUNTER, /* destroy -> destroy; -EBUSY while queue pairs have it */
    CTL_ATTACH_COUNTER,  /* attach_counter; -EINVAL: the queue pair is not in RESET or INIT; -EBUSY:
                            some of this work of the queue pair has a counter */
    CTL_JUDGE, /* judge -> judge: 0, or the error that the call is to fail with (doc/fault.md) */
    CTL_WATCH, /* watch -> watch: until the connection's end; -EPERM: as CTL_FAULT's */
};

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
    uint32_t features;    /* that connections may have, if their peers do: ece.h */
    uint32_t max_counter; /* completion counters; 0: a daemon that has none */
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

enum ctl_mr_flag {
    CTL_MR_FD = 1 << 0, /* the message carries a memfd sealed against shrinking that backs the range
                           at fd_offset */
    /* The region gets the keys of the one with the request's `handle`, which is no longer to be
       found by them; CTL_DEREG_MR ends it. -EBUSY: windows are bound to it. */
    CTL_MR_REPLACES = 1 << 1,
    /* The region is the range at offset addr of the device memory with the request's `handle`. Its
       addresses begin with 0 (access has ZERO_BASED). */
    CTL_MR_DEVICE_MEMORY = 1 << 2,
    CTL_MR_NULL = 1 << 3, /* all addresses, with zeros; writes are discarded */
};

/*
 * Why the application offers memory to be mapped, or to be copied. The daemon only shows it; see
 * doc/memory.md.
 */
enum ctl_mr_why {
    CTL_MR_UNKNOWN,
    CTL_MR_SHARED,      /* mapped: the application's own sealed memfd */
    CTL_MR_ADOPTED,     /* mapped: private memory that was moved into a memfd */
    CTL_MR_OFF,         /* adoption is turned off */
    CTL_MR_SMALL,       /* too small for the cost of adoption, and only large ones are adopted */
    CTL_MR_COLD,        /* small, and seldom used so far */
    CTL_MR_ON_DEMAND,   /* need not exist yet */
    CTL_MR_TOOL,        /* valgrind, or a sanitizer, watches the program's memory */
    CTL_MR_KERNEL,      /* the kernel or the CPU lacks a feature that adoption needs */
    CTL_MR_NO_UFFD,     /* no permission for a userfaultfd that blocks system calls too */
    CTL_MR_NOT_PRIVATE, /* shared memory that is no sealed memfd, or a file */
    CTL_MR_NO_ACCESS,   /* not mapped, or not with the protection that the access rights need */
    CTL_MR_STACK,       /* stacks and thread-local memory */
    CTL_MR_SPARSE,      /* most pages were never touched */
    CTL_MR_SPLIT,       /* too many pieces */
    CTL_MR_OVERLAPS,    /* shares pages with a region that is copied */
    CTL_MR_PINNED,      /* in use by direct I/O, or watched by another userfaultfd */
    CTL_MR_NO_ROOM,     /* half of the mappings that a process may have are in use */
    CTL_MR_NO_MEMORY,
    CTL_MR_FORKED,  /* it was mapped until the program forked */
    CTL_MR_BUSY,    /* the daemon refused to stop copying for the time needed */
    CTL_MR_FAILED,  /* a system call failed in another way */
    CTL_MR_REFUSED, /* the daemon could not map it, or has mapped too much for this program */
    CTL_MR_DEVICE,  /* device memory, always mapped */
    CTL_MR_NOTHING, /* no memory: CTL_MR_NULL */
    CTL_MR_WHYS
};

/* Whether a region that is copied for this reason could be mapped later: the daemon then notifies
 * the application when the region becomes hot. */
static inline bool ctl_mr_may_change(uint32_t why)
{
    return why == CTL_MR_COLD || why == CTL_MR_OVERLAPS || why == CTL_MR_PINNED ||
           why == CTL_MR_NO_ROOM || why == CTL_MR_NO_MEMORY || why == CTL_MR_FORKED ||
           why == CTL_MR_BUSY;
}

#define CTL_MR_PIECES 16

struct ctl_mr_piece {
    uint64_t offset, length; /* in the memfd */
};

struct ctl_reg_mr {
    uint32_t pd, access;
    uint64_t addr, length, iova;
    uint32_t flags; /* enum ctl_mr_flag */
    uint32_t why;   /* enum ctl_mr_why */
    uint64_t fd_offset;
    /* reply; handle: also of a request, see CTL_MR_REPLACES */
    uint32_t handle, lkey, rkey;
    uint32_t mapped; /* 1: reached by mapping, 0: by copying */
    /* request, CTL_MR_FD: 0 for one piece at fd_offset; else the range consists of these pieces, in
       order, and all but the last end at the end of a page */
    uint32_t pieces;
    uint32_t uidx; /* request: the application's own number of it, in CTL_HOT_MRS */
    struct ctl_mr_piece piece[CTL_MR_PIECES];
};

enum ctl_freeze_flag {
    CTL_FREEZE_UNMAP = 1 << 0, /* and mapped regions, except CTL_MR_SHARED, become copied ones */
};

struct ctl_freeze {
    uint32_t flags;
    uint32_t granted_us; /* reply: the freeze ends after this time without CTL_THAW_MRS; 0: the
                            user's programs have used up their time, and can ask again later */
};

/* Another backing for a region: as in struct ctl_reg_mr; without a descriptor it is copied. */
struct ctl_remap {
    uint32_t handle, why;
    uint32_t pieces;
    uint32_t mapped; /* reply */
    struct ctl_mr_piece piece[CTL_MR_PIECES];
};

#define CTL_HOT_MAX 64

/*
 * Hot regions: copied so often that mapping them would pay. Each is reported once. The application
 * may move its pages and tell the daemon by CTL_REMAP_MR. If that says that the region stays
 * copied, the daemon starts to count again, with twice the limit.
 */
struct ctl_hot {
    uint32_t count, more; /* more: there are others */
    uint32_t uidx[CTL_HOT_MAX];
};

/*
 * Where the segment of a queue is: in a slab, a memfd of this connection that holds many segments.
 * The first reply that names a slab carries its descriptor. The application maps the whole slab,
 * and keeps the mapping until a reply says that the slab is gone. It must handle replies in their
 * order.
 */
struct ctl_place {
    uint64_t slab; /* not 0; never used again on this connection */
    uint64_t offset;
    uint64_t gone; /* CTL_MODIFY_SRQ: a slab that has become empty and is gone, or 0 */
};

struct ctl_destroy {
    uint32_t handle;
    uint32_t reserved;
    /* Reply: a slab that has become empty and is gone, or 0. Request: a slab whose descriptor did
     * not reach the application, or 0: it is not kept when it becomes empty. */
    uint64_t slab_gone;
};

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

struct ctl_rx_hash {
    uint32_t function; /* enum ibv_rx_hash_function_flags, or 1 << 1: XOR */
    uint32_t fields;   /* enum ibv_rx_hash_fields */
    uint32_t ind;      /* handle; 0: no receive-side scaling */
    uint32_t key_len;
    uint8_t key[40];
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

struct ctl_alloc_mw {
    uint32_t pd, type;     /* enum ibv_mw_type: 1 or 2 */
    uint32_t handle, rkey; /* reply */
};

struct ctl_alloc_dm {
    uint64_t length;
    uint32_t log_align; /* of its first byte in the application's mapping */
    uint32_t handle;    /* reply */
    struct ctl_place place;
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

struct ctl_set_entropy {
    uint32_t qpn;
    struct ctl_entropy entropy;
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

struct ctl_msg {
    uint32_t magic;
    uint16_t version;
    uint16_t type; /* enum ctl_type */
    uint32_t seq;
    int32_t status; /* reply: 0 or a negative errno, not below -CTL_ERRNO_MAX */
    union {
        uint32_t handle;
        struct ctl_device device;
        struct ctl_port port;
        struct ctl_gid gid;
        struct ctl_open open;
        struct ctl_reg_mr reg_mr;
        struct ctl_freeze freeze;
        struct ctl_remap remap;
        struct ctl_hot hot;
        struct ctl_destroy destroy;
        struct ctl_create_cq create_cq;
        struct ctl_modify_cq modify_cq;
        struct ctl_create_qp create_qp;
        struct ctl_create_qp_in create_qp_in;
        struct ctl_modify_qp modify_qp;
        struct ctl_query_qp query_qp;
        struct ctl_open_qp open_qp;
        struct ctl_create_ah create_ah;
        struct ctl_create_srq create_srq;
        struct ctl_modify_srq modify_srq;
        struct ctl_open_xrcd open_xrcd;
        struct ctl_alloc_mw alloc_mw;
        struct ctl_alloc_dm alloc_dm;
        struct ctl_create_counter create_counter;
        struct ctl_attach_counter attach_counter;
        struct ctl_import import;
        struct ctl_mcast mcast;
        struct ctl_create_wq create_wq;
        struct ctl_modify_wq modify_wq;
        struct ctl_rwq_ind rwq_ind;
        struct ctl_create_flow create_flow;
        struct ctl_flow_count flow_count;
        struct ctl_set_entropy set_entropy;
        struct ctl_show show;
        struct ctl_fault fault;
        struct ctl_judge judge;
        struct ctl_watch watch;
        struct ctl_cm_id cm_id;
        struct ctl_cm_resolve cm_resolve;
        struct ctl_cm_info cm_info;
        struct ctl_cm_call cm_call;
        struct ctl_cm_with_qp cm_with_qp; /* begins with a cm_call */
        struct ctl_cm_qp_attr cm_qp_attr;
        struct ctl_cm_option cm_option;
        struct ctl_cm_mcast cm_mcast;
        uint8_t bytes[CTL_MSG_SIZE - 16];
    };
};
_Static_assert(sizeof(struct ctl_msg) == CTL_MSG_SIZE, "ctl_msg is ABI");

/* A record on the async events socket; the layout of the kernel's. */
struct ctl_async_event {
    /* QP, SRQ: its uidx; WQ: its uidx in the lower half, and above how many times it was reset
     * before; CQ: its cookie; port: its number */
    uint64_t element;
    uint32_t type; /* enum ibv_event_type */
    uint32_t reserved;
};

/* Sends m with nfds descriptors (at most CTL_MAX_FDS), without raising SIGPIPE. flags: MSG_DONTWAIT
 * or 0. 0 or a negative errno (-EAGAIN: the peer does not read). Any thread; the caller serialises.
 */
int ctl_send(int sock, const struct ctl_msg *m, const int *fds, unsigned nfds, int flags);

/* How many descriptors a message may bring (SCM_MAX_FD), whatever its sender is allowed. */
#define CTL_ANY_FDS 253

/*
 * Reads the next message into *m and leaves it, with its descriptors, in the socket; *has_fds: it
 * has some. Returns as ctl_recv; descriptors are not looked at.
 */
int ctl_peek(int sock, struct ctl_msg *m, bool *has_fds, int flags);

/* As ctl_recv, but the caller closes all descriptors, also after an error. */
int ctl_recv_any(int sock, struct ctl_msg *m, int fds[CTL_ANY_FDS], unsigned *nfds, int flags);

/*
 * Receives one message into *m and up to CTL_MAX_FDS descriptors (close-on-exec) into fds, their
 * number into *nfds. Returns 0; -ECONNRESET at end of file; -EPROTO for another size, or too many
 * descriptors (all are then closed); -EPROTO for a wrong magic; -EPROTONOSUPPORT for a wrong
 * version; -EMFILE when the process has no room for all of its descriptors (both with *m filled;
 * descriptors closed); or another negative errno.
 */
int ctl_recv(int sock, struct ctl_msg *m, int fds[CTL_MAX_FDS], unsigned *nfds, int flags);

/*
 * An application's request, whose type and seq (not 0) are set, and its reply, which replaces it in
 * *m. 0; -ENOMEM: the daemon refuses the connection, as its user has too many or too much; -EPROTO:
 * what came is no reply to the request, or its status no errno; or as ctl_send and ctl_recv. After
 * an error the connection is of no use, except after -EMFILE: *m is the reply, without descriptors.
 */
int ctl_request(int sock, struct ctl_msg *m, const int *fds, unsigned nfds, int got[CTL_MAX_FDS],
                unsigned *ngot);

/*
 * Where XDG_RUNTIME_DIR would lead to, for programs that lose it (sudo, env -i): /run/user/UID. 0;
 * -EPERM: it is not this user's alone, and another could serve our programs there; or another
 * negative errno. Any thread.
 */
int ctl_run_user_folder(char folder[CTL_FOLDER_MAX]);

#endif
