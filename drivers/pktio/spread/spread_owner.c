/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue 0, whose worker drives the port below for all queues: it spreads received frames, and sends
 * those that the other queues put into their rings. */
#include <isa-l/crc.h>
#include <string.h>

#include "spread_internal.h"

/* ---- multicast ---- */

/*
 * The port below returns a copy of each multicast frame on the queue that sent it, which is always
 * its first queue here. A copy of a frame that another queue has sent belongs to that queue.
 */
static bool is_multicast(const struct frame *f)
{
    return f->data[0] & 1;
}

static uint64_t frame_digest(const struct frame *f)
{
    return (uint64_t)crc32_gzip_refl(0, f->data, f->len) << 32 | f->len;
}

static void expect_group_copy(struct spread *s, const struct frame *f, unsigned queue)
{
    unsigned at = s->group_next++ % GROUP_COPIES_MAX;

    s->group[at].digest = frame_digest(f);
    s->group[at].queue = queue;
}

static bool is_group_copy(struct spread *s, const struct frame *f, unsigned *queue)
{
    uint64_t d = frame_digest(f);

    for (unsigned i = 0; i < GROUP_COPIES_MAX; i++) {
        if (s->group[i].digest == d) {
            s->group[i].digest = 0;
            *queue = s->group[i].queue;
            return true;
        }
    }
    return false;
}

/* ---- sending for the others ---- */

/* Sends at most one burst of the frames that queue `from` has put into its ring. */
static void send_for_queue(struct spread *s, unsigned from)
{
    const struct pktio_ops *ops = s->inner->ops;
    struct spread_queue *q = &s->queue[from];
    unsigned n = min_of(slot_fifo_count(&q->tx.out), (uint32_t)FRAME_BURST), used = 0;
    struct frame f[FRAME_BURST];

    if (!n)
        return;
    n = ops->tx_lend(s->inner, 0, f, n);
    if (!n)
        return;
    for (unsigned i = 0; i < n; i++) {
        struct slot_entry e = {0};

        slot_fifo_take(&q->tx.out, &e);
        if (e.len <= f[used].room) {
            f[used].len = e.len;
            f[used].icrc_omitted = false; /* the ring's frames have one, right or wrong */
            memcpy(f[used].data, slot_ring_data(&q->tx, e.slot), e.len);
            if (is_multicast(&f[used]))
                expect_group_copy(s, &f[used], from);
            used++;
        } else {
            counter_inc(&q->counters.tx_refused);
        }
        slot_fifo_put(&q->tx.back, (struct slot_entry){.slot = e.slot});
    }
    ops->tx_burst(s->inner, 0, f, n, used);
    s->moved = true;
}

/* The other queues alternate at being first, for a port that has little room. */
static void send_for_all_queues(struct spread *s)
{
    unsigned others = s->queues - 1;

    for (unsigned i = 0; i < others; i++)
        send_for_queue(s, 1 + (s->turn + i) % others);
    s->turn++;
}

unsigned spread_owner_lend(struct spread *s, struct frame *f, unsigned n)
{
    if (s->queues > 1)
        send_for_all_queues(s);
    return s->inner->ops->tx_lend(s->inner, 0, f, n);
}

void spread_owner_tx(struct spread *s, struct frame *f, unsigned n, unsigned used)
{
    s->inner->ops->tx_burst(s->inner, 0, f, n, used);
}

/* ---- spreading ---- */

static unsigned choose_queue(struct spread *s, const struct frame *f)
{
    struct rss_frame r;
    unsigned queue;

    if (f->len < 14)
        return 0;
    if (is_multicast(f) && is_group_copy(s, f, &queue))
        return queue;
    /* A frame that the worker of queue 0 has sent, to the port itself or to a group. */
    if (!memcmp(f->data + 6, s->mac, sizeof(s->mac)))
        return 0;
    if (!rss_frame_read(&r, f->data, f->len))
        return 0;
    return spread_flow_find(&s->flows, &r, &queue) ? queue : rss_queue(&s->rss, &r.tuple);
}

