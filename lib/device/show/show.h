/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that write the daemon's state as JSON. Values belong to their caller. */
#ifndef UROCE_DEVICE_SHOW_H
#define UROCE_DEVICE_SHOW_H

#include <jansson.h>
#include <stdbool.h>

#include "entropy.h"
#include "gid.h"
#include "session.h"

struct device;
struct incident;
struct object;
struct qp_object;
struct rnic;
struct trace_record;
struct worker;

/* Items of a list that are made at once. */
#define SHOW_BATCH 16

/* For whom the JSON is. */
struct viewer {
    uid_t uid;
    bool all; /* root or the daemon's user */
};

/* Whether the viewer may see a session and its objects. */
bool viewer_sees(const struct viewer *v, const struct session *sn);

/* Whether a queue pair that the viewer may see has this number. */
bool show_sees_qp(const struct viewer *v, const struct device *d, uint32_t qpn);
/* A record of an engine's trace, which the viewer may see. */
json_t *show_record(const struct viewer *v, const struct device *d, unsigned part,
                    const struct trace_record *r);

/* What failed at a queue pair, or a call of a program; whether the viewer may see it. */
bool show_sees_incident(const struct viewer *v, const struct incident *i);
/* Packets that the port did not take since it was opened. */
uint64_t show_refused(const struct device *d);
json_t *show_incident(const struct device *d, const struct incident *i);

const char *qp_type_name(uint32_t type);

/* CTL_SHOW: show_job.c. */
int show(struct session *sn, struct ctl_call *call);
/* The session ends: nothing waits for its answer any more. */
void show_cancel(struct session *sn);

json_t *show_number(uint64_t v);
/* A name of 63 bytes at most, which need not be UTF-8. */
json_t *show_name(const char *name);
json_t *show_gid(const union gid *gid);
json_t *show_mac(const uint8_t mac[6]);
json_t *show_entropy(const struct entropy_policy *policy);

/* ---- a port, in parts that take far less than a slice each ---- */

/* Its members without lists of addresses. */
json_t *show_port(const struct device *d);
/* Lists: at most SHOW_BATCH items from a number on; empty: there are no more. */
json_t *show_gids(const struct device *d, unsigned from);
json_t *show_neighbours(const struct device *d, unsigned from);
json_t *show_routes(const struct device *d, unsigned from);
json_t *show_groups(const struct device *d, unsigned from);
json_t *show_path_mtus(const struct device *d, unsigned from);

json_t *show_net_counters(const struct device *d);
/* Sets "state" of an address that is one of the host's. */
void show_address_state(json_t *o, const struct device *d, const union gid *addr, uint16_t vlan);

/* The values of n objects of one session and kind, at most SHOW_BATCH. */
void show_mrs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_qps(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_pds(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_cqs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_srqs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_wqs(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_tables(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);
void show_flows(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);

void show_cm_ids(const struct viewer *v, struct object *const *o, unsigned n, json_t **out);

/* The connection manager's counters. */
json_t *show_cm(const struct rnic *r);
/* The daemon's members that are no lists; a worker; a client. */
json_t *show_daemon(const struct rnic *r);
json_t *show_worker(const struct worker *w);
json_t *show_session(const struct session *sn);

/* Those that threads wait for, as far as the viewer may see them; the first part from 0 on. NULL:
 * there are no more parts. */
json_t *show_late(const struct viewer *v, const struct rnic *r, unsigned part);
/* A device's histogram of a stage (enum latency_stage); NULL: it has no samples. */
json_t *show_latency(const struct device *d, unsigned stage);

/* A rule of `uroce fault`, the first from 0 on; NULL: there are no more. */
json_t *show_fault(const struct rnic *r, unsigned number);

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
/* What a user has and may have: of those that the viewer may see, the one of this number; after
 * them, for those who see all, the totals. NULL: there is none. */
json_t *show_user_quotas(const struct viewer *v, const struct rnic *r, unsigned number);

/* Adds "steering" to a port, and to a queue pair its worker and the reason: show_steering.c. */
void show_steering(json_t *port, const struct device *d);
void show_qp_steering(json_t *qp, const struct qp_object *q);

#endif
