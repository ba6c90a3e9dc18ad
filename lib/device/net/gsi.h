/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pair 1 of a port, the general services interface: packets with management datagrams,
 * between the slow path and the connection manager (cm/cm_host.h). Control thread.
 */
#ifndef UROCE_DEVICE_GSI_H
#define UROCE_DEVICE_GSI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct cm_path;
struct device;

struct gsi_waiting;

struct gsi {
    uint32_t psn;
    TAILQ_HEAD(, gsi_waiting)
    waiting; /* MADs whose next hop is being resolved, or for which
              * the worker has no room */
    unsigned waiting_count;
    bool is_full;        /* no room: cm_timer.c tries again */
    uint64_t rx, rx_bad; /* packets; of these, not as 13.5.3 and 10.2.5 want them */
    uint64_t tx, tx_unreachable;
};

void gsi_init(struct device *d);
void gsi_fini(struct device *d);

/* A frame of the slow path, whose ICRC the worker has verified if it is RoCE. False: it is none. */
bool gsi_rx(struct device *d, const uint8_t *frame, uint32_t len);

/* Sends a MAD of MAD_LEN bytes, now or when the next hop is resolved, or not at all: a peer that
 * cannot be reached does not answer. */
void gsi_send(struct device *d, const struct cm_path *path, const uint8_t *mad);

/* Neighbours have been resolved, or were given up; or the worker may have room again. */
void gsi_send_waiting(struct device *d);

#endif
