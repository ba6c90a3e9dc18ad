/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "random.h"
#include "rss_frame.h"

#define HELD_MAX      8
#define OVERTAKEN_MAX 8 /* frames that overtake a held one */
#define QUEUE_SHIFT   16
#define END_SHIFT     24

/* A frame: a slot of the queue that sent it. */
struct entry {
    uint16_t queue, slot;
    uint32_t len;
};

/* There are no more slots than entries, so it is never full. */
struct fifo {
    struct entry *entry;
    uint32_t mask, head, tail;
};

struct held {
    struct entry e;
    unsigned overtaken; /* frames still to pass it */
};

/* A queue owns the slots that it sends from. One is free, lent to the worker, held back, on its way
 * (in the peer's `in`, or `local`), or lent to the reader and on its way back (back). */
struct queue {
    struct end *end;
    unsigned index;
    /* Of this queue's worker. */
    uint8_t *memory;
    uint16_t *free;
    unsigned free_count;
    struct random random;
    struct held held[HELD_MAX];
    unsigned held_count;
    struct fifo local; /* frames to its own MAC */
    struct pktio_counters counters;
    struct pktio_sim_stats stats;
    int wake_fd;
    /* Under the lock: what the peer's queues put here. */
    CACHE_ALIGNED pthread_mutex_t lock;
    struct fifo in, back; /* received frames; slots that have been read */
    bool armed;           /* wake_fd is to be written with the next frame */
    uint64_t arrived;
};

struct rule {
    bool used;
    struct pktio_flow flow;
    unsigned queue;
};

struct end {
    struct pktio io;
    struct link *link;
    unsigned index, queues;
    struct queue *queue;
    struct rss rss;
    pthread_mutex_t lock; /* of the rules */
    struct rule *rule;
    unsigned rules;
};

struct link {
    struct pktio_sim_config config;
    _Atomic unsigned open;
    struct end end[2];
};

static struct end *end_of(struct pktio *io)
{
    return container_of(io, struct end, io);
}

static struct end *peer_of(struct end *e)
{
    return &e->link->end[!e->index];
}

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

static void slot_free(struct queue *q, uint16_t slot)
{
    q->free[q->free_count++] = slot;
}

static void collect(struct queue *q)
{
    struct entry back;

    pthread_mutex_lock(&q->lock);
    while (fifo_take(&q->back, &back))
        slot_free(q, back.slot);
    pthread_mutex_unlock(&q->lock);
}

/* ---- receiving ---- */

static unsigned sim_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
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

static void sim_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct queue *q = &end_of(io)->queue[queue];

    for (unsigned i = 0; i < n; i++) {
        struct queue *owner = frame_owner(q->end->link, &f[i]);

        if (owner == q) {
            slot_free(q, frame_slot(&f[i]));
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
        slot_free(q, entry.slot);
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

static unsigned sim_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
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

static void sim_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                         unsigned used)
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
        slot_free(q, frame_slot(&f[i]));
}

/* ---- waking ---- */

static int sim_wake_fd(struct pktio *io, unsigned queue)
{
    return end_of(io)->queue[queue].wake_fd;
}

static bool sim_wake_arm(struct pktio *io, unsigned queue)
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

/* ---- the control thread ---- */

static void sim_info(struct pktio *io, struct pktio_info *info)
{
    struct end *e = end_of(io);

    memset(info, 0, sizeof(*info));
    memcpy(info->mac, e->link->config.mac[e->index], sizeof(info->mac));
    info->mtu = SIM_MTU;
    info->queues = e->queues;
    info->link_up = true;
    snprintf(info->name, sizeof(info->name), "sim%u", e->index);
}

static int sim_rss(struct pktio *io, bool ipv6, struct rss *rss)
{
    struct end *e = end_of(io);

    if (e->queues == 1 || e->link->config.rss_secret)
        return -ENOTSUP;
    *rss = e->rss;
    return 0;
}

static int sim_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue,
                        void **rule)
{
    struct end *e = end_of(io);
    unsigned max = e->link->config.flows;
    int err = -ENOSPC;

    if (!max || e->queues == 1)
        return -ENOTSUP;
    if (queue >= e->queues)
        return -EINVAL;
    pthread_mutex_lock(&e->lock);
    for (unsigned i = 0; i < max && err; i++) {
        if (e->rule[i].used)
            continue;
        e->rule[i] = (struct rule){.used = true, .flow = *flow, .queue = queue};
        e->rules++;
        *rule = &e->rule[i];
        err = 0;
    }
    pthread_mutex_unlock(&e->lock);
    return err;
}

static void sim_flow_remove(struct pktio *io, void *rule)
{
    struct end *e = end_of(io);

    pthread_mutex_lock(&e->lock);
    ((struct rule *)rule)->used = false;
    e->rules--;
    pthread_mutex_unlock(&e->lock);
}

static const struct pktio_counters *sim_counters(struct pktio *io, unsigned queue)
{
    return &end_of(io)->queue[queue].counters;
}

const struct pktio_sim_stats *pktio_sim_queue_stats(struct pktio *end, unsigned queue)
{
    return &end_of(end)->queue[queue].stats;
}

const struct pktio_sim_stats *pktio_sim_stats(struct pktio *end)
{
    return pktio_sim_queue_stats(end, 0);
}

uint64_t pktio_sim_arrived(struct pktio *end, unsigned queue)
{
    struct queue *q = &end_of(end)->queue[queue];
    uint64_t arrived;

    pthread_mutex_lock(&q->lock);
    arrived = q->arrived;
    pthread_mutex_unlock(&q->lock);
    return arrived;
}

