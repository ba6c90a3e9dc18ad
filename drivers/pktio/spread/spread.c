/* SPDX-License-Identifier: BSD-3-Clause */
/* A port with more queues than the port below: its functions, waking and creation. See spread.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "encap.h"
#include "spread_internal.h"

/* Room of a frame beyond the MTU: Ethernet, a tag, and what the engine requires (engine_tx). */
#define FRAME_EXTRA 256

/* ---- the path of a packet ---- */

static unsigned spread_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct spread *s = spread_of(io);

    return queue ? spread_queue_rx(&s->queue[queue], f, n) : spread_owner_rx(s, f, n);
}

static void spread_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct spread *s = spread_of(io);

    if (queue)
        spread_queue_release(&s->queue[queue], f, n);
    else
        spread_owner_release(s, f, n);
}

static unsigned spread_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct spread *s = spread_of(io);

    return queue ? spread_queue_lend(&s->queue[queue], f, n) : spread_owner_lend(s, f, n);
}

static void spread_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                            unsigned used)
{
    struct spread *s = spread_of(io);

    if (queue)
        spread_queue_tx(s, &s->queue[queue], f, n, used);
    else
        spread_owner_tx(s, f, n, used);
}

/* The worker of queue 0 does so for the others, too. */
static void spread_tx_flush(struct pktio *io, unsigned queue, bool more)
{
    struct pktio *inner = spread_of(io)->inner;

    if (!queue)
        inner->ops->tx_flush(inner, 0, more);
}

/* ---- waking ---- */

static int spread_wake_fd(struct pktio *io, unsigned queue)
{
    struct spread *s = spread_of(io);

    return queue ? s->queue[queue].wake_fd : s->epoll_fd;
}

static bool spread_wake_arm(struct pktio *io, unsigned queue)
{
    struct spread *s = spread_of(io);

    return queue ? spread_queue_arm(&s->queue[queue]) : spread_owner_arm(s);
}

static bool spread_must_poll(struct pktio *io, unsigned queue)
{
    return !queue && spread_of(io)->must_poll;
}

/* ---- the control thread ---- */

static void spread_info(struct pktio *io, struct pktio_info *info)
{
    struct spread *s = spread_of(io);

    s->inner->ops->info(s->inner, info);
    info->queues = s->queues;
}

static int spread_rss(struct pktio *io, bool ipv6, struct rss *rss)
{
    struct spread *s = spread_of(io);

    if (s->queues == 1)
        return -ENOTSUP;
    *rss = s->rss;
    return 0;
}

static int spread_link_fd(struct pktio *io)
{
    struct pktio *inner = spread_of(io)->inner;

    return inner->ops->link_fd(inner);
}

static void spread_link_ack(struct pktio *io)
{
    struct pktio *inner = spread_of(io)->inner;

    inner->ops->link_ack(inner);
}

/* Queue 0 shows the counters of the port below, which this call adds up. Concurrent calls store the
 * same sums. */
static const struct pktio_counters *spread_counters(struct pktio *io, unsigned queue)
{
    struct spread *s = spread_of(io);
    counter_t *sum = (counter_t *)&s->sum;

    if (queue)
        return &s->queue[queue].counters;
    for (size_t i = 0; i < sizeof(s->sum) / sizeof(*sum); i++) {
        uint64_t value = 0;

        for (unsigned q = 0; q < s->inner_queues && s->inner->ops->counters; q++) {
            const counter_t *c = (const counter_t *)s->inner->ops->counters(s->inner, q);

            value += c ? counter_get(&c[i]) : 0;
        }
        counter_set(&sum[i], value);
    }
    return &s->sum;
}

/* ---- creation ---- */

static void queue_fini(struct spread_queue *q)
{
    slot_ring_fini(&q->in);
    slot_ring_fini(&q->tx);
    free(q->local.entry);
    if (q->wake_fd >= 0)
        close(q->wake_fd);
}

static void spread_free(struct spread *s)
{
    for (unsigned i = 1; i < s->queues; i++)
        queue_fini(&s->queue[i]);
    if (s->kick_fd >= 0)
        close(s->kick_fd);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    free(s);
}

static void spread_close(struct pktio *io)
{
    struct spread *s = spread_of(io);

    s->inner->ops->close(s->inner);
    spread_free(s);
}

