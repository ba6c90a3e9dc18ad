/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of queue pair 1 that the loopback port would only carry from the control thread to the
 * worker and back: two wake-ups, for frames that no other thread and no program sees. They go
 * straight to gsi_rx, in the same order, in a job of the loop: not in the call that sends them,
 * since the manager does not expect an answer within its own step. Where a capture or a flow rule
 * may show them, the port carries them.
 */
#include <stdlib.h>
#include <string.h>

#include "control/device_state.h"
#include "control/slice.h"
#include "net/gsi.h"

/* As many as the ring to the worker holds. */
#define LOCAL_MAX FRAME_RING_SLOTS

struct gsi_frame {
    TAILQ_ENTRY(gsi_frame) link;
    uint32_t len;
    uint8_t bytes[];
};

bool gsi_stays_inside(const struct device *d)
{
    return d->info.no_icrc && !d->flow_count && d->rnic->config.loop;
}

static void drop_frame(struct gsi *g, struct gsi_frame *f)
{
    TAILQ_REMOVE(&g->local, f, link);
    g->local_count--;
    free(f);
}

static bool deliver_some(struct event_job *job)
{
    struct gsi *g = container_of(job, struct gsi, deliver);
    struct device *d = container_of(g, struct device, gsi);
    struct slice s = slice_begin();
    struct gsi_frame *f;

    while ((f = TAILQ_FIRST(&g->local)) && !slice_over(&s)) {
        g->ops.receive(d, f->bytes, f->len);
        drop_frame(g, f);
    }
    if (g->is_full)
        g->ops.has_room(d);
    g->delivering = g->local_count > 0;
    return g->delivering;
}

bool gsi_send_inside(struct device *d, const uint8_t *frame, uint32_t len)
{
    struct gsi *g = &d->gsi;
    struct gsi_frame *f = g->local_count < LOCAL_MAX ? malloc(sizeof(*f) + len) : NULL;

    if (!f)
        return false;
    f->len = len;
    memcpy(f->bytes, frame, len);
    TAILQ_INSERT_TAIL(&g->local, f, link);
    g->local_count++;
    if (!g->delivering) {
        g->delivering = true;
        g->deliver.run = deliver_some;
        event_loop_start(d->rnic->config.loop, &g->deliver);
    }
    return true;
}

void gsi_local_init(struct gsi *g, const struct gsi_local_ops *ops)
{
    g->ops = *ops;
    TAILQ_INIT(&g->local);
}

void gsi_local_fini(struct device *d)
{
    struct gsi *g = &d->gsi;

    if (g->delivering)
        event_loop_stop(d->rnic->config.loop, &g->deliver);
    g->delivering = false;
    while (!TAILQ_EMPTY(&g->local))
        drop_frame(g, TAILQ_FIRST(&g->local));
}
