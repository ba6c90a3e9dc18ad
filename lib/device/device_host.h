/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For a host that is its own application, in one process: what an application would map, the
 * counters that it would read with `uroce show`, and the parts of a device that can be measured by
 * themselves.
 *
 * Threads: the control thread; the memory and the counters that these functions return are shared
 * with the workers.
 */
#ifndef UROCE_DEVICE_HOST_H
#define UROCE_DEVICE_HOST_H

#include "encap.h"
#include "engine.h"
#include "pktio.h"
#include "queue_abi.h"
#include "session.h"

/* ---- devices: index in the order of rnic_add_port ---- */

unsigned rnic_devices(const struct rnic *r);
struct pktio *rnic_device_io(const struct rnic *r, unsigned device);
const struct encap_port *rnic_device_encap(const struct rnic *r, unsigned device);
/* The queues of its port that workers drive, each with an engine. */
unsigned rnic_device_queues(const struct rnic *r, unsigned device);
const struct engine *rnic_device_engine(const struct rnic *r, unsigned device, unsigned queue);

/* The largest path MTU, as enum ibv_mtu, whose packets fit IP packets of `mtu` bytes. */
uint32_t device_mtu_code(uint32_t mtu);
/* At most this much surrounds a packet's payload inside the Ethernet frame: IPv6, UDP, the longest
 * transport headers, pad and ICRC. */
#define MTU_AROUND (40u + 8 + 12 + 28 + 3 + 4)

/* ---- objects of a session ---- */

/* The segment of the context: doorbells and, by doorbell slot, the worker of each queue pair. */
struct ctx_shared *session_shared(const struct session *sn);
/* The segment of a completion queue or queue pair; NULL: there is none with this handle or number.
 */
void *session_cq_segment(struct session *sn, uint32_t handle);
void *session_qp_segment(struct session *sn, uint32_t qpn);
/* The state (enum qp_state) of a queue pair that exists, and its name. */
uint32_t session_qp_state(struct session *sn, uint32_t qpn);
const char *qp_state_name(uint32_t state);

#endif
