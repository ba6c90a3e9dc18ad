/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events for applications. */
#ifndef UROCE_DEVICE_ASYNC_H
#define UROCE_DEVICE_ASYNC_H

#include <stdint.h>

struct device;
struct dp_async;
struct rnic;
struct session;

/* Events of a port: numeric values of enum ibv_event_type. */
enum port_event {
    PORT_EVENT_ACTIVE = 9,
    PORT_EVENT_ERR = 10,
    PORT_EVENT_GID_CHANGE = 18,
};

/* Sends an event of a worker to its application. */
void async_send(struct rnic *r, const struct dp_async *e);
/* An event that the control thread itself finds (enum qp_event). */
void async_event(struct session *sn, uint64_t element, uint32_t type);
/* An event of the device's port, to all its applications. */
void async_port_event(struct device *d, enum port_event event);

#endif
