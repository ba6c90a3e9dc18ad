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

#ifdef __cplusplus
}
#endif

#endif
