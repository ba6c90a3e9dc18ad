/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue of the simulated port, and the cable. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rss_frame.h"
#include "sim_internal.h"

#define QUEUE_SHIFT 16
#define END_SHIFT   24

/* ---- fifos ---- */

static void fifo_put(struct fifo *f, struct entry e)
{
    f->entry[f->tail++ & f->mask] = e;
}

static bool fifo_empty(const struct fifo *f)
{
    return f->head == f->tail;
}

static bool fifo_take(struct fifo *f, struct entry *e)
{
    if (fifo_empty(f))
        return false;
    *e = f->entry[f->head++ & f->mask];
    return true;
}

/* ---- frames and slots ---- */

static uint8_t *slot_data(const struct queue *owner, unsigned slot)
{
    return owner->memory + (size_t)slot * SIM_ROOM;
}

static struct frame slot_frame(struct queue *owner, struct entry e, uint32_t room)
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

static struct queue *frame_owner(struct link *l, const struct frame *f)
{
    uintptr_t cookie = (uintptr_t)f->cookie;

    return &l->end[cookie >> END_SHIFT].queue[cookie >> QUEUE_SHIFT & 0xFF];
}

static void collect(struct queue *q)
{
    struct entry back;

    pthread_mutex_lock(&q->lock);
    while (fifo_take(&q->back, &back))
        sim_slot_free(q, back.slot);
    pthread_mutex_unlock(&q->lock);
}

/* ---- receiving ---- */

unsigned sim_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct queue *q = &end_of(io)->queue[queue];
    struct end *peer = peer_of(q->end);
    struct entry entry;
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
    struct queue *q = &end_of(io)->queue[queue];

    for (unsigned i = 0; i < n; i++) {
        struct queue *owner = frame_owner(q->end->link, &f[i]);

        if (owner == q) {
            sim_slot_free(q, frame_slot(&f[i]));
            continue;
        }
        pthread_mutex_lock(&owner->lock);
        fifo_put(&owner->back, (struct entry){.slot = frame_slot(&f[i])});
        pthread_mutex_unlock(&owner->lock);
    }
}

/* ---- which queue ---- */

static bool rule_matches(const struct pktio_flow *flow, const struct rss_frame *r)
{
    if (!gid_eq(&flow->dst, &r->tuple.dst))
        return false;
    return flow->sport ? flow->sport == r->tuple.sport && gid_eq(&flow->src, &r->tuple.src)
                       : flow->dest_qpn == r->dest_qpn;
}

static bool by_rule(struct end *e, const struct rss_frame *r, unsigned *queue)
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

static unsigned choose_queue(struct end *e, const uint8_t *frame, uint32_t len)
{
    struct rss_frame r;
    unsigned queue;

    if (e->queues == 1 || !rss_frame_read(&r, frame, len))
        return 0;
    return by_rule(e, &r, &queue) ? queue : rss_queue(&e->rss, &r.tuple);
}

static void wake(struct queue *q)
{
    uint64_t one = 1;

    while (write(q->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* The end of the cable. */
static void arrive(struct queue *from, struct entry entry)
{
    struct end *peer = peer_of(from->end);
    struct queue *to = &peer->queue[choose_queue(peer, slot_data(from, entry.slot), entry.len)];
    bool armed;

    entry.queue = (uint16_t)from->index;
    pthread_mutex_lock(&to->lock);
    fifo_put(&to->in, entry);
    to->arrived++;
    armed = to->armed;
    to->armed = false;
    pthread_mutex_unlock(&to->lock);
    if (armed)
        wake(to);
}

/* ---- the bad cable ---- */

/* Lets one more frame pass those held back, and goes on with those that enough have passed. */
static void overtake(struct queue *q)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < q->held_count; i++) {
        if (--q->held[i].overtaken)
            q->held[kept++] = q->held[i];
        else
            arrive(q, q->held[i].e);
    }
    q->held_count = kept;
}

/* When many are held back already the frame just goes. */
static void hold(struct queue *q, struct entry entry)
{
    if (q->held_count == HELD_MAX) {
        arrive(q, entry);
        return;
    }
    counter_inc(&q->stats.reordered);
    q->held[q->held_count++] =
        (struct held){.e = entry, .overtaken = 1 + random_below(&q->random, OVERTAKEN_MAX)};
}

/* The copy takes a slot of its own; without one the frame stays single. */
static void duplicate(struct queue *q, struct entry entry)
{
    struct entry copy = entry;

    if (!q->free_count) {
        arrive(q, entry);
        return;
    }
    counter_inc(&q->stats.duplicated);
    copy.slot = q->free[--q->free_count];
    memcpy(slot_data(q, copy.slot), slot_data(q, entry.slot), entry.len);
    arrive(q, entry);
    arrive(q, copy);
}

/* Cut short, or one to three bits changed: CRC-32 finds up to three for sure. */
static void corrupt(struct queue *q, struct entry *entry)
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

static void send_over(struct queue *q, struct entry entry)
{
    const struct pktio_sim_config *c = &q->end->link->config;
    uint32_t chance = random_below(&q->random, 1000);

    counter_inc(&q->stats.sent);
    if (chance < c->drop) {
        counter_inc(&q->stats.dropped);
        sim_slot_free(q, entry.slot);
    } else if ((chance -= c->drop) < c->duplicate) {
        duplicate(q, entry);
    } else if ((chance -= c->duplicate) < c->reorder) {
        hold(q, entry);
        return; /* it does not overtake itself */
    } else if (chance - c->reorder < c->corrupt) {
        corrupt(q, &entry);
        arrive(q, entry);
    } else {
        arrive(q, entry);
    }
    overtake(q);
}

static void let_go(struct queue *q)
{
    for (unsigned i = 0; i < q->held_count; i++)
        arrive(q, q->held[i].e);
    q->held_count = 0;
}

/* ---- sending ---- */

unsigned sim_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct queue *q = &end_of(io)->queue[queue];
    unsigned count;

    collect(q);
    count = min_of(n, q->free_count);
    for (unsigned i = 0; i < count; i++)
        f[i] = slot_frame(q, (struct entry){.slot = q->free[--q->free_count]}, SIM_ROOM);
    if (!count) {
        counter_inc(&q->stats.full);
        let_go(q); /* nothing will overtake now */
    }
    return count;
}

void sim_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used)
{
    struct end *e = end_of(io);
    struct queue *q = &e->queue[queue];
    const uint8_t *own = e->link->config.mac[e->index];

    for (unsigned i = 0; i < used; i++) {
        struct entry entry = {.slot = frame_slot(&f[i]), .len = f[i].len};

        if (entry.len >= 6 && !memcmp(f[i].data, own, 6)) {
            counter_inc(&q->counters.local);
            fifo_put(&q->local, entry);
        } else {
            send_over(q, entry);
        }
    }
    for (unsigned i = used; i < n; i++)
        sim_slot_free(q, frame_slot(&f[i]));
}

/* ---- waking ---- */

int sim_wake_fd(struct pktio *io, unsigned queue)
{
    return end_of(io)->queue[queue].wake_fd;
}

bool sim_wake_arm(struct pktio *io, unsigned queue)
{
    struct queue *q = &end_of(io)->queue[queue];
    uint64_t count;
    bool empty;

    let_go(q);
    while (read(q->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&q->lock);
    q->armed = true;
    empty = fifo_empty(&q->in);
    pthread_mutex_unlock(&q->lock);
    return empty && fifo_empty(&q->local);
}
