/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that rules spoil: see port_inject.h. All but the end of the file runs on the worker. */
#include "port_inject.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "worker_internal.h"

#define HELD_MAX     64
#define AROUND       64u /* bytes of a frame besides its MTU, at most */
#define DRAIN_ROUNDS 100 /* passes in which the frames that are held leave */

/* A copy of a frame. */
struct held {
    const struct inject_live *live; /* the rule that it waits for */
    struct inject_wait wait;
    uint32_t len;
    uint16_t slot;
    bool icrc_omitted;
};

struct held_list {
    struct held held[HELD_MAX]; /* in the order of their arrival */
    unsigned n;
    uint64_t passed; /* packets so far */
};

struct port_inject {
    struct pktio io;
    struct pktio *inner;
    struct pktio_ops ops;
    struct worker_port *port;
    struct inject_live *rule[INJECT_RULES_MAX];
    unsigned rules;
    struct held_list rx, tx;
    uint32_t room; /* bytes of a slot */
    uint16_t free[HELD_MAX];
    unsigned free_count;
    uint8_t memory[];
};

static struct port_inject *inject_of(struct pktio *io)
{
    return container_of(io, struct port_inject, io);
}

/* The engine's time, too, which must not go back. */
static ns_t time_of(const struct port_inject *pi)
{
    return pi->port->worker->pass_began;
}

/* ---- frames that wait ---- */

static uint8_t *slot_data(struct port_inject *pi, uint16_t slot)
{
    return pi->memory + (size_t)slot * pi->room;
}

/* Whether a frame is a slot that was lent to the worker. */
static bool is_ours(const struct port_inject *pi, const struct frame *f)
{
    return f->data >= pi->memory && f->data < pi->memory + (size_t)HELD_MAX * pi->room;
}

static bool hold(struct port_inject *pi, struct held_list *list, const struct frame *f,
                 const struct inject_live *live, ns_t now)
{
    struct held h = {.live = live,
                     .wait = inject_wait_of(&live->rule, now, list->passed),
                     .len = f->len,
                     .icrc_omitted = f->icrc_omitted};

    if (!pi->free_count || f->len > pi->room)
        return false;
    h.slot = pi->free[--pi->free_count];
    memcpy(slot_data(pi, h.slot), f->data, f->len);
    list->held[list->n++] = h;
    return true;
}

/* The next one that may go on; NULL: there is none. */
static struct held *find_ready(struct held_list *list, ns_t now)
{
    for (unsigned i = 0; i < list->n; i++) {
        struct held *h = &list->held[i];

        if (inject_wait_is_over(&h->wait, now, list->passed))
            return h;
    }
    return NULL;
}

static struct held take(struct held_list *list, struct held *h)
{
    struct held taken = *h;

    list->n--;
    memmove(h, h + 1, (size_t)(list->held + list->n - h) * sizeof(*h));
    return taken;
}

/* ---- rules ---- */

/* Whether it is a RoCE packet. */
static bool read_packet(struct port_inject *pi, struct inject_packet *p, const struct frame *f)
{
    bool is_roce = pi->rules && inject_read(p, f);

    if (is_roce && p->direction == INJECT_RX)
        p->program = engine_program_of(pi->port->engine, p->dest_qpn);
    return is_roce;
}

/* A frame that is at the rules. */
struct passing {
    struct port_inject *pi;
    struct held_list *list;
    struct frame *f;
    ns_t now;
};

static bool act(void *passing, const struct inject_live *live, uint64_t index)
{
    struct passing *g = passing;

    if (inject_waits(live->rule.act))
        return hold(g->pi, g->list, g->f, live, g->now);
    return inject_change(&live->rule, index, g->f);
}

/* Whether the frame itself goes on, perhaps changed. *taken: what took it away. */
static bool pass(struct port_inject *pi, struct inject_packet *p, struct frame *f, ns_t now,
                 enum inject_act *taken)
{
    struct held_list *list = p->direction == INJECT_RX ? &pi->rx : &pi->tx;
    const struct inject_packet *roce = read_packet(pi, p, f) ? p : NULL;
    struct passing passing = {pi, list, f, now};

    *taken = inject_apply(pi->rule, pi->rules, roce, now, act, &passing);
    list->passed += *taken == INJECT_NOTHING;
    return *taken == INJECT_NOTHING;
}

/* ---- receiving ---- */

