/* SPDX-License-Identifier: BSD-3-Clause */
/* The traffic of a client: posting, and what completes. See client.h. */
#include <sched.h>
#include <string.h>

#include "meter.h"
#include "peer/client_state.h"

#define IDLE_MAX 256
#define POLL     32 /* completions of one call */
#define LOOK     (10 * NS_PER_MS)

/* ---- posting ---- */

static enum ibv_wr_opcode opcode_of(unsigned mode)
{
    switch (mode) {
    case MODE_WRITE_IMM:
        return IBV_WR_RDMA_WRITE_WITH_IMM;
    case MODE_SEND:
        return IBV_WR_SEND;
    case MODE_READ:
        return IBV_WR_RDMA_READ;
    case MODE_ATOMIC:
        return IBV_WR_ATOMIC_FETCH_AND_ADD;
    default:
        return IBV_WR_RDMA_WRITE;
    }
}

static bool is_inline(const struct perf *p)
{
    return p->opt.inline_max && p->size && p->size <= p->opt.inline_max;
}

/* Whether this message requests a completion: the last one does, too. */
static bool is_signaled(const struct perf *p, const struct client_conn *c)
{
    return p->opt.signal == 1 || c->quota == 1 || !((c->prod + 1) % p->opt.signal);
}

/* 0 or a positive errno. */
static int post_one(struct perf *p, unsigned number, uint64_t tsc)
{
    struct client *cl = p->client;
    struct client_conn *c = &cl->conn[number];
    uint64_t at = (uint64_t)cursor_next(&c->out) * cl->stride;
    struct ibv_sge sge = {c->local + at, (uint32_t)p->size, cl->mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = (uint64_t)number << 32 | c->prod,
                                   .sg_list = &sge,
                                   .num_sge = p->size > 0,
                                   .opcode = opcode_of(p->opt.mode)};
    int err;

    if (is_signaled(p, c))
        wr.send_flags |= IBV_SEND_SIGNALED;
    if (is_inline(p))
        wr.send_flags |= IBV_SEND_INLINE;
    if (p->opt.mode == MODE_ATOMIC) {
        wr.wr.atomic.remote_addr = c->remote;
        wr.wr.atomic.rkey = c->rkey;
        wr.wr.atomic.compare_add = 1;
    } else if (p->opt.mode != MODE_SEND) {
        wr.wr.rdma.remote_addr = c->remote + at;
        wr.wr.rdma.rkey = c->rkey;
    }
    c->posted[c->prod & (cl->ring - 1)] = tsc;
    err = ibv_post_send(c->id->qp, &wr, &bad);
    if (err)
        return err;
    c->prod++;
    c->quota--;
    return 0;
}

static bool has_room(const struct perf *p, const struct client_conn *c)
{
    return c->prod - c->done < p->opt.depth;
}

static enum posted post_next(void *thread, unsigned number, uint64_t due)
{
    struct perf_thread *t = thread;
    struct client_conn *c = &t->perf->client->conn[number];
    int err;

    if (!c->quota)
        return NO_MORE;
    if (!has_room(t->perf, c))
        return NO_ROOM;
    err = post_one(t->perf, number, due);
    if (err) {
        run_fail(t->perf, "a message cannot be posted: %s", strerror(err));
        return NO_ROOM;
    }
    t->outstanding++;
    return POSTED;
}

/* At a rate what is due, else as much as there is room for. */
static void post_more(struct perf_thread *t, uint64_t now)
{
    const struct perf *p = t->perf;

    if (p->opt.rate) {
        arrivals_post(&t->arrivals, now, p->client->conns, post_next, t);
        return;
    }
    for (unsigned i = 0; i < p->client->conns; i++)
        while (post_next(t, i, now) == POSTED)
            ;
}

/* ---- completions ---- */

static void count_message(struct perf_thread *t, struct client_conn *c, uint64_t tsc)
{
    uint64_t posted = c->posted[c->done++ & (t->perf->client->ring - 1)];

    histogram_add(&t->latency, tsc > posted ? tsc - posted : 0);
    counter_inc(&t->stats.messages);
    counter_add(&t->stats.bytes, t->perf->size);
    t->outstanding--;
}

