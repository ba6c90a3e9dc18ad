/* SPDX-License-Identifier: BSD-3-Clause */
/* Incidents that the control thread knows of: calls of programs that failed. */
#ifndef UROCE_DEVICE_INCIDENT_CALL_H
#define UROCE_DEVICE_INCIDENT_CALL_H

#include "incident.h"

struct ah_attr;
struct device;
struct session;

/* What is wrong with an address vector. */
enum address_wrong {
    ADDRESS_NOT_GLOBAL = 1,
    ADDRESS_PORT,
    ADDRESS_NO_DGID,
    ADDRESS_KINDS,
};

/* Whose a session's objects are. */
struct incident_program session_program(const struct session *sn);

/* Keeps the incident of a session's call, about a queue pair or (qpn 0) none; d NULL: the call is
 * of no device, and the first one keeps it. */
void incident_keep(struct session *sn, struct device *d, uint32_t qpn, struct incident *i);

/* The way to an address was asked for, for a queue pair or (qpn 0) an address handle; err is what
 * came of it. Keeps an incident if there is no way. */
void incident_of_resolve(struct session *sn, uint32_t qpn, uint32_t dest_qpn,
                         const struct ah_attr *attr, int err);
/* A rule of `uroce fault` lets a call fail: enum inject_verb, a positive errno. */
void incident_of_rule(struct session *sn, struct device *d, unsigned verb, int error);
/* A call about a queue pair failed, for the cause in *i, if it has one. */
void incident_of_modify(struct session *sn, uint32_t qpn, struct incident *i);

#endif