unsigned pktio_sim_flows(struct pktio *end)
{
    struct end *e = end_of(end);
    unsigned rules;

    pthread_mutex_lock(&e->lock);
    rules = e->rules;
    pthread_mutex_unlock(&e->lock);
    return rules;
}

/* ---- making it ---- */

static void queue_fini(struct queue *q)
{
    free(q->memory);
    free(q->free);
    free(q->local.entry);
    free(q->in.entry);
    free(q->back.entry);
    if (q->wake_fd >= 0)
        close(q->wake_fd);
    pthread_mutex_destroy(&q->lock);
}

static void link_destroy(struct link *l)
{
    for (unsigned i = 0; i < 2; i++) {
        struct end *e = &l->end[i];

        for (unsigned k = 0; e->queue && k < e->queues; k++)
            queue_fini(&e->queue[k]);
        free(e->queue);
        free(e->rule);
        pthread_mutex_destroy(&e->lock);
    }
    free(l);
}

static void sim_close(struct pktio *io)
{
    struct link *l = end_of(io)->link;

    if (atomic_fetch_sub(&l->open, 1) == 1)
        link_destroy(l);
}

static const struct pktio_ops sim_ops = {
    .driver = "sim",
    .info = sim_info,
    .rx_burst = sim_rx_burst,
    .rx_release = sim_rx_release,
    .tx_lend = sim_tx_lend,
    .tx_burst = sim_tx_burst,
    .wake_fd = sim_wake_fd,
    .wake_arm = sim_wake_arm,
    .rss = sim_rss,
    .flow_add = sim_flow_add,
    .flow_remove = sim_flow_remove,
    .counters = sim_counters,
    .close = sim_close,
};

static int fifo_init(struct fifo *f, unsigned slots)
{
    uint32_t size = pow2_at_least(slots);

    f->mask = size - 1;
    f->entry = calloc(size, sizeof(*f->entry));
    return f->entry ? 0 : -ENOMEM;
}

static int queue_init(struct queue *q, unsigned slots, unsigned senders, uint64_t seed)
{
    void *memory;

    q->random.state = seed;
    q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->wake_fd < 0)
        return -errno;
    q->free = calloc(slots, sizeof(*q->free));
    if (!q->free || posix_memalign(&memory, CACHE_LINE, (size_t)slots * SIM_ROOM))
        return -ENOMEM;
    q->memory = memory;
    while (q->free_count < slots)
        slot_free(q, (uint16_t)q->free_count);
    if (fifo_init(&q->in, slots * senders) || fifo_init(&q->local, slots) ||
        fifo_init(&q->back, slots))
        return -ENOMEM;
    return 0;
}

static int end_init(struct link *l, unsigned index, struct random *seeds)
{
    struct pktio_sim_config *c = &l->config;
    struct end *e = &l->end[index];
    size_t size = e->queues * sizeof(*e->queue);
    int err = 0;

    e->io.ops = &sim_ops;
    e->rule = c->flows ? calloc(c->flows, sizeof(*e->rule)) : NULL;
    e->queue = aligned_alloc(CACHE_LINE, size);
    if (!e->queue || (c->flows && !e->rule))
        return -ENOMEM;
    memset(e->queue, 0, size);
    for (unsigned i = 0; i < e->queues; i++) {
        e->queue[i] = (struct queue){.end = e, .index = i, .wake_fd = -1};
        pthread_mutex_init(&e->queue[i].lock, NULL);
    }
    for (unsigned i = 0; i < e->queues && !err; i++)
        err = queue_init(&e->queue[i], c->slots, c->queues[!index], random_next(seeds));
    if (!err) {
        rss_init_toeplitz(&e->rss, c->rss_key ? c->rss_key : toeplitz_key_microsoft, c->rss_fields);
        err = indirection_init(&e->rss.table, c->rss_table, e->queues);
    }
    return err;
}

static bool valid(const struct pktio_sim_config *c)
{
    return c->drop <= 1000 && c->duplicate <= 1000 && c->reorder <= 1000 && c->corrupt <= 1000 &&
           c->drop + c->duplicate + c->reorder + c->corrupt <= 1000 && c->slots <= SIM_SLOTS_MAX &&
           c->queues[0] <= SIM_QUEUES_MAX && c->queues[1] <= SIM_QUEUES_MAX &&
           c->flows <= SIM_FLOWS_MAX && !(c->rss_fields & ~(unsigned)RSS_ALL);
}

int pktio_sim_pair(struct pktio *end[2], const struct pktio_sim_config *config)
{
    struct random seeds = {config->seed};
    struct link *l;
    int err = 0;

    if (!valid(config))
        return -EINVAL;
    l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->config = *config;
    l->config.slots = config->slots ? config->slots : SIM_SLOTS;
    l->config.rss_fields = config->rss_fields ? config->rss_fields : RSS_ALL;
    l->config.rss_table = config->rss_table ? config->rss_table : SIM_TABLE;
    l->open = 2;
    for (unsigned i = 0; i < 2; i++) {
        l->config.queues[i] = max_of(config->queues[i], 1u);
        l->end[i].link = l;
        l->end[i].index = i;
        l->end[i].queues = l->config.queues[i];
        pthread_mutex_init(&l->end[i].lock, NULL);
    }
    for (unsigned i = 0; i < 2 && !err; i++)
        err = end_init(l, i, &seeds);
    if (err) {
        link_destroy(l);
        return err;
    }
    end[0] = &l->end[0].io;
    end[1] = &l->end[1].io;
    return 0;
}