/* A completion is also that of those before it which requested none. */
static void on_completion(struct perf_thread *t, const struct ibv_wc *wc, uint64_t tsc)
{
    struct client *cl = t->perf->client;
    struct client_conn *c = &cl->conn[wc->wr_id >> 32];
    uint32_t message = (uint32_t)wc->wr_id;

    if (wc->status != IBV_WC_SUCCESS) {
        run_fail(t->perf, "message %u of queue pair 0x%x: %s (vendor error %u)", message,
                 wc->qp_num, cl->calls->ibv_wc_status_str(wc->status), wc->vendor_err);
        return;
    }
    while (c->done != message + 1)
        count_message(t, c, tsc);
}

static int poll_completions(struct perf_thread *t)
{
    struct ibv_wc wc[POLL];
    uint64_t tsc;
    int n = ibv_poll_cq(t->perf->client->cq, POLL, wc);

    if (n < 0)
        run_fail(t->perf, "the completion queue cannot be polled");
    if (n <= 0)
        return 0;
    tsc = ticks_now();
    for (int i = 0; i < n; i++)
        on_completion(t, &wc[i], tsc);
    counter_add(&t->stats.progress, (uint64_t)n);
    return n;
}

/* ---- the run ---- */

static bool is_out_of_messages(const struct perf *p)
{
    for (unsigned i = 0; i < p->client->conns; i++)
        if (p->client->conn[i].quota)
            return false;
    return true;
}

/* What was posted without a request for a completion is left alone in the end: nothing waits for
 * it. */
static bool is_waited_for(const struct perf *p)
{
    for (unsigned i = 0; i < p->client->conns; i++) {
        const struct client_conn *c = &p->client->conn[i];

        if (c->prod - c->done >= p->opt.signal || (c->prod != c->done && !c->quota))
            return true;
    }
    return false;
}

/* A thread's traffic. */
struct course {
    struct meter meter;
    unsigned idle;   /* consecutive turns without work */
    ns_t progressed; /* when there was some */
    ns_t looked;     /* whether the server is there */
};

/* Without a look the timeouts of messages would tell, after half a minute. */
static void look_for_server(struct perf *p, struct course *c, ns_t now)
{
    struct rdma_cm_event *event;

    c->looked = now;
    if (p->client->calls->rdma_get_cm_event(p->client->channel, &event))
        return;
    p->client->calls->rdma_ack_cm_event(event);
    run_fail(p, "the server has ended the connection");
}

/* One turn. Returns whether it did something. */
static bool turn(struct perf_thread *t, struct course *c)
{
    uint64_t before = t->outstanding;
    ns_t now = worker_time();
    int n;

    meter_turn(t, &c->meter, now);
    n = poll_completions(t);
    if (t->posting)
        post_more(t, ticks_now());
    if (n || !t->outstanding)
        c->progressed = now;
    if (now - c->looked > LOOK)
        look_for_server(t->perf, c, now);
    if (now - c->progressed > STALL)
        run_fail(t->perf, "no message has completed for %u s", (unsigned)(STALL / NS_PER_SEC));
    return n || t->outstanding != before;
}

/* Others need the CPU as well: the daemon, or the server if it is here. */
static void turn_or_yield(struct perf_thread *t, struct course *c)
{
    c->idle = turn(t, c) ? 0 : c->idle + 1;
    if (c->idle < IDLE_MAX)
        return;
    sched_yield();
    c->idle = 0;
}

void client_run(struct perf_thread *t)
{
    struct perf *p = t->perf;
    double per_tick = (double)p->opt.rate / tsc_hz();
    struct course c = {0};

    thread_ready(t);
    meter_begin(&c.meter);
    c.progressed = c.looked = c.meter.last;
    if (p->opt.rate)
        arrivals_start(&t->arrivals, ticks_now(), per_tick, p->opt.arrivals == ARRIVALS_EVEN,
                       p->opt.seed);
    t->posting = true;
    while (!atomic_load_explicit(&p->stop, memory_order_relaxed) &&
           (t->outstanding || !is_out_of_messages(p)))
        turn_or_yield(t, &c);
    t->posting = false;
    while (is_waited_for(p) && !atomic_load(&p->failed))
        turn_or_yield(t, &c);
    meter_end(t, &c.meter);
    atomic_fetch_add(&p->finished, 1);
}
