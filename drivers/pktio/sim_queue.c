/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue of the simulated port, and the bad cable. See sim.h. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rss_frame.h"
#include "sim_internal.h"

#define QUEUE_SHIFT 16
#define END_SHIFT   24

/* ---- fifos ---- */

static void fifo_put(struct sim_fifo *f, struct sim_entry e)
{
    f->entry[f->tail++ & f->mask] = e;
}

static bool fifo_empty(const struct sim_fifo *f)
{
    return f->head == f->tail;
}

static bool fifo_take(struct sim_fifo *f, struct sim_entry *e)
{
    if (fifo_empty(f))
        return false;
    *e = f->entry[f->head++ & f->mask];
    return true;
}

/* ---- frames and slots ---- */

static uint8_t *slot_data(const struct sim_queue *owner, unsigned slot)
{
    return owner->memory + (size_t)slot * SIM_ROOM;
}

static struct frame slot_frame(struct sim_queue *owner, struct sim_entry e, uint32_t room)
{
    struct frame f = {
        .data = slot_data(owner, e.slot),
        .len = e.len,
        .room = room,
        .cookie = (void *)((uintptr_t)owner->end->index << END_SHIFT |
                           (uintptr_t)owner->index << QUEUE_SHIFT | e.slot),
    };

    return f;
}

static uint16_t frame_slot(const struct frame *f)
{
    return (uint16_t)(uintptr_t)f->cookie;
}

static struct sim_queue *frame_owner(struct sim_link *l, const struct frame *f)
{
    uintptr_t cookie = (uintptr_t)f->cookie;

    return &l->end[cookie >> END_SHIFT].queue[cookie >> QUEUE_SHIFT & 0xFF];
}

static void collect_returned_slots(struct sim_queue *q)
{
    struct sim_entry back;

    pthread_mutex_lock(&q->lock);
    while (fifo_take(&q->back, &back))
        sim_slot_free(q, back.slot);
    pthread_mutex_unlock(&q->lock);
}

/* ---- receiving ---- */

unsigned sim_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct sim_queue *q = &sim_end_of(io)->queue[queue];
    struct sim_end *peer = sim_peer_of(q->end);
    struct sim_entry entry;
    unsigned count = 0;

    while (count < n && fifo_take(&q->local, &entry))
        f[count++] = slot_frame(q, entry, 0);
    pthread_mutex_lock(&q->lock);
    while (count < n && fifo_take(&q->in, &entry))
        f[count++] = slot_frame(&peer->queue[entry.queue], entry, 0);
    pthread_mutex_unlock(&q->lock);
    return count;
}

void sim_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct sim_queue *q = &sim_end_of(io)->queue[queue];

    for (unsigned i = 0; i < n; i++) {
        struct sim_queue *owner = frame_owner(q->end->link, &f[i]);

        if (owner == q) {
            sim_slot_free(q, frame_slot(&f[i]));
            continue;
        }
        pthread_mutex_lock(&owner->lock);
        fifo_put(&owner->back, (struct sim_entry){.slot = frame_slot(&f[i])});
        pthread_mutex_unlock(&owner->lock);
    }
}

/* ---- the choice of a queue ---- */

static bool rule_matches(const struct pktio_flow *flow, const struct rss_frame *r)
{
    if (!gid_eq(&flow->dst, &r->tuple.dst))
        return false;
    return flow->sport ? flow->sport == r->tuple.sport && gid_eq(&flow->src, &r->tuple.src)
                       : flow->dest_qpn == r->dest_qpn;
}

static bool find_rule(struct sim_end *e, const struct rss_frame *r, unsigned *queue)
{
    bool found = false;

    pthread_mutex_lock(&e->lock);
    for (unsigned i = 0; i < e->link->config.flows && !found; i++) {
        found = e->rule[i].used && rule_matches(&e->rule[i].flow, r);
        if (found)
            *queue = e->rule[i].queue;
    }
    pthread_mutex_unlock(&e->lock);
    return found;
}

static unsigned choose_queue(struct sim_end *e, const uint8_t *frame, uint32_t len)
{
    struct rss_frame r;
    unsigned queue;

    if (e->queues == 1 || !rss_frame_read(&r, frame, len))
        return 0;
    return find_rule(e, &r, &queue) ? queue : rss_queue(&e->rss, &r.tuple);
}

