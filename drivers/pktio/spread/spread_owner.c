/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue 0, whose worker drives the port below for all: it spreads what comes in, and sends what the
 * other queues left for it. */
#include <string.h>

#include "crc_hash.h"
#include "spread_internal.h"

/* ---- groups ---- */

/*
 * The port below gives a copy of each frame to a group back, on the queue that sent it: here always
 * its first. The copy of one that another queue of ours sent is that queue's.
 */
static bool to_group(const struct frame *f)
{
    return f->data[0] & 1;
}

static uint64_t digest(const struct frame *f)
{
    return (uint64_t)crc32_ieee(0, f->data, f->len) << 32 | f->len;
}

static void expect_copy(struct spread *s, const struct frame *f, unsigned queue)
{
    unsigned at = s->group_next++ % GROUPS_MAX;

    s->group[at].digest = digest(f);
    s->group[at].queue = queue;
}

static bool is_copy(struct spread *s, const struct frame *f, unsigned *queue)
{
    uint64_t d = digest(f);

    for (unsigned i = 0; i < GROUPS_MAX; i++) {
        if (s->group[i].digest == d) {
            s->group[i].digest = 0;
            *queue = s->group[i].queue;
            return true;
        }
    }
    return false;
}

/* ---- sending for the others ---- */

/* What queue `from` has left, one burst of it at most. */
static void send_for(struct spread *s, unsigned from)
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
            memcpy(f[used].data, slot_ring_data(&q->tx, e.slot), e.len);
            if (to_group(&f[used]))
                expect_copy(s, &f[used], from);
            used++;
        } else {
            counter_inc(&q->counters.tx_refused);
        }
        slot_fifo_put(&q->tx.back, (struct slot_entry){.slot = e.slot});
    }
    ops->tx_burst(s->inner, 0, f, n, used);
    s->moved = true;
}

/* The others take turns at being first, for a port that has room for few. */
static void send_for_all(struct spread *s)
{
    unsigned others = s->queues - 1;

    for (unsigned i = 0; i < others; i++)
        send_for(s, 1 + (s->turn + i) % others);
    s->turn++;
}

unsigned spread_owner_lend(struct spread *s, struct frame *f, unsigned n)
{
    if (s->queues > 1)
        send_for_all(s);
    return s->inner->ops->tx_lend(s->inner, 0, f, n);
}

void spread_owner_tx(struct spread *s, struct frame *f, unsigned n, unsigned used)
{
    s->inner->ops->tx_burst(s->inner, 0, f, n, used);
}

/* ---- spreading ---- */

static unsigned queue_of(struct spread *s, const struct frame *f)
{
    struct rss_frame r;
    unsigned queue;

    if (f->len < 14)
        return 0;
    if (to_group(f) && is_copy(s, f, &queue))
        return queue;
    /* What the worker of queue 0 sent, to the port itself or to a group. */
    if (!memcmp(f->data + 6, s->mac, sizeof(s->mac)))
        return 0;
    if (!rss_frame_read(&r, f->data, f->len))
        return 0;
    return spread_flow_find(&s->flows, &r, &queue) ? queue : rss_queue(&s->rss, &r.tuple);
}

static void give(struct spread_queue *q, const struct frame *f)
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

static struct frame keep(struct spread *s, const struct frame *f, unsigned inner_queue)
{
    uint16_t at = s->kept_free[--s->kept_free_count];
    struct frame kept = *f;

    s->kept[at] = (struct kept){.cookie = f->cookie, .queue = inner_queue};
    kept.cookie = (void *)(uintptr_t)at;
    return kept;
}

/* A burst of one queue of the port below; returns how many of it are queue 0's. */
static unsigned receive(struct spread *s, unsigned inner_queue, struct frame *out, unsigned n)
{
    const struct pktio_ops *ops = s->inner->ops;
    struct frame in[FRAME_BURST];
    unsigned got, done = 0, own = 0;
    uint64_t woken = 0;

    n = min_of(min_of(n, (unsigned)FRAME_BURST), s->kept_free_count);
    if (!n)
        return 0;
    got = ops->rx_burst(s->inner, inner_queue, in, n);
    for (unsigned i = 0; i < got; i++) {
        unsigned to = queue_of(s, &in[i]);

        if (!to) {
            out[own++] = keep(s, &in[i], inner_queue);
            continue;
        }
        give(&s->queue[to], &in[i]);
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
        send_for_all(s);
    for (unsigned i = 0; i < s->inner_queues && count < n; i++)
        count += receive(s, (s->inner_turn + i) % s->inner_queues, f + count, n - count);
    s->inner_turn++;
    return count;
}

/* Those of one queue in a row go back together. */
void spread_owner_release(struct spread *s, struct frame *f, unsigned n)
{
    for (unsigned i = 0, first = 0; i < n; i++) {
        uint16_t at = (uint16_t)(uintptr_t)f[i].cookie;
        struct kept k = s->kept[at];

        s->kept_free[s->kept_free_count++] = at;
        f[i].cookie = k.cookie;
        if (i + 1 == n || s->kept[(uintptr_t)f[i + 1].cookie].queue != k.queue) {
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
 * A worker that passes frames to others all the time finds none for itself. It would go to sleep
 * between any two, so it is told to look once more as long as there were some.
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
