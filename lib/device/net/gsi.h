/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pair 1 of a port, the general services interface: packets with management datagrams,
 * between the slow path and the connection manager (cm/cm_host.h). Control thread.
 *
 * Other parts of the daemon may talk over it, with MADs of a vendor's class: gsi_register() gives
 * the class a handler for requests and responses that arrive at any port; gsi_path_of() and
 * gsi_send() send a request to a peer's queue pair 1. Nothing is repeated: who asks keeps a
 * deadline of its own, and knows its answer by a transaction ID that cannot be guessed and by the
 * address that it came from. A peer without a handler answers by MAD_STATUS_BAD_METHOD_ATTRIBUTE.
 */
#ifndef UROCE_DEVICE_GSI_H
#define UROCE_DEVICE_GSI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cm.h"
#include "event_loop.h"

struct address_vector;
struct cm_path;
struct device;
struct rnic;

struct gsi_frame;
struct gsi_waiting;

/* What takes the frames of gsi_local.c, and what is told of room. */
struct gsi_local_ops {
    bool (*receive)(struct device *d, const uint8_t *frame, uint32_t len);
    void (*has_room)(struct device *d);
};

struct gsi {
    uint32_t psn;
    TAILQ_HEAD(, gsi_waiting)
    waiting; /* MADs whose next hop is being resolved, or for which
              * the worker has no room */
    unsigned waiting_count;
    bool is_full;        /* no room: cm_timer.c tries again */
    uint64_t rx, rx_bad; /* packets; of these, not as 13.5.3 and 10.2.5 want them */
    uint64_t tx, tx_unreachable;
    /* gsi_local.c: frames from the port to itself, which a job delivers while `delivering` */
    TAILQ_HEAD(, gsi_frame) local;
    unsigned local_count;
    bool delivering;
    struct event_job deliver;
    struct gsi_local_ops ops;
};

void gsi_init(struct device *d);
void gsi_fini(struct device *d);

/* A frame of the slow path, whose ICRC the worker has verified if it is RoCE. False: it is none. */
bool gsi_rx(struct device *d, const uint8_t *frame, uint32_t len);

/* Sends a MAD of MAD_LEN bytes, now or when the next hop is resolved, or not at all: a peer that
 * cannot be reached does not answer. */
void gsi_send(struct device *d, const struct cm_path *path, const uint8_t *mad);

/* The path of a MAD along an address vector of this device, as of a queue pair. */
void gsi_path_of(const struct device *d, const struct address_vector *av, struct cm_path *path);

/* Gives a management class, of a vendor or an application, a handler for all ports; see
 * gsi_classes_add(). way->port of what it gets is the device's index. The handler must not call the
 * connection manager; it may call gsi_send(). 0 or a negative errno. */
int gsi_register(struct rnic *r, uint8_t mgmt_class, const struct gsi_handler *handler);
void gsi_unregister(struct rnic *r, uint8_t mgmt_class);

/* A neighbour has been found, or was given up: net_host_ops.resolved. Sends nothing yet. */
void gsi_note_hop(struct device *d, const union gid *next_hop, uint16_t vlan, bool found);

/* Sends what gsi_note_hop() has noted; or the worker may have room again. */
void gsi_send_waiting(struct device *d);

/* ---- gsi_local.c ---- */

void gsi_local_init(struct gsi *g, const struct gsi_local_ops *ops);
void gsi_local_fini(struct device *d);

/* Whether frames of the port come back to it, and none but the control thread would see them. */
bool gsi_stays_inside(const struct device *d);

/* Queues a frame, whose ICRC is not read, for gsi_rx. False: there is no room. */
bool gsi_send_inside(struct device *d, const uint8_t *frame, uint32_t len);

#endif
