/* SPDX-License-Identifier: BSD-3-Clause */
/* Bursts. A frame is an mbuf. Only the queue's worker calls these functions. */
#include "ethdev_internal.h"

#include <rte_ether.h>
#include <string.h>

/* After the first refusal in a row, and then after each 64, the link's state is checked, which may
 * take a system call. */
#define REFUSALS_PER_CHECK 64
#define FLAGS_NOT_PLAIN    (RTE_MBUF_F_RX_VLAN_STRIPPED | RTE_MBUF_F_RX_IP_CKSUM_BAD)

static struct frame mbuf_frame(struct rte_mbuf *m, uint32_t room)
{
    struct frame f = {
        .data = rte_pktmbuf_mtod(m, uint8_t *),
        .len = rte_pktmbuf_data_len(m),
        .room = room,
        .cookie = m,
    };

    return f;
}

/*
 * A guest chooses how many of its queues it uses, and may change that at any time. Frames that a
 * worker sends on an unused queue go through the first queue, which the guest always uses.
 */
static unsigned tx_by_used_queue(struct ethdev *d, unsigned queue, struct rte_mbuf **m, unsigned n)
{
    struct ethdev_queue *q = &d->queue[queue];
    unsigned count;

    if (queue) {
        count = rte_eth_tx_burst(d->port, (uint16_t)queue, m, (uint16_t)n);
        q->absent &= !count;
        if (!q->absent)
            return count;
    }
    rte_spinlock_lock(&d->first_tx);
    count = rte_eth_tx_burst(d->port, 0, m, (uint16_t)n);
    rte_spinlock_unlock(&d->first_tx);
    return count;
}

/* The driver's bursts. Those of net_memif do nothing while its peer connects or disconnects. */
static unsigned rx_from_port(struct ethdev *d, unsigned queue, struct rte_mbuf **m, unsigned n)
{
    unsigned count;

    if (likely(!d->memif))
        return rte_eth_rx_burst(d->port, (uint16_t)queue, m, (uint16_t)n);
    if (!ethdev_memif_enter(d->memif))
        return 0;
    count = rte_eth_rx_burst(d->port, (uint16_t)queue, m, (uint16_t)n);
    ethdev_memif_leave(d->memif);
    return count;
}

static unsigned tx_to_port(struct ethdev *d, unsigned queue, struct rte_mbuf **m, unsigned n)
{
    unsigned count;

    if (unlikely(d->kind->few_queues))
        return tx_by_used_queue(d, queue, m, n);
    if (likely(!d->memif))
        return rte_eth_tx_burst(d->port, (uint16_t)queue, m, (uint16_t)n);
    if (!ethdev_memif_enter(d->memif))
        return 0;
    count = rte_eth_tx_burst(d->port, (uint16_t)queue, m, (uint16_t)n);
    ethdev_memif_leave(d->memif);
    return count;
}

static void drop_refused(struct ethdev_queue *q)
{
    counter_add(&q->counters.tx_refused, q->unsent_count);
    while (q->unsent_count)
        rte_pktmbuf_free(q->unsent[--q->unsent_count]);
    q->refusals = 0;
}

static void handle_refusals(struct ethdev *d, struct ethdev_queue *q)
{
    if (!ethdev_link_up(d, NULL))
        drop_refused(q);
    else
        q->absent = q->refusals > 1;
}

/*
 * Frames that the port has refused are sent first, so that packets of a queue pair keep their
 * order. They wait for a full port while its link is up, and keep the worker awake.
 */
static void flush_unsent(struct ethdev *d, struct ethdev_queue *q, unsigned queue)
{
    unsigned sent;

    if (!q->unsent_count)
        return;
    sent = tx_to_port(d, queue, q->unsent, q->unsent_count);
    q->unsent_count -= sent;
    memmove(q->unsent, q->unsent + sent, q->unsent_count * sizeof(q->unsent[0]));
    if (sent)
        q->refusals = 0;
    else if (q->refusals++ % REFUSALS_PER_CHECK == 0)
        handle_refusals(d, q);
}

static unsigned take_local(struct ethdev_queue *q, struct frame *f, unsigned n)
{
    unsigned count = min_of(n, q->local_tail - q->local_head);

    for (unsigned i = 0; i < count; i++)
        f[i] = mbuf_frame(q->local[q->local_head++ & (ETHDEV_LOCAL - 1)], 0);
    return count;
}

/*
 * The engine gets whole frames: a tag that the port has stripped is put back, and several segments
 * become one. Frames with a bad IPv4 header are dropped here. The port's result for the UDP
 * checksum (good, bad, none, or partial from a guest) is ignored: the ICRC covers more.
 */
