/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "random.h"

#define HELD_MAX      8
#define OVERTAKEN_MAX 8 /* frames that overtake a held one */
#define OWNER_SHIFT   16

struct entry {
    uint16_t slot;
    uint32_t len;
};

/*
 * One producer, one consumer. An entry is a slot of a direction, and there are no more slots than
 * entries, so it is never full and the producer need not know the consumer's index.
 */
struct fifo {
    struct entry *entry;
    uint32_t mask;
    CACHE_ALIGNED uint32_t head;         /* the consumer's */
    CACHE_ALIGNED _Atomic uint32_t tail; /* the producer's; seq_cst, see wake_arm */
};

struct held {
    struct entry e;
    unsigned overtaken; /* frames still to pass it */
};

/* An end owns the slots that it sends from. One is free, lent to the worker, held back, on its way
 * (out, or local), or lent to the reader and on its way back (back). */
struct end {
    struct pktio io;
    struct link *link;
    unsigned index;
    /* Of this end's worker. */
    uint8_t *memory;
    uint16_t *free;
    unsigned free_count;
    struct random random;
    struct held held[HELD_MAX];
    unsigned held_count;
    struct pktio_counters counters;
    struct pktio_sim_stats stats;
    /* Filled by this end: `out` and `local` (frames to its own MAC) to be read, `back` with the
     * peer's slots. */
    struct fifo out, local, back;
    int wake_fd;
    _Atomic bool armed; /* the peer writes wake_fd after sending */
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
    uint32_t tail = atomic_load_explicit(&f->tail, memory_order_relaxed);

    f->entry[tail & f->mask] = e;
    atomic_store(&f->tail, tail + 1);
}

static bool fifo_empty(struct fifo *f)
{
    return f->head == atomic_load(&f->tail);
}

static bool fifo_take(struct fifo *f, struct entry *e)
{
    if (fifo_empty(f))
        return false;
    *e = f->entry[f->head++ & f->mask];
    return true;
}

/* ---- frames and slots ---- */

static uint8_t *slot_data(struct end *owner, unsigned slot)
{
    return owner->memory + (size_t)slot * SIM_ROOM;
}

static struct frame slot_frame(struct end *owner, struct entry e, uint32_t room)
{
    struct frame f = {
        .data = slot_data(owner, e.slot),
        .len = e.len,
        .room = room,
        .cookie = (void *)((uintptr_t)owner->index << OWNER_SHIFT | e.slot),
    };

    return f;
}

static uint16_t frame_slot(const struct frame *f)
{
    return (uint16_t)(uintptr_t)f->cookie;
}

static void slot_free(struct end *e, uint16_t slot)
{
    e->free[e->free_count++] = slot;
}

static void collect(struct end *e)
{
    struct entry back;

    while (fifo_take(&peer_of(e)->back, &back))
        slot_free(e, back.slot);
}

/* ---- receiving ---- */

static unsigned sim_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct end *e = end_of(io), *peer = peer_of(e);
    struct entry entry;
    unsigned count = 0;

    while (count < n && fifo_take(&e->local, &entry))
        f[count++] = slot_frame(e, entry, 0);
    while (count < n && fifo_take(&peer->out, &entry))
        f[count++] = slot_frame(peer, entry, 0);
    return count;
}

static void sim_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct end *e = end_of(io);

    for (unsigned i = 0; i < n; i++) {
        if ((uintptr_t)f[i].cookie >> OWNER_SHIFT == e->index)
            slot_free(e, frame_slot(&f[i]));
        else
            fifo_put(&e->back, (struct entry){.slot = frame_slot(&f[i])});
    }
}

/* ---- the bad cable ---- */

static void wake(struct end *e)
{
    uint64_t one = 1;

    if (!atomic_load(&e->armed) || !atomic_exchange(&e->armed, false))
        return;
    while (write(e->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* Lets one more frame pass those held back, and goes on with those that enough have passed. */
static void overtake(struct end *e)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < e->held_count; i++) {
        if (--e->held[i].overtaken)
            e->held[kept++] = e->held[i];
        else
            fifo_put(&e->out, e->held[i].e);
    }
    e->held_count = kept;
}

/* When many are held back already the frame just goes. */
static void hold(struct end *e, struct entry entry)
{
    if (e->held_count == HELD_MAX) {
        fifo_put(&e->out, entry);
        return;
    }
    counter_inc(&e->stats.reordered);
    e->held[e->held_count++] =
        (struct held){.e = entry, .overtaken = 1 + random_below(&e->random, OVERTAKEN_MAX)};
}

/* The copy takes a slot of its own; without one the frame stays single. */
static void duplicate(struct end *e, struct entry entry)
{
    struct entry copy = entry;

    if (!e->free_count) {
        fifo_put(&e->out, entry);
        return;
    }
    counter_inc(&e->stats.duplicated);
    copy.slot = e->free[--e->free_count];
    memcpy(slot_data(e, copy.slot), slot_data(e, entry.slot), entry.len);
    fifo_put(&e->out, entry);
    fifo_put(&e->out, copy);
}

/* Cut short, or one to three bits changed: CRC-32 finds up to three for sure. */
static void corrupt(struct end *e, struct entry *entry)
{
    uint8_t *data = slot_data(e, entry->slot);
    uint32_t at, bits = random_below(&e->random, 4);

    if (!entry->len)
        return;
    counter_inc(&e->stats.corrupted);
    at = random_below(&e->random, entry->len);
    if (!bits)
        entry->len = at;
    for (uint32_t i = 0; i < bits; i++)
        data[at] ^= (uint8_t)(1u << ((at + i) & 7));
}

static void send_over(struct end *e, struct entry entry)
{
    const struct pktio_sim_config *c = &e->link->config;
    uint32_t chance = random_below(&e->random, 1000);

    counter_inc(&e->stats.sent);
    if (chance < c->drop) {
        counter_inc(&e->stats.dropped);
        slot_free(e, entry.slot);
    } else if ((chance -= c->drop) < c->duplicate) {
        duplicate(e, entry);
    } else if ((chance -= c->duplicate) < c->reorder) {
        hold(e, entry);
        return; /* it does not overtake itself */
    } else if (chance - c->reorder < c->corrupt) {
        corrupt(e, &entry);
        fifo_put(&e->out, entry);
    } else {
        fifo_put(&e->out, entry);
    }
    overtake(e);
}

static void let_go(struct end *e)
{
    if (!e->held_count)
        return;
    for (unsigned i = 0; i < e->held_count; i++)
        fifo_put(&e->out, e->held[i].e);
    e->held_count = 0;
    wake(peer_of(e));
}

/* ---- sending ---- */

static unsigned sim_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct end *e = end_of(io);
    unsigned count;

    collect(e);
    count = min_of(n, e->free_count);
    for (unsigned i = 0; i < count; i++)
        f[i] = slot_frame(e, (struct entry){.slot = e->free[--e->free_count]}, SIM_ROOM);
    if (!count) {
        counter_inc(&e->stats.full);
        let_go(e); /* nothing will overtake now */
    }
    return count;
}

