/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On which of its port's workers a queue pair lives: where its packets arrive, as far as that is
 * predictable. The port's hash covers addresses and UDP ports, and the peer's source port follows
 * from a rule that both ends know (entropy.h). Where nothing can be predicted, the worker with the
 * fewest queue pairs gets it, and a flow rule brings its packets there if the port supports rules.
 * Packets that arrive elsewhere nevertheless are forwarded, until the queue pair migrates to where
 * they arrive.
 */
#ifndef UROCE_DEVICE_STEER_H
#define UROCE_DEVICE_STEER_H

#include "objects/qp_object.h"
#include "predict.h"

struct device;

/* The part of the port with the fewest queue pairs. */
struct worker_port *device_next_port(struct device *d);

/* Assigns a queue pair to a part and counts it; steer_end also removes its flow rule. */
void steer_begin(struct session *sn, struct qp_object *q, struct worker_port *p);
void steer_end(struct session *sn, struct qp_object *q);
/* Before the queue pair gets its peer's address: migrates it to where the peer's packets will
 * arrive. */
void steer_connect(struct qp_object *q, const struct address_vector *av, const struct qp_attr *attr,
                   uint32_t mask);
/* Packets of a queue pair keep arriving at another worker. */
void steer_misplaced(struct qp_object *q, uint32_t worker);

/* The address is one of the port's, so that the peer is on this port. */
bool device_has_address(const struct device *d, const struct address_vector *av);
const char *steer_reason_name(enum steer_reason reason);
/* The addresses and ports of the peer's packets: RoCEv2, from another port, if the peer follows
 * this port's rule. False: not predictable. */
bool steer_predict(const struct qp_object *q, struct rss_tuple *t);

#endif
