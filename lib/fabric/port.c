/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: queues by priority, and the link behind. */
#include "fabric_internal.h"

/* ---- which frame is next ---- */

static bool may_leave(const struct port *p, unsigned priority)
{
    return p->queue[priority].first && p->paused_until[priority] <= p->fabric->now;
}

static int next_strict(const struct port *p)
{
    for (unsigned i = FABRIC_PRIORITIES; i-- > STRICT_FROM;)
        if (may_leave(p, i))
            return (int)i;
    return -1;
}

/* Deficit round robin. What a turn gives is enough for any frame, so a round finds one. */
static int next_in_turn(struct port *p)
{
    for (unsigned tried = 0; tried <= STRICT_FROM; tried++) {
        if (may_leave(p, p->turn) && p->credit[p->turn] >= p->queue[p->turn].first->len)
            return (int)p->turn;
        if (!p->queue[p->turn].first)
            p->credit[p->turn] = 0;
        p->turn = (p->turn + 1) % STRICT_FROM;
        if (may_leave(p, p->turn))
            p->credit[p->turn] += TURN_BYTES;
    }
    return -1;
}

static struct fabric_frame *take_next(struct port *p)
{
    struct fabric_frame *frame = frames_take(&p->control);
    int priority;

    if (frame)
        return frame;
    priority = next_strict(p);
    if (priority < 0) {
        priority = next_in_turn(p);
        if (priority < 0)
            return NULL;
        p->credit[priority] -= p->queue[priority].first->len;
    }
    frame = frames_take(&p->queue[priority]);
    p->queued[priority] -= frame->len;
    p->queued_all -= frame->len;
    p->frames_queued--;
    return frame;
}

/* ---- the link ---- */

static void arrive(void *object, uint64_t value);

static void plan_arrival(struct port *p)
{
    if (p->flight.first)
        fabric_at(p->fabric, p->flight.first->at, arrive, p, 0);
}

static bool is_lost(struct port *p, const struct fabric_frame *frame)
{
    if (p->lose_next && !frame->is_pause) {
        p->lose_next--;
        return true;
    }
    return p->state != FABRIC_UP ||
           (p->loss && (uint32_t)(random_next(&p->random) >> 32) <= p->loss);
}

/* The first frame in flight arrives at the other end. */
static void arrive(void *object, uint64_t value)
{
    struct port *p = object;
    struct fabric_frame *frame = frames_take(&p->flight);

    plan_arrival(p);
    if (is_lost(p, frame)) {
        p->counters.lost += !frame->is_pause;
        p->fabric->totals.lost += !frame->is_pause;
        fabric_frame_free(p->fabric, frame);
        return;
    }
    p->peer->ops->receive(p->peer, frame);
}

static void launch(struct port *p, struct fabric_frame *frame)
{
    struct fabric *f = p->fabric;
    uint64_t bits = (uint64_t)(frame->len + FABRIC_GAP) * 8 * NS_PER_SEC + p->carry;
    bool first = !p->flight.first;

    p->counters.frames += !frame->is_pause;
    p->counters.bytes += frame->is_pause ? 0 : frame->len;
    if (f->hooks.tap)
        f->hooks.tap(f->hooks.ctx, p->number, frame->data, frame->len);
    p->busy_until = f->now + bits / p->bps;
    p->carry = bits % p->bps;
    frame->at = p->busy_until + p->delay;
    frames_append(&p->flight, frame);
    if (first)
        plan_arrival(p);
}

/* ---- sending ---- */

static void tell_ready(struct port *p)
{
    if (p->ops->ready)
        p->ops->ready(p);
}

static void done(void *object, uint64_t value)
{
    struct port *p = object;

    p->done_due = false;
    port_transmit(p);
    tell_ready(p);
}

static void await_done(struct port *p)
{
    if (p->done_due)
        return;
    p->done_due = true;
    fabric_at(p->fabric, p->busy_until, done, p, 0);
}

void port_transmit(struct port *p)
{
    struct fabric_frame *frame;

    if (p->fabric->now < p->busy_until) {
        await_done(p);
        return;
    }
    frame = take_next(p);
    if (!frame)
        return;
    launch(p, frame);
    if (!frame->is_pause)
        p->ops->left(p, frame);
    if (p->ops->ready || p->frames_queued || p->control.first)
        await_done(p);
}

void port_enqueue(struct port *p, struct fabric_frame *frame)
{
    frames_append(&p->queue[frame->priority], frame);
    p->queued[frame->priority] += frame->len;
    p->queued_all += frame->len;
    p->frames_queued++;
    p->peak = max_of(p->peak, p->queued_all);
    p->counters.queue_most = max_of(p->counters.queue_most, p->queued_all);
    port_transmit(p);
}

void port_clear(struct port *p)
{
    for (unsigned i = 0; i < FABRIC_PRIORITIES; i++)
        frames_clear(p->fabric, &p->queue[i]);
    frames_clear(p->fabric, &p->control);
    frames_clear(p->fabric, &p->flight);
}

/* ---- pauses ---- */

void port_count_pause(struct port *p)
{
    ns_t now = p->fabric->now;
    bool paused = false;

    for (unsigned i = 0; i < FABRIC_PRIORITIES; i++)
        paused |= p->paused_until[i] > now;
    if (p->paused)
        p->counters.paused += now - p->paused_since;
    p->paused = paused;
    p->paused_since = now;
}

static void pause_over(void *object, uint64_t value)
{
    struct port *p = object;

    port_count_pause(p);
    port_transmit(p);
    tell_ready(p);
}

void port_pause(struct port *p, uint8_t priorities, const uint16_t quanta[FABRIC_PRIORITIES])
{
    ns_t now = p->fabric->now, until = 0;
    bool stops = false;

    for (unsigned i = 0; i < FABRIC_PRIORITIES; i++) {
        if (!(priorities >> i & 1))
            continue;
        p->paused_until[i] = now + quanta[i] * 512 * NS_PER_SEC / p->bps;
        until = max_of(until, p->paused_until[i]);
        stops |= quanta[i] != 0;
    }
    p->counters.pauses += stops;
    port_count_pause(p);
    if (stops)
        fabric_at(p->fabric, until, pause_over, p, 0);
    port_transmit(p);
    tell_ready(p);
}