static void copy_to_queue(struct spread_queue *q, const struct frame *f)
{
    uint16_t slot;

    if (f->len > q->in.room) {
        counter_inc(&q->counters.rx_unusable);
        return;
    }
    if (!q->in.free_count)
        slot_ring_collect(&q->in);
    if (!q->in.free_count) {
        counter_inc(&q->counters.rx_overflow);
        return;
    }
    slot = q->in.free[--q->in.free_count];
    memcpy(slot_ring_data(&q->in, slot), f->data, f->len);
    slot_fifo_put(&q->in.out, (struct slot_entry){.slot = slot, .len = f->len});
}

static struct frame hold_frame(struct spread *s, const struct frame *f, unsigned inner_queue)
{
    uint16_t at = s->held_free[--s->held_free_count];
    struct frame held = *f;

    s->held[at] = (struct spread_held){.cookie = f->cookie, .queue = inner_queue};
    held.cookie = (void *)(uintptr_t)at;
    return held;
}

/* Receives a burst of one queue of the port below; returns how many of its frames queue 0 gets. */
static unsigned receive_from(struct spread *s, unsigned inner_queue, struct frame *out, unsigned n)
{
    const struct pktio_ops *ops = s->inner->ops;
    struct frame in[FRAME_BURST];
    unsigned received, done = 0, own = 0;
    uint64_t woken = 0;

    n = min_of(min_of(n, (unsigned)FRAME_BURST), s->held_free_count);
    if (!n)
        return 0;
    received = ops->rx_burst(s->inner, inner_queue, in, n);
    for (unsigned i = 0; i < received; i++) {
        unsigned to = choose_queue(s, &in[i]);

        if (!to) {
            out[own++] = hold_frame(s, &in[i], inner_queue);
            continue;
        }
        copy_to_queue(&s->queue[to], &in[i]);
        in[done++] = in[i];
        woken |= UINT64_C(1) << to;
    }
    if (done)
        ops->rx_release(s->inner, inner_queue, in, done);
    for (; woken; woken &= woken - 1) {
        struct spread_queue *q = &s->queue[__builtin_ctzll(woken)];

        spread_wake(q->wake_fd, &q->armed);
    }
    s->moved |= done;
    return own;
}

unsigned spread_owner_rx(struct spread *s, struct frame *f, unsigned n)
{
    unsigned count = 0;

    if (s->queues > 1)
        send_for_all_queues(s);
    for (unsigned i = 0; i < s->inner_queues && count < n; i++)
        count += receive_from(s, (s->inner_turn + i) % s->inner_queues, f + count, n - count);
    s->inner_turn++;
    return count;
}

/* Consecutive frames of one queue of the port below are released together. */
void spread_owner_release(struct spread *s, struct frame *f, unsigned n)
{
    for (unsigned i = 0, first = 0; i < n; i++) {
        uint16_t at = (uint16_t)(uintptr_t)f[i].cookie;
        struct spread_held k = s->held[at];

        s->held_free[s->held_free_count++] = at;
        f[i].cookie = k.cookie;
        if (i + 1 == n || s->held[(uintptr_t)f[i + 1].cookie].queue != k.queue) {
            s->inner->ops->rx_release(s->inner, k.queue, f + first, i + 1 - first);
            first = i + 1;
        }
    }
}

/* ---- waking ---- */

static bool nothing_to_send(struct spread *s)
{
    for (unsigned i = 1; i < s->queues; i++)
        if (!slot_fifo_empty(&s->queue[i].tx.out))
            return false;
    return true;
}

/*
 * A worker that passes all its frames to other queues finds none for itself, and would go to sleep
 * between any two bursts. False makes it poll once more, as long as frames pass.
 */
bool spread_owner_arm(struct spread *s)
{
    bool armed = true;

    if (s->moved) {
        s->moved = false;
        return false;
    }
    spread_drain(s->kick_fd);
    atomic_store(&s->armed, true);
    for (unsigned i = 0; i < s->inner_queues; i++)
        armed &= s->inner->ops->wake_arm(s->inner, i);
    return armed && nothing_to_send(s);
}
