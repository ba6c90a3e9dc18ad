/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames between a port and the control thread. Received: ARP, neighbour discovery, ICMP and group
 * membership for the port's IP host; all other frames that are not RoCE too when a kernel is behind
 * the port (the exception path); packets to queue pair 1, the general services interface. They are
 * copied over two rings. The worker never waits: a frame that does not fit is lost, as on a wire.
 */
#ifndef UROCE_SLOW_PATH_H
#define UROCE_SLOW_PATH_H

#include "counter.h"
#include "frame.h"
#include "frame_ring.h"

/* Which frames that are not RoCE go up. */
enum slow_path_frames {
    SLOW_PATH_NONE,
    SLOW_PATH_IP_HOST,
    SLOW_PATH_ALL,
};

struct slow_path {
    struct frame_ring *up;   /* received: worker to control thread */
    struct frame_ring *down; /* to be sent: control thread to worker */
    int event_fd;            /* readable after frames went up */
    uint8_t mac[6];          /* the port's: its own frames do not go up */
    enum slow_path_frames frames;
    bool notify; /* the worker's: frames went up since the last event */
    counter_t up_frames, up_lost, down_frames; /* the worker's */
    uint64_t down_lost;                        /* the control thread's */
};

/* 0 or a negative errno. slow_path_fini also cleans up after a failure; no worker uses it then. */
int slow_path_init(struct slow_path *s, const uint8_t mac[6], enum slow_path_frames frames);
void slow_path_fini(struct slow_path *s);

/* Whether a received frame that is not RoCE goes up. Any worker. */
bool slow_path_wants(const struct slow_path *s, const struct frame *f);
/* Copies a frame up. The worker of the port's first part, which calls slow_path_notify after the
 * burst. */
void slow_path_up(struct slow_path *s, const struct frame *f);
void slow_path_notify(struct slow_path *s);

/* Queues a frame to be sent; the caller kicks the worker. False: there is no room. The control
 * thread. */
bool slow_path_try_down(struct slow_path *s, const uint8_t *frame, uint32_t len);
/* The same for frames that may be lost. */
void slow_path_down(struct slow_path *s, const uint8_t *frame, uint32_t len);

#endif
