/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch: the way of a frame, its room in the shared buffer, and its mark. */
#include <string.h>

#include "crc_hash.h"
#include "fabric_internal.h"
#include "frame_peek.h"
#include "frame_trim.h"
#include "rss_frame.h"

const struct fabric_switch fabric_switch_default = {
    .buffer = 16 << 20,
    .alpha = 1024,
    .mark = FABRIC_MARK_RED,
    .mark_min = 100000,
    .mark_max = 400000,
    .mark_chance = 200000,
    .xon = 2 * FABRIC_FRAME_ROOM,
};

/* ---- the way ---- */

static uint32_t linear_hash(const struct node *s, const struct fabric_frame *frame)
{
    struct rss_frame r;

    if (!rss_frame_read(&r, frame->data, frame->len))
        return 0;
    return ecmp_hash(ECMP_CRC32, (uint32_t)s->seed, &r.tuple);
}

static unsigned flow_way(const struct node *s, const struct fabric_frame *frame, unsigned n)
{
    struct random r = {.state = frame->hash ^ s->seed};

    return random_below(&r, n);
}

/* The shortest queue; among equals a random one. */
static unsigned shortest(struct node *s, const uint16_t *port, unsigned n)
{
    unsigned start = random_below(&s->random, n), best = start;

    for (unsigned i = 1; i < n; i++) {
        unsigned at = (start + i) % n;

        if (s->port[port[at]]->queued_all < s->port[port[best]]->queued_all)
            best = at;
    }
    return best;
}

static unsigned choose(struct node *s, const struct fabric_frame *frame, const uint16_t *port,
                       unsigned n)
{
    if (n == 1)
        return 0;
    switch (s->config.spread) {
    case FABRIC_LINEAR:
        return ecmp_path_modulo(linear_hash(s, frame), n);
    case FABRIC_SPRAY:
        return random_below(&s->random, n);
    case FABRIC_ROUND_ROBIN:
        return s->turn++ % n;
    case FABRIC_ADAPTIVE:
        return shortest(s, port, n);
    case FABRIC_FLOW:
        break;
    }
    return flow_way(s, frame, n);
}

/* The port that leads to the frame's host; NULL: none. A link that is known to be down is left out
 * at once, before routes converge. */
static struct port *way_out(struct node *s, const struct fabric_frame *frame)
{
    struct node *last = route_last(s->fabric, frame->to);
    uint16_t usable[FABRIC_PORTS_MAX];
    const struct ways *w;
    struct port *direct;
    unsigned n = 0;

    if (!last)
        return NULL;
    if (last == s) {
        direct = s->fabric->node[s->fabric->host[frame->to]]->port[0]->peer;
        return direct->state == FABRIC_DOWN ? NULL : direct;
    }
    w = route_ways(s, last);
    for (unsigned i = 0; w && i < w->n; i++)
        if (s->port[w->port[i]]->state != FABRIC_DOWN)
            usable[n++] = w->port[i];
    return n ? s->port[usable[choose(s, frame, usable, n)]] : NULL;
}

/* ---- the buffer ---- */

static bool fits_shared(const struct node *s, const struct fabric_frame *frame)
{
    return s->shared + frame->len <= s->config.buffer;
}

static bool admit_lossless(struct node *s, struct port *in, struct fabric_frame *frame)
{
    uint8_t p = frame->priority;

    if (fits_shared(s, frame) && !in->in_headroom[p] &&
        in->in_shared[p] + frame->len <= pfc_limit(s))
        return true;
    if (in->in_headroom[p] + frame->len > in->headroom)
        return false;
    frame->in_headroom = true;
    return true;
}

static bool admit_lossy(const struct node *s, const struct port *out,
                        const struct fabric_frame *frame)
{
    uint64_t room = s->config.buffer - min_of(s->shared, s->config.buffer);

    return fits_shared(s, frame) &&
           out->queued[frame->priority] + frame->len <= room * s->config.alpha / 1024;
}

static bool admit(struct node *s, struct port *in, const struct port *out,
                  struct fabric_frame *frame)
{
    bool lossless = s->config.lossless >> frame->priority & 1;