static void sim_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                         unsigned used)
{
    struct end *e = end_of(io);
    const uint8_t *own = e->link->config.mac[e->index];

    for (unsigned i = 0; i < used; i++) {
        struct entry entry = {.slot = frame_slot(&f[i]), .len = f[i].len};

        if (entry.len >= 6 && !memcmp(f[i].data, own, 6)) {
            counter_inc(&e->counters.local);
            fifo_put(&e->local, entry);
        } else {
            send_over(e, entry);
        }
    }
    for (unsigned i = used; i < n; i++)
        slot_free(e, frame_slot(&f[i]));
    wake(peer_of(e));
}

/* ---- waking ---- */

static int sim_wake_fd(struct pktio *io, unsigned queue)
{
    return end_of(io)->wake_fd;
}

/* The peer puts a frame out, then looks at `armed`; here it is the other way round. All four are
 * seq_cst: one of both sees the other. */
static bool sim_wake_arm(struct pktio *io, unsigned queue)
{
    struct end *e = end_of(io);
    uint64_t count;

    let_go(e);
    while (read(e->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    atomic_store(&e->armed, true);
    return fifo_empty(&peer_of(e)->out) && fifo_empty(&e->local);
}

/* ---- looking at it, making it ---- */

static void sim_info(struct pktio *io, struct pktio_info *info)
{
    struct end *e = end_of(io);

    memset(info, 0, sizeof(*info));
    memcpy(info->mac, e->link->config.mac[e->index], sizeof(info->mac));
    info->mtu = SIM_MTU;
    info->queues = 1;
    info->link_up = true;
    snprintf(info->name, sizeof(info->name), "sim%u", e->index);
}

static const struct pktio_counters *sim_counters(struct pktio *io, unsigned queue)
{
    return &end_of(io)->counters;
}

const struct pktio_sim_stats *pktio_sim_stats(struct pktio *end)
{
    return &end_of(end)->stats;
}

static void link_destroy(struct link *l)
{
    for (unsigned i = 0; i < 2; i++) {
        struct end *e = &l->end[i];

        free(e->memory);
        free(e->free);
        free(e->out.entry);
        free(e->local.entry);
        free(e->back.entry);
        if (e->wake_fd >= 0)
            close(e->wake_fd);
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

static int end_init(struct link *l, unsigned index, struct random *seeds)
{
    struct end *e = &l->end[index];
    unsigned slots = l->config.slots;
    void *memory;

    e->io.ops = &sim_ops;
    e->link = l;
    e->index = index;
    e->random.state = random_next(seeds);
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->wake_fd < 0)
        return -errno;
    e->free = calloc(slots, sizeof(*e->free));
    if (!e->free || posix_memalign(&memory, CACHE_LINE, (size_t)slots * SIM_ROOM))
        return -ENOMEM;
    e->memory = memory;
    while (e->free_count < slots)
        slot_free(e, (uint16_t)e->free_count);
    if (fifo_init(&e->out, slots) || fifo_init(&e->local, slots) || fifo_init(&e->back, slots))
        return -ENOMEM;
    return 0;
}

int pktio_sim_pair(struct pktio *end[2], const struct pktio_sim_config *config)
{
    struct random seeds = {config->seed};
    struct link *l;
    int err;

    if (config->drop > 1000 || config->duplicate > 1000 || config->reorder > 1000 ||
        config->corrupt > 1000 ||
        config->drop + config->duplicate + config->reorder + config->corrupt > 1000 ||
        config->slots > SIM_SLOTS_MAX)
        return -EINVAL;
    l = aligned_alloc(CACHE_LINE, sizeof(*l));
    if (!l)
        return -ENOMEM;
    memset(l, 0, sizeof(*l));
    l->config = *config;
    if (!l->config.slots)
        l->config.slots = SIM_SLOTS;
    l->open = 2;
    l->end[0].wake_fd = l->end[1].wake_fd = -1;
    err = end_init(l, 0, &seeds);
    if (!err)
        err = end_init(l, 1, &seeds);
    if (err) {
        link_destroy(l);
        return err;
    }
    end[0] = &l->end[0].io;
    end[1] = &l->end[1].io;
    return 0;
}