static int queue_init(struct spread_queue *q, uint32_t slots, uint32_t room)
{
    uint32_t entries = pow2_at_least(slots);
    int err = slot_ring_init(&q->in, slots, room);

    if (!err)
        err = slot_ring_init(&q->tx, slots, room);
    if (err)
        return err;
    q->local.mask = entries - 1;
    q->local.entry = calloc(entries, sizeof(*q->local.entry));
    if (!q->local.entry)
        return -ENOMEM;
    q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return q->wake_fd < 0 ? -errno : 0;
}

static int add_wake_fd(struct spread *s, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN};

    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* The port below and the other queues wake queue 0. */
static int open_wake(struct spread *s)
{
    int err;

    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->epoll_fd < 0 || s->kick_fd < 0)
        return -errno;
    err = add_wake_fd(s, s->kick_fd);
    for (unsigned i = 0; i < s->inner_queues && !err; i++) {
        int fd = s->inner->ops->wake_fd(s->inner, i);

        s->must_poll |= fd == PKTIO_WAKE_POLL;
        if (fd >= 0)
            err = add_wake_fd(s, fd);
    }
    if (s->inner->ops->must_poll)
        for (unsigned i = 0; i < s->inner_queues; i++)
            s->must_poll |= s->inner->ops->must_poll(s->inner, i);
    return err;
}

static void set_ops(struct spread *s)
{
    const struct pktio_ops *inner = s->inner->ops;

    s->ops = (struct pktio_ops){
        .driver = inner->driver,
        .info = spread_info,
        .rx_burst = spread_rx_burst,
        .rx_release = spread_rx_release,
        .tx_lend = spread_tx_lend,
        .tx_burst = spread_tx_burst,
        .tx_flush = inner->tx_flush ? spread_tx_flush : NULL,
        .wake_fd = spread_wake_fd,
        .wake_arm = spread_wake_arm,
        .must_poll = spread_must_poll,
        .rss = spread_rss,
        .flow_add = s->queues > 1 ? spread_flow_add : NULL,
        .flow_remove = s->queues > 1 ? spread_flow_remove : NULL,
        .link_fd = inner->link_fd ? spread_link_fd : NULL,
        .link_ack = inner->link_ack ? spread_link_ack : NULL,
        .counters = spread_counters,
        .close = spread_close,
    };
    s->io.ops = &s->ops;
}

static int spread_init(struct spread *s, const struct pktio_spread_config *config)
{
    struct pktio_info info;
    int err = open_wake(s);

    s->inner->ops->info(s->inner, &info);
    memcpy(s->mac, info.mac, sizeof(s->mac));
    for (unsigned i = 1; i < s->queues && !err; i++)
        err = queue_init(&s->queue[i], config->slots ? config->slots : SPREAD_SLOTS,
                         (uint32_t)round_up(info.mtu + FRAME_EXTRA, CACHE_LINE));
    if (err)
        return err;
    while (s->held_free_count < HELD_MAX) {
        s->held_free[s->held_free_count] = (uint16_t)s->held_free_count;
        s->held_free_count++;
    }
    rss_init_toeplitz(&s->rss, toeplitz_key_microsoft, RSS_ALL);
    if (getrandom(&s->flows.secret, sizeof(s->flows.secret), 0) != sizeof(s->flows.secret))
        return -EIO;
    return indirection_init(&s->rss.table, SPREAD_TABLE, s->queues);
}

static struct spread *allocate_spread(struct pktio *io, unsigned queues)
{
    size_t size =
        round_up(sizeof(struct spread) + queues * sizeof(struct spread_queue), CACHE_LINE);
    struct spread *s = aligned_alloc(CACHE_LINE, size);
    struct pktio_info info;

    if (!s)
        return NULL;
    memset(s, 0, size);
    io->ops->info(io, &info);
    s->inner = io;
    s->queues = queues;
    s->inner_queues = info.queues;
    s->epoll_fd = s->kick_fd = -1;
    for (unsigned i = 1; i < queues; i++)
        s->queue[i].wake_fd = -1;
    set_ops(s);
    return s;
}

struct pktio *pktio_spread_open(struct pktio *io, const struct pktio_spread_config *config,
                                char *error, size_t size)
{
    struct spread *s = NULL;
    int err = -EINVAL;

    if (config->queues && config->queues <= SPREAD_QUEUES_MAX &&
        config->slots <= SPREAD_SLOTS_MAX) {
        s = allocate_spread(io, config->queues);
        err = s ? spread_init(s, config) : -ENOMEM;
    }
    if (!err)
        return &s->io;
    snprintf(error, size, "spreading over %u queues: %s", config->queues, strerror(-err));
    if (s)
        spread_free(s);
    return NULL;
}