    if (!(lossless ? admit_lossless(s, in, frame) : admit_lossy(s, out, frame)))
        return false;
    if (frame->in_headroom) {
        in->in_headroom[frame->priority] += frame->len;
        pfc_pause(in, frame->priority);
    } else {
        in->in_shared[frame->priority] += frame->len;
        s->shared += frame->len;
    }
    return true;
}

/* It leaves the buffer. */
static void left(struct port *out, const struct fabric_frame *frame)
{
    struct node *s = out->node;
    struct port *in = s->port[frame->in];
    uint64_t limit;
    uint8_t p = frame->priority;

    if (frame->in_headroom) {
        in->in_headroom[p] -= frame->len;
    } else {
        in->in_shared[p] -= frame->len;
        s->shared -= frame->len;
    }
    limit = pfc_limit(s);
    if (in->pausing >> p & 1 && !in->in_headroom[p] &&
        in->in_shared[p] + min_of(s->config.xon, limit / 2) <= limit)
        pfc_resume(in, p);
}

/* ---- the mark ---- */

static bool by_queue(struct node *s, uint64_t queued)
{
    const struct fabric_switch *c = &s->config;

    if (c->mark == FABRIC_MARK_NONE || queued <= c->mark_min)
        return false;
    if (c->mark == FABRIC_MARK_STEP || queued >= c->mark_max)
        return true;
    return random_below(&s->random, 1000000) <
           c->mark_chance * (queued - c->mark_min) / (c->mark_max - c->mark_min);
}

static void mark(struct node *s, struct port *out, struct fabric_frame *frame)
{
    bool told = out->mark_next != 0;

    if (!frame->may_mark || !(told || by_queue(s, out->queued[frame->priority])))
        return;
    out->mark_next -= told;
    frame_mark(frame->data, frame->len);
    frame->may_mark = false;
    out->counters.marked++;
}

/* ---- trimming ---- */

/*
 * There is no room for a frame: its headers go on, before what waits, and tell the receiver. They
 * are marked wherever marks are made, whatever the queue of the headers is: the frame's was full.
 * A port sends no shorter frames than of MIN_FRAME bytes. A priority with PFC loses nothing as long
 * as its headroom is right, and is not trimmed.
 */
static bool trim(struct node *s, struct port *in, struct port *out, struct fabric_frame *frame)
{
    bool marks = s->config.mark != FABRIC_MARK_NONE && frame->may_mark;
    uint32_t len;

    if (!s->config.trim || !frame->may_trim || s->config.lossless >> frame->priority & 1)
        return false;
    frame->may_trim = false;
    len = frame_trim(frame->data, frame->len, s->config.trim);
    frame->len = max_of(len, MIN_FRAME);
    if (frame->len > len)
        memset(frame->data + len, 0, frame->len - len);
    frame->priority = s->config.trim >> 3;
    if (!admit(s, in, out, frame))
        return false;
    if (marks)
        frame_mark(frame->data, len);
    frame->may_mark = false;
    out->counters.marked += marks;
    out->counters.trimmed++;
    s->fabric->totals.trimmed++;
    return true;
}

/* ---- all of it ---- */

static void forward(struct node *s, struct port *in, struct fabric_frame *frame)
{
    struct fabric *f = s->fabric;
    struct port *out = way_out(s, frame);

    frame->in = (uint16_t)in->index;
    frame->in_headroom = false;
    if (!out) {
        f->totals.unrouted++;
        fabric_frame_free(f, frame);
    } else if (!admit(s, in, out, frame) && !trim(s, in, out, frame)) {
        out->counters.dropped++;
        f->totals.dropped++;
        fabric_frame_free(f, frame);
    } else {
        mark(s, out, frame);
        port_enqueue(out, frame);
    }
}

static void receive(struct port *in, struct fabric_frame *frame)
{
    if (frame->is_pause)
        pfc_receive(in, frame);
    else
        forward(in->node, in, frame);
}

const struct port_ops switch_ops = {receive, left, NULL};
