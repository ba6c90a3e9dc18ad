/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs. */
#ifndef UROCE_DEVICE_QP_OBJECT_H
#define UROCE_DEVICE_QP_OBJECT_H

#include "control/async.h"
#include "entropy.h"
#include "objects/object.h"
#include "objects/segment.h"
#include "raw.h"
#include "session.h"
#include "worker.h"

struct counter_object;
struct device;

/* Why a queue pair is on its worker (steer.c). */
enum steer_reason {
    STEER_SHARE,     /* the worker had the fewest queue pairs */
    STEER_LOCAL,     /* the peer, on the same port, is there */
    STEER_PREDICTED, /* the port's hash brings its packets there */
    STEER_RULE,      /* a flow rule does */
    STEER_MISPLACED, /* its packets kept arriving there */
    STEER_REASONS
};

/* A request that ends something for which packets wait is answered -EAGAIN so often: it comes again
 * after 1, 2, 4, ... ms. */
#define END_TRIES 5

struct qp_object {
    struct object o;
    uint64_t serial; /* of no other queue pair of the device, also later: numbers come again */
    struct dp_qp dp;
    struct pd *pd;
    struct cq *send_cq, *recv_cq;
    struct srq_object *srq;
    struct xrcd *xrcd;
    struct rwq_ind_object *ind; /* it has receive-side scaling */
    struct rx_hash rx_hash;     /* with this hash */
    struct segment segment;
    uint64_t memory;       /* what the transport allocates for it at most */
    uint64_t reads_memory; /* the part of it for more than RD_ATOM_INCLUDED */
    enum steer_reason reason;
    uint32_t dest_qpn;
    uint32_t peer_qpn;   /* local_peer.c: connected to this queue pair of its own port, */
    bool peer_is_local;  /* if so */
    void *flow;          /* the port's rule that brings its packets to its worker, or NULL */
    uint16_t flow_sport; /* the source port in the rule; 0: the rule matches the QP number */
    LIST_HEAD(, membership) groups; /* multicast groups it is in */
    uint32_t group_count;
    LIST_HEAD(, qp_handle) handles; /* an XRC target's, besides its creator's: qp_open.h */
    uint32_t owner_handles;         /* as many of these are its own session's */
    bool left;                      /* its creator has closed it, but handles remain */
    struct async_wait wait;         /* its creator's */
    _Atomic uint32_t nothing;       /* XRC target: the producer index of its queues */
    LIST_ENTRY(qp_object) of_pd;    /* UD: pd.datagram_qps */
    struct counter_object *counter[QP_COUNTS]; /* by bit of enum qp_count; or NULL */
    bool sq_sig_all;
    uint8_t end_tries; /* requests to reset or destroy it in a row that found its port full */
    uint32_t ece;      /* ctl_modify_qp.ece, until it is reset */
    bool waits_for_agreement; /* agree.c: */
    LIST_ENTRY(qp_object) agreement;
};

/* ---- qp_lookup.c: what the other files know of a queue pair ---- */

/* The device's queue pair with this number, or NULL. */
struct qp_object *qp_object_of(struct device *d, uint32_t qpn);
/* The session's queue pair with this number, unless it has closed it (qp_open.h); or NULL. */
struct qp_object *qp_object_get(struct session *sn, uint32_t qpn);
/* The device's queue pair with this number, if that is its context's key; or NULL. */
struct qp_object *qp_object_of_key(struct device *d, uint32_t qpn, const uint64_t key[2]);
/* Runs fn on its worker. */
void qp_object_call(struct qp_object *q, worker_fn fn, void *arg);
struct engine *qp_object_engine(struct qp_object *q);
/* The current attributes, from its worker. */
void qp_object_attr(struct qp_object *q, struct qp_attr *attr);
/* Those of n queue pairs of a device, with one interruption of each worker; all zero for those with
 * receive-side scaling. */
void qp_objects_attr(struct device *d, struct qp_object *const *q, unsigned n,
                     struct qp_attr *attr);

/* ---- qp_uses.c ---- */

/* Adds n references to each object that it uses. */
void qp_object_count_parts(struct qp_object *q, int n);
/* Charges its session for bytes that the transport may come to allocate for it. 0 or an errno. */
int qp_object_charge(struct session *sn, struct qp_object *q, size_t bytes);
void qp_object_uncharge(struct session *sn, struct qp_object *q, size_t bytes);

/* ---- qp_create.c ---- */

int qp_object_create(struct session *sn, struct ctl_call *call);
int qp_object_create_in(struct session *sn, struct ctl_call *call);

/* ---- qp_modify.c ---- */

int qp_object_modify(struct session *sn, struct ctl_call *call);
/* What that does of a request, which becomes its reply. sn: the queue pair's. */
int qp_object_modify_by(struct session *sn, struct ctl_modify_qp *rq);
/* To ERR, on purpose. */
int qp_object_fail(struct qp_object *q);
int qp_object_query(struct session *sn, struct ctl_call *call);

/* ---- qp_end.c ---- */

/* On its worker: the peer gets the answers that are owed. False: the request that ends or resets it
 * is to come again. */
bool qp_object_send_answers(struct qp_object *q);
int qp_object_destroy(struct session *sn, struct ctl_call *call);
bool qp_free_some(struct session *sn, const struct slice *s);

/* ---- qp_entropy.c ---- */

int qp_object_set_entropy(struct session *sn, struct ctl_call *call);
/* 1: *policy is the queue pair's own; 0: it has the port's; -EINVAL. */
int entropy_from_ctl(const struct ctl_entropy *c, struct entropy_policy *policy);

/* ---- raw_qp.c ---- */

/* What queue pairs of type RAW_PACKET, and others, may not have. 0, -EPERM or -EINVAL. */
int raw_qp_check(struct session *sn, const struct ctl_create_qp *rq);
/* The transport's form of a hash that raw_qp_check has accepted. */
void raw_qp_hash(struct rx_hash *hash, const struct ctl_rx_hash *h);

#endif