/* Appends frames that have waited to the n at f. Returns how many there are then. */
static unsigned give_ready(struct port_inject *pi, struct frame *f, unsigned n, unsigned room,
                           ns_t now)
{
    struct held *ready;

    while (n < room && (ready = find_ready(&pi->rx, now))) {
        struct held h = take(&pi->rx, ready);

        f[n++] = (struct frame){
            .data = slot_data(pi, h.slot), .len = h.len, .icrc_omitted = h.icrc_omitted};
    }
    return n;
}

static void send_ready(struct port_inject *pi, unsigned queue, ns_t now);

/* Frames that wait were on their way when the link went down. */
static void lose_held(struct port_inject *pi, ns_t now)
{
    struct held_list *const list[] = {&pi->rx, &pi->tx};

    for (unsigned i = 0; i < ARRAY_SIZE(list) && inject_link_taker(pi->rule, pi->rules, now); i++)
        while (list[i]->n)
            pi->free[pi->free_count++] = take(list[i], list[i]->held).slot;
}

static unsigned inject_rx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct port_inject *pi = inject_of(io);
    struct frame got[FRAME_BURST];
    ns_t now = time_of(pi);
    unsigned given, count;

    lose_held(pi, now);
    send_ready(pi, queue, now);
    given = give_ready(pi, f, 0, n, now);
    count = pi->inner->ops->rx_burst(pi->inner, queue, got, n - given);
    for (unsigned i = 0; i < count; i++) {
        struct inject_packet p = {.direction = INJECT_RX};
        enum inject_act taken;

        if (pass(pi, &p, &got[i], now, &taken)) {
            f[given++] = got[i];
        } else {
            if (taken == INJECT_DROP)
                engine_rx_dropped(pi->port->engine, &got[i], DROP_fault_rule, p.dest_qpn, now);
            pi->inner->ops->rx_release(pi->inner, queue, &got[i], 1);
        }
        given = give_ready(pi, f, given, n - (count - i - 1), now);
    }
    return given;
}

static void inject_rx_release(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct port_inject *pi = inject_of(io);
    struct frame rest[FRAME_BURST];
    unsigned others = 0;

    for (unsigned i = 0; i < n; i++) {
        if (is_ours(pi, &f[i]))
            pi->free[pi->free_count++] = (uint16_t)((size_t)(f[i].data - pi->memory) / pi->room);
        else
            rest[others++] = f[i];
    }
    if (others)
        pi->inner->ops->rx_release(pi->inner, queue, rest, others);
}

/* ---- sending ---- */

static unsigned inject_tx_lend(struct pktio *io, unsigned queue, struct frame *f, unsigned n)
{
    struct pktio *inner = inject_of(io)->inner;

    return inner->ops->tx_lend(inner, queue, f, n);
}

/* Copies a frame that has waited into a lent one. False: it does not fit, and is lost. */
static bool fill(struct port_inject *pi, struct frame *f, struct held *ready)
{
    struct held h = take(&pi->tx, ready);

    pi->free[pi->free_count++] = h.slot;
    if (h.len > f->room)
        return false;
    memcpy(f->data, slot_data(pi, h.slot), h.len);
    f->len = h.len;
    f->icrc_omitted = h.icrc_omitted;
    return true;
}

/* Those that no burst has taken along. */
static void send_ready(struct port_inject *pi, unsigned queue, ns_t now)
{
    const struct pktio_ops *ops = pi->inner->ops;
    struct held *ready;
    struct frame f;

    while ((ready = find_ready(&pi->tx, now)) && ops->tx_lend(pi->inner, queue, &f, 1))
        pktio_send(pi->inner, queue, &f, 1, fill(pi, &f, ready));
}

/* Lent frames that the worker has not used carry what waits, right behind the frame that lets it
 * go. */
static void inject_tx_burst(struct pktio *io, unsigned queue, struct frame *f, unsigned n,
                            unsigned used)
{
    struct port_inject *pi = inject_of(io);
    struct frame out[FRAME_BURST], back[FRAME_BURST];
    unsigned sent = 0, dropped = 0, spare = used;
    ns_t now = time_of(pi);

    for (unsigned i = 0; i < used; i++) {
        struct inject_packet p = {.direction = INJECT_TX};
        enum inject_act taken;
        struct held *ready;

        if (pass(pi, &p, &f[i], now, &taken)) {
            out[sent++] = f[i];
        } else {
            if (taken == INJECT_DROP)
                engine_tx_dropped(pi->port->engine, DROP_fault_rule, p.dest_qpn, p.psn, now);
            back[dropped++] = f[i];
        }
        while (spare < n && (ready = find_ready(&pi->tx, now))) {
            if (fill(pi, &f[spare], ready))
                out[sent++] = f[spare++];
        }
    }
    memcpy(out + sent, back, dropped * sizeof(back[0]));
    memcpy(out + sent + dropped, f + spare, (n - spare) * sizeof(f[0]));
    pi->inner->ops->tx_burst(pi->inner, queue, out, n, sent);
}

