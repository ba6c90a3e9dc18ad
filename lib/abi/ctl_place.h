/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol (ctl_msg.h): where the memory is that daemon and application share. */
#ifndef UROCE_CTL_PLACE_H
#define UROCE_CTL_PLACE_H

#include <stdint.h>

/*
 * Where the segment of a queue is: in a slab, a memfd of this connection that holds many segments.
 * The first reply that names a slab carries its descriptor. The application maps the whole slab,
 * and keeps the mapping until a reply says that the slab is gone. It must handle replies in their
 * order.
 */
struct ctl_place {
    uint64_t slab; /* not 0; never used again on this connection */
    uint64_t offset;
    uint64_t gone; /* CTL_MODIFY_SRQ: a slab that has become empty and is gone, or 0 */
};

struct ctl_destroy {
    uint32_t handle;
    uint32_t reserved;
    /* Reply: a slab that has become empty and is gone, or 0. Request: a slab whose descriptor did
     * not reach the application, or 0: it is not kept when it becomes empty. */
    uint64_t slab_gone;
};

#endif
