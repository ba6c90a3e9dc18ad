/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated port: its configuration, flow rules and counters. See sim.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sim_internal.h"

/* ---- the control thread ---- */

static void sim_info(struct pktio *io, struct pktio_info *info)
{
    struct sim_end *e = sim_end_of(io);

    memset(info, 0, sizeof(*info));
    memcpy(info->mac, e->link->config.mac[e->index], sizeof(info->mac));
    info->mtu = SIM_MTU;
    info->queues = e->queues;
    info->link_up = true;
    snprintf(info->name, sizeof(info->name), "sim%u", e->index);
}

static int sim_rss(struct pktio *io, bool ipv6, struct rss *rss)
{
    struct sim_end *e = sim_end_of(io);

    if (e->queues == 1 || e->link->config.rss_secret)
        return -ENOTSUP;
    *rss = e->rss;
    return 0;
}

static int sim_flow_add(struct pktio *io, const struct pktio_flow *flow, unsigned queue,
                        void **rule)
{
    struct sim_end *e = sim_end_of(io);
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
        e->rule[i] = (struct sim_rule){.used = true, .flow = *flow, .queue = queue};
        e->rules++;
        *rule = &e->rule[i];
        err = 0;
    }
    pthread_mutex_unlock(&e->lock);
    return err;
}

static void sim_flow_remove(struct pktio *io, void *rule)
{
    struct sim_end *e = sim_end_of(io);

    pthread_mutex_lock(&e->lock);
    ((struct sim_rule *)rule)->used = false;
    e->rules--;
    pthread_mutex_unlock(&e->lock);
}

static const struct pktio_counters *sim_counters(struct pktio *io, unsigned queue)
{
    return &sim_end_of(io)->queue[queue].counters;
}

const struct pktio_sim_stats *pktio_sim_queue_stats(struct pktio *end, unsigned queue)
{
    return &sim_end_of(end)->queue[queue].stats;
}

const struct pktio_sim_stats *pktio_sim_stats(struct pktio *end)
{
    return pktio_sim_queue_stats(end, 0);
}

uint64_t pktio_sim_arrived(struct pktio *end, unsigned queue)
{
    struct sim_queue *q = &sim_end_of(end)->queue[queue];
    uint64_t arrived;

    pthread_mutex_lock(&q->lock);
    arrived = q->arrived;
    pthread_mutex_unlock(&q->lock);
    return arrived;
}

void pktio_sim_keep_rss_secret(struct pktio *end)
{
    sim_end_of(end)->link->config.rss_secret = true;
}

unsigned pktio_sim_flows(struct pktio *end)
{
    struct sim_end *e = sim_end_of(end);
    unsigned rules;

    pthread_mutex_lock(&e->lock);
    rules = e->rules;
    pthread_mutex_unlock(&e->lock);
    return rules;
}

/* ---- creation ---- */

static void queue_fini(struct sim_queue *q)
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

static void link_destroy(struct sim_link *l)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_end *e = &l->end[i];

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
    struct sim_link *l = sim_end_of(io)->link;

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

static int fifo_init(struct sim_fifo *f, unsigned slots)
{
    uint32_t size = pow2_at_least(slots);

    f->mask = size - 1;
    f->entry = calloc(size, sizeof(*f->entry));
    return f->entry ? 0 : -ENOMEM;
}

static int queue_init(struct sim_queue *q, unsigned slots, unsigned senders, uint64_t seed)
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
        sim_slot_free(q, (uint16_t)q->free_count);
    if (fifo_init(&q->in, slots * senders) || fifo_init(&q->local, slots) ||
        fifo_init(&q->back, slots))
        return -ENOMEM;
    return 0;
}

static int end_init(struct sim_link *l, unsigned index, struct random *seeds)
{
    struct pktio_sim_config *c = &l->config;
    struct sim_end *e = &l->end[index];
    size_t size = e->queues * sizeof(*e->queue);
    int err = 0;

    e->io.ops = &sim_ops;
    e->rule = c->flows ? calloc(c->flows, sizeof(*e->rule)) : NULL;
    e->queue = aligned_alloc(CACHE_LINE, size);
    if (!e->queue || (c->flows && !e->rule))
        return -ENOMEM;
    memset(e->queue, 0, size);
    for (unsigned i = 0; i < e->queues; i++) {
        e->queue[i] = (struct sim_queue){.end = e, .index = i, .wake_fd = -1};
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

static bool is_valid(const struct pktio_sim_config *c)
{
    return c->drop <= 1000 && c->duplicate <= 1000 && c->reorder <= 1000 && c->corrupt <= 1000 &&
           c->drop + c->duplicate + c->reorder + c->corrupt <= 1000 && c->slots <= SIM_SLOTS_MAX &&
           c->queues[0] <= SIM_QUEUES_MAX && c->queues[1] <= SIM_QUEUES_MAX &&
           c->flows <= SIM_FLOWS_MAX && !(c->rss_fields & ~(unsigned)RSS_ALL);
}

int pktio_sim_pair(struct pktio *end[2], const struct pktio_sim_config *config)
{
    struct random seeds = {config->seed};
    struct sim_link *l;
    int err = 0;

    if (!is_valid(config))
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