static void inject_tx_flush(struct pktio *io, unsigned queue, bool more)
{
    struct pktio *inner = inject_of(io)->inner;

    inner->ops->tx_flush(inner, queue, more);
}

/* In front of the port, or not: without rules, when nothing is left that only this port can take
 * back. Returns whether it is not. */
static bool place(struct port_inject *pi)
{
    bool leaves = !pi->rules && pi->free_count == HELD_MAX;

    pi->port->io = leaves ? pi->inner : &pi->io;
    return leaves;
}

/* A frame that waits keeps the worker awake: it has no timer. */
static bool inject_wake_arm(struct pktio *io, unsigned queue)
{
    struct port_inject *pi = inject_of(io);

    place(pi);
    return !pi->rx.n && !pi->tx.n && pi->inner->ops->wake_arm(pi->inner, queue);
}

/* What a worker calls in every pass. All else is asked of the port itself. With a flush where the
 * port has one: workers make more bursts then. */
static void set_ops(struct port_inject *pi)
{
    pi->ops = (struct pktio_ops){
        .driver = "fault",
        .rx_burst = inject_rx_burst,
        .rx_release = inject_rx_release,
        .tx_lend = inject_tx_lend,
        .tx_burst = inject_tx_burst,
        .tx_flush = pi->inner->ops->tx_flush ? inject_tx_flush : NULL,
        .wake_arm = inject_wake_arm,
    };
    pi->io.ops = &pi->ops;
}

/* ---- the control thread ---- */

static int create(struct worker_port *port)
{
    struct pktio_info info;
    struct port_inject *pi;
    uint32_t room;

    port->io->ops->info(port->io, &info);
    room = (uint32_t)round_up(info.mtu + AROUND, CACHE_LINE);
    pi = malloc(sizeof(*pi) + (size_t)room * HELD_MAX);
    if (!pi)
        return -ENOMEM;
    *pi =
        (struct port_inject){.inner = port->io, .port = port, .room = room, .free_count = HELD_MAX};
    set_ops(pi);
    for (unsigned i = 0; i < HELD_MAX; i++)
        pi->free[i] = (uint16_t)i;
    port->inject = pi;
    return 0;
}

struct change {
    struct worker_port *port;
    struct inject_live *const *rule;
    unsigned n;
    bool waits; /* for frames that have not left */
};

static bool has_rule(const struct port_inject *pi, const struct inject_live *live)
{
    for (unsigned i = 0; i < pi->rules; i++)
        if (pi->rule[i] == live)
            return true;
    return false;
}

/* Frames whose rule is gone wait no more. */
static void release_held(const struct port_inject *pi, struct held_list *list)
{
    for (unsigned i = 0; i < list->n; i++)
        if (!has_rule(pi, list->held[i].live))
            list->held[i].wait = (struct inject_wait){0};
}

/* Between two passes: the worker has no frame but those that late calls keep. */
static void change_rules(struct worker *w, void *arg)
{
    struct change *c = arg;
    struct port_inject *pi = c->port->inject;

    for (unsigned i = 0; i < c->n; i++)
        pi->rule[i] = c->rule[i];
    pi->rules = c->n;
    release_held(pi, &pi->rx);
    release_held(pi, &pi->tx);
    c->waits = !place(pi) && !pi->rules;
}

int port_inject_set(struct worker_port *port, struct inject_live *const *rule, unsigned n)
{
    struct change c = {.port = port, .rule = rule, .n = n};
    int err = n && !port->inject ? create(port) : 0;

    if (err || !port->inject)
        return err;
    worker_call(port->worker, change_rules, &c);
    /* What it holds leaves in the next passes. A late call may keep a frame for longer: then the
     * port leaves when the worker goes to sleep. */
    for (unsigned i = 0; c.waits && i < DRAIN_ROUNDS; i++) {
        sched_yield();
        worker_call(port->worker, change_rules, &c);
    }
    return 0;
}

void port_inject_free(struct worker_port *port)
{
    if (!port->inject)
        return;
    port->io = port->inject->inner;
    free(port->inject);
    port->inject = NULL;
}
