/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * For a host that is its own application, in one process: what an application would map, the
 * counters that it would read with `uroce show`, and the parts of a device that can be measured by
 * themselves.
 *
 * Threads: the control thread; the memory and the counters that these functions return are shared
 * with the workers. Devices have indexes in the order of rnic_add_port.
 */
#ifndef UROCE_DEVICE_HOST_H
#define UROCE_DEVICE_HOST_H

#include "encap.h"
#include "engine.h"
#include "pktio.h"
#include "queue_abi.h"
#include "session.h"

/* ---- devices ---- */

/**
 * Count the devices.
 *
 * @param r  The devices.
 * @return  How many there are.
 */
unsigned rnic_devices(const struct rnic *r);
/**
 * Get the port of a device.
 *
 * @param r  The devices.
 * @param device  The device's index.
 * @return  The port, which the device owns.
 */
struct pktio *rnic_device_io(const struct rnic *r, unsigned device);
/**
 * Get what the outer headers of a device's packets follow.
 *
 * @param r  The devices.
 * @param device  The device's index.
 * @return  The port's MAC, its GID table and its largest frame.
 */
const struct encap_port *rnic_device_encap(const struct rnic *r, unsigned device);
/**
 * Count the queues of a device's port that workers drive, each with an engine.
 *
 * @param r  The devices.
 * @param device  The device's index.
 * @return  How many there are.
 */
unsigned rnic_device_queues(const struct rnic *r, unsigned device);
/**
 * Get the engine on a queue of a device's port.
 *
 * @param r  The devices.
 * @param device  The device's index.
 * @param queue  The queue, below rnic_device_queues.
 * @return  The engine, for its counters.
 */
const struct engine *rnic_device_engine(const struct rnic *r, unsigned device, unsigned queue);

/**
 * Get the largest path MTU whose packets fit IP packets.
 *
 * @param mtu  Bytes of an IP packet.
 * @return  A value of enum ibv_mtu.
 */
uint32_t device_mtu_code(uint32_t mtu);
/** At most this many bytes surround a packet's payload inside the Ethernet frame: IPv6, UDP, the
 * longest transport headers, pad and ICRC. */
#define MTU_AROUND (40u + 8 + 12 + 28 + 3 + 4)

/* ---- objects of a session ---- */

/**
 * Get the segment of a session's context: doorbells and, by doorbell slot, the worker of each queue
 * pair.
 *
 * @param sn  A session with an open device.
 * @return  The shared memory.
 */
struct ctx_shared *session_shared(const struct session *sn);
/**
 * Get the segment of a completion queue.
 *
 * @param sn  A session with an open device.
 * @param handle  The completion queue's handle.
 * @return  The shared memory; NULL: the session has no such completion queue.
 */
void *session_cq_segment(struct session *sn, uint32_t handle);
/**
 * Get the segment of a queue pair.
 *
 * @param sn  A session with an open device.
 * @param qpn  The queue pair's number.
 * @return  The shared memory; NULL: the session has no such queue pair.
 */
void *session_qp_segment(struct session *sn, uint32_t qpn);
/**
 * Get the state of a queue pair.
 *
 * @param sn  A session with an open device.
 * @param qpn  The number of a queue pair of the session.
 * @return  A value of enum qp_state.
 */
uint32_t session_qp_state(struct session *sn, uint32_t qpn);
/**
 * Get the name of a queue pair's state.
 *
 * @param state  A value of enum qp_state, or any other.
 * @return  The name; "?" for any other value.
 */
const char *qp_state_name(uint32_t state);

#endif