static bool make_plain(struct ethdev_queue *q, struct rte_mbuf **m)
{
    if (((*m)->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD) {
        counter_inc(&q->counters.rx_bad_checksum);
        return false;
    }
    if (((*m)->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED && rte_vlan_insert(m)) ||
        ((*m)->nb_segs > 1 && rte_pktmbuf_linearize(*m))) {
        counter_inc(&q->counters.rx_unusable);
        return false;
    }
    return true;
}

/* A packet socket also gets the frames that the kernel sends. */
static bool is_sent_by_kernel(const struct ethdev *d, struct rte_mbuf *m)
{
    return d->kind->kernel_sees && rte_pktmbuf_data_len(m) >= RTE_ETHER_HDR_LEN &&
           !memcmp(rte_pktmbuf_mtod(m, uint8_t *) + 6, d->mac, sizeof(d->mac));
}

static unsigned accept_received(struct ethdev *d, unsigned queue, struct rte_mbuf **m, unsigned n,
                                struct frame *f)
{
    struct ethdev_queue *q = &d->queue[queue];
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++) {
        bool plain = !(m[i]->ol_flags & FLAGS_NOT_PLAIN) && m[i]->nb_segs == 1;

        if (ethdev_rss_unchecked(q))
            ethdev_rss_check(d, queue, m[i]);
        if ((unlikely(!plain) && !make_plain(q, &m[i])) || is_sent_by_kernel(d, m[i]))
            rte_pktmbuf_free(m[i]);
        else
            f[count++] = mbuf_frame(m[i], 0);
    }
    return count;
}

unsigned ethdev_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct ethdev *d = ethdev_of(io);
    struct ethdev_queue *q = &d->queue[queue];
    struct rte_mbuf *m[FRAME_BURST];
    unsigned count, received;

    flush_unsent(d, q, queue);
    if (!n)
        return 0;
    /* Local frames get at most half of the burst while received frames wait. */
    count = take_local(q, f, n / 2);
    received = rx_from_port(d, queue, m, min_of(n - count, FRAME_BURST));
    count += accept_received(d, queue, m, received, f + count);
    return count + take_local(q, f + count, n - count);
}

void ethdev_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct rte_mbuf *m[FRAME_BURST];

    for (unsigned i = 0; i < n; i++)
        m[i] = f[i].cookie;
    rte_pktmbuf_free_bulk(m, n);
}

unsigned ethdev_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct ethdev *d = ethdev_of(io);
    struct ethdev_queue *q = &d->queue[queue];
    struct rte_mbuf *m[FRAME_BURST];
    unsigned local_room = ETHDEV_LOCAL - (q->local_tail - q->local_head);

    flush_unsent(d, q, queue);
    n = min_of(min_of(n, FRAME_BURST), local_room);
    if (q->unsent_count || !n || rte_pktmbuf_alloc_bulk(q->pool, m, n))
        return 0;
    for (unsigned i = 0; i < n; i++)
        f[i] = mbuf_frame(m[i], rte_pktmbuf_tailroom(m[i]));
    return n;
}

/* There is room: tx_lend lends no more frames than the ring has free. */
static void queue_local(struct ethdev_queue *q, struct rte_mbuf *m)
{
    counter_inc(&q->counters.local);
    q->local[q->local_tail++ & (ETHDEV_LOCAL - 1)] = m;
}

/* Members of a group on this port get a copy, like members elsewhere. */
static void queue_local_copy(struct ethdev_queue *q, struct rte_mbuf *m)
{
    struct rte_mbuf *copy = rte_pktmbuf_copy(m, q->pool, 0, UINT32_MAX);

    if (copy)
        queue_local(q, copy);
    else
        counter_inc(&q->counters.tx_refused);
}

/* Nothing waits from before: tx_lend lends no frames then. */
static void send_used(struct ethdev *d, unsigned queue, struct frame *f, unsigned used)
{
    struct ethdev_queue *q = &d->queue[queue];
    unsigned away = 0;

    for (unsigned i = 0; i < used; i++) {
        struct rte_mbuf *m = f[i].cookie;

        m->data_len = (uint16_t)f[i].len;
        m->pkt_len = f[i].len;
        if (!memcmp(f[i].data, d->mac, sizeof(d->mac))) {
            queue_local(q, m);
            continue;
        }
        if (f[i].data[0] & 1)
            queue_local_copy(q, m);
        q->unsent[away++] = m;
    }
    q->unsent_count = away;
    flush_unsent(d, q, queue);
}

/* Frames that late calls have kept come back unused, after others may have been refused. */
void ethdev_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n, unsigned used)
{
    if (used)
        send_used(ethdev_of(io), queue, f, used);
    ethdev_rx_release(io, queue, f + used, n - used);
}

void ethdev_queue_drain(struct ethdev_queue *q)
{
    while (q->local_head != q->local_tail)
        rte_pktmbuf_free(q->local[q->local_head++ & (ETHDEV_LOCAL - 1)]);
    drop_refused(q);
}
