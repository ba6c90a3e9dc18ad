/* SPDX-License-Identifier: BSD-3-Clause */
/* The application of the queue pairs of one worker, on that worker's thread. */
#include "perf.h"

#include <string.h>

#include "doorbell.h"
#include "lines.h"
#include "pattern.h"

#define GRH_LEN 40

/* ---- contents ---- */

static uint64_t key_of(const struct perf *p, const struct perf_end *sender, uint32_t message)
{
    return pattern_key(p->opt.seed, sender->number, message);
}

static void report_wrong(struct perf_thread *t, const struct perf_end *sender, uint32_t message,
                         const uint8_t *at, size_t offset, uint64_t key)
{
    counter_inc(&t->stats.wrong);
    run_fail(t->perf, "message %u of queue pair 0x%x: byte %zu is 0x%02x and not 0x%02x", message,
             sender->qpn, offset, at[offset], pattern_byte(offset, key));
}

static void verify_message(struct perf_thread *t, const struct perf_end *sender, uint32_t message,
                           uint64_t address)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)address;
    uint64_t key = key_of(t->perf, sender, message);
    size_t right = pattern_check(at, t->perf->size, key);

    if (unlikely(right != t->perf->size))
        report_wrong(t, sender, message, at, right, key);
}

/* Each fetch-and-add of 1 returns the number of earlier ones. */
static void verify_atomic(struct perf_thread *t, const struct perf_end *e, uint32_t message,
                          uint64_t address)
{
    uint64_t old;

    memcpy(&old, (const void *)(uintptr_t)address, sizeof(old));
    if (likely((uint32_t)old == message))
        return;
    counter_inc(&t->stats.wrong);
    run_fail(t->perf, "atomic %u of queue pair 0x%x found %lu", message, e->qpn, old);
}

/* Verifies the message of a send completion, in the modes in which it has arrived then. */
static void check_sent(struct perf_thread *t, struct perf_end *e, uint32_t message)
{
    const struct perf *p = t->perf;
    uint64_t at = (uint64_t)cursor_next(&e->checked) * p->out_stride;

    switch (p->opt.mode) {
    case MODE_WRITE:
    case MODE_WRITE_IMM:
        verify_message(t, e, message, e->remote + at);
        break;
    case MODE_READ:
        verify_message(t, e, message, e->local + at);
        break;
    case MODE_ATOMIC:
        verify_atomic(t, e, message, e->local + at);
        break;
    default: /* the receiver's completion reports it */
        break;
    }
}

/* ---- posting ---- */

static void fill_message(const struct perf *p, const struct perf_end *e, uint64_t at)
{
    uint64_t source = p->opt.mode == MODE_READ ? e->remote : e->local;

    if (p->opt.mode != MODE_ATOMIC)
        pattern_fill((uint8_t *)(uintptr_t)(source + at), p->size, key_of(p, e, e->prod));
}

static void post_one(struct perf *p, struct perf_end *e, bool last, uint64_t tsc)
{
    struct sqe *s = work_queue_slot(e->sq, e->sq_size, e->sq_stride, e->prod);
    uint64_t at = (uint64_t)cursor_next(&e->out) * p->out_stride;

    if (unlikely(p->opt.verify))
        fill_message(p, e, at);
    *s = e->template;
    s->imm = e->prod;
    if (p->opt.signal == 1 || last || !((e->prod + 1) % p->opt.signal))
        s->flags |= SQE_SIGNALED;
    if (p->opt.mode != MODE_ATOMIC)
        s->remote_addr = e->remote + at;
    if (e->template.flags & SQE_INLINE)
        memcpy(s + 1, (const void *)(uintptr_t)(e->local + at), p->size);
    else
        *(e->template.flags & SQE_SGE_IN_HEADER ? &s->sge : (struct sge *)(s + 1)) = (struct sge){
            .addr = e->local + at, .length = (uint32_t)p->size, .lkey = p->key[e->side]};
    e->posted[e->prod & (e->sq_size - 1)] = tsc;
    e->prod++;
    e->quota--;
}

/* Receive WQEs that are free for a datagram at its receiver. A datagram without one would be
 * dropped. */
