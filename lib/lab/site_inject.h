/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules (lib/inject) between a host and its port: each frame passes, perhaps changed, waits, or is
 * gone. A host without rules has none of this.
 */
#ifndef UROCE_LAB_SITE_INJECT_H
#define UROCE_LAB_SITE_INJECT_H

#include "fabric.h"
#include "inject_act.h"

struct site_inject;

/* What the host does; each frame becomes its own. */
struct site_inject_ops {
    /* A frame goes on. */
    void (*pass)(void *host, enum inject_direction way, struct fabric_frame *frame);
    /* A rule says that it is gone; qpn: as engine_rx_dropped. */
    void (*drop)(void *host, enum inject_direction way, struct fabric_frame *frame, uint32_t qpn);
    /* Frames that have waited have gone on, in an event of their own. */
    void (*released)(void *host);
};

/* rule: n of them, at least one, borrowed; the array is copied. NULL: out of memory. */
struct site_inject *site_inject_create(struct fabric *fabric, const struct site_inject_ops *ops,
                                       void *host, struct inject_live *const *rule, unsigned n);
/* Frees the frames that wait, too. NULL: nothing happens. */
void site_inject_free(struct site_inject *si);

/* A frame that the host sends, or gets: pass() or drop() is called of it now, or pass() later, and
 * in any case of those that it lets go. */
void site_inject_frame(struct site_inject *si, enum inject_direction way,
                       struct fabric_frame *frame);

#endif
