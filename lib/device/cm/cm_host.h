/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host of the connection manager (lib/cm): one manager for all devices, so that a listener on a
 * wildcard address hears all ports. It gives the manager packets of queue pair 1, time and paths;
 * and programs' ids (cm_object.h) their events. Control thread.
 */
#ifndef UROCE_DEVICE_CM_HOST_H
#define UROCE_DEVICE_CM_HOST_H

#include <sys/queue.h>

#include "common.h"
#include "event_loop.h"
#include "gid.h"
#include "objects/handle_table.h"
#include "objects/walk.h"

struct cm;
struct cm_path;
struct cm_object;
struct cm_record;
struct ctl_cm_told;
struct device;
struct rnic;

/* Looking which ids have lost their address: cm_follow.c. */
struct cm_follow {
    struct event_job job;
    bool active, again; /* again: addresses have changed since it began */
    struct walk walk;
};

struct cm_host {
    struct cm *manager;
    /* What the library gets of an event: cm_event.c, which builds on all that makes events. */
    void (*tell)(const struct cm_record *r, struct ctl_cm_told *told);
    struct event_source timer;
    ns_t armed; /* when the timer is due; NS_NEVER */
    struct handle_table ids, channels;
    uint64_t serials; /* of ids, so far */
    /* cm_resolve.c: ids whose peer's address is being resolved, and a look at all of them, which is
     * a job, as there may be many. */
    TAILQ_HEAD(, cm_object) resolving;
    struct event_job look;
    struct cm_object *next; /* to look at */
    bool looking, again;
    ns_t first; /* before this, none of them is to be given up */
    /* cm_channel.c: channels with events that are sent when the loop has nothing else to do, by a
     * job that the loop has (sends_later). */
    TAILQ_HEAD(, cm_channel) due;
    struct event_job send;
    bool sends_later;
    struct cm_follow follow;
};

/* 0 or a negative errno. cm_host_close also cleans up after a failure. */
int cm_host_open(struct rnic *r);
void cm_host_close(struct rnic *r);

/* After each call of the manager that may change when its next timer is due. */
void cm_host_arm(struct rnic *r);

/* A MAD for queue pair 1 of path->port. */
void cm_host_rx(struct rnic *r, const struct cm_path *path, const uint8_t *mad, size_t len);

/* A device has got or lost addresses. */
void cm_host_addresses_changed(struct rnic *r);

/* Neighbours have been resolved, or were given up. */
void cm_host_resolved(struct rnic *r);

#endif