static uint32_t recv_credit(const struct perf *p, const struct perf_end *e)
{
    uint32_t underway = e->prod - atomic_load_explicit(&e->peer->recv_done, memory_order_relaxed);

    return underway < p->recv_depth ? p->recv_depth - underway : 0;
}

/* Tells the worker of the messages that were posted. */
static void ring(struct perf_end *e)
{
    atomic_store_explicit(&e->shared->sq_prod, e->prod, memory_order_release);
    doorbell_ring(e->doorbells, e->slot);
}

/* How many of n messages there is room for. */
static uint32_t sendable(const struct perf *p, const struct perf_end *e, uint32_t n)
{
    if (p->opt.mode == MODE_UD)
        n = min_of(n, recv_credit(p, e));
    return (uint32_t)min_of((uint64_t)n, e->quota);
}

static void post_messages(struct perf_thread *t, struct perf_end *e, uint32_t n, uint64_t tsc)
{
    struct perf *p = t->perf;

    n = sendable(p, e, n);
    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++)
        post_one(p, e, e->quota == 1, tsc);
    t->outstanding += n;
    ring(e);
}

static uint32_t free_depth(const struct perf *p, const struct perf_end *e)
{
    return (uint32_t)p->opt.depth - (e->prod - e->done);
}

/* ---- at a rate ---- */

void traffic_start(struct perf_thread *t)
{
    const struct perf *p = t->perf;
    double all = (double)p->opt.qps * (p->opt.bidirectional ? 2 : 1);
    double per_second = (double)p->opt.rate * t->senders / all;

    t->at_rate = true;
    arrivals_start(&t->arrivals, ticks_now(), per_second / tsc_hz(),
                   p->opt.arrivals == ARRIVALS_EVEN, p->opt.seed + t->index);
}

static enum posted post_next(void *thread, unsigned sender, uint64_t due)
{
    struct perf_thread *t = thread;
    struct perf_end *e = t->sender[sender];

    if (!e->quota)
        return NO_MORE;
    if (!sendable(t->perf, e, min_of(free_depth(t->perf, e), 1u)))
        return NO_ROOM;
    post_one(t->perf, e, e->quota == 1, due);
    t->outstanding++;
    if (!e->rings)
        t->ringing[t->ringers++] = e;
    e->rings = true;
    return POSTED;
}

/* Those that are due at once have a doorbell in common. */
static void post_due(struct perf_thread *t, uint64_t now)
{
    arrivals_post(&t->arrivals, now, t->senders, post_next, t);
    for (unsigned i = 0; i < t->ringers; i++) {
        ring(t->ringing[i]);
        t->ringing[i]->rings = false;
    }
    t->ringers = 0;
}

void traffic_fill(struct perf_thread *t)
{
    uint64_t tsc = ticks_now();

    if (t->at_rate) {
        post_due(t, tsc);
        return;
    }
    for (unsigned i = 0; i < t->senders; i++)
        post_messages(t, t->sender[i], free_depth(t->perf, t->sender[i]), tsc);
}

/* If the last messages did not request a completion, posts further ones up to the next that does.
 */
void traffic_flush(struct perf_thread *t)
{
    uint32_t signal = (uint32_t)t->perf->opt.signal;

    for (unsigned i = 0; i < t->senders && signal > 1; i++) {
        struct perf_end *e = t->sender[i];
        uint32_t behind = e->prod % signal;

        if (behind && e->prod - e->done == behind && e->quota)
            post_messages(t, e, min_of(signal - behind, free_depth(t->perf, e)), ticks_now());
    }
}

/* ---- receiving ---- */

static void post_receives(const struct perf *p, struct perf_end *e, uint32_t n)
{
    uint32_t grh = p->in_stride - p->out_stride;

    for (uint32_t i = 0; i < n; i++) {
        struct rqe *r = work_queue_slot(e->rq, e->rq_size, e->rq_stride, e->recv_prod++);
        uint64_t at = e->remote + (uint64_t)cursor_next(&e->in) * p->in_stride;

        *r = (struct rqe){.num_sge = p->opt.mode != MODE_WRITE_IMM};
        /* A datagram's payload follows the GRH and should be aligned. */
        if (r->num_sge)
            *(struct sge *)(r + 1) = (struct sge){.addr = grh ? at + grh - GRH_LEN : at,
                                                  .length = (uint32_t)p->size + (grh ? GRH_LEN : 0),
                                                  .lkey = p->key[e->side]};
    }
    atomic_store_explicit(&e->shared->rq_prod, e->recv_prod, memory_order_release);
}

