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
#include "ctl_device.h"
#include "ctl_memory.h"
#include "ctl_queue.h"
#include "ctl_raw.h"

#define CTL_MAGIC      UINT32_C(0x434f5255) /* "UROC" */
#define CTL_VERSION    15
#define CTL_MSG_SIZE   640
#define CTL_MAX_FDS    18   /* CTL_OPEN's reply */
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
       ended. -EAGAIN: that process still has it, or ask again; -EACCES: there is none, or it is
       another user's */
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

/*
 * Writes a program's name for the device with this index: the one at that place of `names`, a list
 * as in DEVICE_NAMES_ENV or NULL, unless that is empty or too long; else the daemon's, `own`. Any
 * thread.
 */
void ctl_device_name(const char *names, uint32_t index, const char *own, char name[CTL_NAME_MAX]);

#endif
