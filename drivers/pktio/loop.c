/* SPDX-License-Identifier: BSD-3-Clause */
/* The loopback port: see loop.h. */
#include "loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

/* A slot of a queue is free (on a stack, so that slots in the cache are used first), lent to the
 * worker, or in flight (in the ring). Only the queue's worker accesses a queue. */
struct loop_queue {
    uint8_t *memory;
    unsigned free_count, head, tail;
    uint16_t free[LOOP_SLOTS];
    struct {
        uint16_t slot;
        bool icrc_omitted;
        uint32_t len;
    } ring[LOOP_SLOTS];
    bool omit_icrc;
    struct pktio_counters counters;
    uint8_t pad[CACHE_LINE]; /* the next queue belongs to another worker: no line in common */
};

struct loop {
    struct pktio io;
    struct pktio_loop_config config;
    char name[64];
    struct loop_queue queue[];
};

_Static_assert((LOOP_SLOTS & (LOOP_SLOTS - 1)) == 0, "ring indices are masked");

static struct loop *loop_of(struct pktio *io)
{
    return container_of(io, struct loop, io);
}

static void loop_info(struct pktio *io, struct pktio_info *info)
{
    struct loop *l = loop_of(io);

    memset(info, 0, sizeof(*info));
    memcpy(info->mac, l->config.mac, sizeof(info->mac));
    info->mtu = LOOP_MTU;
    info->speed_mbps = LOOP_SPEED;
    info->queues = l->config.queues;
    info->link_up = true;
    info->no_icrc = l->config.omit_icrc;
    snprintf(info->name, sizeof(info->name), "%s", l->name);
    if (l->config.netdev)
        snprintf(info->netdev, sizeof(info->netdev), "%s", l->config.netdev);
    info->ifindex = l->config.ifindex;
}

static struct frame slot_frame(struct loop_queue *q, uint16_t slot, uint32_t len, uint32_t room,
                               bool icrc_omitted)
{
    struct frame f = {
        .data = q->memory + (size_t)slot * LOOP_ROOM,
        .len = len,
        .room = room,
        .cookie = (void *)(uintptr_t)slot,
        .icrc_omitted = icrc_omitted,
    };

    return f;
}

static uint16_t frame_slot(const struct frame *f)
{
    return (uint16_t)(uintptr_t)f->cookie;
}

static unsigned loop_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct loop_queue *q = &loop_of(io)->queue[queue];
    unsigned count = min_of(n, q->tail - q->head);

    for (unsigned i = 0; i < count; i++, q->head++) {
        unsigned at = q->head & (LOOP_SLOTS - 1);

        f[i] = slot_frame(q, q->ring[at].slot, q->ring[at].len, 0, q->ring[at].icrc_omitted);
    }
    return count;
}

static void loop_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct loop_queue *q = &loop_of(io)->queue[queue];

    for (unsigned i = 0; i < n; i++)
        q->free[q->free_count++] = frame_slot(&f[i]);
}

static unsigned loop_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct loop_queue *q = &loop_of(io)->queue[queue];
    unsigned count = min_of(n, q->free_count);

    for (unsigned i = 0; i < count; i++)
        f[i] = slot_frame(q, q->free[--q->free_count], 0, LOOP_ROOM, q->omit_icrc);
    return count;
}

static void loop_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                          unsigned used)
{
    struct loop_queue *q = &loop_of(io)->queue[queue];

    for (unsigned i = 0; i < used; i++, q->tail++) {
        unsigned at = q->tail & (LOOP_SLOTS - 1);

        q->ring[at].slot = frame_slot(&f[i]);
        q->ring[at].len = f[i].len;
        q->ring[at].icrc_omitted = f[i].icrc_omitted;
    }
    counter_add(&q->counters.local, used);
    loop_rx_release(io, queue, f + used, n - used);
}

static int loop_wake_fd(struct pktio *io, unsigned queue)
{
    return PKTIO_WAKE_NEVER;
}

static bool loop_wake_arm(struct pktio *io, unsigned queue)
{
    struct loop_queue *q = &loop_of(io)->queue[queue];

    return q->head == q->tail;
}

static const struct pktio_counters *loop_counters(struct pktio *io, unsigned queue)
{
    return &loop_of(io)->queue[queue].counters;
}

static void loop_close(struct pktio *io)
{
    struct loop *l = loop_of(io);

    for (unsigned i = 0; i < l->config.queues; i++)
        free(l->queue[i].memory);
    free(l);
}

static const struct pktio_ops loop_ops = {
    .driver = "loop",
    .info = loop_info,
    .rx_burst = loop_rx_burst,
    .rx_release = loop_rx_release,
    .tx_lend = loop_tx_lend,
    .tx_burst = loop_tx_burst,
    .wake_fd = loop_wake_fd,
    .wake_arm = loop_wake_arm,
    .counters = loop_counters,
    .close = loop_close,
};

static int queue_init(struct loop_queue *q)
{
    void *memory;

    size_t bytes = round_up((size_t)LOOP_SLOTS * LOOP_ROOM, PAGE);

    if (posix_memalign(&memory, PAGE, bytes))
        return -1;
    madvise(memory, bytes, MADV_DONTDUMP); /* bytes of applications */
    q->memory = memory;
    q->free_count = LOOP_SLOTS;
    for (unsigned i = 0; i < LOOP_SLOTS; i++)
        q->free[i] = (uint16_t)(LOOP_SLOTS - 1 - i);
    return 0;
}

struct pktio *pktio_loop_create(const struct pktio_loop_config *config)
{
    struct loop *l = NULL;

    if (config->queues)
        l = calloc(1, sizeof(*l) + config->queues * sizeof(l->queue[0]));
    if (!l)
        return NULL;
    l->io.ops = &loop_ops;
    l->config = *config;
    snprintf(l->name, sizeof(l->name), "%s", config->name);
    for (unsigned i = 0; i < config->queues; i++) {
        l->queue[i].omit_icrc = config->omit_icrc;
        if (queue_init(&l->queue[i])) {
            loop_close(&l->io);
            return NULL;
        }
    }
    return &l->io;
}
