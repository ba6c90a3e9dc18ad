/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon's devices in one process, without sockets and threads: for unit tests and fuzzing. */
#ifndef UROCE_TEST_DEVICE_KIT_H
#define UROCE_TEST_DEVICE_KIT_H

#include "session.h"

/* Stands for the memory of every application: addresses from KIT_BASE on; all others give
 * -EFAULT. */
#define KIT_BASE  UINT64_C(0x10000)
#define KIT_BYTES 65536u
#define KIT_HEAT  64u /* the weight of each copy, so that fuzzing reaches hot regions */

extern uint8_t kit_memory[KIT_BYTES];
/* Orders the numbers of the next rnic, as in rnic_config; at first they count up. */
extern const uint64_t *kit_secret;
extern const struct mem_provider kit_provider;
/* The provider's error for every transfer, unless 0. */
extern int kit_status;

/* One worker that does not run, one loopback port with 127.0.0.1 and ::1, and a neighbour 10.0.0.2.
 */
struct rnic *kit_rnic(struct event_loop *loop, ns_t (*clock)(void));

/* The same with a port of the caller's; its pktio is filled in if there is none. */
struct rnic *kit_rnic_with(struct event_loop *loop, ns_t (*clock)(void), struct port_config pc);

/* Sends one message of that type with the body in m; the reply is in call->reply. Descriptors in
 * the reply are left open for the caller when keep, else closed. Returns the status. */
int kit_call(struct session *c, enum ctl_type type, struct ctl_msg *m, struct ctl_call *call,
             bool keep);

/* A message whose only content is a handle. */
int kit_call_handle(struct session *c, enum ctl_type type, uint32_t handle);

/* The same, again and again while the answer is -EAGAIN, as the client does: workers run, and what
 * keeps the object goes away. */
int kit_destroy_handle(struct session *c, enum ctl_type type, uint32_t handle);

#endif
