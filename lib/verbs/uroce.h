/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extensions of the verbs API in uroce's libibverbs.so.1. A program that also runs with other
 * libraries looks the functions up at its start:
 *
 *     int (*set)(struct ibv_qp *, const char *) = dlsym(RTLD_DEFAULT, "uroce_set_qp_entropy");
 */
#ifndef INFINIBAND_UROCE_H
#define INFINIBAND_UROCE_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sets a queue pair's own UDP source port policy, instead of its port's (the key `entropy` of
 * uroced's configuration). By the source port, switches choose among equal paths, and NICs among
 * receive queues.
 *
 * policy: "kernel"      Linux's rule: the flow label, or without one the two queue pair numbers
 *         "rfc"         the exclusive or of the two queue pair numbers
 *         "spray"       another source port for each datagram, in an order that follows from the
 * two numbers; for a connection, whose packets must stay in order, the first one "fixed:PORT"  this
 * source port, decimal or 0x, from 49152 to 65535 NULL          the port's policy again
 *
 * RC, UC and XRC queue pairs have one source port, for requests and responses. In RTR and later
 * states it changes at once: packets that the daemon builds after the function has returned have
 * the new source port. Packets that are on the old path may arrive after them, which costs RC and
 * XRC at most a retransmission, and UC the messages that are overtaken. Before RTR the policy takes
 * effect at RTR. For UD queue pairs it applies to work requests that are not sent yet, in place of
 * the address handle's flow label. RoCEv1 has no UDP ports, so the policy has no effect. The queue
 * pair keeps the policy until it is destroyed, also through RESET.
 *
 * The peer is not notified, and needs no notification: receivers do not check the source port. But
 * a peer or a switch that predicts this queue pair's source port by Linux's rule, and from it the
 * queue or path of its packets, predicts wrongly under any other policy.
 *
 * Any thread, at any time. The function waits for the daemon, as ibv_modify_qp does. Returns 0 or
 * an errno: EINVAL (no such policy; a raw packet queue pair), EIO (the daemon is gone).
 */
int uroce_set_qp_entropy(struct ibv_qp *qp, const char *policy);

/* ---- queue pairs ---- */

/* A change of a queue pair: what ibv_modify_qp makes of attr->qp_state and attr_mask. */
struct uroce_qp_step {
    enum ibv_qp_state state;
    int mask; /* of the first step any, of others not 0 */
};

/*
 * Modifies a queue pair up to three times, as ibv_modify_qp, with one message to the daemon: from
 * RESET to RTS takes a third of the time. All steps take their attributes from attr, whose qp_state
 * does not count.
 *
 * Any thread. Returns 0, or the errno of the first step that fails, which is the last one.
 * qp->state says how far it came. EINVAL: no step, or more than three.
 */
int uroce_modify_qp_steps(struct ibv_qp *qp, const struct ibv_qp_attr *attr,
                          const struct uroce_qp_step *step, unsigned steps);

/* ---- receive-side scaling: parts of the Verbs RSS proposal that the verbs API lacks ---- */

/*
 * A value of ibv_rx_hash_conf.rx_hash_function, beside IBV_RX_HASH_FUNC_TOEPLITZ, and a bit of
 * ibv_rss_caps.rx_hash_function: the exclusive or of the selected fields, as 16-bit words in
 * network order. It needs no key (rx_hash_key_len 0). It is the same for both directions of a flow
 * if each source field is selected together with its destination field.
 */
#define UROCE_RX_HASH_FUNC_XOR (1 << 1)

/* ibv_wq.wq_type of a work queue that takes its WQEs from a shared receive queue. */
#define UROCE_WQT_SRQ ((enum ibv_wq_type)1)

struct uroce_wq_srq_init_attr {
    void *wq_context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;   /* for its completions */
    struct ibv_srq *srq; /* of type IBV_SRQT_BASIC; several work queues may share it */
    uint32_t comp_mask;  /* 0 */
};

/*
 * Creates a work queue without WQEs of its own: each packet takes one that was posted with
 * ibv_post_srq_recv. The work queue starts in RESET. Indirection tables may mix both types, and
 * both are modified and destroyed alike; ibv_post_wq_recv fails with EINVAL. The shared receive
 * queue's limit and its event work unchanged. A packet that finds the shared receive queue empty is
 * dropped. In ERR and RESET the work queue takes no WQEs from it. When a packet does not fit the
 * WQE that the work queue has taken for it, the work queue keeps that WQE for its next packet; ERR
 * flushes it, RESET and destruction drop it.
 *
 * Any thread. Returns NULL with errno: EPERM (the process may not use raw packets), EINVAL (a part
 * is missing, or the shared receive queue is an XRC one), ENOMEM, EIO (the daemon is gone).
 */
struct ibv_wq *uroce_create_wq_srq(struct ibv_context *context,
                                   const struct uroce_wq_srq_init_attr *attr);

/*
 * Replaces the entries of an indirection table, also by more or fewer, while queue pairs receive by
 * it. attr: as for ibv_create_rwq_ind_table. Each packet uses the old or the new entries, and no
 * packet is lost. After the function has returned all packets use the new entries, and work queues
 * that are no longer in the table may be destroyed. Packets of one flow stay in order in each work
 * queue. The program must poll a flow's last packets from the old queue before its first ones from
 * the new queue.
 *
 * Any thread; the program orders concurrent changes of one table. Returns 0 or an errno, and then
 * the table is unchanged: EINVAL (size above the device's limit, a work queue of another context),
 * ENOMEM, EIO (the daemon is gone).
 */
int uroce_modify_rwq_ind_table(struct ibv_rwq_ind_table *table,
                               const struct ibv_rwq_ind_table_init_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