void traffic_prepare(struct perf_thread *t)
{
    struct perf *p = t->perf;

    for (uint32_t i = 0; i < p->ends && mode_receives(p->opt.mode); i++) {
        struct perf_end *e = &p->end[i];

        if (e->worker == t->index && e->peer->sends)
            post_receives(p, e, p->recv_depth);
    }
}

static void mark_dirty(struct perf_thread *t, struct perf_end *e)
{
    if (!e->dirty)
        t->dirty[t->dirties++] = e->number;
    e->dirty = true;
}

static void count_message(struct perf_thread *t, struct perf_end *sender, uint32_t message,
                          uint64_t tsc)
{
    uint64_t posted = sender->posted[message & (sender->sq_size - 1)];

    histogram_add(&t->latency, tsc > posted ? tsc - posted : 0);
    counter_inc(&t->stats.messages);
    counter_add(&t->stats.bytes, t->perf->size);
    sender->messages++;
}

/* Datagrams may be lost. The numbers in their immediate data show which ones. */
static void count_datagram(struct perf_thread *t, struct perf_end *e, uint32_t number, uint64_t tsc)
{
    uint32_t expected = atomic_load_explicit(&e->recv_done, memory_order_relaxed);

    if ((int32_t)(number - expected) >= 0) { /* else it was given up already */
        counter_add(&t->stats.lost, number - expected);
        atomic_store_explicit(&e->recv_done, number + 1, memory_order_relaxed);
    }
    count_message(t, e->peer, number, tsc);
    if (e->peer->worker == t->index)
        mark_dirty(t, e->peer); /* it has credit again */
}

static void on_received(struct perf_thread *t, const struct cqe *c, uint64_t tsc)
{
    struct perf *p = t->perf;
    struct perf_end *e = &p->end[c->uidx];
    bool ud = p->opt.mode == MODE_UD;
    uint32_t expected = (uint32_t)p->size + (ud ? GRH_LEN : 0), number;

    number = p->opt.mode == MODE_SEND ? atomic_load_explicit(&e->recv_done, memory_order_relaxed)
                                      : c->imm;
    if (unlikely(c->byte_len != expected))
        run_fail(p, "queue pair 0x%x received %u bytes and not %u", e->qpn, c->byte_len, expected);
    if (unlikely(p->opt.verify) && p->opt.mode != MODE_WRITE_IMM) {
        uint64_t at = e->remote + (uint64_t)cursor_next(&e->in_checked) * p->in_stride;

        verify_message(t, e->peer, number, at + p->in_stride - p->out_stride);
    }
    counter_inc(&t->stats.received);
    if (ud)
        count_datagram(t, e, number, tsc);
    else if (unlikely(number != e->recv_done))
        run_fail(p, "queue pair 0x%x received message %u and not %u", e->qpn, number, e->recv_done);
    else
        atomic_store_explicit(&e->recv_done, number + 1, memory_order_relaxed);
    post_receives(p, e, 1);
}

static void on_sent(struct perf_thread *t, const struct cqe *c, uint64_t tsc)
{
    struct perf *p = t->perf;
    struct perf_end *e = &p->end[c->uidx];
    bool ud = p->opt.mode == MODE_UD;

    while (e->done != c->wqe + 1) {
        if (unlikely(p->opt.verify))
            check_sent(t, e, e->done);
        if (!ud)
            count_message(t, e, e->done, tsc);
        e->done++;
        t->outstanding--;
    }
    mark_dirty(t, e);
}

/* ---- completions ---- */

/*
 * With many queue pairs, what is known about each has left the cache when its completions come.
 * It is fetched for all that have come: first the queue pair's own, then what that points to.
 */
#define FETCH_FROM 256 /* queue pairs: what fewer need is in the cache */

