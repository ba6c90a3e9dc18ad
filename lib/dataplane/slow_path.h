/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of frames that are not RoCE between a port and the control thread: ARP, neighbour
 * discovery, ICMP and group membership for the port's IP host; all others too when a kernel is
 * behind the port (the exception path). Copies over two rings: the worker never waits, and what
 * does not fit is lost as on a wire.
 */
#ifndef UROCE_SLOW_PATH_H
#define UROCE_SLOW_PATH_H

#include "counter.h"
#include "frame.h"
#include "frame_ring.h"

struct slow_path {
    struct frame_ring *up;   /* received: worker to control thread */
    struct frame_ring *down; /* to be sent: control thread to worker */
    int event_fd;            /* readable after frames went up */
    uint8_t mac[6];          /* the port's: frames it sent itself do not go up */
    bool everything;         /* not only what the IP host wants */
    bool fresh;              /* the worker's: frames went up since the last event */
    counter_t up_frames, up_lost, down_frames; /* the worker's */
    uint64_t down_lost;                        /* the control thread's */
};

/* 0 or a negative errno. slow_path_fini also cleans up after a failure; no worker uses it then. */
int slow_path_init(struct slow_path *s, const uint8_t mac[6], bool everything);
void slow_path_fini(struct slow_path *s);

/* Whether anybody behind the slow path wants a received frame. Any worker. */
bool slow_path_wants(const struct slow_path *s, const struct frame *f);
/* Takes a copy of a frame that is wanted. The one worker; slow_path_notify after the burst. */
void slow_path_up(struct slow_path *s, const struct frame *f);
void slow_path_notify(struct slow_path *s);

/* Leaves a frame to be sent; the caller kicks the worker. The control thread. */
void slow_path_down(struct slow_path *s, const uint8_t *frame, uint32_t len);

#endif
