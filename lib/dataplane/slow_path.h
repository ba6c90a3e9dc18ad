/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that are not RoCE, between a port and the control thread: ARP, neighbour discovery, ICMP
 * and group membership for the port's IP host; all other frames too when a kernel is behind the
 * port (the exception path). They are copied over two rings. The worker never waits: a frame that
 * does not fit is lost, as on a wire.
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
    uint8_t mac[6];          /* the port's: its own frames do not go up */
    bool everything;         /* all frames go up, not only the IP host's */
    bool notify;             /* the worker's: frames went up since the last event */
    counter_t up_frames, up_lost, down_frames; /* the worker's */
    uint64_t down_lost;                        /* the control thread's */
};

/* 0 or a negative errno. slow_path_fini also cleans up after a failure; no worker uses it then. */
int slow_path_init(struct slow_path *s, const uint8_t mac[6], bool everything);
void slow_path_fini(struct slow_path *s);

/* Whether a received frame goes up. Any worker. */
bool slow_path_wants(const struct slow_path *s, const struct frame *f);
/* Copies a frame up. The worker of the port's first part, which calls slow_path_notify after the
 * burst. */
void slow_path_up(struct slow_path *s, const struct frame *f);
void slow_path_notify(struct slow_path *s);

/* Queues a frame to be sent; the caller kicks the worker. The control thread. */
void slow_path_down(struct slow_path *s, const uint8_t *frame, uint32_t len);

#endif