static void fetch_sender(const struct perf_end *e)
{
    line_fetch(&e->posted[e->done & (e->sq_size - 1)]);
    line_fetch_to_write(work_queue_slot(e->sq, e->sq_size, e->sq_stride, e->prod));
    line_fetch_to_write(&e->shared->sq_prod);
}

static void fetch_receiver(const struct perf_end *e)
{
    line_fetch_to_write(work_queue_slot(e->rq, e->rq_size, e->rq_stride, e->recv_prod));
    line_fetch_to_write(&e->shared->rq_prod);
}

static void fetch_ends(const struct perf *p, unsigned kind, const struct cqe *entry, uint32_t cons,
                       uint32_t size)
{
    struct perf_end *e[POLL_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < POLL_MAX; i++) {
        const struct cqe *c = &entry[(cons + i) & (size - 1)];

        if (atomic_load_explicit(&c->seq, memory_order_acquire) != cons + i + 1)
            break;
        if (c->uidx >= p->ends || (n && e[n - 1] == &p->end[c->uidx]))
            continue;
        e[n] = &p->end[c->uidx];
        line_fetch(e[n]);
        line_fetch(kind == SEND_CQ ? (void *)&e[n]->template : &e[n]->peer);
        line_fetch(&e[n]->local);
        n++;
    }
    for (unsigned i = 0; i < n; i++)
        (kind == SEND_CQ ? fetch_sender : fetch_receiver)(e[i]);
}

static unsigned poll_cq(struct perf_thread *t, unsigned side, unsigned kind, uint64_t tsc)
{
    struct perf *p = t->perf;
    uint32_t size = p->cq_size[side][kind], *cons = &t->cons[side][kind];
    struct cq_lane *lane = cq_lane_at(p->cq[side][kind], size, t->index);
    unsigned n;

    if (unlikely(p->opt.qps >= FETCH_FROM))
        fetch_ends(p, kind, lane->entry, *cons, size);
    for (n = 0; n < POLL_MAX; n++) {
        const struct cqe *c = &lane->entry[*cons & (size - 1)];

        if (atomic_load_explicit(&c->seq, memory_order_acquire) != *cons + 1)
            break;
        if (unlikely(c->status || c->uidx >= p->ends)) {
            run_fail(p, "queue pair 0x%x: a message failed with status %u", c->qpn, c->status);
            break;
        }
        (kind == SEND_CQ ? on_sent : on_received)(t, c, tsc);
        ++*cons;
    }
    if (n)
        atomic_store_explicit(&lane->cons, *cons, memory_order_release);
    return n;
}

/* As many messages as have completed. */
static void post_again(struct perf_thread *t, uint64_t tsc)
{
    struct perf *p = t->perf;

    for (unsigned i = 0; i < t->dirties; i++) {
        struct perf_end *e = &p->end[t->dirty[i]];

        e->dirty = false;
        if (likely(t->posting) && !t->at_rate && e->worker == t->index)
            post_messages(t, e, free_depth(p, e), tsc);
    }
    t->dirties = 0;
}

unsigned traffic_poll(struct perf_thread *t)
{
    struct perf *p = t->perf;
    uint64_t tsc = ticks_now();
    unsigned n = 0;

    for (unsigned side = 0; side < p->sides; side++) {
        if (mode_receives(p->opt.mode))
            n += poll_cq(t, side, RECV_CQ, tsc);
        n += poll_cq(t, side, SEND_CQ, tsc);
    }
    /* A receiver on another worker returns credit without a completion here. */
    if (t->at_rate || (p->opt.mode == MODE_UD && !t->closed))
        if (t->posting && t->senders)
            traffic_fill(t);
    if (!n)
        return 0;
    counter_add(&t->stats.progress, n);
    post_again(t, tsc);
    return n;
}

void traffic_forget_lost(struct perf_thread *t)
{
    for (unsigned i = 0; i < t->senders && t->perf->opt.mode == MODE_UD; i++) {
        struct perf_end *e = t->sender[i];
        uint32_t came = atomic_load_explicit(&e->peer->recv_done, memory_order_relaxed);

        if (e->prod == e->done && e->prod != came) {
            counter_add(&t->stats.lost, e->prod - came);
            atomic_store_explicit(&e->peer->recv_done, e->prod, memory_order_relaxed);
        }
    }
}