static void wake_queue(struct sim_queue *q)
{
    uint64_t one = 1;

    while (write(q->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* Puts a frame into the queue of the peer that it belongs to. */
static void deliver_frame(struct sim_queue *from, struct sim_entry entry)
{
    struct sim_end *peer = sim_peer_of(from->end);
    struct sim_queue *to = &peer->queue[choose_queue(peer, slot_data(from, entry.slot), entry.len)];
    bool armed;

    entry.queue = (uint16_t)from->index;
    pthread_mutex_lock(&to->lock);
    fifo_put(&to->in, entry);
    to->arrived++;
    armed = to->armed;
    to->armed = false;
    pthread_mutex_unlock(&to->lock);
    if (armed)
        wake_queue(to);
}

/* ---- the bad cable ---- */

/* Notes that one more frame has overtaken the held ones, and delivers those that enough frames have
 * overtaken. */
static void overtake_held(struct sim_queue *q)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < q->held_count; i++) {
        if (--q->held[i].overtaken)
            q->held[kept++] = q->held[i];
        else
            deliver_frame(q, q->held[i].e);
    }
    q->held_count = kept;
}

/* Holds a frame back, or delivers it if HELD_MAX are held already. */
static void hold_back(struct sim_queue *q, struct sim_entry entry)
{
    if (q->held_count == HELD_MAX) {
        deliver_frame(q, entry);
        return;
    }
    counter_inc(&q->stats.reordered);
    q->held[q->held_count++] =
        (struct sim_held){.e = entry, .overtaken = 1 + random_below(&q->random, OVERTAKEN_MAX)};
}

/* The copy needs a slot of its own; without a free one the frame is delivered once. */
static void deliver_twice(struct sim_queue *q, struct sim_entry entry)
{
    struct sim_entry copy = entry;

    if (!q->free_count) {
        deliver_frame(q, entry);
        return;
    }
    counter_inc(&q->stats.duplicated);
    copy.slot = q->free[--q->free_count];
    memcpy(slot_data(q, copy.slot), slot_data(q, entry.slot), entry.len);
    deliver_frame(q, entry);
    deliver_frame(q, copy);
}

/* Truncates the frame, or inverts one to three bits, an error that CRC-32 always detects. */
static void corrupt_frame(struct sim_queue *q, struct sim_entry *entry)
{
    uint8_t *data = slot_data(q, entry->slot);
    uint32_t at, bits = random_below(&q->random, 4);

    if (!entry->len)
        return;
    counter_inc(&q->stats.corrupted);
    at = random_below(&q->random, entry->len);
    if (!bits)
        entry->len = at;
    for (uint32_t i = 0; i < bits; i++)
        data[at] ^= (uint8_t)(1u << ((at + i) & 7));
}

static void send_over_cable(struct sim_queue *q, struct sim_entry entry)
{
    const struct pktio_sim_config *c = &q->end->link->config;
    uint32_t chance = random_below(&q->random, 1000);

    counter_inc(&q->stats.sent);
    if (chance < c->drop) {
        counter_inc(&q->stats.dropped);
        sim_slot_free(q, entry.slot);
    } else if ((chance -= c->drop) < c->duplicate) {
        deliver_twice(q, entry);
    } else if ((chance -= c->duplicate) < c->reorder) {
        hold_back(q, entry);
        return; /* a frame does not overtake itself */
    } else if (chance - c->reorder < c->corrupt) {
        corrupt_frame(q, &entry);
        deliver_frame(q, entry);
    } else {
        deliver_frame(q, entry);
    }
    overtake_held(q);
}

static void deliver_held(struct sim_queue *q)
{
    for (unsigned i = 0; i < q->held_count; i++)
        deliver_frame(q, q->held[i].e);
    q->held_count = 0;
}

/* ---- sending ---- */

unsigned sim_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct sim_queue *q = &sim_end_of(io)->queue[queue];
    unsigned count;

    collect_returned_slots(q);
    count = min_of(n, q->free_count);
    for (unsigned i = 0; i < count; i++)
        f[i] = slot_frame(q, (struct sim_entry){.slot = q->free[--q->free_count]}, SIM_ROOM);
    if (!count) {
        counter_inc(&q->stats.full);
        deliver_held(q); /* no frame can overtake them now */
    }
    return count;
}

void sim_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used)
{
    struct sim_end *e = sim_end_of(io);
    struct sim_queue *q = &e->queue[queue];
    const uint8_t *own = e->link->config.mac[e->index];

    for (unsigned i = 0; i < used; i++) {
        struct sim_entry entry = {.slot = frame_slot(&f[i]), .len = f[i].len};

        if (entry.len >= 6 && !memcmp(f[i].data, own, 6)) {
            counter_inc(&q->counters.local);
            fifo_put(&q->local, entry);
        } else {
            send_over_cable(q, entry);
        }
    }
    for (unsigned i = used; i < n; i++)
        sim_slot_free(q, frame_slot(&f[i]));
}

/* ---- waking ---- */

int sim_wake_fd(struct pktio *io, unsigned queue)
{
    return sim_end_of(io)->queue[queue].wake_fd;
}

bool sim_wake_arm(struct pktio *io, unsigned queue)
{
    struct sim_queue *q = &sim_end_of(io)->queue[queue];
    uint64_t count;
    bool empty;

    deliver_held(q);
    while (read(q->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&q->lock);
    q->armed = true;
    empty = fifo_empty(&q->in);
    pthread_mutex_unlock(&q->lock);
    return empty && fifo_empty(&q->local);
}
