/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames whose bytes late calls move. */
#include <stdlib.h>

#include "carrier.h"
#include "worker_internal.h"

static bool call_names(const struct mem_call *call, const struct frame *f)
{
    const uint8_t *end = f->data + max_of(f->len, f->room);

    for (unsigned i = 0; i < call->n; i++)
        if (call->io[i].local >= f->data && call->io[i].local < end)
            return true;
    return false;
}

static bool is_named(const struct worker *w, const struct frame *f)
{
    for (const struct worker_mem_call *c = w->late_in_burst; c; c = c->burst_next)
        if (call_names(&c->call, f))
            return true;
    return false;
}

static void give_back(struct worker_port *p, struct frame *f, unsigned n, bool lent)
{
    if (!n)
        return;
    if (lent)
        p->io->ops->tx_burst(p->io, p->queue, f, n, 0);
    else
        p->io->ops->rx_release(p->io, p->queue, f, n);
}

void copier_keep_frames(struct worker *w, struct worker_port *p, const struct frame *f, unsigned n,
                        bool lent)
{
    struct kept_frames *kept = malloc(sizeof(*kept));
    struct worker_mem_call *call;
    struct frame rest[FRAME_BURST];
    unsigned others = 0;

    if (kept)
        *kept = (struct kept_frames){.port = p, .lent = lent};
    for (unsigned i = 0; i < n; i++) {
        if (!is_named(w, &f[i]))
            rest[others++] = f[i];
        else if (kept) /* else it is lost for the port, but no other packet overwrites it */
            kept->f[kept->n++] = f[i];
    }
    give_back(p, rest, others, lent);
    while ((call = w->late_in_burst)) {
        w->late_in_burst = call->burst_next;
        call->kept = kept;
        if (kept)
            kept->calls++;
    }
    if (kept)
        w->kept += kept->n;
}

void copier_release_frames(struct worker *w, struct worker_mem_call *call)
{
    struct kept_frames *kept = call->kept;

    call->kept = NULL;
    if (!kept || --kept->calls)
        return;
    w->kept -= kept->n;
    give_back(kept->port, kept->f, kept->n, kept->lent);
    free(kept);
}
