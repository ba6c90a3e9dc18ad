/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What uroce's libibverbs.so.1 has beyond the verbs API. Programs that are to run with other
 * libraries, too, look the functions up when they are started:
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
 * Gives a queue pair a UDP source port policy of its own, instead of its port's (the key `entropy`
 * of uroced's configuration). Switches choose among equal paths, and NICs among receive queues, by
 * it.
 *
 * policy: "kernel"      Linux's rule: the flow label, or without one the two queue pair numbers
 *         "rfc"         the exclusive or of the two queue pair numbers
 *         "spray"       each datagram by another port, in an order that the two numbers choose; a
 *                       connection, whose packets must stay in order, by the first of them
 *         "fixed:PORT"  this one, decimal or 0x, from 49152 to 65535
 *         NULL          the port's own again
 *
 * On the wire: RC, UC and XRC queue pairs have one source port, for requests and answers. In RTR
 * and later states it changes at once: packets that the daemon makes when the function has returned
 * have the new one, and those that are on their way by the old path may arrive behind them, which
 * costs RC and XRC at most a repetition, and UC the messages that are overtaken. Before RTR it is
 * noted for RTR. Of UD queue pairs it holds for work requests that are not sent yet, and replaces
 * for them what the address handle's flow label would choose. RoCEv1 has no ports: there it changes
 * nothing. The policy is the queue pair's until it is destroyed, also through RESET.
 *
 * The peer is told nothing, and need not be: nobody looks at the port of what arrives. But a peer,
 * or a switch, that computes by Linux's rule which port this queue pair has, and so on which queue
 * or path its packets come, is wrong from then on with all others.
 *
 * Any thread, at any time; it asks the daemon, and waits for the answer as ibv_modify_qp does.
 * Returns 0 or an errno: EINVAL (no such policy; a raw packet queue pair), EIO (no daemon any
 * more).
 */
int uroce_set_qp_entropy(struct ibv_qp *qp, const char *policy);

/* ---- receive-side scaling: what the Verbs RSS proposal has beyond what became of it ---- */

/*
 * A value of ibv_rx_hash_conf.rx_hash_function, beside IBV_RX_HASH_FUNC_TOEPLITZ, and a bit of
 * ibv_rss_caps.rx_hash_function: the exclusive or of the chosen fields, as 16-bit words in network
 * order. It needs no key (rx_hash_key_len 0), and is the same for both directions of a flow when
 * sources and destinations are chosen alike.
 */
#define UROCE_RX_HASH_FUNC_XOR (1 << 1)

/* ibv_wq.wq_type of a work queue that takes its entries from a shared receive queue. */
#define UROCE_WQT_SRQ ((enum ibv_wq_type)1)

struct uroce_wq_srq_init_attr {
    void *wq_context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;   /* where its completions go */
    struct ibv_srq *srq; /* of type IBV_SRQT_BASIC; several work queues may have the same */
    uint32_t comp_mask;  /* 0 */
};

/*
 * Creates a work queue without entries of its own: each packet takes one that was posted with
 * ibv_post_srq_recv. It is in RESET, goes into indirection tables together with others of either
 * type, and is modified and destroyed as they are; ibv_post_wq_recv says EINVAL. The queue's limit
 * and its event work as ever. A packet that finds the shared queue empty is dropped. In ERR and
 * RESET it takes none: entries stay for the others. An entry that it has taken for a packet which
 * did not fit is kept for its next one; that one ERR flushes, and RESET and destruction forget.
 *
 * Any thread. Returns NULL with errno: EPERM (raw packets are not for this process), EINVAL (a part
 * is missing, or the shared queue is an XRC one), ENOMEM, EIO (no daemon any more).
 */
struct ibv_wq *uroce_create_wq_srq(struct ibv_context *context,
                                   const struct uroce_wq_srq_init_attr *attr);

/*
 * Gives an indirection table other entries, also more or fewer, while queue pairs receive by it.
 * attr: as of ibv_create_rwq_ind_table. Each packet goes by the earlier entries or by the new ones,
 * and none is lost over it; when the function has returned all go by the new ones, and work queues
 * that the table does not have any more may be destroyed. Packets of one flow stay in order in each
 * work queue; that a flow's last packets in the earlier queue are polled before its first in the
 * new one, the program sees to.
 *
 * Any thread; changes of one table are the program's to put in order. Returns 0 or an errno, and
 * then the table is as it was: EINVAL (size above the device's limit, a work queue that is not this
 * context's), ENOMEM, EIO (no daemon any more).
 */
int uroce_modify_rwq_ind_table(struct ibv_rwq_ind_table *table,
                               const struct ibv_rwq_ind_table_init_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
