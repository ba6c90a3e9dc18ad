/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that write the daemon's state as JSON. Values belong to their caller. */
#ifndef UROCE_DEVICE_SHOW_H
#define UROCE_DEVICE_SHOW_H

#include <jansson.h>

#include "entropy.h"
#include "gid.h"
#include "session.h"

struct device;
struct object;
struct qp_object;

/* For whom the JSON is. */
struct viewer {
    uid_t uid;
    bool all; /* root or the daemon's user */
};

/* Whether the viewer may see a session and its objects. */
bool viewer_sees(const struct viewer *v, const struct session *sn);

/* CTL_SHOW: show_job.c. */
int show(struct session *sn, struct ctl_call *call);
/* The session ends: nothing waits for its answer any more. */
void show_cancel(struct session *sn);

json_t *show_number(uint64_t v);
json_t *show_gid(const union gid *gid);
json_t *show_mac(const uint8_t mac[6]);
json_t *show_entropy(const struct entropy_policy *policy);

/* Adds the state of the port's IP host: neighbours, routes, groups, path_mtus, network (counters).
 */
void show_net(json_t *port, const struct device *d);
/* Sets "state" of an address that is one of the host's. */
void show_address_state(json_t *o, const struct device *d, const union gid *addr, uint16_t vlan);

/* The values of n objects of one session and kind, at most SHOW_BATCH. */
#define SHOW_BATCH 32
void show_mrs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_qps(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_wqs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_tables(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_flows(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);

/* The daemon's object without clients and their objects; and a client. */
json_t *show_daemon(const struct viewer *v, struct rnic *r);
json_t *show_session(const struct session *sn);

/* Adds "mrs_denied" and "mrs_why", how many times a region was mapped or copied for which reason.
 */
void show_mr_counts(json_t *device, const struct device *d);
/* Adds "mrs_why", how many regions are mapped or copied for which reason. */
void show_mr_reasons(json_t *session, const struct session *sn);

/* Adds rx_hash to a queue pair. */
void show_rx_hash(json_t *qp, const struct qp_object *q);

/* Adds what a connection has of the daemon, and how many times it was refused more: show_quota.c.
 */
void show_account(json_t *client, const struct session *sn);
/* Adds "quotas": what users have and may have; to those who see all, also the totals. */
void show_quotas(json_t *root, const struct viewer *v, const struct rnic *r);

/* Adds "steering" to a port, and to a queue pair its worker and the reason: show_steering.c. */
void show_steering(json_t *port, const struct device *d);
void show_qp_steering(json_t *qp, const struct qp_object *q);

#endif
