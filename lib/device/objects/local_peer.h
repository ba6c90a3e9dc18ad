/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections between two queue pairs of one port: no third one may send in the peer's name. */
#ifndef UROCE_DEVICE_LOCAL_PEER_H
#define UROCE_DEVICE_LOCAL_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct address_vector;
struct qp_object;

/* Before the queue pair's path is set: whether it is then to be held (engine_qp_hold), from the
 * moment on when it has the path. */
bool local_peer_prepare(struct qp_object *q, const struct address_vector *av, uint32_t dest_qpn);
/* The queue pair has the path: its peer may send. */
void local_peer_connected(struct qp_object *q, const struct address_vector *av, uint32_t dest_qpn);
/* The queue pair has no peer any more. */
void local_peer_reset(struct qp_object *q);

#endif
